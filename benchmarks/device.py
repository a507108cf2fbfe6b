"""Rows of tensors against one position at a time, on this machine: milliseconds for a batch.

    python -m benchmarks.device [--rows 8] [--drafts 4] [--device cpu] [--threads 1]

"numba" is `otspec.verify` in a loop over the rows, on the host; "sorting" and "buckets" are
`otspec.verification.device.verify_rows`, "logits" is `verify_logits` by buckets, "truncated" has drafts from the 50
likeliest tokens.  On a GPU also "triton", and every call is timed with a synchronisation that the call itself does not
need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

import otspec
from benchmarks.measuring import seconds
from otspec.decode.metrics import wait_for
from otspec.verification.device import RowVerification, verify_logits, verify_rows, verify_truncated

VOCABULARIES = (2048, 32_768, 131_072)
KEPT = 50


def main(
    rows: Annotated[int, typer.Option(help="Positions.")] = 8,
    drafts: Annotated[int, typer.Option(help="Drafts at each.")] = 4,
    device: Annotated[str, typer.Option(help="Where the laws are.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads of torch on the CPU.")] = 1,
) -> None:
    """Time every way to verify a batch of rows."""
    torch.set_num_threads(threads)
    ways = ("numba", "sorting", "buckets", "logits", "truncated", *(("triton",) if device != "cpu" else ()))
    table = Table("V", *ways, title=f"{rows} rows, n = {drafts}, {device}, float32: milliseconds")
    for vocab in VOCABULARIES:
        calls = _calls(rows, drafts, vocab, torch.device(device))
        table.add_row(str(vocab), *(f"{1e3 * seconds(calls[way]):.2f}" for way in ways))
    Console().print(table)


def _calls(rows: int, n: int, vocab: int, device: torch.device) -> dict[str, Callable[[], object]]:
    generator = torch.Generator().manual_seed(vocab)
    noise = torch.randn((2, rows, vocab), generator=generator)
    logits = torch.stack((4 * noise[0], 4 * noise[0] + noise[1]))
    p, q = logits.double().softmax(dim=2).float()
    drafts = torch.multinomial(q, n, replacement=True, generator=generator)
    uniforms = torch.rand((rows, n + 1, 3), dtype=torch.float64, generator=generator)
    top = q.topk(KEPT, dim=1)
    kept = top.values / top.values.sum(dim=1, keepdim=True)
    few = top.indices.gather(1, torch.multinomial(kept, n, replacement=True, generator=generator))
    rng = np.random.default_rng(0)

    def host() -> None:
        for mine in zip(p.numpy(), q.numpy(), drafts.numpy(), strict=True):
            otspec.verify(mine[0], mine[1], mine[2], rng)

    def timed(call: Callable[[], RowVerification]) -> Callable[[], object]:
        def run() -> None:
            call()
            wait_for(device)

        run()  # compiles
        return run

    here = [tensor.to(device) for tensor in (p, q, drafts, uniforms)]
    scores = [tensor.to(device) for tensor in (*logits, drafts, uniforms)]
    short = [tensor.to(device) for tensor in (p, top.indices, kept, few, uniforms)]
    host()
    calls: dict[str, Callable[[], object]] = {
        "numba": host,
        "sorting": timed(lambda: verify_rows(*here)),
        "buckets": timed(lambda: verify_rows(*here, by="buckets")),
        "logits": timed(lambda: verify_logits(*scores, by="buckets")),
        "truncated": timed(lambda: verify_truncated(*short)),
    }
    if device.type != "cpu":
        calls["triton"] = timed(lambda: verify_rows(*here, by="triton"))
    return calls


if __name__ == "__main__":
    typer.run(main)
