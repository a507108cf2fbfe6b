"""The `interval` rule step by step, in exact rational arithmetic: slow, easy to check.

The steps are those of docs/interval.md.  What other implementations are tested against: given the same uniforms
they return the same token, save that tokens of equal p/q may change places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from otspec.verification.one import Verification


@dataclass
class Token:
    """A token that can be drafted, and its place on [0, 1]."""

    id: int
    p: Fraction
    q: Fraction
    measure: Fraction
    """Probability that the largest of n uniform points falls into its place."""
    g: Fraction = Fraction(0)
    """Probability of being picked."""
    contributions: dict[int, Fraction] = field(default_factory=dict)
    """What it puts into each exchange, by the exchange's number, in the order of joining."""

    @property
    def density(self) -> Fraction:
        """Mean of n u**(n - 1) over its place."""
        return self.measure / self.q


@dataclass(frozen=True)
class Solution:
    """Who is picked how: tokens in ascending p/q, the blocks, and the members of each exchange."""

    tokens: list[Token]
    blocks: list[int]
    """Where each block starts, by rank, and the number of tokens."""
    exchanges: list[list[int]]
    """Ranks of the members of each exchange, ascending."""


def verify(
    p: Sequence[float], q: Sequence[float], drafts: Sequence[int], uniforms: Sequence[Sequence[float]]
) -> Verification:
    """Verify i.i.d. drafts of one position.

    Parameters
    ----------
    p, q : sequence of float, length V
        Target law and draft law; they are divided by their totals.
    drafts : sequence of int, length n
        Each with q > 0.
    uniforms : sequence of shape (n + 1, 3)
        Numbers in [0, 1).  Row m is for draft m: which exchange it enters, if any; what it draws there; where in its
        place the point lies.  The first two of the last row accept the picked draft, or draw from the residual law.
    """
    target, draft = law(p), law(q)
    solution = solve(target, draft, len(drafts))
    rank_of = {token.id: rank for rank, token in enumerate(solution.tokens)}
    picked = pick(solution, [rank_of[token] for token in drafts], uniforms)
    winner = solution.tokens[rank_of[drafts[picked]]]
    missing = [(token.id, token.p - token.g) for token in solution.tokens if token.p > token.g]
    missing += [(x, target[x]) for x in range(len(target)) if draft[x] == 0 and target[x] > 0]
    accept, where = (Fraction(number) for number in uniforms[-1][:2])
    if accept * winner.g < winner.p or not missing:
        return Verification(winner.id, picked)
    return Verification(missing[draw_index([mass for _, mass in missing], where)][0], -1)


def solve(p: Sequence[Fraction], q: Sequence[Fraction], n: int) -> Solution:
    """Steps 1 to 3: measures, blocks and exchanges."""
    tokens: list[Token] = []
    low = Fraction(0)
    for x in sorted((x for x in range(len(q)) if q[x] > 0), key=lambda x: (p[x] / q[x], x)):
        tokens.append(Token(x, p[x], q[x], (low + q[x]) ** n - low**n))
        low += q[x]
    blocks = _blocks(tokens)
    exchanges: list[list[int]] = []
    for first, last in pairwise(blocks):
        _exchange(tokens, first, last, exchanges)
    return Solution(tokens, blocks, exchanges)


def law(values: Sequence[float]) -> list[Fraction]:
    """Values over their total."""
    exact = [Fraction(float(value)) for value in values]
    return [value / sum(exact) for value in exact]


def _blocks(tokens: Sequence[Token]) -> list[int]:
    """Where the segments of the least concave majorant of the measures against p start, and where the last one ends."""
    found: list[tuple[int, Fraction, Fraction]] = []  # start, measure, p
    for rank, token in enumerate(tokens):
        start, measure, p = rank, token.measure, token.p
        while found and measure * found[-1][2] > found[-1][1] * p:
            start, below, p_below = found.pop()
            measure, p = measure + below, p + p_below
        found.append((start, measure, p))
    return [*(start for start, _, _ in found), len(tokens)]


def _exchange(tokens: Sequence[Token], first: int, last: int, exchanges: list[list[int]]) -> None:
    """Give the tokens of a block their g, and hold an exchange for each run of neighbouring donors."""
    block = tokens[first:last]
    target = sum((token.p for token in block), Fraction(0))
    slope = sum((token.measure for token in block), Fraction(0)) / target if target else None
    for token in block:
        token.g = token.measure if slope is None else slope * token.p
    wishes = {rank: tokens[rank].g - tokens[rank].measure for rank in range(first, last)}
    for donors in _runs_of_donors(wishes):
        number, threshold = len(exchanges), tokens[donors[0]].g / tokens[donors[0]].q
        surplus = Fraction(0)
        for rank in donors:
            token, excess = tokens[rank], -wishes[rank]
            token.contributions[number] = excess / (token.density - threshold)  # the whole place of the first donor
            surplus += excess
        members = list(donors)
        for rank in range(first, donors[0]):  # those first that have waited longest
            taken = min(max(wishes[rank], Fraction(0)), surplus)
            if taken > 0:
                tokens[rank].contributions[number] = taken / (threshold - tokens[rank].density)
                wishes[rank] -= taken
                surplus -= taken
                members.append(rank)
        exchanges.append(sorted(members))


def _runs_of_donors(wishes: dict[int, Fraction]) -> Iterator[list[int]]:
    """Runs of neighbours whose measure exceeds their g, ascending."""
    run: list[int] = []
    for rank, wish in wishes.items():
        if wish < 0:
            run.append(rank)
        elif run:
            yield run
            run = []
    if run:
        yield run


def pick(solution: Solution, ranks: Sequence[int], uniforms: Sequence[Sequence[float]]) -> int:
    """Step 4: every draft shows a point, and the largest wins."""
    lowest = solution.blocks[bisect_right(solution.blocks, max(ranks)) - 1]
    best = (-1, Fraction(-1))
    winner = -1
    for m, rank in enumerate(ranks):
        if rank < lowest:
            continue  # exchanges never leave their block
        point = (_place(solution, rank, *uniforms[m][:2]), Fraction(uniforms[m][2]))
        if point > best:
            winner, best = m, point
    return winner


def _place(solution: Solution, rank: int, enter: float, drawn: float) -> int:
    """The rank of the place that a draft of this rank has: its own, or one drawn in the exchange that it enters."""
    position = Fraction(enter) * solution.tokens[rank].q
    for number, contribution in solution.tokens[rank].contributions.items():
        if position < contribution:
            members = solution.exchanges[number]
            return members[draw_index([solution.tokens[one].contributions[number] for one in members], Fraction(drawn))]
        position -= contribution
    return rank


def draw_index(weights: Sequence[Fraction], uniform: Fraction) -> int:
    """The index drawn in proportion to the weights."""
    position = uniform * sum(weights)
    for index, weight in enumerate(weights):
        if position < weight:
            return index
        position -= weight
    raise AssertionError("a number in [0, 1) falls into one of the weights")
