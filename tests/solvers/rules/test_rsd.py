import numpy as np
import pytest

from otspec import Problem, WithoutReplacement
from otspec.solvers import RSD
from otspec.solvers.rules.rsd import rejection
from tests.each import each
from tests.solvers.rules import published
from tests.solvers.rules.test_every_rule import ROUNDING


@each(sizes=[(40, 2), (40, 3), (8, 4), (6, 5)], concentration=(0.1, 1.0))
def test_rejection_without_replacement_is_exact_or_a_bound(sizes: tuple[int, int], concentration: float) -> None:
    vocab, n = sizes
    rng = np.random.default_rng(vocab + n)
    for _ in range(3):
        p, q = rng.dirichlet(np.full(vocab, concentration), 2)
        exact = rejection(p, q, n, vocab**n)
        plan = RSD().rule(Problem(p, WithoutReplacement(q, n)), q)
        if vocab <= 8:
            drafts, probabilities = WithoutReplacement(q, n).support()
            outcomes = [1.0 - published.rsd(p, q, row).accepted for row in drafts]
            assert exact == pytest.approx(probabilities @ outcomes, abs=1e-12)
        assert plan.acceptance == pytest.approx(1.0 - exact, abs=1e-15)
        from_above = [rejection(p, q, n, histories) for histories in (vocab ** (n - 1) - 1, 3 ** (n - 1), 1)]
        assert min(from_above) >= exact - ROUNDING
        assert from_above[0] - exact < 0.02  # close by
        single = np.maximum(q - p, 0.0).sum()
        assert max(from_above) <= single + ROUNDING
