"""No rule, lossless or not, puts out a token that the target model would never put out."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from otspec import (
    IID,
    DraftScheme,
    Greedy,
    HubPairs,
    Independent,
    Problem,
    Table,
    TopK,
    WithoutReplacement,
    available,
    solve,
)
from otspec.catalogue import get
from otspec.solver import Stopped, TupleSolver
from tests import laws
from tests.each import check_each
from tests.laws import Rng
from tests.oracles import Floats
from tests.spellings import installed_or_skipped

KINDS = (laws.zeros(laws.uniform, 0.5), laws.point_target(laws.uniform), laws.disjoint(laws.uniform), laws.grid(8))


def schemes(rng: Rng, q: Floats, n: int) -> Iterator[DraftScheme]:
    """Every draft law of the package."""
    distinct = min(n, int(np.count_nonzero(q)))
    yield IID(q, n)
    yield HubPairs(q)
    yield Independent(np.array([q, *(KINDS[0](rng, q.size)[1] for _ in range(n - 1))]))
    for kind in (WithoutReplacement, Greedy, TopK):
        yield kind(q, distinct)
    tuples = np.unique(rng.integers(q.size, size=(5, n)), axis=0)
    yield Table(tuples, rng.dirichlet(np.ones(len(tuples))), q.size)


def problems() -> dict[str, Problem]:
    """Targets with zeros, on each kind of drafts."""
    found = {}
    for seed in range(4):
        for place, kind in enumerate(KINDS):
            rng = np.random.default_rng((seed, place))
            p, q = kind(rng, 4)
            if not p.all():
                for scheme in schemes(rng, q, int(rng.integers(1, 4))):
                    found[f"{type(scheme).__name__}-{place}-{seed}"] = Problem(p, scheme)
    return found


PROBLEMS = problems()


def spellings() -> list[str]:
    biased = [f"{info.name}:allow_biased=true" for info in available() if "allow_biased" in info.settings]
    return biased + [spelling for info in available() for spelling in (info.name, *info.variants)]


@pytest.mark.parametrize("spelling", installed_or_skipped(spellings()))
def test_a_token_of_target_probability_0_is_never_put_out(spelling: str) -> None:
    solver = get(spelling)

    def check(problem: Problem) -> None:
        plan = solve(problem, solver, strict=False).plan
        for drafts in problem.scheme.support().drafts:
            if plan is not None:
                assert not plan.conditional(drafts)[problem.p == 0].any()
            if isinstance(solver, TupleSolver):
                with suppress(Stopped):
                    assert not solver.conditional(problem, drafts)[problem.p == 0].any()

    check_each(check, problem={name: problem for name, problem in PROBLEMS.items() if solver.supports(problem) is None})
