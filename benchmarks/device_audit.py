"""The rules for tensors, audited on laws that are made to be difficult.

    python -m benchmarks.device_audit [--draws 1000000] [--slow 20000] [--only sorting,truncated]
    python -m benchmarks.device_audit --device cuda --slow 1000000

The instances are those of `otspec.audit`: random and hostile laws of 3 to 1000 tokens.  What the buckets hold must not
matter, so that rule is audited twice: as it is, where tokens of small vocabularies hardly ever meet in one of 4096
buckets, and with 8 in their place.  On a CPU, as it is, and in Triton's interpreter, a draw takes milliseconds: those
audits have --slow draws.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import torch
import typer
from torch import Tensor

import otspec
from otspec.decode.pair.loading import device_of
from otspec.errors import ProblemError
from otspec.extras import installed
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable
from otspec.verification.device import RowVerification, verify_logits, verify_rows, verify_truncated

DRAFTS = 3
COARSE = 3
"""Leading bits that leave 8 buckets for p/q below 1."""
BIASED = otspec.AuditVerdict.NOT_LOSSLESS
FINE = 1e-9
"""Resolution that no number of draws reaches."""
Rows = Callable[[Tensor, Tensor, Tensor, Tensor], RowVerification]
"""Laws, drafts and uniforms in, all on one device."""


class Entry(NamedTuple):
    """A rule, and what it is audited with."""

    rows: Rows
    bits: int | None = None
    """Leading bits of p/q that name a bucket, where they are not as shipped."""
    slow: bool = False


def by(name: str) -> Rows:
    """Rows of probabilities by one of the rules."""
    return lambda p, q, drafts, uniforms: verify_rows(p, q, drafts, uniforms, by=name)


def logits(p: Tensor, q: Tensor, drafts: Tensor, uniforms: Tensor) -> RowVerification:
    """The same laws as logits, of half their size at temperature 1/2."""
    return verify_logits(0.5 * p.log(), 0.5 * q.log(), drafts, uniforms, temperature=0.5, by="buckets")


def truncated(p: Tensor, q: Tensor, drafts: Tensor, uniforms: Tensor) -> RowVerification:
    """The draft law as a list of tokens, the likeliest first; those of q = 0 are padding."""
    kept = q.sort(dim=1, descending=True)
    return verify_truncated(p, kept.indices, kept.values, drafts, uniforms)


ENTRIES = {
    "sorting": Entry(by("sorting")),
    "truncated": Entry(truncated),
    "coarse-buckets": Entry(by("buckets"), bits=COARSE),
    "coarse-logits": Entry(logits, bits=COARSE),
    "buckets": Entry(by("buckets"), slow=True),
    "coarse-triton": Entry(by("triton"), bits=COARSE, slow=True),
    "triton": Entry(by("triton"), slow=True),
}


def main(
    draws: Annotated[int, typer.Option(help="Draws from each rule, at most.")] = 1_000_000,
    slow: Annotated[int, typer.Option(help="Draws from those that take milliseconds.")] = 20_000,
    only: Annotated[str, typer.Option(help="Some of the rules, with commas between them.")] = "",
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = 1,
    device: Annotated[str, typer.Option(help="Where the rules run; on a CPU Triton is interpreted.")] = "cpu",
) -> None:
    """Audit every rule for tensors."""
    torch.set_num_threads(threads)
    place = device_of(device)
    if place.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    table = audited(asked(only), draws, slow, place)
    console.print(table.on_screen(console.width))


def audited(names: Sequence[str], draws: int, slow: int, device: torch.device) -> TextTable:
    """A line for each rule."""
    rows = []
    for name in names:
        entry = ENTRIES[name]
        if name.endswith("triton") and not installed("triton"):
            continue
        started = time.process_time()
        audit = audit_of(entry, slow if entry.slow else draws, device)
        bound = max(one.tv_interval[1] for one in audit.instances)
        seconds = time.process_time() - started
        figures = (bound, audit.mean("membership"), audit.mean("optimum"))
        rows.append(
            (
                name,
                "biased" if audit.verdict is BIASED else "no evidence of bias",
                f"{audit.outcome.draws:,}",
                *map("{:.4f}".format, figures),
                f"{seconds:.0f}",
            )
        )
    header = ("rule", "found", "draws", "TV at most", "acceptance", "alpha*", "CPU s")
    note = (
        f"n = {DRAFTS}. Total variation to p, the worst of all instances, with confidence 0.99, in groups of tokens "
        "where V > 32; acceptance: the output is a draft, mean over the instances."
    )
    return TextTable("Rules for tensors, audited", header, rows, note)


def audit_of(entry: Entry, draws: int, device: torch.device, instances: Sequence[tuple[Any, Any]] | None = None) -> Any:
    """Audit one rule on a device with so many draws; it ends earlier only if it finds a bias."""

    def rule(p: Tensor, q: Tensor, drafts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        uniforms = torch.rand((len(drafts), drafts.shape[1] + 1, 3), dtype=torch.float64, generator=generator)
        found = entry.rows(*(tensor.to(device) for tensor in (p, q, drafts, uniforms)))
        return found.tokens.cpu(), found.accepted.cpu()

    with _bits(entry.bits):
        return otspec.audit(rule, n=DRAFTS, instances=instances, budget=draws, resolution=FINE)


@contextmanager
def _bits(bits: int | None) -> Iterator[None]:
    if bits is None:
        yield
        return
    with patch("otspec.verification.rules.buckets.buckets.BITS", bits):
        yield


def asked(only: str) -> list[str]:
    """The rules that are named, or all."""
    names = [name.strip() for name in only.split(",")] if only else list(ENTRIES)
    if unknown := [name for name in names if name not in ENTRIES]:
        raise ProblemError(f"no rule {unknown[0]!r}; known: {', '.join(ENTRIES)}")
    return names


if __name__ == "__main__":
    typer.run(main)
