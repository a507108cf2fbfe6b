"""Pairs of random Llamas of any shape, to time decoding where no trained models are at hand.

Times do not depend on what weights hold, but what is verified does.  So both models are made to put out similar
text: embeddings and output layers share some coordinates, and the layers in between compute at full size and add
nothing.  Next-token laws are then softmaxes of normal logits of standard deviation SCALE that correlate by
CORRELATION between the models, which accepts roughly as many drafts as real pairs do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.shipped_pair import recipe
from otspec.decode.pair.loading import Models
from otspec.errors import ProblemError

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

    @classmethod
    def of(cls, shape: recipe.Shape) -> Shape:
        """That of a model of the shipped pair."""
        return cls(shape.width, shape.inner, shape.layers, shape.heads, shape.heads)

    def config(self, vocab: int, positions: int = 8192) -> LlamaConfig:
        """Of a Llama of that shape."""
        no_specials = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
        return LlamaConfig(vocab_size=vocab, max_position_embeddings=positions, **self._asdict(), **no_specials)


SHAPES = {
    "8b": Shape(4096, 14336, 32, 32, 8),
    "1b": Shape(2048, 8192, 16, 32, 8),
    "deep": Shape.of(recipe.TARGET),
    "wide": Shape.of(recipe.DRAFT),
    "tiny": Shape(64, 128, 2, 4, 2),
}
"""Llamas of 8B and 1B, of the shipped pair, a deep narrow target and a draft model of one layer, and two for tests."""


def random_pair(
    target: str, draft: str, vocab: int, device: torch.device, dtype: torch.dtype, positions: int = 8192
) -> Models:
    """Two models of these shapes.

    Parameters
    ----------
    target, draft : str
        Keys of `SHAPES`.
    vocab, positions : int
    device : torch.device
    dtype : torch.dtype

    Raises
    ------
    ProblemError
        If they do not fit into the memory that is free.
    """
    configs = [SHAPES[name].config(vocab, positions) for name in (target, draft)]
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
    """Memory that is free on a device; unlimited where the system does not report it."""
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
