"""The rules against another implementation, on average."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from otspec import IID, DraftScheme, HubPairs, Problem, Table, WithoutReplacement, optimum
from tests.each import each
from tests.laws import softmax
from tests.oracles import Floats
from tests.solvers.rules.test_every_rule import plan_of

Kind = Callable[[Floats, int], DraftScheme]


def top_n(q: Floats, n: int) -> Table:
    """The n likeliest tokens, always."""
    return Table(np.argsort(-q, kind="stable")[None, :n], np.ones(1), q.size)


class Elsewhere(NamedTuple):
    """What another implementation found."""

    spelling: str
    drafts: Kind
    means: tuple[float, float, float]
    """Of the acceptance, and of its ratios to alpha* of i.i.d. drafts and of these drafts, to three digits."""


ELSEWHERE = {
    "single, i.i.d.": Elsewhere("single", IID, (0.774, 0.866, 0.866)),
    "naive, i.i.d.": Elsewhere("naive", IID, (0.633, 0.716, 0.716)),
    "naive, without replacement": Elsewhere("naive", WithoutReplacement, (0.781, 0.925, 0.815)),
    "naive, top n": Elsewhere("naive", top_n, (0.822, 0.960, 1.0)),
    "rrs, i.i.d.": Elsewhere("rrs", IID, (0.837, 0.948, 0.948)),
    "kseq, i.i.d.": Elsewhere("kseq", IID, (0.853, 0.966, 0.966)),
    "kseq:gamma=n, i.i.d.": Elsewhere("kseq:gamma={n}", IID, (0.677, 0.778, 0.778)),
    "rsd, without replacement": Elsewhere("rsd", WithoutReplacement, (0.914, 1.082, 0.954)),
    "spechub, hub pairs (n = 2)": Elsewhere("spechub", lambda q, n: HubPairs(q), (0.937, 1.120, 1.0)),
}
"""By an enumeration that shares no code with this project, over 100 other problems drawn from the same distribution."""


def softmax_problem(rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """p, q and n < V of that distribution: over 3 to 5 tokens, q from the logits of p with errors, n = 2 or 3."""
    vocab = int(rng.integers(3, 6))
    n = int(rng.integers(2, min(4, vocab)))
    logits = rng.choice([0.7, 1.5, 2.5]) * rng.normal(size=vocab)
    errors = rng.choice([0.4, 1.0, 2.0]) * rng.normal(size=vocab)
    return softmax(logits), softmax(logits + errors), n


@each(elsewhere=ELSEWHERE)
def test_mean_acceptance_agrees_with_another_implementation(elsewhere: Elsewhere) -> None:
    ours, rng, rows = 200, np.random.default_rng(1), []
    for p, q, n in (softmax_problem(rng) for _ in range(ours)):
        problem = Problem(p, elsewhere.drafts(q, n))
        accepted = plan_of(problem, elsewhere.spelling.format(n=n)).acceptance
        iid = Problem(p, IID(q, problem.n))
        rows.append([accepted, accepted / optimum(iid).acceptance, accepted / optimum(problem).acceptance])
    found = np.array(rows)
    # Four standard deviations of the difference of two means, and what rounding to three digits may hide.
    spread = found.std(axis=0, ddof=1) * math.sqrt(1 / ours + 1 / 100)
    assert (np.abs(found.mean(axis=0) - elsewhere.means) <= 4 * spread + 5e-4).all()
