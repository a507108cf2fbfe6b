"""The models that come with the package, made anew from the standard library of the running Python.

    python -m benchmarks.shipped_pair pair report/shipped        # target, draft, tokenizer, frequencies of tokens
    python -m benchmarks.shipped_pair router report/shipped      # of shortlists; --eagle has that of the EAGLE layer
    python -m benchmarks.shipped_pair foreign report/shipped/foreign

A folder is laid out as otspec/decode/shipped: copy it there to ship it.  `benchmarks.drafters` trains `eagle`.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tokenizers
import torch
import transformers
import typer

from benchmarks.shipped_pair import recipe as how
from benchmarks.shipped_pair.corpus import Source, read_corpus
from otspec.decode import Budget, train_router
from otspec.decode.models.tokens.alignment import aligned_counts
from otspec.decode.models.tokens.matching import matching_of
from otspec.decode.shipped import AFFINITY, EAGLE, FREQUENCIES, HELD_OUT_ROWS, ROUTER, TRAINING, load
from otspec.decode.shipped import eagle as fed_by_target
from otspec.errors import DataError

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None, no_args_is_help=True)
Text = Annotated[Path | None, typer.Option(help="Folder of Python files; the standard library by default.")]


@app.command()
def pair(
    out: Path,
    steps: int = 2000,
    polish: int = 600,
    own: int = 1000,
    vocab: int = 2048,
    layers: int = 24,
    text: Text = None,
) -> None:
    """Train target and draft, with a tokenizer of their own."""
    recipe = how.Recipe(steps, polish, own)
    shape, sources = replace(how.TARGET, layers=layers), read_corpus(text)
    tokenizer = how.train_tokenizer([source.text for source in sources if not source.held_out], vocab)
    files = seen, unseen = tokens(tokenizer, sources)
    held_out = how.windows(unseen, recipe.context, tokenizer.bos_token_id)
    sample = held_out[np.random.default_rng(0).permutation(len(held_out))[:64]]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "curve.jsonl").open("w", buffering=1) as curve:
        models = how.train(seen, sample, tokenizer, recipe, curve, shape)
    np.savez_compressed(out / HELD_OUT_ROWS, rows=sample.numpy().astype(np.uint16))
    np.savez_compressed(out / FREQUENCIES, counts=np.bincount(np.concatenate(seen), minlength=len(tokenizer)))
    figures: dict[str, Any] = {}
    for name, model, size in zip(("target", "draft"), models, (shape, how.DRAFT), strict=True):
        figures[name] = asdict(size) | save(model, tokenizer, out / name)
    saved = load(folder=out)
    for name, rows in (("sample", sample), ("held_out", held_out)):
        figures[name] = how.measure(saved.target, saved.draft, rows)
    (out / TRAINING).write_text(about(recipe, sources, files, tokenizer, figures))


@app.command()
def router(
    folder: Path,
    clusters: int = 64,
    width: int = 96,
    rows: int = 400,
    epochs: int = 6,
    text: Text = None,
    eagle: bool = False,
) -> None:
    """Train the router of a pair's shortlists, or its EAGLE-style draft model's, on so many sequences of 256 tokens."""
    target, draft, tokenizer = load(folder=folder)
    stream = how.windows(tokens(tokenizer, read_corpus(text))[0], how.CONTEXT, tokenizer.bos_token_id)
    chosen = stream[np.random.default_rng(0).permutation(len(stream))[:rows], : how.CONTEXT].tolist()
    budget = Budget(max(3 * clusters // 8, 1), falling=2, least=max(clusters // 16, 1))
    sizes: dict[str, Any] = {"clusters": clusters, "budget": budget, "width": width, "epochs": epochs}
    if eagle:
        folder, draft, sizes = folder / EAGLE, fed_by_target(folder=folder), {**sizes, "target": target}
    train_router(draft, chosen, report=lambda *point: typer.echo(point), **sizes).save(folder / ROUTER)


@app.command()
def foreign(
    out: Path, vocab: int = 1024, context: int = 320, steps: int = 900, batch: int = 13, text: Text = None
) -> None:
    """Train a drafter with a tokenizer of its own, and count where the mass of its tokens goes."""
    torch.manual_seed(0)
    recipe = how.Recipe(steps, 0, 0, 0, batch, context, rate=3e-3, warm_up=20, decay=0.5)
    sources, shipped = read_corpus(text), load()
    texts = [source.text for source in sources if not source.held_out]
    tokenizer = how.train_tokenizer(texts, vocab, context)
    files, matching = tokens(tokenizer, sources), matching_of(shipped.tokenizer, tokenizer)
    if matching is None:
        raise DataError(f"a tokenizer of {len(tokenizer)} tokens is that of the pair; pass another --vocab")
    model = how.new_model(how.DRAFT, tokenizer, context)
    embedding, weights = model.get_input_embeddings().weight, shipped.draft.state_dict()
    with torch.no_grad():  # it begins as the pair's draft model, in the tokens of both
        for name, value in model.named_parameters():
            if value is not embedding:
                value.copy_(weights[name])
        embedding[matching.own] = shipped.draft.get_input_embeddings().weight[matching.tokens]
    losses = how.train_on_text(model, files[0], recipe, tokenizer.bos_token_id, torch.device("cpu"))
    held_out = how.windows(files[1], context, tokenizer.bos_token_id)
    nats = {"trained": losses[-1], "held_out": how.measure(model, model, held_out)["target_loss"]}
    figures = {"model": asdict(how.DRAFT) | save(model, tokenizer, out), "nats": nats}
    (out / TRAINING).write_text(about(recipe, sources, files, tokenizer, figures))
    counts = aligned_counts(matching, texts, {"source": "the text that the shipped pair was trained on"})
    counts.nearest(32).save(out / AFFINITY)


def tokens(tokenizer: Any, sources: list[Source]) -> tuple[how.Files, how.Files]:
    """Of the files trained on, and of those held out."""
    seen, unseen = ([s for s in sources if s.held_out == held_out] for held_out in (False, True))
    return [how.tokens_of(tokenizer, s.text) for s in seen], [how.tokens_of(tokenizer, s.text) for s in unseen]


def save(model: Any, tokenizer: Any, folder: Path) -> dict[str, int]:
    """Write a model in float16, with its tokenizer; its size."""
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"parameters": model.num_parameters(), "bytes": (folder / "model.safetensors").stat().st_size}


def about(recipe: how.Recipe, sources: list[Source], files: Any, tokenizer: Any, figures: dict[str, Any]) -> str:
    """The record of a folder: what was trained on and held out, how, by which versions, and what came of it."""
    corpus: dict[str, Any] = {"held_out_files": [source.name for source in sources if source.held_out]}
    for held_out, name in enumerate(("trained", "held_out")):
        size = sum(len(source.text.encode()) for source in sources if source.held_out == bool(held_out))
        corpus[name] = {"files": len(files[held_out]), "bytes": size, "tokens": sum(map(len, files[held_out]))}
    whole = "".join(f"{source.name}\0{source.text}\0" for source in sources)
    corpus["sha256"] = hashlib.sha256(whole.encode()).hexdigest()
    versions = {module.__name__: module.__version__ for module in (torch, transformers, tokenizers)}
    machine = {"threads": torch.get_num_threads(), "python": platform.python_version(), **versions}
    record = {"corpus": corpus, "recipe": asdict(recipe), "vocab": len(tokenizer), **machine, **figures}
    return json.dumps(record, indent=2) + "\n"


if __name__ == "__main__":
    app()
