"""Shapes, merged trees, trees with laws, and static trees by lists of choices."""

import itertools
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

from otspec import ProblemError, verification
from otspec.verification import Block, Model, Nested, Tree, shape_of_choices, synthetic, tree_law, tree_text
from otspec.verification.trees.shape import MOST_BYTES, MOST_SLOTS, Shape
from otspec.verification.trees.topology import NONE, Topology
from tests.refusals import Refused, check_refused

SHAPES = [(1,), (3,), (3, 1, 1), (2, 2, 2), (1, 3, 2), (2, 1, 3)]


def _texts(shape: Shape, tokens: list[int]) -> list[tuple[int, ...]]:
    """The prefix at every slot."""
    texts: list[tuple[int, ...]] = [()]
    for token, parent in zip(tokens, shape.parent[1:], strict=True):
        texts.append((*texts[parent], token))
    return texts


def test_equal_prefixes_are_one_node() -> None:
    for at in itertools.product(SHAPES, [1, 2, 5]):
        branching, vocab = at
        rng = np.random.default_rng(vocab)
        shape = Shape.of(branching)
        for _ in range(20):
            tokens = rng.integers(vocab, size=shape.slots - 1)
            tree, texts = Topology.merge(shape, tokens), _texts(shape, tokens.tolist())
            assert tree.size == len(set(texts)), at
            assert (np.diff(tree.depth) >= 0).all(), at
            for node in range(tree.size):
                assert tuple(tree.token[tree.line(node)]) == texts[tree.slot[node]], at
                assert set(tree.line(node)) | {0} == set(np.flatnonzero(tree.lineage[node])), at
                children, child = [], tree.first_child[node]
                while child != NONE:
                    children.append(child)
                    child = tree.next_sibling[child]
                assert children == tree.children[node].tolist() == np.flatnonzero(tree.parent == node).tolist(), at
            assert (tree.draw == shape.paths_of_slots).all(), at
            for nodes, slots in zip(tree.node, tree.draw, strict=True):
                assert [tuple(tree.token[tree.line(node)]) for node in nodes] == [texts[slot] for slot in slots], at
            assert tree.inner == len({text for text in texts if len(text) < shape.depth}), at


def test_slots_without_a_token_leave_the_tree_with_all_below_them() -> None:
    tree = Topology.merge(Shape((2, 2)), np.array([4, NONE, 1, NONE, 3, 3]))
    assert tree.token.tolist() == [NONE, 4, 1]
    assert tree.node.tolist() == [[0, 1, 2]]
    assert tree.draw.tolist() == [[0, 1, 3]]


HUGE: list[Refused] = [
    (lambda: synthetic("tiny", 4).sample(10**6, 8, 1), "1,000,000 paths of 8 tokens have 8,000,001 slots, and a tree"),
    (lambda: Shape.of([2] * 10**5), "branching has 2,097,151 slots down to level 20"),
    (lambda: Shape.paths(2000, 500).check_room(2048), "a tree of 1,000,001 slots takes some 30,548,889 MiB: laws over"),
]


def test_a_tree_without_room_is_refused_before_memory_is_spent() -> None:
    for make, message in HUGE:
        tracemalloc.start()
        with pytest.raises(ProblemError, match=message):
            make()
        assert tracemalloc.get_traced_memory()[1] < 1 << 25, message
        tracemalloc.stop()


