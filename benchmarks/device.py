"""Rows and trees of tensors against one position or tree at a time, on this machine: milliseconds for a batch.

    python -m benchmarks.device [--rows 8] [--drafts 4] [--trees 2] [--paths 4] [--depth 8] [--device cpu] [--threads 1]

"numba" is `otspec.verify` in a loop over the rows, on the host; "sorting" and "buckets" are
`otspec.verification.device.verify_rows`, "logits" is `verify_logits` by buckets, "truncated" has drafts from the 50
likeliest tokens.  On a GPU also "triton", and every call is timed with a synchronisation that the call itself does not
need.

Trees are K paths of L tokens: for every rule of `otspec.verification.device.verify_trees` the time of its twin of
`otspec.paths`, one tree after the other on the host, and its own.  Both are timed in turns.
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
from otspec.decode.base.metrics import wait_for
from otspec.paths import Block, Nested, PathVerifier, TokenWise, Tree, synthetic
from otspec.verification.device import RowVerification, verify_logits, verify_rows, verify_trees, verify_truncated
from otspec.verification.trees.shape import Shape

VOCABULARIES = (2048, 32_768, 131_072)
KEPT = 50
TWINS: dict[str, PathVerifier] = {"nested": Nested(), "block": Block(), "interval": TokenWise("interval")}
"""What verifies on the host as these rules of `verify_trees` do on the device."""


def main(
    rows: Annotated[int, typer.Option(help="Positions.")] = 8,
    drafts: Annotated[int, typer.Option(help="Drafts at each.")] = 4,
    trees: Annotated[int, typer.Option(help="Trees; 0 for none.")] = 2,
    paths: Annotated[int, typer.Option(help="Paths of a tree.")] = 4,
    depth: Annotated[int, typer.Option(help="Tokens of a path.")] = 8,
    device: Annotated[str, typer.Option(help="Where the laws are.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads of torch on the CPU.")] = 1,
) -> None:
    """Time every way to verify a batch of rows, and of trees."""
    torch.set_num_threads(threads)
    ways = ("numba", "sorting", "buckets", "logits", "truncated", *(("triton",) if device != "cpu" else ()))
    table = Table("V", *ways, title=f"{rows} rows, n = {drafts}, {device}, float32: milliseconds")
    for vocab in VOCABULARIES:
        calls = _calls(rows, drafts, vocab, torch.device(device))
        table.add_row(str(vocab), *(f"{1e3 * seconds(calls[way]):.2f}" for way in ways))
    Console().print(table)
    if trees:
        Console().print(_of_trees(trees, Shape.paths(paths, depth), torch.device(device)))


def _of_trees(count: int, shape: Shape, device: torch.device) -> Table:
    """Every rule on the host and on the device."""
    title = f"{count} trees of {shape.branching[0]} paths of {shape.depth} tokens, {device}: milliseconds"
    table = Table("V", "rule", "numba", "torch", "torch / numba", title=title)
    for vocab in VOCABULARIES[:2]:
        drawn, given = _drawn(count, shape, vocab, device)
        for name, verifier in TWINS.items():
            host, here = _tree_calls(name, verifier, drawn, given, shape)
            host(), here()  # compiles
            both = [(seconds(host, 1), seconds(here, 1)) for _ in range(3)]
            numba, tensors = (1e3 * min(times) for times in zip(*both, strict=True))
            table.add_row(str(vocab), name, f"{numba:.2f}", f"{tensors:.1f}", f"{tensors / numba:.0f}")
    return table


def _drawn(count: int, shape: Shape, vocab: int, device: torch.device) -> tuple[list[Tree], list[torch.Tensor]]:
    """Trees for the host, and their laws and tokens slot by slot on the device."""
    model, rng = synthetic("mixed", vocab), np.random.default_rng(vocab)
    drawn = [model.drawn(shape.branching, rng) for _ in range(count)]
    target, draft, tokens = [], [], []
    for tree in drawn:
        node = np.zeros(shape.slots, dtype=np.int64)
        node[tree.draw] = tree.node
        target.append(tree.target[node])
        draft.append(tree.draft[node[: shape.offsets[-2]]])
        tokens.append(np.maximum(tree.token[node], 0))
    return drawn, [torch.from_numpy(np.array(part)).to(device) for part in (target, draft, tokens)]


def _tree_calls(
    name: str, verifier: PathVerifier, drawn: list[Tree], given: list[torch.Tensor], shape: Shape
) -> tuple[Callable[[], object], Callable[[], object]]:
    """The trees of a batch one by one on the host, and together on the device."""
    rng, device = np.random.default_rng(0), given[0].device
    generator = torch.Generator(device).manual_seed(0)

    def host() -> None:
        for tree in drawn:
            verifier.verify(tree, rng)

    def here() -> None:
        target, draft, tokens = given
        verify_trees(target, draft, tokens, shape.branching, generator, rule=name)
        wait_for(device)

    return host, here


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
