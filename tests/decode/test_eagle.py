"""EAGLE-style draft models of every arithmetic: saved and loaded, asked while they learn, and of one target alone."""

import copy
import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import otspec
from otspec.decode.distillation.spec import DraftModelInit
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.eagle.settings import EagleSettings
from otspec.decode.drafters.eagle.training import KINDS, PASSES
from otspec.decode.drafters.hidden_states import shifted
from otspec.decode.drafters.sd2.model import PLACES, Steered
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.passes import packed
from otspec.decode.models.passes.packed import PackedLinear, pack
from tests.contracts import draft_models
from tests.contracts.draft_models import HEADS, LAYERS, WIDTH, eagle, heads, shared, steered
from tests.decode import published
from tests.decode.models import pair, tiny

PROMPT = torch.tensor([[1, 2, 3]])
SETTINGS = [name for name in inspect.signature(EagleSettings).parameters if name != "config"]
DRAFTED = (0, 2, 5, 7)

SHARED: dict[str, Callable[[Any], Any]] = {
    "shared": shared,
    "shared, some tokens": lambda target: shared(target, draft_tokens=DRAFTED),
    "parallel": lambda target: shared(target, masks=2),
    "parallel, some tokens": lambda target: shared(target, masks=2, draft_tokens=DRAFTED),
}
MODELS: dict[str, Callable[[Any], Any]] = {
    "fed": lambda target: eagle(pair(8)[1]),
    "of its own": draft_models.layer_of,
    **SHARED,
    "eagle1": lambda target: published.read(published.eagle(8), target),
    "eagle3": lambda target: published.read(published.eagle3(8, DRAFTED, (0, 1)), target),
    "eagle3, normed": lambda target: published.read(
        published.eagle3(8, (), (0, 1), norm_before_fc=True, norm_output=True), target
    ),
}
"""For a target of eight tokens."""


def _text(target: Any, draft: Any, **settings: Any) -> list[int]:
    settings = {"paths": 2, "depth": 3, "max_new_tokens": 12, "seed": 1} | settings
    return otspec.generate(target, draft, PROMPT, **settings).new_tokens[0]


# --- folders


def _steered(place: str, target: Any) -> Any:
    return steered(pair(8)[1], place)


SAVED: dict[str, Callable[[Any], Any]] = {
    **MODELS,
    **{f"steered {place}": partial(_steered, place) for place in PLACES},
    **{kind: partial(heads, kind) for kind in HEADS},
}
"""Every kind that looks at its target."""


@pytest.mark.parametrize("name", SAVED)
def test_saved_without_what_is_borrowed_and_the_same_when_loaded(tmp_path: Path, name: str) -> None:
    target = tiny(8)
    draft = SAVED[name](target)
    before = _text(target, draft)
    draft.save_pretrained(tmp_path)
    config, held = draft.config, load_file(tmp_path / "model.safetensors")
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(again) is type(draft)
    loaded = again.state_dict()
    assert all(torch.equal(loaded[part], weights) for part, weights in draft.state_dict().items() if part in held)
    assert _text(target, again) == before
    if isinstance(draft, Eagle):
        borrowed = {"embed_tokens": config.own_embedding, "lm_head": config.own_head}
        assert not [part for part, own in borrowed.items() if not own and any(part in one for one in held)]
        assert all(getattr(again.config, name) == getattr(config, name) for name in SETTINGS)
        # Two loaded ones have one fingerprint, with their target.
        third: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
        third.borrow(target)
        assert fingerprint(third) == fingerprint(again)


FORMER = {"fed": "otspec_fed_llama", "of its own": "otspec_fed_llama"} | dict.fromkeys(SHARED, "otspec_shared_llama")


@pytest.mark.parametrize("name", MODELS)
def test_folders_from_when_every_arithmetic_had_a_class_are_read(tmp_path: Path, name: str) -> None:
    draft = MODELS[name](tiny(8))
    draft.save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    arithmetic, decoder = said.pop("arithmetic"), said.pop("decoder_type")
    if name in FORMER:
        said["model_type"] = FORMER[name]
        for setting in ("own_embedding", "own_head"):
            del said[setting]
    else:
        layer = {key: said.pop(key) for key in CONFIG_MAPPING[decoder]().to_dict() if key in said}
        said |= {"layer": layer | {"model_type": decoder}, "version": int(arithmetic[-1]), "looked_at": 2}
        said |= {"model_type": "otspec_published_eagle", "tie_word_embeddings": False}
        said |= {key: layer[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "dtype")}
        del said["drafts_features"]
    (tmp_path / "config.json").write_text(json.dumps(said))
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert again.config.arithmetic == arithmetic
    assert _text(tiny(8), again) == _text(tiny(8), draft)