def test_the_largest_tree_and_the_next() -> None:
    assert Shape.paths(1, MOST_SLOTS - 1).slots == Shape.of([MOST_SLOTS - 1]).slots == MOST_SLOTS
    with pytest.raises(ProblemError, match="and a tree at most"):
        Shape.paths(1, MOST_SLOTS)
    with pytest.raises(ProblemError, match="and a tree at most"):
        Shape.of([MOST_SLOTS])
    vocab = (MOST_BYTES // 16 - 32 * 16) // 16  # 16 slots take 16 (16 V + 32 * 16) bytes
    Shape.of([15]).check_room(vocab)
    with pytest.raises(ProblemError, match="a tree of 16 slots takes some 4,096 MiB"):
        Shape.of([15]).check_room(vocab + 1)


def test_a_list_in_any_order_and_spelling_is_one_shape() -> None:
    tree = [(0,), (1,), (2,), (1, 0), (1, 1), (2, 0), (1, 1, 0)]
    shape = shape_of_choices(tree)
    assert shape == Shape((3, 2, 1), ((3,), (0, 2, 1), (0, 1, 0)))
    assert shape_of_choices(tree_text(tree[::-1])) == shape_of_choices(str([list(one) for one in tree])) == shape
    assert verification.choices_of(tree[::-1]) == tree
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


BAD: dict[str, Any] = {
    "2 without the sibling before it, 1": "0,2",
    r"1\.0 without its parent 1": "0,1.0",
    "0 twice": [[0], [0]],
    "0 choices": [],
    "'0,x'; pass a list": "0,x",
    r"\[-1\]\].*pass a list": [[0], [-1]],
}


def test_bad_lists_are_refused_by_name() -> None:
    check_refused((partial(verification.choices_of, tree), said) for said, tree in BAD.items())


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

        best = verification.best_choices(rates, size)
        assert len(best) == size
        assert gain(best) == pytest.approx(max(map(gain, every_tree(3, 3, size))))
        shape_of_choices(best)  # is a tree
    for rates, size, said in (
        ([[0.2, 0.5]], 1, "rises"),
        ([[1.5]], 1, "probabilities"),
        ([[0.5]], 2, "there are 1 nodes"),
    ):
        with pytest.raises(ProblemError, match=said):
            verification.best_choices(rates, size)


def _always(target: list[float], draft: list[float] | None = None) -> Model:
    return Model(lambda prefix: target, lambda prefix: draft or target)


EVEN, LAWS = _always([0.5, 0.5]), synthetic("tiny", 4, 3)


def test_every_node_has_its_own_laws_which_depend_on_seed_and_prefix_alone() -> None:
    tree = LAWS.tree([[0, 1, 3], [0, 2, 2]])
    for node in range(len(tree.parent)):
        np.testing.assert_allclose(tree.target[node], LAWS.target(tree.prefix(node)), atol=1e-15)
        if node < tree.inner:
            np.testing.assert_allclose(tree.draft[node], LAWS.draft(tree.prefix(node)), atol=1e-15)
    first, again, other = (synthetic("mixed", 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.target((3, 4)), again.target((3, 4)))
    assert not np.array_equal(first.target((3, 4)), other.target((3, 4)))
    assert not np.array_equal(first.target((3, 4)), first.target((4, 3)))


NEVER, SHORT = _always([0.5, 0.5], [1.0, 0.0]), _always([0.5, 0.5], [0.4, 0.4])
WRONG: list[Refused] = [
    (lambda: synthetic("calm", 20), "no regime 'calm'; known: tiny, mixed"),
    *(
        (lambda paths=paths: EVEN.tree(paths), f"of shape {shape}; K paths of L tokens")
        for paths, shape in (([0, 1], r"\(2,\)"), ([[]], r"\(1, 0\)"), ([], r"\(0,\)"), ([[[0]]], r"\(1, 1, 1\)"))
    ),
    (lambda: EVEN.tree([[0.5]]), r"paths are float64 .* K paths of L tokens"),
    (lambda: EVEN.tree([[2]]), r"token 2 after \(\) has draft probability 0"),
    (lambda: EVEN.tree([[0, 1], [0, -1]]), "a path has token -1; tokens are counted from 0"),
    (lambda: NEVER.tree([[0, 0], [0, 1]]), r"token 1 after \(0,\) has draft probability 0"),
    (
        lambda: Tree.of([[0]], lambda _: [0.5, 0.5], lambda _: [0.5, 0.25, 0.25]),
        r"\[2, 3\] tokens; all need one vocabulary",
    ),
    (lambda: Tree.of([[0]], lambda _: [0.5, 0.5], lambda _: [0.5, 0.4]), r"draft\(\) sums to 0.9"),
    (lambda: SHORT.sample(1, 1, 0), r"draft\(\) sums to 0.8"),
    (lambda: LAWS.sample(0, 2, 1), "paths is 0; pass an integer >= 1"),
    (
        lambda: LAWS.tree([[0, 1], [0, 2]], (2, 2)),
        r"paths have shape \(2, 2\); branching \(2, 2\) has 4 paths of 2 tokens",
    ),
    (lambda: LAWS.tree([[0, 1], [1, 2]], (1, 2)), r"token 0 of path 0 is 0; by branching .* where it is 1"),
    (lambda: LAWS.drawn(3, 0), "branching is 3; pass the number of children on each level"),  # type: ignore[arg-type]
    (lambda: tree_law(Block(), LAWS, (2, 0)), "branching is 0; pass an integer >= 1"),
    (lambda: tree_law(Block(), LAWS, (6, 6)), "over 4 tokens makes more than 1000000 trees"),
    (lambda: tree_law(Nested(), LAWS, (6,) * 6), "over 4 tokens makes more than"),
]


def test_what_is_no_tree_is_refused() -> None:
    check_refused(WRONG)
