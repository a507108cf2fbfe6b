"""Tiny random decoders of many architectures."""

from functools import cache
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB = 24
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
FEW_KEYS = {"num_key_value_heads": 2, "head_dim": 8}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": FEW_KEYS,
    "mistral": FEW_KEYS,
    "qwen2": FEW_KEYS,
    "qwen3": FEW_KEYS,
    "gemma": FEW_KEYS,
    "gemma2": FEW_KEYS | {"final_logit_softcapping": 3.0},
    "gemma3_text": FEW_KEYS | {"final_logit_softcapping": 3.0},
    "gpt2": {},
    "phi": {},
    "phi3": {"num_key_value_heads": 2},
    "olmo": {},
    "olmo2": {"num_key_value_heads": 2},
}
"""What the configurations say besides, by the names that transformers has for the architectures."""


def made(name: str, vocab: int = VOCAB, seed: int = 0, noise: float = 0.4, **settings: Any) -> Any:
    """A decoder whose laws are far from uniform and depend on the text, in float64."""
    ends = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": None}
    shown = {**SIZES, **ends, "max_position_embeddings": 64, **FAMILIES.get(name, {}), **settings}
    config = AutoConfig.for_model(name, vocab_size=vocab, **shown)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).double().eval()
        for weights in model.parameters():
            weights += (noise if weights.ndim == 2 else noise / 2) * torch.randn_like(weights)
    return model


family = cache(made)
"""One of each for all tests."""
