"""Targets that do not fit one device: they write the same text, by slower passes; what cannot be spread is refused."""

import warnings
from typing import Any

import pytest

pytest.importorskip("accelerate")

import numpy as np
import torch
from transformers.cache_utils import DynamicLayer

import otspec as package
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import lent_head
from otspec.decode.models.passes.packed import PackedLinear
from otspec.decode.models.passes.reader import reader_of
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.decode.models.target import Target
from otspec.decode.pair.loading import Models, load_models
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from tests.decode.models import pair
from tests.fake_device import device, there, without_numbers

HALF = {
    **dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), "cpu"),
    **{f"model.layers.{layer}": "disk" if layer > 11 else "cpu" for layer in range(24)},
}


@pytest.fixture(scope="module")
def spread() -> Models:
    with pytest.warns(UserWarning, match="spread over cpu, disk: its passes are transformers' own") as said:
        models = load_models("shipped", "shipped", device_map=HALF)
    assert len(said) == 1
    return models


def test_what_is_on_disk_writes_the_same_text_by_transformers_passes(spread: Models) -> None:
    whole = load_models("shipped", "shipped", "cpu")
    prompt = whole.tokenizer("import os\n\n\ndef ", return_tensors="pt").input_ids
    assert spread.target.model.layers[12].mlp.up_proj.weight.is_meta
    assert type(reader_of(spread.target)) is TransformersReader
    assert type(reader_of(spread.draft)) is type(reader_of(whole.draft)) is not TransformersReader
    texts = [
        package.generate(one.target, one.draft, prompt, paths=3, depth=4, max_new_tokens=8, seed=0).new_tokens
        for one in (whole, spread)
    ]
    assert texts[0] == texts[1]
    assert fingerprint(spread.target) == fingerprint(whole.target)


def test_a_map_of_one_device_is_no_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.decode.models.passes.packed.LARGE", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = load_models("shipped", None, device_map="auto", max_memory={"cpu": "1GB"})
    assert isinstance(models.target.model.layers[0].mlp.up_proj, PackedLinear)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_memory": {"cpu": "100KB"}}, r"the embedding of 'shipped', .* offloaded .* \(disk\); give the"),
        ({"device_map": "everywhere"}, "'shipped' cannot be spread over devices: .* found everywhere"),
        ({"device_map": "auto", "device": "cpu"}, "device 'cpu' holds all of the target, and device_map spreads it"),
    ],
)
def test_what_cannot_be_spread_is_refused_in_a_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ProblemError, match=why):
        load_models("shipped", None, **options)


def test_a_head_that_is_kept_off_its_devices_is_not_lent(spread: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    away = torch.nn.Linear(128, 2048, bias=False, device="meta")
    monkeypatch.setattr(spread.target, "get_output_embeddings", lambda: away)
    with pytest.raises(ProblemError, match="borrows the target's head, which is offloaded from its devices"):
        lent_head(spread.target, torch.float32)


def begin(layer: DynamicLayer, keys: torch.Tensor, values: torch.Tensor) -> None:
    """What a layer of a cache does first, less the tensors without elements, for which torch asks a true device."""
    layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # accelerate tells tied weights by it
def test_layers_on_two_devices_keep_their_own_cache_and_what_comes_out_is_on_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DynamicLayer, "lazy_initialization", begin)
    target, _ = pair(vocab := 8, positions=64)
    tree = Topology.merge(Shape((2, 2)), np.arange(1, 7))
    with torch.no_grad(), without_numbers():
        model = there(target)
        first, second = device(), torch.device(device().type, 1)
        later = ("model.layers.1", "model.norm", "lm_head")
        places = dict.fromkeys(("model.embed_tokens", "model.rotary_emb", "model.layers.0"), first)
        places |= dict.fromkeys(later, second)
        for name in later:
            for module in model.get_submodule(name).modules():
                for key, one in module._parameters.items():
                    if one is not None:
                        module._parameters[key] = torch.nn.Parameter(one.to(second), requires_grad=False)
        require("accelerate").dispatch_model(
            model, places, skip_keys=model._skip_keys_device_placement, main_device=first
        )
        reading = Target(model, [[1, 2, 3, 4], [1, 2]], layers=[1, 2])
        found = [reading.read([[1, 2, 3, 4], [1, 2]], [tree, tree])]
        reading.commit([[2], [1]], rows=[1])  # a column moves, and a text ends
        found.append(reading.read([[1, 2, 3]], [tree]))
        assert [tuple(one.shape) for one in found] == [(14, vocab), (7, vocab)]
        assert [block.entries.device for block in reading.context.reader.blocks] == [first, first, second, second]
        head = lent_head(model, torch.float32, torch.arange(3, device=first))
        assert {one.device for one in (*found, *reading.features, head.weight)} == {first}
