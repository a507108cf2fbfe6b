"""Train the shipped drafter with a tokenizer of its own, from the text of the shipped pair.

    python -m benchmarks.shipped_pair.foreign --out report/foreign

A model of the shape of the pair's draft model, over a byte-pair vocabulary of half the size.  It begins with that
model's weights, and with its embeddings of the tokens that both have, which saves most of the training; then it learns
from the text by cross entropy, with its own tokens.  Copy the folder over otspec/decode/shipped/foreign to ship it.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.shipped_pair.corpus import read_corpus
from benchmarks.shipped_pair.train import described, size
from otspec.decode.shipped import TRAINING, load
from otspec.errors import DataError
from otspec.extras import require

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from benchmarks.shipped_pair.recipe import Recipe


def main(
    out: Annotated[Path, typer.Option(help="Folder for the model, its tokenizer and what is recorded of them.")],
    vocab: Annotated[int, typer.Option(min=258, max=65536, help="Tokens of the tokenizer.")] = 1024,
    context: Annotated[int, typer.Option(min=8, help="Tokens of a sequence, and positions of the model.")] = 320,
    steps: Annotated[int, typer.Option(min=1, help="Length of the run; the learning rate follows it.")] = 900,
    seed: Annotated[int, typer.Option(help="Of the weights and of the order of the text.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Sequences per step.")] = 13,
    every: Annotated[int, typer.Option(min=1, help="Steps between two points of the training curve.")] = 25,
    threads: Annotated[int, typer.Option(min=1, help="Of torch; the weights depend on it in the last bits.")] = 1,
    corpus: Annotated[
        Path | None, typer.Option(help="Folder of Python files; the standard library by default.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Written at every point of the curve; if it is there, the run goes on from it.")
    ] = None,
) -> None:
    """Train one model on the standard library's sources, with a tokenizer of its own."""
    torch, transformers, tokenizers = (require(name) for name in ("torch", "transformers", "tokenizers"))
    from benchmarks.shipped_pair import recipe as how

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    recipe = how.Recipe(steps, 0, 0, seed, batch, context, rate=3e-3, warm_up=20, decay=0.5)
    sources = read_corpus(corpus)
    seen = [source for source in sources if not source.held_out]
    tokenizer = how.train_tokenizer([source.text for source in seen], vocab, context)
    files = {source.name: how.tokens_of(tokenizer, source.text) for source in sources}
    unseen = [source for source in sources if source.held_out]
    held_out = how.windows([files[source.name] for source in unseen], recipe.context, tokenizer.bos_token_id)
    a_byte = sum(len(files[source.name]) for source in unseen) / sum(len(source.text.encode()) for source in unseen)

    def report(point: dict[str, float]) -> None:
        typer.echo(json.dumps({name: round(value, 4) for name, value in point.items()}))

    text = [files[source.name] for source in seen]
    begin = begun(tokenizer, context)
    model = train(begin, text, held_out[:: max(1, len(held_out) // 64)], tokenizer, recipe, report, every, checkpoint)
    out.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)
    saved = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, local_files_only=True).eval()
    nats = loss(saved, held_out)
    record = {
        "corpus": described(sources, files),
        "recipe": asdict(recipe),
        "threads": threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "vocab": len(tokenizer),
        "model": asdict(how.DRAFT) | size(saved, out),
        "held_out": {"nats_per_token": nats, "bits_per_byte": nats * a_byte / math.log(2)},
    }
    (out / TRAINING).write_text(json.dumps(record, indent=2) + "\n")


def begun(tokenizer: PreTrainedTokenizerFast, context: int) -> LlamaForCausalLM:
    """The pair's draft model for another tokenizer: random embeddings of the tokens that it has not."""
    import torch

    from benchmarks.shipped_pair.recipe import DRAFT, new_model
    from otspec.decode.models.tokens.matching import matching_of

    pair = load()
    matching = matching_of(pair.tokenizer, tokenizer)
    if matching is None:
        raise DataError(f"a tokenizer of {len(tokenizer)} tokens is that of the pair; pass another --vocab")
    model = new_model(DRAFT, tokenizer, context)
    weights = pair.draft.state_dict()
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value is not embedding:
                value.copy_(weights[name])
        embedding[matching.own] = pair.draft.get_input_embeddings().weight[matching.tokens]
    return model


def train(
    model: LlamaForCausalLM,
    files: Sequence[Sequence[int]],
    held_out: torch.Tensor,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    report: Callable[[dict[str, float]], None],
    every: int = 100,
    checkpoint: Path | None = None,
) -> LlamaForCausalLM:
    """Train a model on text alone; parameters as for that of the pair."""
    import torch
    from torch.nn.functional import cross_entropy

    from benchmarks.shipped_pair.muon import Muon
    from benchmarks.shipped_pair.recipe import Recipe, batches, logits_of

    optimiser, first = Muon(model.named_parameters()), 0
    if checkpoint is not None and checkpoint.exists():
        state: dict[str, Any] = torch.load(checkpoint)
        first = state["step"]
        if not recipe.continues(Recipe(**state["recipe"]), first):
            raise DataError(f"{checkpoint} belongs to {state['recipe']}, not to {recipe}; remove it to start anew")
        model.load_state_dict(state["model"])
        optimiser.restore(state["optimiser"])
    stream = islice(batches(files, recipe, tokenizer.bos_token_id), first, recipe.steps)
    if not first:
        report({"step": 0, "loss": loss(model, held_out)})
    losses: list[float] = []
    for step, rows in enumerate(stream, start=first):
        with torch.autocast("cpu", torch.bfloat16):
            logits = logits_of(model, rows).flatten(0, 1).float()
        now = cross_entropy(logits, rows[:, 1:].flatten())
        now.backward()
        losses.append(now.item())
        optimiser.step(recipe.rate_at(step))
        if (step + 1) % every == 0 or step + 1 == recipe.steps:
            report({"step": step + 1, "train_loss": sum(losses) / len(losses), "loss": loss(model, held_out)})
            losses = []
            if checkpoint is not None:
                state = {"recipe": asdict(recipe), "step": step + 1}
                state |= {"model": model.state_dict(), "optimiser": optimiser.state()}
                torch.save(state, checkpoint.with_suffix(".part"))
                checkpoint.with_suffix(".part").replace(checkpoint)
    return model


def loss(model: LlamaForCausalLM, rows: torch.Tensor, batch: int = 16) -> float:
    """Nats per token over rows of text, shape (rows, 1 + context)."""
    import torch
    from torch.nn.functional import cross_entropy

    from benchmarks.shipped_pair.recipe import logits_of

    total = 0.0
    with torch.no_grad():
        for part in rows.split(batch):
            total += cross_entropy(logits_of(model, part).flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
    return total / (rows.shape[0] * (rows.shape[1] - 1))


if __name__ == "__main__":
    typer.run(main)
