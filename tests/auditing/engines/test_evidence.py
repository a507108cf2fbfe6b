"""E-values, summed over all that can be drawn: under the law their mean is at most 1."""

import math
import tracemalloc
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from otspec.auditing.engines import Sampling
from otspec.auditing.engines.bounds import lower_known, upper_known
from otspec.auditing.engines.draws import Draws, read
from otspec.auditing.engines.evidence import BINS, Position, of_ranks
from otspec.auditing.engines.independence import Coincidences, Neighbours
from otspec.auditing.engines.two_sample import Pairs
from otspec.auditing.evidence import CONCENTRATIONS
from tests.auditing.engines.engines import LAWS, markov, texts_with_probability


def drawn(texts: Sequence[tuple[int, ...]], seed: int = 0) -> Draws:
    """Texts beside the Markov law."""
    rng = np.random.default_rng(seed)
    return read(LAWS, "", texts, len(texts[0]), Sampling(), bias=0.1, tolerance=1e-6, rng=rng).drawn


def test_the_mean_of_the_evidence_of_nodes_is_one() -> None:
    """By every alternative, over all triples of texts of two tokens."""
    means = np.zeros(1 + CONCENTRATIONS.size)
    for triple in product(texts_with_probability(2), repeat=3):
        positions = [Position(), Position()]
        for (tokens, _), (place, position) in product(triple, enumerate(positions)):
            position.add(tokens[:place], tokens[place], markov(tokens[:place])[tokens[place]], 3)
        alike = np.sum([position.by_alternative() for position in positions], axis=0)
        means += math.prod(p for _, p in triple) * np.exp(alike)
    assert means == pytest.approx(1.0, abs=1e-9)


def test_the_mean_of_the_evidence_of_ranks_is_one() -> None:
    counts = [np.bincount(bins, minlength=BINS) for bins in product(range(BINS), repeat=2)]
    assert np.mean([math.exp(of_ranks(count)) for count in counts]) == pytest.approx(1.0, abs=1e-9)


def test_the_mean_of_bets_on_pairs_is_one() -> None:
    """Over all pairs of pairs: the second is bet on with what the first taught."""
    cuts, means = (1, 2), np.zeros(2)
    texts = list(texts_with_probability(2))
    for (a, pa), (b, pb), (c, pc), (d, pd) in product(texts, repeat=4):
        pairs = Pairs(cuts)
        pairs.add(a, b)
        pairs.add(c, d)
        means += pa * pb * pc * pd * np.exp(pairs.evidence())
    assert means == pytest.approx(1.0, abs=1e-9)


def test_long_texts_take_memory_of_their_length() -> None:
    pairs = Pairs(range(1, 2001))
    tracemalloc.start()
    pairs.add(range(2000), range(2000, 4000))
    assert tracemalloc.get_traced_memory()[0] < 4e6  # their beginnings, token by token, are 32e6 bytes
    tracemalloc.stop()


@pytest.mark.parametrize("undecided", [None, 1])
def test_the_mean_of_bets_on_repeats_is_one(undecided: int | None) -> None:
    """Also if the law after one token hangs on rounding, which texts without that token do not show."""
    texts = list(texts_with_probability(2))
    means = 0.0
    for batch in product(texts, repeat=3):
        draws = drawn([tokens for tokens, _ in batch])
        draws.decided[:, 1] &= draws.tokens[:, 0] != undecided
        one = Neighbours(2)
        one._bet(draws)
        means += math.prod(p for _, p in batch) * np.exp(one._wealth).mean()
    assert means == pytest.approx(1.0, abs=1e-9)


def test_the_mean_of_bets_on_coincidences_is_one() -> None:
    texts = list(texts_with_probability(1))
    means = 0.0
    for (a, pa), (b, pb), (c, pc), (d, pd) in product(texts, repeat=4):
        one = Coincidences()
        one.add([a, b, (9,)])
        one.add([c, (7,), d])
        means += pa * pb * pc * pd * math.exp(one.evidence())
    assert means == pytest.approx(1.0, abs=1e-9)


def test_ranks_of_draws_are_uniform_whatever_the_law() -> None:
    """Tokens side by side by their probability, a uniform point within each."""
    rng = np.random.default_rng(0)
    texts = [(int(token),) for token in rng.choice(3, p=markov(()), size=4000)]
    ranks = np.sort(drawn(texts).ranks[:, 0])
    assert np.abs(ranks - np.linspace(0, 1, ranks.size)).max() < 0.03
    inside = {token: drawn([(token,)] * 50).ranks for token in range(3)}
    assert inside[0].max() <= 0.6
    assert inside[1].min() >= 0.6
    assert inside[1].max() <= 0.9
    assert inside[2].min() >= 0.9


@pytest.mark.parametrize(
    ("texts", "least", "most"),
    [
        ([0, 0], (0.3, 0.4), (0.4, 1.0)),
        ([0, 1], (0.0, 0.0), (0.4, 1.0)),  # what is too frequent in the first half is so in no other
        ([0, 0, 1, 0, 2, 0], (0.0, 0.0), (0.4, 0.5)),  # the first half has all tokens, so that nothing is left out
    ],
)
def test_bounds_choose_by_every_other_text_and_measure_on_the_rest(
    texts: list[int], least: tuple[float, float], most: tuple[float, float]
) -> None:
    """The law is 0.6, 0.3, 0.1."""
    batches = [[drawn([(token,) for token in texts] * (6000 // len(texts)))]]
    (low,), (high,) = (bound(batches, 1, 0.01) for bound in (lower_known, upper_known))
    assert least[0] <= low <= least[1]
    assert most[0] <= high <= most[1]
