"""Train the shipped pair anew, from the standard library of the running Python.

    python -m benchmarks.shipped_pair.train --out report/shipped

The folder is laid out as the package's own: copy it over otspec/decode/shipped to ship it.

A pair whose draft model spends its time in the head, for drafters that compute a part of it:

    python -m benchmarks.shipped_pair.train --vocab 16384 --layers 8 --steps 450 --polish 100 --own 0 \
        --out report/pair-16k
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.shipped_pair.corpus import Source, read_corpus
from benchmarks.shipped_pair.frequencies import save
from otspec.decode.shipped import FREQUENCIES, HELD_OUT_ROWS, TRAINING, load
from otspec.extras import require

SAMPLE = 64
"""Sequences of the held-out text that the training curve is measured on."""


def main(
    out: Annotated[Path, typer.Option(help="Folder for the two models and what is recorded of them.")],
    steps: Annotated[
        int, typer.Option(min=1, help="Length of the run; the learning rate's schedule follows it.")
    ] = 2000,
    polish: Annotated[int, typer.Option(min=0, help="Steps of the draft alone, after these.")] = 600,
    own: Annotated[int, typer.Option(min=0, help="Steps of the draft alone on text that the target samples.")] = 1000,
    vocab: Annotated[
        int, typer.Option(min=258, max=65536, help="Tokens of the tokenizer.", show_default="those of the shipped pair")
    ] = 2048,
    layers: Annotated[int, typer.Option(min=1, help="Of the target.")] = 24,
    seed: Annotated[int, typer.Option(help="Of the weights and of the order of the text.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Sequences per step.")] = 16,
    every: Annotated[int, typer.Option(min=1, help="Steps between two points of the training curve.")] = 50,
    threads: Annotated[int, typer.Option(min=1, help="Of torch; the weights depend on it in the last bits.")] = 2,
    corpus: Annotated[
        Path | None, typer.Option(help="Folder of Python files; the standard library by default.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Written at every point of the curve; if it is there, the run goes on from it.")
    ] = None,
) -> None:
    """Train target and draft on the standard library's sources, with a tokenizer of their own."""
    torch, transformers, tokenizers = (require(name) for name in ("torch", "transformers", "tokenizers"))
    from benchmarks.shipped_pair import recipe as how

    torch.set_num_threads(threads)
    recipe = how.Recipe(steps=steps, polish=polish, own=own, seed=seed, batch=batch)
    target_shape = replace(how.TARGET, layers=layers)
    sources = read_corpus(corpus)
    seen = [source for source in sources if not source.held_out]
    tokenizer = how.train_tokenizer([source.text for source in seen], vocab)
    files = {source.name: how.tokens_of(tokenizer, source.text) for source in sources}
    held_out = how.windows(
        [files[source.name] for source in sources if source.held_out], recipe.context, tokenizer.bos_token_id
    )
    sample = held_out[np.random.default_rng(seed).permutation(len(held_out))[:SAMPLE]]

    out.mkdir(parents=True, exist_ok=True)
    with (out / "curve.jsonl").open("a" if checkpoint is not None and checkpoint.exists() else "w") as curve:

        def report(point: dict[str, float]) -> None:
            line = json.dumps({name: round(value, 4) for name, value in point.items()})
            typer.echo(line)
            curve.write(line + "\n")
            curve.flush()

        text = [files[source.name] for source in seen]
        pair = how.train(text, sample, tokenizer, recipe, report, every, checkpoint, target_shape)
    np.savez_compressed(out / HELD_OUT_ROWS, rows=sample.numpy().astype(np.uint16))
    save(out / FREQUENCIES, [files[source.name] for source in seen], len(tokenizer))
    for name, model in zip(("target", "draft"), pair, strict=True):
        model.half().save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)

    saved = load(folder=out)
    record = {
        "corpus": described(sources, files),
        "recipe": asdict(recipe),
        "threads": threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "vocab": len(tokenizer),
        "target": asdict(target_shape) | size(saved.target, out / "target"),
        "draft": asdict(how.DRAFT) | size(saved.draft, out / "draft"),
        "sample": asdict(how.measure(saved.target, saved.draft, sample)),
        "held_out": asdict(how.measure(saved.target, saved.draft, held_out)),
    }
    (out / TRAINING).write_text(json.dumps(record, indent=2) + "\n")


def described(sources: list[Source], files: dict[str, list[int]]) -> dict[str, object]:
    """What was trained on and what was held out, in numbers and by digest."""

    def count(part: list[Source]) -> dict[str, int]:
        return {
            "files": len(part),
            "bytes": sum(len(source.text.encode()) for source in part),
            "tokens": sum(len(files[source.name]) for source in part),
        }

    digest = hashlib.sha256("".join(f"{source.name}\0{source.text}\0" for source in sources).encode())
    return {
        "trained": count([source for source in sources if not source.held_out]),
        "held_out": count([source for source in sources if source.held_out]),
        "held_out_files": [source.name for source in sources if source.held_out],
        "sha256": digest.hexdigest(),
    }


def size(model: Any, folder: Path) -> dict[str, int]:
    """Of a model that was saved there."""
    return {
        "parameters": sum(value.numel() for value in model.parameters()),
        "bytes": (folder / "model.safetensors").stat().st_size,
    }


if __name__ == "__main__":
    typer.run(main)
