"""Layers of Llamas over few rows, and softmax, by Triton's kernels, interpreted on the CPU: what torch gives."""

import os
from typing import Any

import pytest
import torch

from otspec.decode.models.passes.few_rows import FewRows
from otspec.decode.models.passes.fused import Llama
from otspec.decode.models.passes.signature import Conditioning, Inputs
from otspec.decode.models.passes.static import StaticReader
from tests.decode.families import made
from tests.each import each

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")

SIZES = {"hidden_size": 48, "intermediate_size": 96, "head_dim": 32, "max_position_embeddings": 512}


def _model(name: str, **settings: Any) -> Any:
    """With biases that are not 0, and norms that are not 1."""
    return made(name, 64, noise=0.3, **{**SIZES, **settings}).float()


def _read(model: Any, batch: int, rows: int, shifts: torch.Tensor | None) -> tuple[list[torch.Tensor], StaticReader]:
    """A prompt, a tree with gaps, and a token after it; what the last two passes give, by a reader of a workspace."""
    reader = StaticReader(model, (1, 2))
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(64, (batch, 80), generator=generator)
    everywhere = torch.arange(80).expand(batch, -1)
    reader.read(Inputs(tokens, everywhere, present=torch.ones(batch, 80, dtype=torch.bool)))
    least = torch.finfo(model.dtype).min
    sees = torch.rand(batch, 1, rows, 80 + rows, generator=generator) < 0.7
    sees[..., 80:] &= torch.ones(rows, rows, dtype=torch.bool).tril()
    sees[..., range(rows), range(80, 80 + rows)] = True
    mask = torch.zeros(sees.shape, dtype=model.dtype).masked_fill(~sees, least)
    shown = Conditioning(shifts=shifts)
    tree = reader.read(Inputs(tokens[:, :rows], everywhere[:, :rows] + 7, mask, 80, rows, shown))
    after = reader.read(Inputs(tokens[:, :1], everywhere[:, :1] + 99, None, 80 + rows, 1, shown))
    both = zip(*((one.logits, one.states) for one in (tree, after)), strict=True)
    return [torch.cat(parts, dim=1) for parts in both], reader


SHIFTS = torch.randn(2, 2, 1, 96, generator=torch.Generator().manual_seed(2))
"""Of 2 layers and 2 texts."""


@pytest.mark.parametrize(
    ("name", "batch", "rows", "shifts"), [("llama", 2, 3, SHIFTS), ("qwen2", 1, 7, None), ("qwen3", 3, 5, None)]
)  # neither biases nor norms of heads, biases, norms of heads
@pytest.mark.usefixtures("no_gradients")
def test_it_is_as_exact_as_the_pass_by_torch(
    name: str, batch: int, rows: int, shifts: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model(name)
    exact, reader = _read(model, batch, rows, shifts)
    assert reader._few is None
    model.half()
    shifts = None if shifts is None else shifts.half()
    found, reader = _read(model, batch, rows, shifts)
    assert reader._few is not None
    monkeypatch.setattr(FewRows, "of", lambda llama: None)
    torchs, _ = _read(model, batch, rows, shifts)
    for own, others, right in zip(found, torchs, exact, strict=True):
        off, as_far = (float((one.float() - right).std()) for one in (own, others))
        assert off < 1.5 * as_far < 0.02 * float(right.std())
    if shifts is not None:
        plain = _read(model, batch, rows, None)[0][0]
        assert float((plain.float() - exact[0]).std()) > 0.1 * float(exact[0].std())


@pytest.mark.usefixtures("no_gradients")
def test_others_are_read_by_torch() -> None:
    """Sizes that no kernel takes, and more rows than are few."""
    assert FewRows.of(Llama(_model("llama", intermediate_size=72).half())) is None
    assert FewRows.of(Llama(_model("llama"))) is None
    few = FewRows.of(Llama(_model("llama").bfloat16()))
    assert few is not None
    assert few.takes(2, 32, 4096)
    assert not few.takes(5, 16, 256)
    assert not few.takes(1, 1, 8192)


# --- laws


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("vocab", [1, 1024, 2500])
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


def test_draws_are_those_that_uniform_numbers_reach() -> None:
    """As by running sums and a search, on laws with tails, zeros in a row, and none."""
    from otspec.decode.base import law_kernels

    generator = torch.Generator().manual_seed(0)
    laws = torch.rand(8, 2500, dtype=torch.float64, generator=generator) ** 20
    laws[1, :2000] = 0.0
    laws[2, 1:] = 1e-300
    laws[3] = 0.0
    laws[3, 2499] = 1.0
    laws[4] = torch.nan
    laws[5] = 0.0
    uniforms = torch.rand(8, 40, dtype=torch.float64, generator=generator)
    uniforms[:, 0], uniforms[:, 1] = 0.0, 1 - 2.0**-53
    found = law_kernels.draw(laws, uniforms)
    reached = laws.cumsum(dim=-1)
    wanted = torch.searchsorted(reached, uniforms * reached[:, -1:], right=True)
    good = [0, 1, 2, 3, 6, 7]
    assert (laws.gather(1, found)[good] > 0).all()
    assert torch.equal(found[good, 2:], wanted[good, 2:])
    assert torch.equal(found[good, 0], (laws[good] > 0).int().argmax(dim=-1))
    assert not found[4:6].any()


@pytest.mark.parametrize("vocab", [5, 2500])
def test_the_likeliest_are_those_of_a_stable_sort(vocab: int) -> None:
    """Of ties the lowest first; none of those that have no probability."""
    from otspec.decode.base import law_kernels
    from otspec.decode.base.draft_laws import _likeliest

    laws = torch.randint(4, (9, vocab), generator=torch.Generator().manual_seed(vocab)).double() ** 30
    laws[0] = 0.0
    laws[1] = torch.arange(vocab)
    laws[2] = 1.0
    laws[3, 1:] = 0.0
    for n in range(1, 6):
        assert torch.equal(law_kernels.likeliest(laws, n), _likeliest(laws, n))


@each(batch=(1, 3), columns=(256, 2048), alike=(True, False))
def test_masks_show_a_text_and_what_is_seen_on_trial(batch: int, columns: int, alike: bool) -> None:
    from otspec.decode.models.passes.mask_kernels import mask_of

    generator = torch.Generator().manual_seed(1)
    length = torch.tensor([7, 40, 200])[-batch:]
    rows, stop, dtype = 5, 9, torch.bfloat16
    sees = torch.rand(1 if alike else batch, rows, stop, generator=generator) < 0.5
    for seen in (sees, None):
        found = mask_of(length, length.max()[None], seen, rows, stop, columns, dtype)
        wanted = torch.zeros(batch, rows, columns, dtype=torch.bool)
        end = int(length.max())
        wanted[..., end : end + stop] = True if seen is None else seen
        wanted |= torch.arange(columns) < length[:, None, None]
        assert found.dtype == dtype
        assert torch.equal(found[:, 0] == 0, wanted)
        assert (found[:, 0][~wanted] == torch.finfo(dtype).min).all()
