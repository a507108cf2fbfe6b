"""Seeds in the place of generators, for drafting paths and for verifying them."""

from typing import Any

import numpy as np
import pytest

import otspec
from otspec import ProblemError
from otspec.paths import Model, PickByPlan
from otspec.verification.evaluation.synthetic import synthetic
from tests.verification.rules.test_lossless import VERIFIERS

ANY: dict[str, Any] = {**VERIFIERS, "pick by plan": PickByPlan(lambda q: otspec.Greedy(q, 2))}
MODEL = synthetic("tiny", 4, 3)
TREE = MODEL.tree(MODEL.sample(3, 2, 5))


@pytest.mark.parametrize("name", ANY)
def test_a_seed_verifies_as_its_generator_does(name: str) -> None:
    verifier, tree = ANY[name], TREE
    if name == "pick by plan":
        tree = MODEL.tree([[token] for token in otspec.Greedy(MODEL.draft(()), 2).sample(1)])
    for seed in range(20):
        verified = verifier.verify(tree, seed)
        assert verified == verifier.verify(tree, np.random.default_rng((seed, 1)))
        assert verified == verifier.verify(tree, np.int64(seed))
    for wrong in (None, -1, 0.5, True):
        with pytest.raises(ProblemError, match=f"rng is {wrong}; pass a generator"):
            verifier.verify(tree, wrong)


def test_a_pick_takes_a_seed_too() -> None:
    for name in ("block", "nested", "look-ahead", "greedy multi-path"):
        assert ANY[name].pick(TREE, 3).path == ANY[name].pick(TREE, np.random.default_rng((3, 1))).path


def test_paths_are_drafted_from_a_seed() -> None:
    np.testing.assert_array_equal(MODEL.sample(3, 2, 7), MODEL.sample(3, 2, np.random.default_rng(7)))
    assert len({MODEL.sample(3, 2, seed).tobytes() for seed in range(20)}) > 10
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((3, 2, None), "rng is None; pass a generator"),
        ((0, 2, 1), "paths is 0; pass an integer >= 1"),
        ((2, 1.5, 1), "depth is 1.5; pass an integer >= 1"),
        ((10**6, 8, 1), "have 8,000,001 slots, and a tree at most"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ProblemError, match=message):
            MODEL.sample(*arguments)
    with pytest.raises(ProblemError, match=r"draft\(\) sums to 0.8"):
        Model(lambda prefix: [0.5, 0.5], lambda prefix: [0.4, 0.4]).sample(1, 1, 0)


def test_one_seed_for_drafts_and_verification_gives_the_law_of_the_target() -> None:
    draws = 2000
    for name in ("block", "nested", "traversal", "layer", "token-wise interval"):
        first = np.zeros(4)
        for seed in range(draws):
            tree = MODEL.tree(MODEL.sample(2, 1, seed))
            verified = ANY[name].verify(tree, seed)
            first[(*tree.prefix(verified.node), verified.token)[0]] += 1
        assert np.abs(first / draws - MODEL.target(())).max() < 5 * 0.5 / np.sqrt(draws), name


def test_ragged_paths_are_refused() -> None:
    with pytest.raises(ProblemError, match="not an array of token ids"):
        MODEL.tree([[0], [1, 2]])
