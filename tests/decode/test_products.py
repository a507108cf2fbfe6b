"""Products of few rows: those of torch up to rounding, on the weights as they lie, and passes made of them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM

from otspec.decode.models.passes import products
from otspec.decode.models.passes.fused import Layer, LlamaReader, lay_out
from otspec.decode.models.passes.reader import reader_of
from otspec.decode.models.passes.transformers_reader import TransformersReader
from tests.decode.models import tiny

BFLOAT16 = {"dtype": torch.bfloat16, "tolerance": 2e-2}
FLOAT32 = {"dtype": torch.float32, "tolerance": 1e-5}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any model count as a large one."""
    monkeypatch.setattr(products, "LARGE", 0)


@pytest.mark.parametrize("how", [BFLOAT16, FLOAT32], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("outputs", [1, 96, 97, 112])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 12, 13, 64, 65])
def test_a_product_is_that_of_torch(how: dict[str, Any], outputs: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    made = [torch.randn(shape, generator=generator) for shape in ((1, rows, 40), (outputs, 40), (outputs,))]
    block, weight, bias = (one.to(how["dtype"]) for one in made)
    exact = linear(block.double(), weight.double(), bias.double())
    for own, wanted in (
        (products.of_few_rows(block, weight, bias), exact),
        (products.of_few_rows(block, weight), exact - bias.double()),
    ):
        assert own.shape == (1, rows, outputs)
        assert own.dtype == how["dtype"]
        assert own.is_contiguous()
        assert (own.double() - wanted).abs().max() <= how["tolerance"] * wanted.abs().max()


def test_weights_that_lie_beside_one_another_are_one() -> None:
    layers = [torch.nn.Linear(6, size, bias=size > 3) for size in (4, 2, 5)]
    before = copy.deepcopy(layers)
    rows = torch.randn(1, 3, 6)
    apart = products.Beside.of(layers)
    assert len(apart.linears) == 3
    products.lay_beside(layers)
    beside = products.Beside.of(layers)
    ((whole, bias),) = beside.linears
    assert whole.shape == (11, 6)
    assert whole.data_ptr() == layers[0].weight.data_ptr()
    assert bias is not None
    for own, other, layer, old in zip(
        beside.times(rows, linear), apart.times(rows, linear), layers, before, strict=True
    ):
        assert torch.equal(layer.weight, old.weight)
        assert isinstance(layer.weight, torch.nn.Parameter)
        torch.testing.assert_close(own, other)
    layers[1].weight.data = layers[1].weight.clone()  # somebody moved one
    assert len(products.Beside.of(layers).linears) == 3


def _model(dtype: torch.dtype = torch.float32) -> Any:
    return copy.deepcopy(tiny(97, seed=3)).to(dtype)


def _laws(reader: Any, dtype: torch.dtype, rows: int) -> torch.Tensor:
    """Laws after each of some rows behind two prompts, shape (2, rows, V)."""
    tokens = torch.randint(97, (2, 20 + rows), generator=torch.Generator().manual_seed(0))
    position = torch.arange(20 + rows).expand(2, -1)
    unseen = torch.ones(rows, 20 + rows).triu(21).bool()
    mask = torch.zeros(1, 1, rows, 20 + rows, dtype=dtype).masked_fill_(unseen, torch.finfo(dtype).min)
    with torch.no_grad():
        reader.begin(tokens[:, :20], torch.ones(2, 20, dtype=torch.bool), position[:, :20])
        logits = reader.read(tokens[:, 20:], position[:, 20:], mask, 20, rows)
    laws: torch.Tensor = logits.double().softmax(-1)
    return laws


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("rows", [1, 4, 20])
@pytest.mark.parametrize("laid_out", [False, True])
def test_laws_in_bfloat16_are_as_near_as_those_of_transformers(rows: int, laid_out: bool) -> None:
    """Each rounds where the other does not; neither may be further from float32 by much."""
    exact, half = _model(), _model(torch.bfloat16)
    if laid_out:
        lay_out(half)
    lean = reader_of(half)
    assert isinstance(lean, LlamaReader)
    wanted = _laws(TransformersReader(exact), torch.float32, rows)
    own, theirs = (
        0.5 * (_laws(reader, torch.bfloat16, rows) - wanted).abs().sum(-1)
        for reader in (lean, TransformersReader(half))
    )
    assert own.mean() <= 1.5 * theirs.mean() + 1e-3 <= 0.05


@pytest.mark.usefixtures("large")
def test_a_model_that_was_laid_out_is_what_it_was(tmp_path: Path) -> None:
    model = _model()
    tokens = torch.arange(12)[None]
    before = model(tokens).logits
    weights = {name: one.clone() for name, one in model.state_dict().items()}
    memory = sum(one.nbytes for one in model.parameters())
    lay_out(model)
    held = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in model.parameters()}
    assert sum(held.values()) == memory
    for layer in model.model.layers:
        read = Layer.of(layer)
        assert len(read.attention.linears) == len(read.gate_and_up.linears) == 1
    torch.testing.assert_close(model(tokens).logits, before)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert all(torch.equal(one, weights[name]) for name, one in again.state_dict().items())


def test_small_models_are_multiplied_as_transformers_does_it() -> None:
    assert products.product_of(*_model().parameters()) is linear
