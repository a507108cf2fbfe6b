"""Shapes and merged trees, against prefixes listed one by one."""

from __future__ import annotations

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths.shape import Shape
from otspec.paths.topology import NONE, Topology

SHAPES = [(1,), (3,), (3, 1, 1), (2, 2, 2), (1, 3, 2), (2, 1, 3)]


def _texts(shape: Shape, tokens: list[int]) -> list[tuple[int, ...]]:
    """The prefix at every slot."""
    texts: list[tuple[int, ...]] = [()]
    for token, parent in zip(tokens, shape.parent[1:], strict=True):
        texts.append((*texts[parent], token))
    return texts


@pytest.mark.parametrize("branching", SHAPES)
def test_slots_of_a_shape(branching: tuple[int, ...]) -> None:
    shape = Shape.of(branching)
    for level, (offset, children) in enumerate(zip(shape.offsets[1:-1], branching, strict=True), start=1):
        parents = shape.parent[offset : shape.offsets[level + 1]]
        assert (np.bincount(parents)[shape.offsets[level - 1] : offset] == children).all()
    assert shape.slots == 1 + sum(np.cumprod(branching))
    for path in shape.paths_of_slots:
        assert path[0] == 0
        assert (shape.parent[path[1:]] == path[:-1]).all()
        assert set(path) == set(np.flatnonzero(shape.lineage[path[-1]]))
    assert len({*shape.paths_of_slots[:, -1]}) == np.prod(branching)
    assert shape.cut(1).slots == 1 + branching[0]


@pytest.mark.parametrize("branching", SHAPES)
@pytest.mark.parametrize("vocab", [1, 2, 5])
def test_equal_prefixes_are_one_node(branching: tuple[int, ...], vocab: int) -> None:
    rng = np.random.default_rng(vocab)
    shape = Shape.of(branching)
    for _ in range(20):
        tokens = rng.integers(vocab, size=shape.slots - 1)
        tree, texts = Topology.merge(shape, tokens), _texts(shape, tokens.tolist())
        assert tree.size == len(set(texts))
        assert (np.diff(tree.depth) >= 0).all()
        for node in range(tree.size):
            assert tuple(tree.token[tree.line(node)]) == texts[tree.slot[node]]
            assert set(tree.line(node)) | {0} == set(np.flatnonzero(tree.lineage[node]))
            children, child = [], tree.first_child[node]
            while child != NONE:
                children.append(child)
                child = tree.next_sibling[child]
            assert children == tree.children[node].tolist() == np.flatnonzero(tree.parent == node).tolist()
        assert (tree.draw == shape.paths_of_slots).all()
        for nodes, slots in zip(tree.node, tree.draw, strict=True):
            assert [tuple(tree.token[tree.line(node)]) for node in nodes] == [texts[slot] for slot in slots]
        assert tree.inner == len({text for text in texts if len(text) < shape.depth})


def test_slots_without_a_token_leave_the_tree_with_all_below_them() -> None:
    tree = Topology.merge(Shape((2, 2)), np.array([4, NONE, 1, NONE, 3, 3]))
    assert tree.token.tolist() == [NONE, 4, 1]
    assert tree.node.tolist() == [[0, 1, 2]]
    assert tree.draw.tolist() == [[0, 1, 3]]


def test_nothing_drafted() -> None:
    tree = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
    assert (tree.size, tree.length, tree.inner, tree.line(0)) == (1, 0, 0, [])


@pytest.mark.parametrize("branching", [(0,), (2, -1), (1.5,)])
def test_numbers_of_children(branching: tuple[int, ...]) -> None:
    with pytest.raises(ProblemError, match="pass an integer >= 1"):
        Shape.of(branching)
    with pytest.raises(ProblemError, match="paths is 0"):
        Shape.paths(0, 2)
