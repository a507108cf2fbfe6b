"""Laws from logits at the vocabulary of real models: they sum to one, whatever the dtype."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessorList, TopPLogitsWarper

import otspec
from otspec.decode.base.sampling import Sampling
from otspec.tolerances import MASS_TOL

VOCAB = 262_144
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def test_laws_sum_to_one() -> None:
    generator = torch.Generator().manual_seed(0)
    off = 0.0
    for width in (1.0, 4.0, 12.0):
        logits = width * torch.randn(3, VOCAB, generator=generator, dtype=torch.float64)
        for dtype in DTYPES:
            at = f"{dtype}, logits of width {width}"
            for processors in ([], [TopPLogitsWarper(0.9)]):
                laws = Sampling(LogitsProcessorList(processors), do_sample=True).draft_laws(logits.to(dtype))
                assert laws.dtype == torch.float64, at
                assert (laws.sum(dim=-1) - 1).abs().max() < 1e-12, at
            plain = logits.to(dtype).to(torch.promote_types(dtype, torch.float32)).softmax(dim=-1)
            off = max(off, float((plain.double().sum(dim=-1) - 1).abs().max()))
            close = Sampling(LogitsProcessorList(), do_sample=True).draft_laws(logits.to(dtype))
            assert torch.allclose(close, plain.double(), rtol=1e-3, atol=torch.finfo(torch.float32).tiny), at
        greedy = Sampling(LogitsProcessorList(), do_sample=False).draft_laws(logits)
        assert greedy.dtype == torch.float64
        assert (greedy.sum(dim=-1) == 1).all()
    assert off > MASS_TOL  # or the softmax alone would do


def _wide(dtype: Any, seed: int) -> Any:
    """A random model of one layer, whose logits have a standard deviation of 4."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=1.0,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight *= 2**0.5
    return model.to(dtype).eval()


def test_decoding_with_a_large_vocabulary() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        models = _wide(dtype, 0), _wide(dtype, 1)
        for solver in (None, "interval"):
            generation = otspec.generate(
                *models, torch.tensor([[1, 2, 3]]), paths=2, depth=2, max_new_tokens=3, seed=1, solver=solver
            )
            assert generation.metrics.tokens == 3, (dtype, solver)
