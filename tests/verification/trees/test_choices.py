"""Static trees by lists of choices: their shapes, what is refused, and the best by accuracies."""

import itertools
from typing import Any

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import Shape, Topology, best_choices, choices_of, shape_of_choices, spelled


def test_a_list_in_any_order_and_spelling_is_one_shape() -> None:
    tree = [(0,), (1,), (2,), (1, 0), (1, 1), (2, 0), (1, 1, 0)]
    shape = shape_of_choices(tree)
    assert shape == Shape((3, 2, 1), ((3,), (0, 2, 1), (0, 1, 0)))
    assert shape_of_choices(spelled(tree[::-1])) == shape_of_choices(str([list(one) for one in tree])) == shape
    assert choices_of(tree[::-1]) == tree
    assert shape.parent.tolist() == [-1, 0, 0, 0, 2, 2, 3, 5]
    assert shape.place.tolist() == [0, -1, 1, 2, -1, 3, -1, -1]
    assert shape.paths_of_slots.tolist() == [[0, 1, -1, -1], [0, 2, 4, -1], [0, 3, 6, -1], [0, 2, 5, 7]]
    assert shape.cut(1) == Shape((3,))
    assert shape.cut(2) == Shape.of_counts([[3], [0, 2, 1]])
    assert shape_of_choices("0,1,0.0,1.0") == Shape.paths(2, 2)


def test_equal_prefixes_are_merged_with_all_their_children() -> None:
    tree = Topology.merge(shape_of_choices("0,1,2,1.0,2.0,2.1"), np.array([5, 5, 5, 1, 2, 1]))
    assert tree.token.tolist() == [-1, 5, 1, 2]
    assert tree.slot.tolist() == [0, 2, 4, 5]  # the first that has children
    assert tree.drafted_after.tolist() == [0, 1]
    assert tree.drafts(np.arange(1, tree.count), 2).tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("0,0.1", r"0\.1 without the sibling before it, 0\.0"),
        ("0,2", "2 without the sibling before it, 1"),
        ("0,1.0", r"1\.0 without its parent 1"),
        ([[0], [0]], "0 twice"),
        ([], "0 choices"),
        ("0,x", "'0,x'; pass a list"),
        ([[0], [True]], "pass a list"),
        ([[0], [-1]], "pass a list"),
        ([[0], []], "pass a list"),
        ("[[0], ", "pass a list"),
        (3, "pass a list"),
    ],
)
def test_bad_lists_are_refused_by_name(tree: Any, said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        choices_of(tree)


def every_tree(levels: int, ranks: int, size: int) -> set[frozenset[tuple[int, ...]]]:
    """All lists of so many choices that are trees."""
    found: set[frozenset[tuple[int, ...]]] = {frozenset()}
    nodes = [one for length in range(1, levels + 1) for one in itertools.product(range(ranks), repeat=length)]
    for _ in range(size):
        found = {
            tree | {one}
            for tree in found
            for one in nodes
            if one not in tree
            and (len(one) == 1 or one[:-1] in tree)
            and (not one[-1] or (*one[:-1], one[-1] - 1) in tree)
        }
    return found


def test_the_best_tree_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for size, ties in itertools.product((1, 2, 4, 6), (False, True)):
        rates: Any = -np.sort(-rng.random((3, 3)) / 1.5, axis=1)
        rates = np.round(rates, 1) if ties else rates

        def gain(tree: Any, rates: Any = rates) -> float:
            return sum(float(np.prod([rates[level, rank] for level, rank in enumerate(one)])) for one in tree)

        best = best_choices(rates, size)
        assert len(best) == size
        assert gain(best) == pytest.approx(max(map(gain, every_tree(3, 3, size))))
        shape_of_choices(best)  # is a tree
    for rates, size, said in (
        ([[0.2, 0.5]], 1, "rises"),
        ([[1.5]], 1, "probabilities"),
        ([[0.5]], 2, "there are 1 nodes"),
    ):
        with pytest.raises(ProblemError, match=said):
            best_choices(rates, size)
