"""The lean pass gives the bits of transformers' own, and packed weights torch's products up to rounding."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM

from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import with_head_for, without_head
from otspec.decode.models.passes import packed
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.packed import PackedLinear, PackedMatrix, pack
from otspec.decode.models.passes.reader import reader_of
from otspec.decode.models.passes.signature import Conditioning, Inputs
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.errors import ProblemError
from tests.decode import published
from tests.decode.families import made
from tests.decode.models import tiny
from tests.each import each

LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0} | {
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def _model(architecture: str = "llama", noise: float = 0.1, **settings: Any) -> Any:
    """A random model of a few layers in float32, with weights that are far from their small beginnings."""
    sizes: dict[str, Any] = {"hidden_size": 48, "intermediate_size": 88, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 512}
    return made(architecture, 97, 1, noise, **sizes | settings).float()


# --- the lean pass

PLAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "few keys": ("llama", {"num_key_value_heads": 2}),
    "biases, tied": ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "head_dim": 16}),
    "llama 3's positions": ("llama", {"rope_parameters": LLAMA3}),
    "mistral": ("mistral", {"num_key_value_heads": 3, "sliding_window": None}),
    "qwen2": ("qwen2", {"num_key_value_heads": 2}),
    "qwen3": ("qwen3", {"num_key_value_heads": 2, "head_dim": 16}),
}


EAGLES = {
    "EAGLE": published.eagle(97),
    "EAGLE-3": published.eagle3(97, tuple(range(0, 97, 3))),
    "EAGLE-3, normed": published.eagle3(97, norm_before_residual=True, norm_output=True),
}


def _model_of(name: str, noise: float = 0.1) -> Any:
    """A model in float32."""
    if name in PLAIN:
        architecture, settings = PLAIN[name]
        return _model(architecture, noise, **settings)
    with torch.no_grad():
        model = published.read(EAGLES[name], tiny(97, layers=3)).float()
        for weights in model.model.layers.parameters():
            weights.data *= 10 * noise if weights.ndim == 2 else 1.0
    return model


def _fed(model: Any, *shape: int) -> Conditioning:
    """What is read beside so many tokens, if the model reads such."""
    drawn = torch.randn(*shape, model.config.hidden_size, generator=torch.Generator().manual_seed(3))
    return Conditioning(added=drawn.to(model.dtype) if isinstance(model, Eagle) else None)


@pytest.mark.parametrize("name", [*PLAIN, *EAGLES])
def test_the_same_bits(name: str) -> None:
    model = _model_of(name)
    after = (model.config.num_hidden_layers,)
    lean, plain = reader_of(model, after), TransformersReader(model, after)
    assert isinstance(lean, LlamaReader)
    generator = torch.Generator().manual_seed(2)

    def tokens(*shape: int) -> Any:
        return torch.randint(97, shape, generator=generator)

    with torch.no_grad():
        first, start = tokens(2, 90), 90
        for reader in (lean, plain):
            present = torch.ones(2, 90, dtype=torch.bool)
            position, conditioning = torch.arange(90).expand(2, -1), _fed(model, 2, 90)
            reader.read(Inputs(first, position, present=present, conditioning=conditioning))
        for count in (1, 2, 5, 8, 33):
            block, position = tokens(2, count), start + torch.arange(count).expand(2, -1)
            hidden = torch.rand(2, 1, count, start + count, generator=generator) < 0.5
            mask = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)
            for seen in (mask, None) if count == 1 else (mask,):
                inputs = Inputs(block, position, seen, start, count, _fed(model, 2, count))
                own, theirs = (reader.read(inputs) for reader in (lean, plain))
                assert torch.equal(own.logits, theirs.logits)
                assert torch.equal(own.states, theirs.states)
            start += count
        for entries, block in zip(lean.blocks[0].entries, plain.blocks, strict=True):
            assert torch.equal(entries[:, :, :start], block.entries[0, :, :, :start])


def _changed(change: Any) -> Any:
    model = _model()
    change(model.model)
    return model


@each(
    model=[
        tiny(),
        _model().half(),
        _model().train(),
        _model("gemma"),
        _model(hidden_act="gelu"),
        _model(rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
        _changed(lambda model: model.layers[1].mlp.register_forward_hook(lambda *_: None)),
        _changed(lambda model: setattr(model.norm, "forward", model.norm.forward)),
        _changed(lambda model: setattr(model.layers[0].mlp.up_proj, "__class__", type("Adapted", (nn.Linear,), {}))),
    ]
)
def test_what_is_not_plain_goes_through_transformers(model: Any) -> None:
    assert isinstance(reader_of(model), TransformersReader)


# --- packed weights

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Of products, as shares of the largest."""
NO_BFLOAT16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN multiplies bfloat16 with AVX-512 alone"
)


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any model count as a large one."""
    monkeypatch.setattr(packed, "LARGE", 0)


@needs_onednn
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32), pytest.param(torch.bfloat16, marks=NO_BFLOAT16)])
@each(biased=[(False,), (True,), (False, False), (True, False, True)], rows=[0, 1, 2, 3, 8, 17, 65])
def test_a_product_is_that_of_torch(dtype: torch.dtype, biased: tuple[bool, ...], rows: int) -> None:
    torch.manual_seed(rows)
    layers = [nn.Linear(40, 24 + 7 * at, bias=bias).to(dtype) for at, bias in enumerate(biased)]
    matrix = PackedMatrix(layers)
    own = [PackedLinear(layer, matrix, part) for part, layer in enumerate(layers)]
    block = torch.randn(1, rows, 40).to(dtype)
    with torch.no_grad():
        for order in (range(len(layers)), range(len(layers))[::-1]):  # models ask them in their order
            for part in order:
                layer, found = layers[part], own[part](block)
                bias = None if layer.bias is None else layer.bias.double()
                wanted = linear(block.double(), layer.weight.double(), bias)
                assert (found.shape, found.dtype) == (wanted.shape, dtype)
                if rows:
                    assert (found.double() - wanted).abs().max() <= TOLERANCES[dtype] * wanted.abs().max()
                assert torch.equal(own[part].weight, layer.weight)


@needs_onednn
def test_what_was_multiplied_for_other_rows_is_not_taken_for_these() -> None:
    layers = [nn.Linear(4, 3), nn.Linear(4, 3)]
    matrix = PackedMatrix(layers)
    first, second = (PackedLinear(layer, matrix, part) for part, layer in enumerate(layers))
    one, other = torch.randn(2, 5, 4)
    first(one)
    torch.testing.assert_close(second(other), layers[1](other))
    torch.testing.assert_close(first(other), layers[0](other))
    torch.testing.assert_close(second(other), layers[1](other))
    assert matrix._rows is None  # nothing is held once all were asked


def _laws(reader: Any, model: Any, rows: int) -> torch.Tensor:
    """Laws after each of some rows behind two prompts, shape (2, rows, V)."""
    dtype = model.dtype
    tokens = torch.randint(97, (2, 20 + rows), generator=torch.Generator().manual_seed(0))
    position = torch.arange(20 + rows).expand(2, -1)
    unseen = torch.ones(rows, 20 + rows).triu(21).bool()
    mask = torch.zeros(1, 1, rows, 20 + rows, dtype=dtype).masked_fill_(unseen, torch.finfo(dtype).min)
    with torch.no_grad():
        present = torch.ones(2, 20, dtype=torch.bool)
        reader.read(Inputs(tokens[:, :20], position[:, :20], present=present, conditioning=_fed(model, 2, 20)))
        logits = reader.read(Inputs(tokens[:, 20:], position[:, 20:], mask, 20, rows, _fed(model, 2, rows))).logits
    laws: torch.Tensor = logits.double().softmax(-1)
    return laws


@needs_onednn
@pytest.mark.usefixtures("any_size")
@each(name=["llama", "mistral", "qwen2", "qwen3", *EAGLES], rows=[1, 4, 20, 33])
def test_laws_of_packed_models(name: str, rows: int) -> None:
    """In float32 to rounding; in bfloat16, by kernels of ours up to 64 rows, no further from float32's than
    transformers' own pass is."""
    exact = _model_of(name, 0.05)
    half, both = copy.deepcopy(exact).bfloat16(), []
    wanted = _laws(TransformersReader(exact), exact, rows)
    theirs = 0.5 * (_laws(TransformersReader(half), half, rows) - wanted).abs().sum(-1)
    for model in (exact, half):
        pack(model)
        reader = reader_of(model)
        assert isinstance(reader, LlamaReader)
        assert (reader._few is None) == (type(model.lm_head) is nn.Linear or model.dtype == torch.float32)
        both.append(0.5 * (_laws(reader, model, rows) - wanted).abs().sum(-1))
    assert both[0].max() <= 1e-5
    assert both[1].mean() <= 1.5 * theirs.mean() + 1e-3 <= 0.05


