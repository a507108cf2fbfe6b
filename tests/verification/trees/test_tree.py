from typing import Any

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import Model, Tree, synthetic


def _uniform(vocab: int) -> Model:
    law = np.full(vocab, 1 / vocab)
    return Model(lambda prefix: law, lambda prefix: law)


def test_paths_share_their_prefixes() -> None:
    tree = _uniform(3).tree([[0, 1], [2, 1], [0, 2], [0, 1]])
    assert (tree.count, tree.length, tree.inner) == (4, 2, 3)
    assert [tree.prefix(node) for node in range(len(tree.parent))] == [(), (0,), (2,), (0, 1), (2, 1), (0, 2)]
    assert tree.node.tolist() == [[0, 1, 3], [0, 2, 4], [0, 1, 5], [0, 1, 3]]
    assert [list(children) for children in tree.children] == [[1, 2], [3, 5], [4], [], [], []]
    assert tree.target.shape == (6, 3)
    assert tree.draft.shape == (3, 3)


def test_every_node_has_its_own_laws() -> None:
    model = synthetic("tiny", 4, 1)
    tree = model.tree([[0, 1, 3], [0, 2, 2]])
    for node in range(len(tree.parent)):
        np.testing.assert_allclose(tree.target[node], model.target(tree.prefix(node)), atol=1e-15)
        if node < tree.inner:
            np.testing.assert_allclose(tree.draft[node], model.draft(tree.prefix(node)), atol=1e-15)


def test_synthetic_laws_depend_on_seed_and_prefix_alone() -> None:
    first, again, other = (synthetic("mixed", 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.target((3, 4)), again.target((3, 4)))
    assert not np.array_equal(first.target((3, 4)), other.target((3, 4)))
    assert not np.array_equal(first.target((3, 4)), first.target((4, 3)))
    with pytest.raises(ProblemError, match="no regime 'calm'; known: tiny, mixed"):
        synthetic("calm", 20)


def test_paths_of_the_wrong_shape() -> None:
    for paths, shape in (([0, 1], r"\(2,\)"), ([[]], r"\(1, 0\)"), ([], r"\(0,\)"), ([[[0]]], r"\(1, 1, 1\)")):
        with pytest.raises(ProblemError, match=f"of shape {shape}; K paths of L tokens"):
            _uniform(2).tree(paths)
    with pytest.raises(ProblemError, match=r"paths are float64 .* K paths of L tokens"):
        _uniform(2).tree([[0.5]])


def test_tokens_that_were_not_drafted() -> None:
    never = Model(lambda prefix: [0.5, 0.5], lambda prefix: [1.0, 0.0])
    with pytest.raises(ProblemError, match=r"token 1 after \(0,\) has draft probability 0"):
        never.tree([[0, 0], [0, 1]])
    with pytest.raises(ProblemError, match=r"token 2 after \(\) has draft probability 0"):
        _uniform(2).tree([[2]])


def test_laws_of_different_vocabularies() -> None:
    with pytest.raises(ProblemError, match=r"\[2, 3\] tokens; all need one vocabulary"):
        Tree.of([[0]], lambda prefix: [0.5, 0.5], lambda prefix: [0.5, 0.25, 0.25])
    with pytest.raises(ProblemError, match=r"draft\(\) sums to 0.9"):
        Tree.of([[0]], lambda prefix: [0.5, 0.5], lambda prefix: [0.5, 0.4])


def test_negative_tokens() -> None:
    with pytest.raises(ProblemError, match="a path has token -1; tokens are counted from 0"):
        _uniform(2).tree([[0, 1], [0, -1]])


def test_paths_are_drafted_from_a_seed() -> None:
    laws = synthetic("tiny", 4, 3)
    np.testing.assert_array_equal(laws.sample(3, 2, 7), laws.sample(3, 2, np.random.default_rng(7)))
    assert len({laws.sample(3, 2, seed).tobytes() for seed in range(20)}) > 10
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((3, 2, None), "rng is None; pass a generator"),
        ((0, 2, 1), "paths is 0; pass an integer >= 1"),
        ((2, 1.5, 1), "depth is 1.5; pass an integer >= 1"),
        ((10**6, 8, 1), "have 8,000,001 slots, and a tree at most"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ProblemError, match=message):
            laws.sample(*arguments)
    with pytest.raises(ProblemError, match=r"draft\(\) sums to 0.8"):
        Model(lambda prefix: [0.5, 0.5], lambda prefix: [0.4, 0.4]).sample(1, 1, 0)
    with pytest.raises(ProblemError, match="not an array of token ids"):
        laws.tree([[0], [1, 2]])
