"""Lossy rules for a drafted path: against coins one by one, and within what any rule can gain at its price."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from otspec import ProblemError
from otspec.auditing.decoder_rules import residual
from otspec.auditing.lossy_paths import LOSSY_PATHS, AllOrBlock, FLy, measure_paths, prefix_distances
from otspec.paths import PathVerifier, Tree, synthetic
from tests.each import each
from tests.verification.models import FAMILIES, model


def by_coins(tree: Tree, window: int, threshold: float) -> Any:
    """What vLLM's kernels do: coins decide which drafts pass by themselves, then refused ones are looked at in turn."""
    law = np.zeros_like(tree.target)
    laws = [(tree.target[node], tree.draft[node], tree.token[node + 1]) for node in range(tree.length)]
    chances = [min(1.0, p[x] / q[x]) for p, q, x in laws]
    for coins in itertools.product((True, False), repeat=tree.length):
        weight = np.prod([chance if coin else 1 - chance for chance, coin in zip(chances, coins, strict=True)])
        stop = tree.length
        for i, (p, _, x) in enumerate(laws):
            top = [share for share in sorted(p)[-3:] if share > 0]
            unsure = -sum(share * np.log(share) for share in top) >= threshold
            kept = p[x] > 0 and i + window < tree.length and unsure and all(coins[i + 1 : i + window + 1])
            if not coins[i] and not kept:
                stop = i
                break
        law[stop] += weight * (residual(*laws[stop][:2]) if stop < tree.length else tree.target[stop])
    return law


@each(family=FAMILIES, window=(1, 2, 4), threshold=(0.0, 0.3, 0.9))
def test_fly_is_what_its_coins_make_of_it(family: str, window: int, threshold: float) -> None:
    given = model(family, 4)
    tree = given.tree(given.sample(1, 5, rng=window))
    np.testing.assert_allclose(FLy(window, threshold).stop_law(tree), by_coins(tree, window, threshold), atol=1e-14)


LOSSLESS = [LOSSY_PATHS[name] for name in ("block verification", "speculative sampling, token by token")]


@each(family=("tiny", "zeros", "ties", "tail"), rule=LOSSY_PATHS)
def test_no_rule_gains_more_than_any_can_at_its_price(family: str, rule: PathVerifier) -> None:
    given = model(family, 2)
    found = measure_paths(rule, given, 3)
    assert found.accepted <= found.most + 1e-9
    if rule in LOSSLESS:
        assert found.tv <= 1e-12
    if isinstance(rule, AllOrBlock) and rule.depth <= 1:
        assert found.accepted - found.block >= 3 * found.tv - 1e-9
        assert found.tv == pytest.approx(rule.depth * prefix_distances(given, 3)[0], abs=1e-12)


def test_all_or_block_is_ahead_of_fly_at_its_price() -> None:
    for seed in range(3):
        given = synthetic("tiny", 3, seed)
        fly, whole = measure_paths(FLy(window=2), given, 3), measure_paths(AllOrBlock(1.0), given, 3)
        assert 0 < fly.tv < whole.tv, "a price that the first token can pay"
        assert measure_paths(AllOrBlock(fly.tv / whole.tv), given, 3).accepted > fly.accepted


def test_verdicts_have_their_law() -> None:
    given, rng = synthetic("tiny", 3), np.random.default_rng(0)
    tree = given.tree(given.sample(1, 3, rng=2))
    law = FLy(window=1).stop_law(tree)
    found = np.zeros_like(law)
    for _ in range(1000):
        verdict = FLy(window=1).verify(tree, rng)
        assert verdict.accepted == verdict.node
        found[verdict.node, verdict.token] += 1
    assert not found[law == 0].any()
    assert chisquare(found[law > 0], 1000 * law[law > 0]).pvalue > 1e-4


@pytest.mark.parametrize("make", [lambda: FLy(window=0), lambda: AllOrBlock(-0.5), lambda: AllOrBlock(float("nan"))])
def test_a_setting_that_is_none(make: Any) -> None:
    with pytest.raises(ProblemError, match=r"window is 0|depth is"):
        make()
