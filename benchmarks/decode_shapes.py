"""What verification takes of a decoding step at the shape of real models, with random weights.

    python -m benchmarks.decode_shapes                      # Llama shapes of 8B and 1B, bfloat16, on a GPU
    python -m benchmarks.decode_shapes --target tiny --draft tiny --vocab 2000 --device cpu --dtype float32

Times do not depend on what weights hold, but what is verified does.  So both models are made to say the same sort of
thing: embeddings and output layers share some coordinates, and the layers in between compute at full size and add
nothing.  Next-token laws are then softmaxes of normal logits of standard deviation SCALE that correlate by
CORRELATION between the models, which accepts roughly as many drafts as real pairs do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.reporting import Record, finish
from otspec.decode.methods.catalogue import CHAIN, Decode, decoder, rule, warm_up
from otspec.decode.models.loading import DTYPES, Models, device_of
from otspec.errors import ProblemError
from otspec.reporting.tables import TextTable

SCALE, CORRELATION = 4.0, 0.97
SHARED = 32
"""Coordinates that target and draft have in common."""


class Shape(NamedTuple):
    """Width, inner width, layers, heads, heads of keys and values."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int

    def config(self, vocab: int) -> LlamaConfig:
        """Of a Llama of that shape."""
        no_specials = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
        return LlamaConfig(vocab_size=vocab, max_position_embeddings=8192, **self._asdict(), **no_specials)


SHAPES = {
    "8b": Shape(4096, 14336, 32, 32, 8),
    "1b": Shape(2048, 8192, 16, 32, 8),
    "tiny": Shape(64, 128, 2, 4, 2),
}


def random_pair(target: str, draft: str, vocab: int, device: torch.device, dtype: torch.dtype) -> Models:
    """Two models of these shapes.

    Raises
    ------
    ProblemError
        If they do not fit into the memory that is free.
    """
    configs = [SHAPES[name].config(vocab) for name in (target, draft)]
    needed, free = sum(parameters(config) for config in configs) * dtype.itemsize, free_bytes(device)
    if needed * 1.2 > free:  # caches and activations come on top
        raise ProblemError(
            f"{target} and {draft} take {needed / 1e9:.1f} GB in {str(dtype).removeprefix('torch.')}, and {device} has "
            f"{free / 1e9:.1f} GB free; choose smaller shapes ({', '.join(SHAPES)}) or another --device"
        )
    models = [_random_model(config, seed, device, dtype) for seed, config in enumerate(configs, start=1)]
    return Models(models[0], None, models[1])


def parameters(config: LlamaConfig) -> int:
    """Number of weights of a model that is not made."""
    with torch.device("meta"):
        return int(LlamaForCausalLM(config).num_parameters())


