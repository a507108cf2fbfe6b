"""That our own checks would notice: each margin on a statement made wrong."""

import inspect
import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import otspec.paths
from otspec import Independent, Problem
from otspec.kernels.interval.picking import contribution_to
from otspec.laws import FloatArray
from otspec.paths import Model, Nested, PathLaw, PathVerifier, Tree, path_law
from otspec.proofs_check import SOURCES
from otspec.proofs_check.instances import model_of
from otspec.proofs_check.oracles import prefixes, psi_independent
from otspec.proofs_check.own import draft_laws, hits, interval, paths, plans
from otspec.solvers.luce.rule import LuceRule
from tests.verification.models import model

CLAIMS = {claim.id: claim for source in SOURCES for claim in source.claims}
P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])


def margin(name: str, **instance: Any) -> float:
    return CLAIMS[name].margin_of(instance)


def test_a_law_out_of_reach_is_short_by_its_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    drafts, law = np.array([[0, 1], [2, 2]]), np.array([0.5, 0.5])
    assert margin("own-base-is-pick", p=P, drafts=drafts, law=law) == pytest.approx(0, abs=1e-15)
    monkeypatch.setattr(hits, "transport", lambda p, member, mass: np.zeros(member.shape))
    assert margin("own-base-is-pick", p=P, drafts=drafts, law=law) < -0.5


def test_a_residual_of_another_law_is_not_lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = {"p": P, "drafts": np.array([[0], [1], [2]]), "law": Q, "weights": np.ones((3, 1))}
    assert margin("own-pick-lossless", **instance) == pytest.approx(0, abs=1e-15)
    monkeypatch.setattr(hits, "residual_law", lambda p, g: p)
    assert margin("own-pick-lossless", **instance) < -0.1


@pytest.mark.parametrize("name", ["own-interval-blocks", "own-interval-majorised"])
def test_the_same_numbers_in_another_order_are_not_the_majorant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = interval._plan
    p, q = np.array([0.2, 0.4, 0.4]), np.array([0.21, 0.4, 0.39])  # one block, so g = p
    assert margin(name, p=p, q=q, n=2) >= -1e-12

    def swapped(p: Any, q: Any, n: int) -> Any:
        plan, rule = original(p, q, n)
        rule.places.proposal[:] = rule.places.proposal[::-1].copy()
        return plan, rule

    monkeypatch.setattr(interval, "_plan", swapped)
    assert margin(name, p=p, q=q, n=2) < -1e-3


def test_contributions_that_do_not_add_up_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = np.array([0.3, 0.4, 0.3]), np.array([0.31, 0.4, 0.29])
    assert margin("own-interval-lotteries", p=p, q=q, n=2) >= -1e-12
    monkeypatch.setattr(interval, "contribution_to", lambda places, h, rank: 0.9 * contribution_to(places, h, rank))
    assert margin("own-interval-lotteries", p=p, q=q, n=2) < -1e-3


def test_a_pick_by_other_odds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = {"qs": np.array([P, Q]), "odds": np.array([1.0, 0.5, 0.1])}
    assert margin("own-luce-law", **instance) >= -1e-12
    monkeypatch.setattr(draft_laws, "LuceRule", lambda scheme, odds: LuceRule(scheme, odds[::-1].copy()))
    assert margin("own-luce-law", **instance) < -0.1


@pytest.mark.parametrize("name", draft_laws.KEYS)
def test_counterexamples_to_an_order_leave_no_order_of_ties(name: str) -> None:
    _, key, laws = draft_laws.KEYS[name]
    p, q1, q2 = map(np.array, laws)
    values = psi_independent(p, np.array([q1, q2]))
    orders = [
        np.array(order)
        for order in itertools.permutations(range(p.size))
        if (np.diff((key(q1, q2) / p)[list(order)]) <= 1e-9).all()
    ]
    assert orders
    assert min(values[prefixes(order)].min() for order in orders) > values.min() + 1e-3


def test_a_solver_without_a_plan_contradicts() -> None:
    assert plans._judged(Problem(P, Independent(np.array([P, Q]))), "interval") == (-np.inf, np.inf)


def test_models_come_from_rows_by_prefix() -> None:
    laws = model_of(np.arange(14.0).reshape(7, 2), np.arange(6.0).reshape(3, 2))
    assert [laws.target(prefix).tolist()[0] for prefix in ((), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1))] == [
        0, 2, 4, 6, 8, 10, 12,
    ]  # fmt: skip
    assert laws.draft((1,)).tolist() == [4, 5]


def test_labels_for_another_number_of_paths_are_not_block_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    source = model("peaked", 2, 3)
    prefixes = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    target, draft = (np.array([laws(v) for v in prefixes]) for laws in (source.target, source.draft))
    assert margin("own-nested-one-path", target=target, draft=draft[:3], length=2, sigma=0.0) >= -1e-12

    def with_one_more(verifier: PathVerifier, laws: Model, count: int, length: int) -> PathLaw:
        return path_law(verifier, laws, count + isinstance(verifier, Nested), length)

    monkeypatch.setattr(paths, "path_law", with_one_more)
    assert margin("own-nested-one-path", target=target, draft=draft[:3], length=2, sigma=0.0) < -1e-2


def test_every_joint_verifier_that_there_is_is_tried() -> None:
    verifiers = {
        name
        for name, value in vars(otspec.paths).items()
        if isinstance(value, type) and {"verify", "stop_law"} <= set(dir(value)) and not inspect.isabstract(value)
    } - {"PathVerifier", "Match"}  # fixed drafts are no i.i.d. paths
    rules = (*paths.VERIFIERS.values(), *(rule for _, rule in paths.JOINT.values()))
    assert {"Nested", "LayerVerification"} <= verifiers == {type(rule).__name__ for rule in rules}


@pytest.mark.parametrize(("name", "many"), [("own-paths-lossless", 10), ("own-paths-bound", 8)])
def test_each_verifier_gets_fifty_models_by_default(name: str, many: int) -> None:
    models: defaultdict[str, set[bytes]] = defaultdict(set)

    def attempt(instance: Any) -> float:
        models[instance["verifier"]].add(instance["target"].tobytes())
        return 0.0

    claim = CLAIMS[name]
    claim.search(claim.draw, attempt, 1000 // claim.cost, np.random.default_rng(0))
    assert len(models) == many
    assert min(len(those) for those in models.values()) >= 50


class Misread:
    """A verifier whose added token is taken for another."""

    def __init__(self, rule: PathVerifier) -> None:
        self.rule, self.exchangeable, self.verify = rule, rule.exchangeable, rule.verify

    def stop_law(self, tree: Tree) -> FloatArray:
        return self.rule.stop_law(tree)[:, ::-1]


@pytest.mark.parametrize("verifier", ["layer", "pick by plan, systematic"])
def test_a_verifier_of_another_law_is_noticed(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = paths._paths(np.random.default_rng(1), verifier)
    assert CLAIMS["own-paths-lossless"].margin_of(instance) >= -1e-12
    if verifier in paths.JOINT:
        scheme, rule = paths.JOINT[verifier]
        monkeypatch.setitem(paths.JOINT, verifier, (scheme, Misread(rule)))
    else:
        monkeypatch.setitem(paths.VERIFIERS, verifier, Misread(paths.VERIFIERS[verifier]))
    assert CLAIMS["own-paths-lossless"].margin_of(instance) < -1e-2
