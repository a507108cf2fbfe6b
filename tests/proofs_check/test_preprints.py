"""Closed forms of the preprints' claims against programs that know none of them."""

import heapq
import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from otspec.laws import FloatArray, IntArray
from otspec.proofs_check.preprints.acceptance import RULES, accepted
from otspec.proofs_check.preprints.levelling import WAYS, apart, distance, levelled
from otspec.proofs_check.preprints.lossy import FLy
from otspec.proofs_check.preprints.trees import best, cut, moments, profiles
from otspec.proofs_check.single_draft import residual
from otspec.verification import Tree
from tests.each import each
from tests.verification.models import FAMILIES, model

LAWS = [np.array(law) for law in ([0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.15, 0.05], [0.9, 0.06, 0.04])]


def nearest(p: FloatArray, above: IntArray, below: IntArray, way: str) -> float:
    """The least divergence of laws under which tokens `above` are at least as likely as those `below`, pair by pair."""
    order = np.eye(p.size)[above] - np.eye(p.size)[below]
    constraints = [LinearConstraint(order, lb=0.0), LinearConstraint(np.ones((1, p.size)), 1.0, 1.0)]
    start: FloatArray = np.full(p.size, 1 / p.size)

    def divergence(q: FloatArray) -> float:
        return apart(p, np.maximum(q, 1e-12), way)

    settings: dict[str, Any] = {"method": "SLSQP", "tol": 1e-13, "options": {"maxiter": 500}}
    found = minimize(divergence, start, bounds=[(1e-12, 1.0)] * p.size, constraints=constraints, **settings)
    return float(found.fun)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", RULES)
def test_no_rejected_law_is_nearer_than_the_levelled_one(rule: str, way: str) -> None:
    """The convex program of every rejected token; the nearest of them is the closed form."""
    for p in LAWS:
        every = np.arange(p.size)
        refused = np.flatnonzero(~accepted(p, rule, 0.12, 2))
        programs = [nearest(p, np.full(p.size, token), every, way) for token in refused]
        hub = int(refused[p[refused].argmax()])
        assert distance(p, levelled(p, hub, every, way), way) == pytest.approx(min(programs), abs=1e-7)


@pytest.mark.parametrize("way", WAYS)
def test_the_top_token_is_lowered_to_the_next_ones(way: str) -> None:
    for p in LAWS:
        for m in range(1, p.size):
            leaves = np.arange(1, m + 1)
            closed = distance(p, levelled(p, 0, leaves, way, rises=False), way)
            assert closed == pytest.approx(nearest(p, leaves, np.zeros(m, dtype=int), way), abs=1e-7)


def test_prefixes_are_summed_up_as_they_are() -> None:
    """By hand where all laws are uniform, and for two laws by drawing models."""
    assert best(np.array([0.5, 0.5]), 6) == 2.0
    assert cut(np.full((1, 2), 0.5), np.ones(1), 2 * np.log(2)) == pytest.approx((2.0, 6.0))
    assert 2 * np.log(2) / moments(np.full((1, 2), 0.5), np.ones(1))[0] == pytest.approx(2.0)  # Lemma 1 is attained
    laws, weights, rng = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0.3, 0.7]), np.random.default_rng(0)
    exact = sum(chance * sum(profile) for profile, chance in profiles(laws, weights, 3).items())
    drawn = [sum(_likeliest(laws, weights, 3, rng)) for _ in range(1500)]
    assert exact == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 1500**0.5)


def _likeliest(laws: FloatArray, weights: FloatArray, nodes: int, rng: np.random.Generator) -> list[float]:
    """Probabilities of the likeliest prefixes of one model, whose laws are drawn as they are met."""
    found: list[float] = []
    fringe = [-1.0]
    while len(found) <= nodes:
        found.append(-heapq.heappop(fringe))
        for share in laws[rng.choice(len(laws), p=weights)]:
            heapq.heappush(fringe, -found[-1] * float(share))
    return found[1:]


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
    inputs = model(family, 4)
    tree = inputs.tree(inputs.sample(1, 5, rng=window))
    np.testing.assert_allclose(FLy(window, threshold).stop_law(tree), by_coins(tree, window, threshold), atol=1e-14)