def free_bytes(device: torch.device) -> float:
    """Memory that is free on a device; unlimited where the system does not say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    for line in meminfo.read_text().splitlines() if meminfo.exists() else ():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return float("inf")


@torch.no_grad()
def _random_model(config: LlamaConfig, seed: int, device: torch.device, dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            torch.manual_seed(seed)
            model = LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    own = config.hidden_size - SHARED
    shared = torch.Generator(device).manual_seed(0)
    for weights, spread in (
        (model.model.embed_tokens.weight, (1.0, 1.0)),
        (model.lm_head.weight, ((CORRELATION / SHARED) ** 0.5 * SCALE, ((1 - CORRELATION) / own) ** 0.5 * SCALE)),
    ):
        weights[:, :SHARED].normal_(std=spread[0], generator=shared)
        weights[:, SHARED:].normal_(std=spread[1])
    return model


class Load(NamedTuple):
    """What is asked of every rule."""

    batches: list[int]
    top_ks: list[int | None]
    rules: list[str]
    paths: int = 4
    depth: int = 8
    prompt: int = 64
    new: int = 128


def measure(models: Models, load: Load) -> Iterator[Record]:
    """A record for every batch size, truncation and rule; vanilla decoding is the rule of that name."""
    vocab = models.target.config.vocab_size
    for batch in load.batches:
        drawn = torch.randint(vocab, (batch, load.prompt), generator=torch.Generator().manual_seed(0))
        inputs = {"input_ids": drawn.to(models.target.device)}
        for top_k in load.top_ks:
            for name in load.rules:
                decode = _decoder(models, name, load)
                sampling = {"temperature": 1.0, "top_k": top_k, "seed": 0}
                warm_up(decode, inputs, sampling)
                metrics = decode(**inputs, **sampling, max_new_tokens=load.new).metrics
                yield {
                    "batch": batch,
                    "top_k": top_k,
                    "rule": name,
                    "paths": load.paths,
                    "depth": load.depth,
                    "block_efficiency": metrics.block_efficiency,
                    "verification_share": metrics.seconds["verification"] / metrics.wall,
                    **metrics.record(),
                }


def _decoder(models: Models, name: str, load: Load) -> Decode:
    if name == "vanilla":
        return decoder(name, models, {})
    settings = {"paths": load.paths, "depth": load.depth, "solver": rule(name, CHAIN)}
    return decoder("multi-draft", models, settings)


def table(records: list[Record], title: str) -> TextTable:
    """Milliseconds of a step by phase."""
    header = ("batch", "top-k", "rule", "block eff.", "accepted 1", "draft", "target", "verify", "rest", "verify share")
    rows: list[tuple[str, ...]] = [
        (
            str(one["batch"]),
            str(one["top_k"] or "none"),
            one["rule"],
            f"{one['block_efficiency']:.2f}",
            f"{one['accepted'][0] / one['offered'][0]:.2f}" if one["offered"] else "-",
            *(f"{1e3 * spent / one['target_calls']:.1f}" for spent in one["seconds"].values()),
            f"{one['verification_share']:.1%}",
        )
        for one in records
    ]
    note = (
        "Milliseconds per step of the whole batch, prompts included; accepted 1: share of steps that accept a draft. "
        "Weights are random, so block efficiency says nothing about real models."
    )
    return TextTable(title, header, rows, note, labels=3)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=SHAPES, default="8b")
    parser.add_argument("--draft", choices=SHAPES, default="1b")
    parser.add_argument("--vocab", type=int, default=128_256)
    parser.add_argument("--device", default="cuda", help="cpu is for small shapes")
    parser.add_argument("--dtype", choices=DTYPES[1:], default="bfloat16")
    parser.add_argument("--batch", default="1,8", help="a list")
    parser.add_argument("--top-k", default="100,none", help="a list of numbers or none")
    parser.add_argument("--rules", default="vanilla,nested,interval", help="as for otspec bench decode, and vanilla")
    parser.add_argument("--paths", type=int, default=4)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--new", type=int, default=128, help="new tokens of every text")
    parser.add_argument("--out", type=Path, default=Path("report_shapes"), help="folder for the results")
    given = parser.parse_args()
    load = Load(
        [int(size) for size in given.batch.split(",")],
        [None if k == "none" else int(k) for k in given.top_k.split(",")],
        given.rules.split(","),
        given.paths,
        given.depth,
        new=given.new,
    )
    try:
        device = device_of(given.device)
        models = random_pair(given.target, given.draft, given.vocab, device, getattr(torch, given.dtype))
    except ProblemError as error:
        raise SystemExit(f"error: {error}") from error
    given.out.mkdir(parents=True, exist_ok=True)
    records = list(measure(models, load))
    shapes = f"{given.target} and {given.draft}, V = {given.vocab}, {given.dtype}, K = {load.paths}, L = {load.depth}"
    title = f"{shapes}: {torch.cuda.get_device_name(device) if device.type == 'cuda' else 'CPU'}"
    finish(given.out, records, [table(records, title)], [])


if __name__ == "__main__":
    main()
