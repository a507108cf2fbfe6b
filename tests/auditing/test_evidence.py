"""The e-values, their expectation by enumeration, and the intervals, their coverage by simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from otspec.auditing import evidence
from otspec.auditing.evidence import log_average_and_product, log_dependence, log_evidence, log_excess, log_tilts
from tests.each import each

LAWS = ([0.5, 0.5], [0.9, 0.07, 0.03], [0.6, 0.4, 1e-300], [1.0], [0.7, 0.0, 0.3])


@each(law=LAWS, draws=(1, 2, 7))
def test_evidence_is_1_on_average_under_the_law(law: list[float], draws: int) -> None:
    mean = 0.0
    for counts in itertools.product(range(draws + 1), repeat=len(law)):
        if sum(counts) == draws and (chance := multinomial.pmf(counts, draws, law)) > 0:
            mean += chance * math.exp(log_evidence(np.array(counts), np.array(law)))
    # Where the token of 1e-300 is drawn, the chance is no float any more; the alternatives' mass there is lost.
    assert mean <= 1 + 1e-9
    assert mean >= 1 - 1e-9 or 1e-300 in law


def test_bets_on_texts_that_end_early_are_fair() -> None:
    """Of one drafted token: speculative sampling puts out a token of the residual, or the draft and one after it."""
    p, q, after = np.array([0.7, 0.3]), np.array([0.4, 0.6]), np.array([[0.2, 0.8], [1.0, 0.0]])
    begun = [(min(p[x], q[x]) * after[x, y], [(0, x), (1 + x, y)]) for x in range(2) for y in range(2)]
    begun += [(max(p[x] - q[x], 0.0), [(0, x)]) for x in range(2)]
    fair = np.zeros(1 + 12 * (2 + 1))  # tilts of either level and of both
    for first, second in itertools.product((one for one in begun if one[0] > 0), repeat=2):
        counts = np.zeros((3, 2), dtype=np.int64)
        np.add.at(counts, tuple(zip(*first[1], *second[1], strict=True)), 1)
        logs = log_tilts(counts, np.array([p, *after]), np.array([q, *after]))
        fair += first[0] * second[0] * np.exp([log_evidence(counts, np.array([p, *after])), *logs])
    np.testing.assert_allclose(fair, 1.0, atol=1e-12)


@each(law=([0.5, 0.5], [0.9, 0.1], [0.6, 0.3, 0.1]))
def test_dependence_is_1_on_average_for_independent_draws(law: list[float]) -> None:
    mean = 0.0
    for text in itertools.product(range(len(law)), repeat=6):
        transitions = np.zeros((len(law), len(law)), dtype=np.int64)
        np.add.at(transitions, (text[:-1], text[1:]), 1)
        mean += math.prod(law[token] for token in text) * math.exp(log_dependence(transitions, np.array(law)))
    assert mean == pytest.approx(1, abs=1e-9)


@each(optimum=(0.0, 1e-9, 0.3, 0.99, 1.0), share=(1.0, 0.7))
def test_excess_is_at_most_1_on_average_below_the_optimum(optimum: float, share: float) -> None:
    chances = binom.pmf(np.arange(31), 30, share * optimum)
    mean = sum(c * math.exp(log_excess(np.array([30 - n, n]), optimum)) for n, c in enumerate(chances) if c > 0)
    assert mean <= 1 + 1e-9
    assert log_excess(np.array([5, 25]), 0.3) > 10


def test_average_and_product_keep_the_better_of_both() -> None:
    one_bad = np.array([50.0, *np.zeros(19)])
    assert log_average_and_product(one_bad) > 49
    all_weak = np.full(20, 1.0)
    assert log_average_and_product(all_weak) > 19
    # Both are e-values if the parts are: two fair bets, each doubling or losing all.
    outcomes = [
        math.exp(log_average_and_product(np.log(np.array(pair)))) for pair in itertools.product((1e-9, 2), repeat=2)
    ]
    assert np.mean(outcomes) == pytest.approx(1, abs=1e-6)


def test_looks_spend_their_share() -> None:
    assert sum(evidence.at_look(0.01, look) for look in range(100_000)) == pytest.approx(0.01, rel=1e-4)


@each(cells=(2, 5, 30))
def test_intervals_cover(cells: int) -> None:
    # A miss of 10 % is a bound: what is seen has to stay below, with room for chance in 2000 trials.
    rng = np.random.default_rng(cells)
    law = rng.dirichlet(np.ones(cells))
    draws = 200
    shares = rng.multinomial(draws, law, size=2000) / draws
    tv = np.abs(shares - law).sum(axis=1) / 2
    assert (tv > evidence.tv_radius(draws, cells, 0.1)).mean() <= 0.1
    assert (shares[:, 0] - law[0] > evidence.rate_radius(draws, 0.1)).mean() <= 0.12
    assert evidence.tv_radius(draws, cells, 0.1) < 0.08 + 0.5 * math.sqrt(cells / draws)
