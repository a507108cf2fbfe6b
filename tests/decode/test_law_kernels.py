"""The softmax of few rows by Triton, interpreted on the CPU: that of torch, whatever the logits are."""

import os

import pytest
import torch

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("vocab", [1, 1000, 1024, 2500])
def test_laws_are_those_of_torch(vocab: int) -> None:
    from otspec.decode.base import law_kernels

    logits = 20 * torch.randn(9, vocab, generator=torch.Generator().manual_seed(vocab))
    logits[1] -= 1e4
    logits[2] = -torch.inf
    logits[3, 0] = torch.nan
    logits[4, -1] = torch.inf
    logits[5, : vocab // 2] = -torch.inf
    logits[6, :-1] = -torch.inf
    logits[7] = 0.0
    wanted = logits.softmax(dim=-1, dtype=torch.float64)
    found = law_kernels.softmax(logits)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-300, equal_nan=True)
    assert torch.equal(found == 0, wanted == 0)
    assert torch.equal(law_kernels.softmax(logits[:1].double()), found[:1])
