"""Tiny random models, in float64 so that two ways to compute a logit can be told apart from two logits."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM


@cache
def tiny(
    vocab: int = 8,
    seed: int = 0,
    layers: int = 2,
    positions: int = 64,
    dtype: torch.dtype = torch.float64,
    attention: str = "sdpa",
    scale: float = 0.6,
) -> Any:
    """A random Llama model whose laws are far from uniform and depend on the text."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=scale,
        attn_implementation=attention,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).to(dtype).eval()
