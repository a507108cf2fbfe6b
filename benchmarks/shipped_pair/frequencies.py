"""Count the tokens of the shipped pair's training text: what `otspec decode --drafter fr` keeps the most frequent of.

    python -m benchmarks.shipped_pair.frequencies

Takes the standard library of the running Python, as training does; says so where that is another text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.shipped_pair.corpus import read_corpus
from otspec.decode.shipped import FOLDER, FREQUENCIES, TRAINING, load
from otspec.laws import IntArray


def main(
    out: Annotated[Path, typer.Option(help="The .npz file to write.")] = FOLDER / FREQUENCIES,
    folder: Annotated[Path, typer.Option(help="Where the pair is, whose tokenizer counts.")] = FOLDER,
    corpus: Annotated[
        Path | None, typer.Option(help="Folder of Python files; the standard library by default.")
    ] = None,
) -> None:
    """Write how often each token occurs in the text that the pair was trained on, held-out files left out."""
    from benchmarks.shipped_pair.recipe import tokens_of

    tokenizer = load(folder=folder).tokenizer
    files = [tokens_of(tokenizer, source.text) for source in read_corpus(corpus) if not source.held_out]
    counts = save(out, files, len(tokenizer))
    trained = json.loads((folder / TRAINING).read_text())["corpus"]["trained"]["tokens"]
    same = "as in training" if counts.sum() == trained else f"not the {trained} of training: this is another text"
    typer.echo(f"{out}: {counts.sum()} tokens, {same}; {np.count_nonzero(counts)} of {len(counts)} occur")


def save(out: Path, files: Iterable[Sequence[int]], vocab: int) -> IntArray:
    """Count the tokens of files and write the counts, which come back, shape (V,)."""
    counts: IntArray = sum((np.bincount(tokens, minlength=vocab) for tokens in files), np.zeros(vocab, dtype=np.int64))
    np.savez_compressed(out, counts=counts.astype(np.uint32))
    return counts


if __name__ == "__main__":
    typer.run(main)
