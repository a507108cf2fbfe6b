"""Packed weights: the products of torch up to rounding, and models that are what they were."""

import copy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import AutoConfig, AutoModelForCausalLM

from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import with_head_for, without_head
from otspec.decode.models.passes import packed
from otspec.decode.models.passes.fused import LlamaReader
from otspec.decode.models.passes.packed import PackedLinear, PackedMatrix, pack
from otspec.decode.models.passes.reader import reader_of
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.errors import ProblemError

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Of products, as shares of the largest."""
NO_BFLOAT16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN multiplies bfloat16 with AVX-512 alone"
)
DTYPES = [pytest.param(torch.float32), pytest.param(torch.bfloat16, marks=NO_BFLOAT16)]
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"num_key_value_heads": 3, "sliding_window": None},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
}


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any model count as a large one."""
    monkeypatch.setattr(packed, "LARGE", 0)


def _model(architecture: str = "llama", dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    sizes: dict[str, Any] = {"vocab_size": 97, "hidden_size": 48, "intermediate_size": 88, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 512}
    config = AutoConfig.for_model(architecture, **sizes | ARCHITECTURES.get(architecture, {}) | settings)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
        for value in model.parameters():
            value.data += 0.05 * torch.randn_like(value)
    return model.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [(False,), (True,), (False, False), (True, False, True)])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8, 17, 65])
def test_a_product_is_that_of_torch(dtype: torch.dtype, biased: tuple[bool, ...], rows: int) -> None:
    torch.manual_seed(rows)
    layers = [nn.Linear(40, 24 + 7 * at, bias=bias).to(dtype) for at, bias in enumerate(biased)]
    matrix = PackedMatrix(layers)
    own = [PackedLinear(layer, matrix, part) for part, layer in enumerate(layers)]
    block = torch.randn(1, rows, 40).to(dtype)
    with torch.no_grad():
        for order in (list(range(len(layers))), list(range(len(layers)))[::-1]):  # models ask them in their order
            for part in order:
                layer, found = layers[part], own[part](block)
                wanted = linear(
                    block.double(), layer.weight.double(), None if layer.bias is None else layer.bias.double()
                )
                assert found.shape == wanted.shape
                assert found.dtype == dtype
                if rows:
                    assert (found.double() - wanted).abs().max() <= TOLERANCES[dtype] * wanted.abs().max()
                assert torch.equal(own[part].weight, layer.weight)


def test_what_was_multiplied_for_other_rows_is_not_taken_for_these() -> None:
    layers = [nn.Linear(4, 3), nn.Linear(4, 3)]
    matrix = PackedMatrix(layers)
    first, second = (PackedLinear(layer, matrix, part) for part, layer in enumerate(layers))
    one, other = torch.randn(2, 5, 4)
    first(one)
    torch.testing.assert_close(second(other), layers[1](other))
    torch.testing.assert_close(first(other), layers[0](other))
    torch.testing.assert_close(second(other), layers[1](other))
    assert matrix._asked is None  # nothing is held once all were asked


def _laws(reader: Any, dtype: torch.dtype, rows: int) -> torch.Tensor:
    """Laws after each of some rows behind two prompts, shape (2, rows, V)."""
    tokens = torch.randint(97, (2, 20 + rows), generator=torch.Generator().manual_seed(0))
    position = torch.arange(20 + rows).expand(2, -1)
    unseen = torch.ones(rows, 20 + rows).triu(21).bool()
    mask = torch.zeros(1, 1, rows, 20 + rows, dtype=dtype).masked_fill_(unseen, torch.finfo(dtype).min)
    with torch.no_grad():
        reader.begin(tokens[:, :20], torch.ones(2, 20, dtype=torch.bool), position[:, :20])
        logits = reader.read(tokens[:, 20:], position[:, 20:], mask, 20, rows).logits
    laws: torch.Tensor = logits.double().softmax(-1)
    return laws


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("rows", [1, 4, 20])
def test_laws_of_packed_models(architecture: str, rows: int) -> None:
    """In float32 to rounding; in bfloat16 no further from float32's than transformers' own pass is."""
    exact, half, both = _model(architecture), _model(architecture, torch.bfloat16), []
    wanted = _laws(TransformersReader(exact), torch.float32, rows)
    theirs = 0.5 * (_laws(TransformersReader(half), torch.bfloat16, rows) - wanted).abs().sum(-1)
    for model in (exact, half):
        pack(model)
        reader = reader_of(model)
        assert isinstance(reader, LlamaReader)
        both.append(0.5 * (_laws(reader, model.dtype, rows) - wanted).abs().sum(-1))
    assert both[0].max() <= 1e-5
    assert both[1].mean() <= 1.5 * theirs.mean() + 1e-3 <= 0.05


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("tied", [False, True])
def test_a_packed_model_is_what_it_was(tmp_path: Path, tied: bool) -> None:
    model = _model(tie_word_embeddings=tied, attention_bias=True)
    tokens = torch.arange(12)[None]
    before, known = model(tokens).logits, fingerprint(model)
    weights = {name: one.clone() for name, one in model.state_dict().items()}
    greedy = model.generate(tokens, max_new_tokens=20, do_sample=False)
    pack(model)
    assert not any(type(module) is nn.Linear for module in model.modules())
    assert fingerprint(model) == known
    torch.testing.assert_close(model(tokens).logits, before, rtol=1e-4, atol=1e-4)  # transformers' own pass
    assert torch.equal(model.generate(tokens, max_new_tokens=20, do_sample=False), greedy)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert all(torch.equal(one, weights[name]) for name, one in again.state_dict().items())
    assert fingerprint(again) == known


@pytest.mark.usefixtures("any_size")
def test_weights_are_held_once() -> None:
    model = _model()
    held = [layer.weight for layer in model.modules() if type(layer) is nn.Linear]
    total = sum(weight.nbytes for weight in held)
    del held
    pack(model)
    left = sum(weights.nbytes for weights in model.parameters())
    assert left < total / 4  # embedding and norms


@pytest.mark.usefixtures("any_size")
def test_a_packed_head_may_be_narrow_or_apart() -> None:
    model, plain = _model(), _model()
    pack(model)
    tokens, kept = torch.arange(12)[None], torch.tensor([3, 5, 90])
    narrow = with_head_for(model, kept)
    assert isinstance(narrow.lm_head, PackedLinear)
    torch.testing.assert_close(narrow(tokens).logits, plain(tokens).logits[..., kept], rtol=1e-4, atol=1e-4)
    body, head = without_head(model)
    torch.testing.assert_close(head(body(tokens).logits), plain(tokens).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("any_size")
def test_packed_models_say_that_they_cannot_be_moved() -> None:
    model = _model()
    pack(model)
    assert model.to("cpu").to(torch.float32) is model
    with pytest.raises(ProblemError, match=r"packed weights stay on the CPU in torch\.float32, and torch\.bfloat16"):
        model.to(torch.bfloat16)


def test_small_models_stay_as_they_are() -> None:
    model = _model()
    pack(model)
    assert type(model.lm_head) is nn.Linear


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_what_onednn_does_not_multiply_stays_as_it_is(dtype: torch.dtype) -> None:
    model = copy.deepcopy(_model()).to(dtype)
    pack(model)
    assert type(model.lm_head) is nn.Linear


@pytest.mark.usefixtures("any_size")
def test_models_with_hooks_stay_as_they_are() -> None:
    model = _model()
    model.lm_head.register_forward_hook(lambda *_: None)
    pack(model)
    assert type(model.lm_head) is nn.Linear
