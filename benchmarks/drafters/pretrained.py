"""Draft models that have only seen text, as those that the paper begins with: next-token loss, no target anywhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.shipped_pair.recipe import Files, Recipe, Shape, new_model, train_on_text
from otspec.decode.training.folder import RECORD


def pretrain(
    out: Path, shape: Shape, tokenizer: PreTrainedTokenizerFast, files: Files, recipe: Recipe, device: torch.device
) -> dict[str, Any]:
    """Train a draft model on text, by the recipe of the shipped pair; the folder is whole or not there.

    Parameters
    ----------
    out : Path
    shape : Shape
    tokenizer : PreTrainedTokenizerFast
    files : sequence of sequences of int, or of arrays
        The tokens of each text.
    recipe : Recipe
    device : torch.device
    """
    started = time.perf_counter()
    model = new_draft(shape, tokenizer, recipe, device)
    losses = train_on_text(model, files, recipe, tokenizer.bos_token_id, device)
    record = {
        "kind": "pretrained",
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "tokens": sum(map(len, files)),
        "steps": recipe.steps,
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


def new_draft(
    shape: Shape, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, device: torch.device
) -> LlamaForCausalLM:
    """A Llama that has seen nothing, by the recipe's seed; torch's own random state stays as it is."""
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        return new_model(shape, tokenizer, recipe.context).to(device)