@needs_onednn
@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("tied", [False, True])
def test_a_packed_model_is_what_it_was(tmp_path: Path, tied: bool) -> None:
    model = _model(noise=0.05, tie_word_embeddings=tied, attention_bias=True)
    tokens, kept = torch.arange(12)[None], torch.tensor([3, 5, 90])
    before, known = model(tokens).logits, fingerprint(model)
    weights = {name: one.clone() for name, one in model.state_dict().items()}
    greedy = model.generate(tokens, max_new_tokens=20, do_sample=False)
    held = sum(layer.weight.nbytes for layer in model.modules() if type(layer) is nn.Linear)
    pack(model)
    assert not any(type(module) is nn.Linear for module in model.modules())
    assert sum(weights.nbytes for weights in model.parameters()) < held / 4  # embedding, norms and biases
    assert fingerprint(model) == known
    near: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(model(tokens).logits, before, **near)  # transformers' own pass
    assert torch.equal(model.generate(tokens, max_new_tokens=20, do_sample=False), greedy)
    # Its head may be narrow, or apart.
    narrow, (body, head) = with_head_for(model, kept), without_head(model)
    assert isinstance(narrow.lm_head, PackedLinear)
    torch.testing.assert_close(narrow(tokens).logits, before[..., kept], **near)
    torch.testing.assert_close(head(body(tokens).logits), before, **near)
    # It can be saved, and stays where it is.
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert all(torch.equal(one, weights[name]) for name, one in again.state_dict().items())
    assert fingerprint(again) == known
    assert model.to("cpu").to(torch.float32) is model
    with pytest.raises(ProblemError, match=r"packed weights stay on the CPU in torch\.float32, and torch\.bfloat16"):
        model.to(torch.bfloat16)


@needs_onednn
def test_what_does_not_pay_or_cannot_be_packed_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models, types that oneDNN does not multiply, and models with hooks."""
    models = [_model()]
    pack(models[0])
    monkeypatch.setattr(packed, "LARGE", 0)
    models += [_model().to(torch.float64), _model().to(torch.float16), _model()]
    models[-1].lm_head.register_forward_hook(lambda *_: None)
    for model in models:
        pack(model) if model is not models[0] else None
        assert type(model.lm_head) is nn.Linear
