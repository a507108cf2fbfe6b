"""Draft models that have only seen text, as those that the paper begins with: next-token loss, no target anywhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from benchmarks.shipped_pair.corpus import read_corpus
from benchmarks.shipped_pair.recipe import Recipe, Shape, new_model, tokens_of, train_on_text
from otspec.decode.training.folder import RECORD


def pretrain(
    out: Path, shape: Shape, tokenizer: PreTrainedTokenizerFast, corpus: Path | None, steps: int, device: torch.device
) -> dict[str, Any]:
    """Train a draft model on the text of the shipped pair, by its recipe; the folder is whole or not there.

    Parameters
    ----------
    out : Path
    shape : Shape
    tokenizer : PreTrainedTokenizerFast
    corpus : Path, optional
        A folder of Python files; by default the standard library.
    steps : int
    device : torch.device
    """
    files = [tokens_of(tokenizer, source.text) for source in read_corpus(corpus) if not source.held_out]
    recipe = Recipe(steps=steps, polish=0, own=0)
    started = time.perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        model = new_model(shape, tokenizer, recipe.context).to(device)
    losses = train_on_text(model, files, recipe, tokenizer.bos_token_id, device)
    record = {
        "kind": "pretrained",
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "tokens": sum(map(len, files)),
        "steps": steps,
        "batch": recipe.batch,
        "loss": sum(losses[-100:]) / len(losses[-100:]),
        "seconds": round(time.perf_counter() - started, 1),
    }
    part = out.with_name(out.name + ".part")
    model.eval().save_pretrained(part)
    tokenizer.save_pretrained(part)
    (part / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    part.rename(out)
    return record