# --- a draft model that is fed


@pytest.mark.parametrize("kind", [Eagle, Steered])
@pytest.mark.usefixtures("no_gradients")
def test_without_training_it_is_the_draft_model_to_the_last_bit(kind: Any) -> None:
    target, draft = pair()
    model = kind.of(draft, LAYERS, WIDTH)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    features = draft_models.all_features(target, ids[0].tolist())[None]
    shown = {"added": model.conditioning(features)} if kind is Eagle else {"shifts": model.shifts(features)}
    assert torch.equal(model(ids, **shown).logits, draft(ids).logits)
    settings: dict[str, Any] = {"paths": 2, "depth": 3, "max_new_tokens": 12, "seed": 5}
    plain, same = (otspec.generate(target, one, ids, **settings) for one in (draft, model))
    assert torch.equal(plain.sequences, same.sequences)
    assert plain.metrics.accepted == same.metrics.accepted
    if kind is Steered:
        assert torch.equal(model(ids).logits, draft(ids).logits)
        assert torch.equal(model.steering.hml(features.flatten(-2)), features.sum(dim=-2))


# --- while they learn


@pytest.mark.parametrize("name", ["eagle", "eagle1", "eagle3", "shared"])
@pytest.mark.usefixtures("no_gradients")
def test_it_is_asked_as_it_is_in_decoding(name: str) -> None:
    """Of every pass: the logits of a text whose last tokens were drafted, read one after the other."""
    target, kind, generator = tiny(8, layers=3), KINDS[name], torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = kind.begin(DraftModelInit(target, pair(8)[1])).double().eval()
    draft_models.disturbed(model, ("seen", "own", "token"))
    tokens = torch.randint(8, (2, 7), generator=generator)
    states = target(tokens[:, :-1], output_hidden_states=True).hidden_states
    features = torch.stack([states[layer] for layer in kind.layers(target)], dim=2)
    batch = TeacherBatch(tokens, torch.empty(0), features)
    found = kind.answers(model, batch, generator, PASSES)
    assert [one.logits.shape for one in found] == [(2, 6, 8)] * PASSES
    known, first = (
        model.conditioning(shifted(features, torch.ones(2, 6, dtype=torch.long))),
        int(model.config.published),
    )
    for number in range(PASSES):
        for at in range(number + 1, 6):
            added = known[:, first : at - number + 1]
            for last in range(at - number, at + 1):
                said = model(tokens[:, first : last + 1], added=added, output_hidden_states=True)
                added = torch.cat((added, model.added_of_own(said.hidden_states[-1][:, -1:])), dim=1)
            # Norms and angles are in single precision, whatever the rest is in.
            torch.testing.assert_close(found[number].logits[:, at], said.logits[:, -1], rtol=1e-4, atol=1e-4)
            output = cast(Any, found[number].features)[:, at]
            torch.testing.assert_close(output, said.hidden_states[-1][:, -1], rtol=1e-4, atol=1e-4)
    # While it learns to draft hidden states, those that it is fed are off by a tenth of their size at most.
    noise = torch.rand(features.shape, generator=torch.Generator().manual_seed(5))
    off = 0.1 * (2 * noise - 1) * torch.linalg.vector_norm(features, dim=-1, keepdim=True) / WIDTH**0.5
    noisy = batch._replace(features=features + (name == "eagle1") * off)
    [wanted] = kind.answers(model, noisy, generator, 1)
    [again] = kind.answers(model.train(), batch, torch.Generator().manual_seed(5), 1)
    torch.testing.assert_close(again.logits, wanted.logits, rtol=1e-6, atol=1e-6)
    assert torch.equal(again.logits, found[0].logits) == (name != "eagle1")


# --- what is the target's


@pytest.mark.parametrize("name", ["shared", "parallel, some tokens"])
def test_packed_targets_lend_packed_heads(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch has no oneDNN here")
    monkeypatch.setattr(packed, "LARGE", 0)
    target = copy.deepcopy(tiny(8)).float()
    plain, lent = SHARED[name](target), SHARED[name](target)
    wanted = _text(target, plain, temperature=0)
    pack(target)
    lent._lent = ()  # as if just loaded
    lent.borrow(target)
    assert isinstance(lent.lm_head, PackedLinear)
    assert isinstance(lent.model.layers[0].mlp.up_proj, PackedLinear)
    assert _text(target, lent, temperature=0) == wanted
