"""Shapes and merged trees, against prefixes listed one by one."""

import itertools
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from otspec import ProblemError
from otspec.verification.trees.shape import MOST_BYTES, MOST_SLOTS, Shape
from otspec.verification.trees.topology import NONE, Topology

SHAPES = [(1,), (3,), (3, 1, 1), (2, 2, 2), (1, 3, 2), (2, 1, 3)]


def _texts(shape: Shape, tokens: list[int]) -> list[tuple[int, ...]]:
    """The prefix at every slot."""
    texts: list[tuple[int, ...]] = [()]
    for token, parent in zip(tokens, shape.parent[1:], strict=True):
        texts.append((*texts[parent], token))
    return texts


def test_slots_of_a_shape() -> None:
    for branching in SHAPES:
        shape = Shape.of(branching)
        for level, (offset, children) in enumerate(zip(shape.offsets[1:-1], branching, strict=True), start=1):
            parents = shape.parent[offset : shape.offsets[level + 1]]
            assert (np.bincount(parents)[shape.offsets[level - 1] : offset] == children).all(), branching
        assert shape.slots == 1 + sum(np.cumprod(branching)), branching
        for path in shape.paths_of_slots:
            assert path[0] == 0, branching
            assert (shape.parent[path[1:]] == path[:-1]).all(), branching
            assert set(path) == set(np.flatnonzero(shape.lineage[path[-1]])), branching
        assert len({*shape.paths_of_slots[:, -1]}) == np.prod(branching), branching
        assert shape.cut(1).slots == 1 + branching[0], branching


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


def test_nothing_drafted() -> None:
    tree = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
    assert (tree.size, tree.length, tree.inner, tree.line(0)) == (1, 0, 0, [])


def test_numbers_of_children() -> None:
    for branching, wrong in (((0,), "0"), ((2, -1), "-1"), ((1.5,), "1.5")):
        with pytest.raises(ProblemError, match=f"branching is {wrong}; pass an integer >= 1"):
            Shape.of(branching)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="paths is 0"):
        Shape.paths(0, 2)


HUGE: list[tuple[Callable[[], object], str]] = [
    (lambda: Shape.paths(1_000_000, 8), "1,000,000 paths of 8 tokens have 8,000,001 slots, and a tree at most 1,048,"),
    (lambda: Shape.paths(1, 2**31 - 1), "1 paths of 2,147,483,647 tokens have 2,147,483,648 slots"),
    (lambda: Shape.of([1000, 1000, 1000]), "branching has 1,001,001,001 slots down to level 3, and a tree at most"),
    (lambda: Shape.of([2] * 10**5), "branching has 2,097,151 slots down to level 20"),
    (lambda: Shape.paths(2000, 500).check_room(2048), "a tree of 1,000,001 slots takes some 30,548,889 MiB: laws over"),
    (lambda: Shape.paths(512, 8).check_room(10**6), "draft fewer paths, or less deep"),
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
