import itertools
import math

import numpy as np
import pytest

import otspec
from otspec import IID, Problem
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from tests import laws
from tests.laws import Kind


def interval_plan(kind: Kind, seed: int, vocab: int, n: int) -> Pick:
    """A plan that picks by this rule."""
    p, q = kind(np.random.default_rng(seed), vocab)
    plan = otspec.solve(Problem(p, IID(q, n)), "interval").plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, PlaceRule)
    return plan


def test_conditional_does_not_depend_on_the_order_of_the_drafts() -> None:
    plan = interval_plan(laws.model, seed=3, vocab=6, n=4)
    drafts = np.array([5, 1, 1, 3])
    expected = plan.conditional(drafts)
    for permuted in itertools.permutations(drafts.tolist()):
        np.testing.assert_allclose(plan.conditional(np.array(permuted)), expected, rtol=0, atol=1e-15)


def test_picking_by_points_follows_the_weights() -> None:
    rng = np.random.default_rng(11)
    plan = interval_plan(laws.lumpy, seed=2, vocab=12, n=4)
    assert isinstance(plan.rule, PlaceRule)
    for drafts in plan.problem.scheme.sample(rng, 4):
        picks = np.bincount([plan.rule.pick(drafts, rng) for _ in range(4000)], minlength=4) / 4000
        np.testing.assert_allclose(picks, plan.rule.weights(drafts), atol=5 * 0.5 / math.sqrt(4000))
        outputs = np.bincount([plan.sample(drafts, rng) for _ in range(4000)], minlength=12) / 4000
        np.testing.assert_allclose(outputs, plan.conditional(drafts), atol=5 * 0.5 / math.sqrt(4000))


def test_the_output_is_drawn_without_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = interval_plan(laws.lumpy, seed=5, vocab=12, n=256)

    def integrals(self: PlaceRule, drafts: object) -> None:
        raise AssertionError("they take most of a second for so many drafts")

    monkeypatch.setattr(PlaceRule, "weights", integrals)
    assert plan.deviation <= 1e-12
    rng = np.random.default_rng(7)
    drafted = plan.problem.scheme.sample(rng, 4000)
    counts = np.bincount([plan.sample(drafts, rng) for drafts in drafted], minlength=12)
    np.testing.assert_allclose(counts / 4000, plan.problem.p, atol=5 * 0.5 / math.sqrt(4000))
