"""The bound that drafted trees tell: its mean over all drafts is above every verifier, and above the linear program."""

from __future__ import annotations

import numpy as np
import pytest

from otspec import IID, Problem, ProblemError, optimum
from otspec.paths import Model, Nested, Traversal, Tree, bound, drafted_bound, path_law, synthetic
from otspec.verification.bounds.drafted_bound import accepted_after
from otspec.verification.reference.enumeration import drafted_trees
from tests.each import each


def mean_bound(model: Model, count: int, length: int) -> float:
    return sum(chance * drafted_bound(tree) for chance, tree in drafted_trees(model, count, length, True))


@each(case=[*(((2, 2, 2), seed) for seed in range(3, 6)), ((3, 2, 2), 4), ((2, 3, 3), 5)])
def test_its_mean_over_drafts_bounds_what_any_verifier_accepts(case: tuple[tuple[int, int, int], int]) -> None:
    (vocab, length, count), seed = case
    model = synthetic("tiny", vocab, seed)
    found, best = mean_bound(model, count, length), bound(model, count, length)
    assert found >= best - 1e-6
    for rule in (Nested(), Traversal()):
        assert found >= path_law(rule, model, count, length).mean_accepted - 1e-9
    assert found <= 1.02 * best  # it could be loose, and is not


@each(count=(1, 2, 5), seed=range(4))
def test_of_one_token_it_is_the_optimum(count: int, seed: int) -> None:
    model = synthetic("tiny", 4, seed)
    best = optimum(Problem(model.target(()), IID(model.draft(()), count))).acceptance
    assert mean_bound(model, count, 1) == pytest.approx(best, abs=1e-12)


@each(seed=range(5))
def test_after_a_prefix_the_least_set_is_found(seed: int) -> None:
    """Among all sets of tokens, with zeros in both laws."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(6, 0.4)), rng.dirichlet(np.full(6, 0.4))
    p[rng.integers(6)] = q[rng.integers(6)] = 0.0
    p, q, reached, likely = p / p.sum(), q / q.sum(), rng.random(), rng.random()
    sets = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)
    values = [1 - (1 - likely * q[own].sum()) ** 3 + reached * p[~own].sum() for own in sets]
    assert accepted_after(p, q, reached, likely, 3) == pytest.approx(min(values), abs=1e-12)


def test_probabilities_below_the_range_of_floats_are_counted_upwards() -> None:
    tiny = np.array([1 - 1e-200, 1e-200])
    tree = Tree.of([[1, 1, 1]], lambda prefix: [0.5, 0.5], lambda prefix: tiny)
    assert drafted_bound(tree) == pytest.approx(0.5 + 0.5 + 1.0)


def test_other_trees_are_refused() -> None:
    model = synthetic("tiny", 3)
    with pytest.raises(ProblemError, match=r"branching is \(2, 2\).*for independent paths of one draft model"):
        drafted_bound(model.drawn((2, 2), 0))
    with pytest.raises(ProblemError, match="pass what"):
        drafted_bound([[0, 1]])  # type: ignore[arg-type]
