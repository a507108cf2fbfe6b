"""Count where the mass of the shipped foreign drafter's tokens goes: the kernel of `otspec.decode.shipped.foreign`.

    python -m benchmarks.shipped_pair.foreign_affinity

Over the text that the pair was trained on, from the standard library of the running Python; `aligned_counts` says how.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.shipped_pair.corpus import read_corpus
from otspec.decode.shipped import AFFINITY, FOLDER, FOREIGN


def main(
    folder: Annotated[Path, typer.Option(help="Where the pair is, and the foreign drafter.")] = FOLDER,
    out: Annotated[Path | None, typer.Option(help="The file to write.", show_default="that of the drafter")] = None,
    nearest: Annotated[int, typer.Option(min=1, help="Largest entries of a row to keep.")] = 32,
    corpus: Annotated[
        Path | None, typer.Option(help="Folder of Python files; the standard library by default.")
    ] = None,
) -> None:
    """Write the counts, held-out files left out."""
    from transformers import AutoTokenizer

    from otspec.decode.models.tokens.alignment import aligned_counts
    from otspec.decode.models.tokens.matching import matching_of

    tokenizers = [AutoTokenizer.from_pretrained(folder / name, local_files_only=True) for name in ("target", FOREIGN)]
    matching = matching_of(*tokenizers)
    assert matching is not None
    texts = [source.text for source in read_corpus(corpus) if not source.held_out]
    estimate = aligned_counts(matching, texts, {"source": "the text that the shipped pair was trained on"})
    place = folder / FOREIGN / AFFINITY if out is None else out
    estimate.nearest(nearest).save(place)
    typer.echo(
        f"{place}: {place.stat().st_size} bytes, from {estimate.about['aligned']} of {estimate.about['seen']} tokens; "
        f"{matching.tokens.size} tokens in common, {matching.share:.3f} of the target's"
    )


if __name__ == "__main__":
    typer.run(main)
