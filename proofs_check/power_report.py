"""How the power of searches is reported: a table for the screen, JSON for a program, Markdown for the docs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from otspec.proofs_check.claims import Claim, Verdict
from otspec.proofs_check.power import Challenge
from otspec.proofs_check.report import finite
from otspec.proofs_check.search import plain
from otspec.reporting.tables import TextTable, markdown_table

HOW_TO_READ = """\
A search that finds nothing is evidence only if it would have found something. So claims come with *mutations*, which
are false: a sharp constant times 0.95, a term less, another index, a step of an algorithm changed. A bound that is
attained is mutated to just below it, others to what is false by nature. Every mutation is tried by the search of its
claim, with the same draws and as many trials, and counts as refuted where an instance contradicts it by ten times the
rounding that its claim is allowed. Claims that fail need none: they are refuted themselves.

*Trials* are those until an instance refuted the mutation. *Tightness* is the largest ratio of left to right side of the
claim itself that its own search saw, where the claim measures one. Searches that move go after that ratio, since a
margin of 0 where both sides vanish means nothing. They begin from random instances and from extremes of them (point
masses, ties, few tokens, entries far out). The worst of each kind evolve, by steps of all sizes and on along the ways
that led down, and a simplex (Nelder-Mead) ends the walk where variables are few."""

HEADER = ("claim", "mutation", "refuted", "trials", "tightness")


def table(challenges: Sequence[Challenge]) -> TextTable:
    """Every mutation, with what became of it."""
    return TextTable("Mutations of claims", HEADER, _rows(challenges), "", labels=3, details=frozenset({"mutation"}))


def summary(challenges: Sequence[Challenge], claims: Iterable[Claim] = ()) -> str:
    """How many mutations were refuted, how fast, which were not, and how many claims have none."""
    if not challenges:
        return "None of these claims has a mutation: their searches were not tried."
    bare = [each.id for each in claims if not each.mutations and each.expected is not Verdict.FAILS]
    untried = f" Without a mutation, so that their searches were not tried: {', '.join(bare)}." if bare else ""
    survivors = [f"{each.claim.id} ({each.mutation.statement})" for each in challenges if not each.refuted]
    mutated = len({each.claim.id for each in challenges})
    trials = [each.trials for each in challenges if each.refuted]
    hardest = max(challenges, key=lambda each: each.trials)
    news = f"NOT REFUTED: {', '.join(survivors)}" if survivors else "all refuted"
    speed = (
        f", half within {median(trials):.0f} trials; most trials: {hardest.trials}, {hardest.claim.id}"
        if trials
        else ""
    )
    return f"{len(challenges)} mutations of {mutated} claims: {news}{speed}.{untried}"


def as_json(challenges: Sequence[Challenge], trials: int, seed: int) -> dict[str, Any]:
    """Every mutation with its worst instance in full."""
    return {"trials": trials, "seed": seed, "mutations": [_record(each) for each in challenges]}


def markdown(challenges: Sequence[Challenge], claims: Sequence[Claim], command: str) -> str:
    """The page of the docs: how it is done, and what came out."""
    failing = sum(claim.expected is Verdict.FAILS for claim in claims)
    parts = [
        "# Claims that could fail",
        f"{summary(challenges, claims)} Made by `{command}`. "
        f"{failing} more claims are expected to fail, and are refuted themselves.",
        HOW_TO_READ,
        markdown_table(HEADER, [(f"`{row[0]}`", *row[1:]) for row in _rows(challenges)], labels=3),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(challenges: Sequence[Challenge]) -> list[tuple[str, ...]]:
    return [
        (
            each.claim.id,
            each.mutation.statement,
            "yes" if each.refuted else "NO",
            str(each.trials),
            "" if each.tightest is None else f"{each.tightest:.4g}",
        )
        for each in challenges
    ]


def _record(challenge: Challenge) -> dict[str, Any]:
    return {
        "claim": challenge.claim.id,
        "mutation": challenge.mutation.statement,
        "refuted": challenge.refuted,
        "trials": challenge.trials,
        "worst": finite(challenge.worst),
        "witness": plain(challenge.witness),
        "tightness": None if challenge.tightest is None else finite(challenge.tightest),
    }
