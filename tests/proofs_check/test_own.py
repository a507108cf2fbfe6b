"""That checks would notice: margins on a statement made wrong, and all verifiers and models that are tried."""

import inspect
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import otspec.paths
from otspec import Independent, Problem
from otspec.laws import FloatArray
from otspec.paths import PathVerifier, Tree
from otspec.proofs_check import CLAIMS, Verdict, check, single_draft
from otspec.proofs_check.global_resolution.split import Split
from otspec.proofs_check.instances import model_of
from otspec.proofs_check.oracles import prefixes, psi_independent
from otspec.proofs_check.own import draft_laws, hits, interval, paths, plans

P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
POINT: dict[str, Any] = {
    "p": np.array([0.1, 0.2, 0.3, 0.4]),
    "q": np.array([0.6, 0.2, 0.15, 0.05]),
    "n": 2,
    "alpha": np.array([0.3, -0.2, 0.5, 1.1]),
}
"""H* is the first two tokens."""
ONE_BLOCK = {"p": np.array([0.2, 0.4, 0.4]), "q": np.array([0.21, 0.4, 0.39]), "n": 2}
"""So that g = p."""


class Misread:
    """A verifier whose added token is taken for another."""

    def __init__(self, rule: PathVerifier) -> None:
        self.rule, self.exchangeable, self.verify = rule, rule.exchangeable, rule.verify

    def stop_law(self, tree: Tree) -> FloatArray:
        return self.rule.stop_law(tree)[:, ::-1]


# What is wrong, made of what is right.


def swapped(plan: Any) -> Any:
    def wrong(p: Any, q: Any, n: int) -> Any:
        found, rule = plan(p, q, n)
        rule.places.proposal[:] = rule.places.proposal[::-1].copy()
        return found, rule

    return wrong


def moved(columns: Any) -> Any:
    """Mass that goes to another tuple: the total of C stays, and what each token gets."""

    def wrong(cut: Split, alpha: FloatArray) -> Any:
        found, supplies = columns(cut, alpha)
        token = int(found.sum(axis=0).argmax())
        giver, taker = found[:, token].argsort()[-1:-3:-1]
        found[giver, token] -= 1e-4
        found[taker, token] += 1e-4
        return found, supplies

    return wrong


Wrong = Callable[[Any], Any]
PICKED = {"p": P, "drafts": np.array([[0], [1], [2]]), "law": Q, "weights": np.ones((3, 1))}
NOTICED: list[tuple[str, dict[str, Any], Any, str, Wrong, float]] = [
    ("own-pick-lossless", PICKED, hits, "residual_law", lambda right: lambda p, g: p, -0.1),
    ("own-interval-blocks", ONE_BLOCK, interval, "_plan", swapped, -1e-3),
    ("own-interval-majorised", ONE_BLOCK, interval, "_plan", swapped, -1e-3),
    ("own-paths-lossless", paths._paths(np.random.default_rng(1), "layer"), paths.VERIFIERS, "layer", Misread, -1e-2),
    ("gr-lemma-6.6", {**POINT, "largest": False}, Split, "columns", moved, -1.0),
]


@pytest.mark.parametrize(("name", "given", "where", "what", "wrong", "below"), NOTICED)
def test_a_mistake_is_noticed(
    name: str, given: dict[str, Any], where: Any, what: str, wrong: Wrong, below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CLAIMS[name].margin_of(given) >= -1e-12
    if isinstance(where, dict):
        monkeypatch.setitem(where, what, wrong(where[what]))
    else:
        monkeypatch.setattr(where, what, wrong(getattr(where, what)))
    assert CLAIMS[name].margin_of(given) < below


def lenient(p: FloatArray, q: FloatArray) -> FloatArray:
    """Accepts twice as readily."""
    return np.minimum(1.0, np.divide(2 * p, q, out=np.ones_like(p), where=q > 0))


@pytest.mark.parametrize("claim", ["notes-correctness", "notes-algorithm-1", "dynaspec-lossless", "steering-lossless"])
@pytest.mark.parametrize(("step", "wrong"), [("residual", lambda p, q: p), ("accept", lenient)])
def test_a_wrong_step_of_speculative_sampling_is_noticed(
    monkeypatch: pytest.MonkeyPatch, claim: str, step: str, wrong: object
) -> None:
    monkeypatch.setattr(single_draft, step, wrong)
    assert check(CLAIMS[claim], 400, seed=1).verdict is Verdict.FAILS


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
    every = ((), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1))
    assert [laws.target(prefix).tolist()[0] for prefix in every] == [0, 2, 4, 6, 8, 10, 12]
    assert laws.draft((1,)).tolist() == [4, 5]


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
