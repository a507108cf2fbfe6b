"""Laws from logits at the vocabulary of real models: they sum to one, whatever the dtype."""

import torch
from transformers import LogitsProcessorList, TopPLogitsWarper

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
