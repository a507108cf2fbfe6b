"""Closed forms of the preprints' claims against programs that know none of them."""

import heapq
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from scipy.special import entr, rel_entr

from otspec.laws import FloatArray, IntArray
from otspec.proofs_check import CLAIMS
from otspec.proofs_check.preprints import budgets, rescaling
from otspec.proofs_check.preprints.acceptance import RULES, accepted
from otspec.proofs_check.preprints.levelling import WAYS, apart, distance, levelled
from otspec.proofs_check.preprints.lossy import FLy, cactus, divergence
from otspec.proofs_check.preprints.races import among_first, matched
from otspec.proofs_check.preprints.trees import best, cut, moments, profiles
from otspec.proofs_check.single_draft import overlap, residual
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

    found = minimize(
        divergence,
        start,
        bounds=[(1e-12, 1.0)] * p.size,
        constraints=constraints,
        method="SLSQP",
        tol=1e-13,
        options={"maxiter": 500},
    )
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


def test_margins_are_attained_by_the_fewest_tokens() -> None:
    """Levelling two tokens, or m + 1, costs what the margins say: the bounds are sharp."""
    two = {"p": np.array([0.7, 0.3]), "q": np.array([0.5, 0.5])[::-1], "way": WAYS[0]}
    q = np.array([0.5 - 1e-9, 0.5 + 1e-9])
    assert CLAIMS["acceptance-margin"].margin_of({**two, "q": q}) == pytest.approx(0, abs=1e-8)
    p, q = np.array([0.4, 0.4, 0.2]), np.array([1, 1, 1 + 1e-8]) / (3 + 1e-8)
    assert CLAIMS["acceptance-top-m"].margin_of({"p": p, "q": q, "way": WAYS[1], "m": 2}) == pytest.approx(0, abs=1e-7)
    p, q = np.array([0.6, 0.2, 0.2]), np.array([1 - 1e-8, 1, 1]) / (3 - 1e-8)
    assert CLAIMS["acceptance-tree-margin"].margin_of({"p": p, "q": q, "way": WAYS[0], "m": 2}) == pytest.approx(
        0, abs=1e-7
    )


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


def test_races_are_those_that_are_run() -> None:
    p, q, rng = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.1, 0.2, 0.3, 0.4]), np.random.default_rng(1)
    times = rng.exponential(size=(40_000, 4))
    winner, ranks = (times / p).argmin(axis=1), (times / q).argsort(axis=1)
    for n in range(1, 5):
        hit = (ranks[:, :n] == winner[:, None]).any(axis=1)
        assert among_first(p, q, n) == pytest.approx(hit.mean(), abs=4 * 0.5 / 40_000**0.5)
    assert among_first(p, q, 1) == pytest.approx(matched(p, q))


def test_the_best_budgets_of_rounds_share_a_price() -> None:
    """An easy round, all of whose drafts are accepted, and a hard one: by fractions."""
    easy, hard = [Fraction(k) for k in (1, 2, 3)], [Fraction(1), Fraction(3, 2), Fraction(2)]
    cost = [Fraction(1) + Fraction(9, 20) * k for k in range(3)]
    rates = {(i, j): (easy[i] + hard[j]) / (cost[i] + cost[j]) for i in range(3) for j in range(3)}
    alone = [max(range(3), key=lambda k: tokens[k] / cost[k]) for tokens in (easy, hard)]
    price = max(rates.values())
    shared = [max(range(3), key=lambda k: tokens[k] - price * cost[k]) for tokens in (easy, hard)]
    assert rates[shared[0], shared[1]] == price > rates[alone[0], alone[1]]
    np.testing.assert_allclose(budgets.accepted(np.full((2, 2), 0.5)), [0, 0.5, 1, 1.25, 1.5, 1.75, 2])


def test_an_overconfident_drafter_gains_both_ways() -> None:
    p, q, cache = np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.07, 0.03]), np.array([True, False, False])
    steps = [rescaling.step(p, rescaling.scaled(q, cache, scale), cache) for scale in (1.0, 0.11, 0.0)]
    accepted, hits = [each.accepted for each in steps], [rescaling.rate(each) for each in steps]
    assert accepted[0] < accepted[1] > accepted[2]
    assert hits[0] == 0 < hits[2]


def test_of_one_certain_token_the_losses_are_one() -> None:
    p, q = np.array([0.0, 1.0, 0.0]), np.array([0.7, 0.2, 0.1])
    assert -np.log(overlap(p, q)) == pytest.approx(rel_entr(p, q).sum())
    assert CLAIMS["lk-gradient-size"].margin_of({"p": p, "q": q}) == pytest.approx(0, abs=1e-15)


def test_the_entropy_of_a_full_tree_is_that_of_its_leaves() -> None:
    target = np.full((7, 2), 0.5)
    held = np.array([1, 1, 1, 0, 0, 0, 0])
    assert CLAIMS["speed-entropy"].margin_of({"target": target, "held": held}) == pytest.approx(0, abs=1e-15)
    assert entr(target[0]).sum() * (1 + best(target[0], 2)) == pytest.approx(np.log(4))


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


def test_what_cactus_puts_out_is_off_by_more_than_its_delta() -> None:
    """Each of two drafts is raised by sqrt(.2 * .1875), and both are at once: KL .34 for delta = .1."""
    output, accepted = cactus(np.full(4, 0.25), np.array([0.5, 0.5, 0.0, 0.0]), 0.1)
    raised = 0.25 + (0.2 * 0.1875) ** 0.5
    np.testing.assert_allclose(output, [raised, raised, 0.5 - raised, 0.5 - raised], atol=1e-15)
    assert accepted == pytest.approx(2 * raised)
    assert divergence(output, np.full(4, 0.25)) == pytest.approx(0.34, abs=0.005)
