"""The rule by buckets in exact rational arithmetic: what `otspec.verification.rules.buckets.buckets` is tested against.

Step by step as docs/device.md states it.  Given the same uniforms both put out the same token, save where
rounding decides: on which side of an edge between buckets a token lies, or of a vertex.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from fractions import Fraction

from otspec.verification.one import Verification
from otspec.verification.reference.interval import Solution, Token, draw_index, law, pick

STEPS = 4096
"""Buckets for p/q in [0, 1), and in each octave above."""
LADDER = [
    *(Fraction(2) ** j for j in range(16, 0, -1)),
    *(1 + Fraction(1, 2**j) for j in range(1, 11)),
    Fraction(1),
    *(1 - Fraction(1, 2**j) for j in range(10, 0, -1)),
]


def verify(
    p: Sequence[float],
    q: Sequence[float],
    drafts: Sequence[int],
    uniforms: Sequence[Sequence[float]],
    most: int | None = None,
) -> Verification:
    """Verify i.i.d. drafts of one position.

    Parameters
    ----------
    p, q : sequence of float, length V
        Target law and draft law; they are divided by their totals.
    drafts : sequence of int, length n
        Each with q > 0.
    uniforms : sequence of shape (n + 1, 3)
        As `verify` of `interval` uses them; residual laws are drawn from in the order of tokens.
    most : int, optional
        What there are buckets for, n or more; by default n.
    """
    target, draft, n = law(p), law(q), len(drafts)
    most = n if most is None else most
    bucket = [bucket_of(a / b, most) if b else None for a, b in zip(target, draft, strict=True)]
    solution = solve(target, draft, n, most)
    rank_of = {place.id: rank for rank, place in enumerate(solution.tokens)}
    factor = {place.id: place.g / place.q for place in solution.tokens}
    picked = pick(solution, [rank_of[bucket[token]] for token in drafts], uniforms)  # type: ignore[index]
    token = drafts[picked]
    proposal = [0 if b is None else factor[b] * mass for b, mass in zip(bucket, draft, strict=True)]
    accept, where = (Fraction(number) for number in uniforms[-1][:2])
    rest = [max(a - b, Fraction(0)) for a, b in zip(target, proposal, strict=True)]
    if accept * proposal[token] < target[token] or not any(rest):
        return Verification(token, picked)
    return Verification(draw_index(rest, where), -1)


def bucket_of(ratio: Fraction, n: int) -> int:
    """The bucket of tokens with this p/q: the largest holds all from the first power of two on that is n or more."""
    octave = 0
    while ratio >= 2 ** (octave + 1) and octave < (n - 1).bit_length():
        octave += 1
    if ratio < 1:
        return int(ratio * STEPS)
    return min(int((ratio / 2**octave - 1 + octave + 1) * STEPS), ((n - 1).bit_length() + 1) * STEPS)


def solve(p: Sequence[Fraction], q: Sequence[Fraction], n: int, most: int | None = None) -> Solution:
    """The places of the buckets, their laws g, and their exchanges: one for each donor."""
    most = n if most is None else most
    masses: dict[int, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for a, b in zip(p, q, strict=True):
        if b:
            entry = masses[bucket_of(a / b, most)]
            entry[0] += a
            entry[1] += b
    places, low, run, points = [], Fraction(0), Fraction(0), [(Fraction(0), Fraction(0))]
    for number, (a, b) in sorted(masses.items()):
        places.append(Token(number, a, b, (low + b) ** n - low**n))
        low, run = low + b, run + a
        points.append((run, low**n))
    vertices = [max(range(len(points)), key=lambda j: points[j][1] - slope * points[j][0]) for slope in LADDER]
    level = LADDER.index(Fraction(1))
    exchanges: list[list[int]] = []
    ends = [0, *vertices, len(places)]
    for segment in range(len(ends) - 1):
        aim = LADDER[segment] if segment <= level else LADDER[segment - 1]
        _exchange(places, range(ends[segment], ends[segment + 1]), aim, exchanges)
    return Solution(places, [0, len(places)], exchanges)


def _exchange(places: list[Token], ranks: range, aim: Fraction, exchanges: list[list[int]]) -> None:
    """Surplus over aim * p goes to those that wait for it, who came first being served first."""
    waiting: deque[tuple[int, Fraction]] = deque()
    for rank in ranks:
        place = places[rank]
        place.g = place.measure
        excess = place.measure - aim * place.p
        if excess < 0:
            waiting.append((rank, -excess))
        if excess <= 0 or not waiting:
            continue
        number, threshold, served = len(exchanges), aim * place.p / place.q, Fraction(0)
        members = []
        while waiting and served < excess:
            recipient, wanted = waiting.popleft()
            amount = min(wanted, excess - served)
            if wanted > amount:
                waiting.appendleft((recipient, wanted - amount))
            places[recipient].contributions[number] = amount / (threshold - places[recipient].density)
            places[recipient].g += amount
            served += amount
            members.append(recipient)
        place.contributions[number] = served / (place.density - threshold)
        place.g -= served
        exchanges.append([*members, rank])
