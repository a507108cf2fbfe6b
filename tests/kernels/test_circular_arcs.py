from __future__ import annotations

import numpy as np
import pytest

from otspec import Systematic
from otspec.kernels.circular_arcs import Segments, Service, earliest_deadline
from otspec.tolerances import TIE_TOL
from tests.each import each


def serve(seed: int) -> tuple[Systematic, Segments, Service]:
    """Arcs of a random draft law, some tied, and targets from random to tight up to a few roundings."""
    rng = np.random.default_rng(seed)
    vocab = int(rng.choice([3, 5, 8, 40]))
    q = rng.dirichlet(np.full(vocab, rng.choice([0.3, 1.0, 10.0])))
    if rng.random() < 0.3:
        q = np.round(64 * q) + 1
    scheme = Systematic(q / q.sum(), int(rng.integers(1, min(vocab, 5))))
    tight = sum(scheme.priority_law(rng.permutation(vocab)) for _ in range(2)) / 2
    noise = rng.choice([0.0, 1e-12, 1e-11, 1e-9, 1e-3]) * rng.standard_normal(vocab)
    p = rng.dirichlet(np.ones(vocab)) if rng.random() < 0.3 else np.maximum(tight * (1 + noise), 0.0)
    segments = Segments(scheme.support().probabilities, scheme.cover, scheme.spans)
    return scheme, segments, earliest_deadline(segments, (p / p.sum())[scheme.tokens])


@each(seed=range(400))
def test_arcs_that_are_left_wanting_leave_nothing_idle(seed: int) -> None:
    scheme, segments, service = serve(seed)
    if service.tight is None:
        assert service.idle.sum() <= TIE_TOL
        return
    # The statement of the module: every point of every arc of A serves a token of A, and some point is idle.
    tight = service.tight[segments.cover]
    touched = tight.any(axis=1)
    assert service.idle[touched].sum() <= 1e-15
    assert service.idle[~touched].sum() == pytest.approx(service.idle.sum(), abs=1e-15)
    assert service.served[touched][~tight[touched]].sum() <= 1e-15
    # The turn ends where it is idle: there is a segment with room at which none of A waits.
    assert service.idle[~touched].max() > 0
    assert scheme.tokens.size > service.tight.sum()
