"""That checks would notice: margins on a statement made wrong, and all verifiers and models that are tried."""

import inspect
import itertools

import numpy as np
import pytest

import otspec.verification
from otspec import Independent, Problem
from otspec.laws import FloatArray
from otspec.proofs_check import CLAIMS
from otspec.proofs_check.oracles import prefixes, psi_independent
from otspec.proofs_check.own import draft_laws, hits, paths, plans
from otspec.verification import PathVerifier, Tree
from tests.each import each
from tests.instances import PAIRS
from tests.laws import Pair

P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])


class Misread:
    """A verifier whose added token is taken for another."""

    def __init__(self, rule: PathVerifier) -> None:
        self.rule, self.exchangeable, self.verify = rule, rule.exchangeable, rule.verify

    def stop_law(self, tree: Tree) -> FloatArray:
        return self.rule.stop_law(tree)[:, ::-1]


def test_a_mistake_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    picked = {"p": P, "drafts": np.array([[0], [1], [2]]), "law": Q, "weights": np.ones((3, 1))}
    path = paths._paths(np.random.default_rng(1), "layer")
    assert CLAIMS["own-pick-lossless"].margin_of(picked) >= -1e-12
    assert CLAIMS["own-paths-lossless"].margin_of(path) >= -1e-12
    monkeypatch.setattr(hits, "residual_law", lambda p, g: p)
    monkeypatch.setitem(paths.VERIFIERS, "layer", Misread(paths.VERIFIERS["layer"]))
    assert CLAIMS["own-pick-lossless"].margin_of(picked) < -0.1
    assert CLAIMS["own-paths-lossless"].margin_of(path) < -1e-2


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


@each(pair={name: pair for name, pair in PAIRS.items() if pair[0].size <= 4}, n=(1, 2, 3))
def test_list_matching_survives_hostile_laws(pair: Pair, n: int) -> None:
    assert CLAIMS["own-list-matching"].margin_of({"p": pair[0], "q": pair[1], "n": n}) >= -1e-12


def test_a_solver_without_a_plan_contradicts() -> None:
    assert plans._judged(Problem(P, Independent(np.array([P, Q]))), "interval") == (-np.inf, np.inf)


def test_every_joint_verifier_that_there_is_is_tried() -> None:
    verifiers = {
        name
        for name, value in vars(otspec.verification).items()
        if isinstance(value, type) and {"verify", "stop_law"} <= set(dir(value)) and not inspect.isabstract(value)
    } - {"PathVerifier", "Match"}  # fixed drafts are no i.i.d. paths
    rules = (*paths.VERIFIERS.values(), *(rule for _, rule in paths.JOINT.values()))
    assert {"Nested", "LayerVerification"} <= verifiers == {type(rule).__name__ for rule in rules}
