"""How far off the texts are, at least and at most: sets are chosen on one half of them and measured on the other."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from otspec.auditing.engines.draws import ENDED, Draws
from otspec.auditing.engines.evidence import BINS, bins_of
from otspec.auditing.evidence import rate_radius, tv_radius
from otspec.laws import FloatArray

VISITS = 8
"""A node has a set of its own if it was reached so often in the first half."""


def lower_known(batches: Sequence[Sequence[Draws]], length: int, miss: float) -> FloatArray:
    """Lower bounds of how far each token's law is off, on average over what stands before it, shape (length,).

    For position t: the mean of TV(engine's law of token t, exact law) after what the measured texts have before it; a
    text that is over counts as 0.  Batches are by prompt, all of one sampling; some bound is too large with probability
    `miss`.
    """
    halves = [_halves(prompt) for prompt in batches]
    total = sum(_size(second) for _, second in halves)
    if not total:
        return np.zeros(length)
    off = [max(_by_nodes(halves, place), _by_ranks(halves, place)) / total for place in range(length)]
    return (np.array(off) - rate_radius(total, miss / (2 * length))).clip(min=0.0)


def upper_known(batches: Sequence[Sequence[Draws]], length: int, miss: float) -> FloatArray:
    """Upper bounds of the total variation of the first t tokens from the exact law, shape (length,).

    Batches, length and miss are as in `lower_known`; prompts count by their number of texts.
    """
    halves = [_halves(prompt) for prompt in batches]
    sizes = [_size(second) for _, second in halves]
    bounds = np.ones(length)
    if not sum(sizes):
        return bounds
    for place in range(length):
        cells: dict[Hashable, float] = {}
        shares: Counter[Hashable] = Counter()
        for prompt, ((first, second), size) in enumerate(zip(halves, sizes, strict=True)):
            cells |= {(prompt, text): size / sum(sizes) * p for text, p in _beginnings(first, place + 1).items()}
            shares.update((prompt, text) for one in second for text in _cut(one, place + 1))
        bounds[place] = _most(cells, shares, sum(sizes), miss / length)
    return bounds


def lower_pairs(plain: Sequence[Hashable], drafted: Sequence[Hashable], miss: float) -> float:
    """Lower bound of the total variation between the laws of two samples, too large with probability `miss`.

    The samples are beginnings of texts, as many of both.
    """
    without, found = Counter(plain[::2]), Counter(drafted[::2])
    over = {text for text, count in found.items() if count > without[text]}
    second = len(drafted[1::2])
    if not second:
        return 0.0
    more = sum(text in over for text in drafted[1::2]) - sum(text in over for text in plain[1::2])
    return max(more / second - math.sqrt(-math.log(miss) / second), 0.0)  # Hoeffding, of 2 * second draws


def upper_pairs(plain: Sequence[Hashable], drafted: Sequence[Hashable], miss: float) -> float:
    """Upper bound of the total variation between the laws of two samples; parameters as in `lower_pairs`."""
    counts = Counter([*plain[::2], *drafted[::2]]).most_common()
    second, without, found = len(drafted[1::2]), Counter(plain[1::2]), Counter(drafted[1::2])
    if not second:
        return 1.0
    mass = np.cumsum([count for _, count in counts]) / (len(plain[::2]) + len(drafted[::2]))
    best = int(np.argmin(np.sqrt(np.arange(1, mass.size + 1) / second) - mass))
    chosen = [text for text, _ in counts[: best + 1]]
    share, other = (np.array([counts[text] for text in chosen]) / second for counts in (without, found))
    rest, other_rest = 1 - share.sum(), 1 - other.sum()
    distance = (np.abs(share - other).sum() + abs(rest - other_rest)) / 2
    radius = 2 * tv_radius(second, len(chosen) + 1, miss / 3)
    return float(min(distance + radius + rest + rate_radius(second, miss / 3), 1.0))


def _halves(batches: Sequence[Draws]) -> tuple[list[Draws], list[Draws]]:
    return [_rows(one, 0) for one in batches], [_rows(one, 1) for one in batches]


def _rows(draws: Draws, start: int) -> Draws:
    """Every other text."""
    return draws.rows(np.arange(start, len(draws.texts), 2))


def _size(batches: Sequence[Draws]) -> int:
    return sum(len(one.texts) for one in batches)


def _by_nodes(halves: Sequence[tuple[Sequence[Draws], Sequence[Draws]]], place: int) -> float:
    """By how much tokens that are too frequent after a prefix in the first halves exceed their law in the second."""
    excess = 0.0
    for first, second in halves:
        seen: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        law: dict[tuple[tuple[int, ...], int], float] = {}
        for draws in first:
            for row in np.flatnonzero(draws.decided[:, place]):
                prefix, token = draws.texts[row][:place], int(draws.tokens[row, place])
                seen[prefix][token] += 1
                law[prefix, token] = float(draws.p[row, place])
        over = {
            prefix: {token for token, count in counts.items() if count > counts.total() * law[prefix, token]}
            for prefix, counts in seen.items()
            if counts.total() >= VISITS
        }
        mass = {prefix: sum(law[prefix, token] for token in tokens) for prefix, tokens in over.items()}
        for draws in second:
            for row in np.flatnonzero(draws.decided[:, place]):
                if (prefix := draws.texts[row][:place]) in over:
                    excess += (int(draws.tokens[row, place]) in over[prefix]) - mass[prefix]
    return excess


def _by_ranks(halves: Sequence[tuple[Sequence[Draws], Sequence[Draws]]], place: int) -> float:
    """The same for ranks that are too frequent, after whatever prefix."""
    counts = [
        sum((np.bincount(_bins(draws, place), minlength=BINS) for draws in half), start=np.zeros(BINS, dtype=np.int64))
        for half in (
            [draws for first, _ in halves for draws in first],
            [draws for _, second in halves for draws in second],
        )
    ]
    over = counts[0] * BINS > counts[0].sum()
    return float(counts[1][over].sum() - counts[1].sum() * over.mean())


def _bins(draws: Draws, place: int) -> np.ndarray:
    return bins_of(draws.ranks[draws.decided[:, place], place])


def _cut(draws: Draws, length: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in draws.tokens[:, :length].tolist()]


def _beginnings(batches: Sequence[Draws], length: int) -> dict[tuple[int, ...], float]:
    """The beginnings of texts whose law is known, with their probabilities."""
    return {
        tuple(draws.tokens[row, :length].tolist()): float(draws.p[row, :length].prod())
        for draws in batches
        for row in np.flatnonzero((draws.decided | (draws.tokens == ENDED))[:, :length].all(axis=1))
    }


def _most(cells: dict[Hashable, float], shares: Counter[Hashable], draws: int, miss: float) -> float:
    """Upper bound of the total variation, from the laws of some cells and how often each was drawn."""
    ordered = sorted(cells, key=lambda cell: -cells[cell])
    mass = np.cumsum([cells[cell] for cell in ordered])
    if not ordered:
        return 1.0
    best = int(np.argmin(0.5 * np.sqrt(np.arange(1, mass.size + 1) / draws) - mass))
    chosen, rest = ordered[: best + 1], max(1.0 - float(mass[best]), 0.0)
    off = np.array([shares[cell] / draws - cells[cell] for cell in chosen])
    distance = (np.abs(off).sum() + abs(off.sum())) / 2
    return float(min(distance + tv_radius(draws, len(chosen) + 1, miss) + rest, 1.0))
