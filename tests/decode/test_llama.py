"""The lean pass gives the bits of transformers' own; whatever is not plain goes the long way."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from otspec.decode.models.passes.fused import LlamaReader  # noqa: E402
from otspec.decode.models.passes.reader import reader_of  # noqa: E402
from otspec.decode.models.passes.transformers_reader import TransformersReader  # noqa: E402
from tests.decode.models import tiny  # noqa: E402
from tests.each import each  # noqa: E402

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def _model(architecture: str = "llama", **settings: Any) -> Any:
    """A random model of a few layers in float32, with weights that are far from their small beginnings."""
    sizes: dict[str, Any] = {"vocab_size": 97, "hidden_size": 48, "intermediate_size": 88, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 512}
    config = AutoConfig.for_model(architecture, **sizes | settings)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
        for value in model.parameters():
            value.data += 0.1 * torch.randn_like(value)
    return model


@each(
    model=[
        _model(),
        _model(num_key_value_heads=2),
        _model(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=16),
        _model(rope_parameters=LLAMA3),
        _model("mistral", num_key_value_heads=3, sliding_window=None),
        _model("qwen2", num_key_value_heads=2),
        _model("qwen3", num_key_value_heads=2, head_dim=16),
    ]
)
def test_the_same_bits(model: Any) -> None:
    lean, plain = reader_of(model), TransformersReader(model)
    assert isinstance(lean, LlamaReader)
    generator = torch.Generator().manual_seed(2)

    def tokens(*shape: int) -> Any:
        return torch.randint(97, shape, generator=generator)

    with torch.no_grad():
        first = tokens(2, 90)
        position = torch.arange(90).expand(2, -1)
        for reader in (lean, plain):
            reader.begin(first, torch.ones(2, 90, dtype=torch.bool), position)
        start = 90
        for count in (1, 2, 5, 8, 33):
            block, position = tokens(2, count), start + torch.arange(count).expand(2, -1)
            hidden = torch.rand(2, 1, count, start + count, generator=generator) < 0.5
            mask = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)
            for seen in (mask, None) if count == 1 else (mask,):
                own, theirs = (reader.read(block, position, seen, start, count).logits for reader in (lean, plain))
                assert torch.equal(own, theirs)
            start += count
        for entries, block in zip(lean.blocks[0].entries, plain.blocks, strict=True):
            assert torch.equal(entries[:, :, :start], block.entries[0, :, :, :start])


def _hooked() -> Any:
    model = _model()
    model.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    return model


def _adapted() -> Any:
    model = _model()
    model.model.layers[0].mlp.up_proj.__class__ = type("Adapted", (torch.nn.Linear,), {})
    return model


def _overridden() -> Any:
    model = _model()
    model.model.norm.forward = model.model.norm.forward
    return model


@each(
    model=[
        tiny(),
        copy.deepcopy(_model()).half(),
        copy.deepcopy(_model()).train(),
        _model("gemma"),
        _model(hidden_act="gelu"),
        _model(rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
        _hooked(),
        _adapted(),
        _overridden(),
    ]
)
def test_what_is_not_plain_goes_through_transformers(model: Any) -> None:
    assert isinstance(reader_of(model), TransformersReader)
