"""How many drafted tokens each way of verifying accepts, on the same laws and the same drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import sqrt

import torch

from benchmarks.gpu.work import Shape, works
from benchmarks.reporting import Record
from otspec.reporting.tables import TextTable

HEADER = ("what", "by", "rows", "accepted", "standard error")


@dataclass
class _Sum:
    """Counts of one way, added up where they are."""

    counts: list[torch.Tensor] = field(default_factory=list)
    """One for each round, shape (rows,)."""
    error: str = ""


def accepted(
    shape: Shape, device: torch.device, rounds: int, asked: Callable[[str], bool] = lambda name: True
) -> list[Record]:
    """A record for every way of verifying several tokens: mean and standard error, or why there are none.

    Parameters
    ----------
    shape : Shape
        Its largest batch is that of a round.
    device : torch.device
    rounds : int
        Laws and drafts are drawn anew in each.
    asked : callable
        Whether a name, of what is verified and by what, is asked for.
    """
    sums: dict[tuple[str, str], _Sum] = {}
    for seed in range(1, rounds + 1):
        for work in works(shape, max(shape.batches), device, seed):
            if work.accepted is None or not asked(f"{work.what} {work.by}"):
                continue
            found = sums.setdefault((work.what, work.by), _Sum())
            if found.error:
                continue
            try:
                found.counts.append(work.accepted(work.call()).double())
            except Exception as error:  # the others are worth a try
                found.error = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return [{"what": what, "by": by, **_record(found)} for (what, by), found in sums.items()]


def _record(found: _Sum) -> Record:
    if found.error:
        return {"error": found.error}
    counts = torch.cat(found.counts)
    return {
        "rows": len(counts),
        "accepted": counts.mean().item(),
        "standard_error": counts.std(correction=0).item() / sqrt(len(counts)),
    }


def table(records: Iterable[Record]) -> TextTable:
    """A line for each way of verifying."""
    rows: list[tuple[str, ...]] = []
    for one in records:
        labels = (one["what"], one["by"])
        if "error" in one:
            rows.append((*labels, one["error"], "-", "-"))
        else:
            rows.append((*labels, f"{one['rows']:,}", f"{one['accepted']:.3f}", f"{one['standard_error']:.3f}"))
    note = (
        "Drafted tokens that a row accepts on the mean; one more comes after them. Target logits are 4 times normal "
        "noise, those of the draft model have normal noise on top, at every place others. Chains and trees are "
        "drawn from the draft model."
    )
    return TextTable("Accepted", HEADER, rows, note, labels=2)
