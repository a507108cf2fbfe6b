"""Layer verification: by every rule that tells its scores, and what its masses mean."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

import otspec
from otspec import IID, Problem, ProblemError, WithoutReplacement
from otspec.verification import LayerVerification, Tree, path_law, tree_law
from otspec.verification.reference.enumeration import trees_of
from otspec.verification.rules.layer import scores
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix
from tests.verification.catalogue import EXACT, SCORED
from tests.verification.models import FAMILIES, model

RULES = ("interval", *SCORED)


@pytest.mark.parametrize("rule", RULES)
def test_a_single_level_accepts_what_the_rule_accepts(rule: str) -> None:
    for family in FAMILIES:
        laws = model(family, 3, 5)
        plan = otspec.solve(Problem(np.asarray(laws.target(())), IID(np.asarray(laws.draft(())), 3)), rule).plan
        lifted = path_law(LayerVerification(rule, cache_size=10), laws, 3, 1).mean_accepted
        assert lifted == pytest.approx(plan.acceptance, abs=1e-9 if rule == "max_flow" else EXACT), family


def test_masses_are_chances_of_acceptance() -> None:
    verifier = LayerVerification(cache_size=5000)
    for family, branching in itertools.product(FAMILIES, ((2, 2), (1, 2, 2), (3, 1))):
        laws, mean = model(family, 2, 3), defaultdict[Prefix, float](float)
        for chance, tree in trees_of(laws, Shape(branching), exchangeable=False):
            swept = verifier._sweep(tree)
            assert swept.mass.min() >= 0
            assert swept.mass.sum() <= 1 + EXACT
            for leaf, mass in zip(swept.leaf, swept.mass, strict=True):
                mean[tree.prefix(int(leaf))] += chance * mass
        accepted = tree_law(verifier, laws, branching).accepted
        for prefix, mass in mean.items():
            assert accepted[prefix] == pytest.approx(mass, abs=EXACT), (family, branching, prefix)


def test_what_is_missing_at_a_node_may_be_the_smallest_of_floats() -> None:
    p, q = np.array([[1e-310, 1.0], [0.0, 1.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [1e-20, 1.0]])
    tree = Tree.of([[1, 0]], lambda prefix: p[len(prefix)], lambda prefix: q[len(prefix)])
    assert LayerVerification().stop_law(tree).tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_rules_that_do_not_tell_are_refused() -> None:
    plan = otspec.solve(Problem([0.5, 0.3, 0.2], WithoutReplacement([0.2, 0.3, 0.5], 2)), "rsd").plan
    with pytest.raises(ProblemError, match=r"a Sequential does not score each draft; .*interval"):
        scores(plan, np.array([0, 1]))
