"""Train the router that comes with the shipped pair, for DynaSpec, or one for another pair of the same layout.

    python -m benchmarks.shipped_pair.router
    python -m benchmarks.shipped_pair.router --folder report/pair-16k --clusters 256

Learns from the text that the pair was trained on: the standard library of the running Python, less the held-out files.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.shipped_pair.corpus import read_corpus
from otspec.decode.shipped import FOLDER, ROUTER, load
from otspec.extras import require


def main(
    folder: Annotated[Path, typer.Option(help="Where the pair is.")] = FOLDER,
    out: Annotated[Path | None, typer.Option(help="The file to write.", show_default=f"FOLDER/{ROUTER}")] = None,
    clusters: Annotated[int, typer.Option(min=1, help="Of tokens.")] = 64,
    most: Annotated[
        int | None, typer.Option(min=1, help="Clusters of a shortlist, at first.", show_default="3 of 8")
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Of the router's hidden layer.")] = 96,
    rows: Annotated[int, typer.Option(min=1, help="Sequences of 256 tokens to learn from.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="How often each is learnt from.")] = 6,
    seed: Annotated[int, typer.Option(help="Of the choice of sequences, the clusters and the router.")] = 0,
    corpus: Annotated[
        Path | None, typer.Option(help="Folder of Python files; the standard library by default.")
    ] = None,
) -> None:
    """Train a router on text that the pair was trained on."""
    torch = require("torch")
    from benchmarks.shipped_pair.recipe import CONTEXT, tokens_of, windows
    from otspec.decode import Budget, train_router

    torch.set_num_threads(1)
    started = time.perf_counter()
    _, draft, tokenizer = load(folder=folder)
    files = [tokens_of(tokenizer, source.text) for source in read_corpus(corpus) if not source.held_out]
    text = windows(files, CONTEXT, tokenizer.bos_token_id)[:, :CONTEXT]
    chosen = np.random.default_rng(seed).permutation(len(text))[:rows]

    def report(epoch: int, loss: float) -> None:
        typer.echo(f"epoch {epoch}: {loss:.3f} nats a position, {time.perf_counter() - started:.0f} s so far")

    budget = Budget(max(3 * clusters // 8, 1) if most is None else most, falling=2, least=max(clusters // 16, 1))
    router = train_router(
        draft,
        text[chosen].tolist(),
        clusters=clusters,
        budget=budget,
        width=width,
        epochs=epochs,
        seed=seed,
        report=report,
    )
    path = folder / ROUTER if out is None else out
    router.save(path)
    sizes = np.bincount(router.clusters)
    typer.echo(
        f"{path}: {path.stat().st_size / 1000:.0f} kB, {router.count} clusters of {sizes.min()} to {sizes.max()} "
        f"tokens, learnt from {router.about['positions']} positions in {time.perf_counter() - started:.0f} s"
    )


if __name__ == "__main__":
    typer.run(main)
