"""Draft layers that share their target's embedding and head: saved without these, and of that target alone."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import otspec
from otspec.decode.drafters.shared.model import SharedLlama
from otspec.decode.lessons.lesson import Lessons
from otspec.decode.methods.assisted import assisted
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.passes import packed
from otspec.decode.models.passes.packed import PackedLinear, pack
from otspec.errors import ProblemError
from tests.contracts.draft_models import shared
from tests.decode.models import tiny

PROMPT = torch.tensor([[1, 2, 3]])
KINDS: list[dict[str, Any]] = [{}, {"kept": (0, 2, 5, 7)}, {"masks": 2}, {"masks": 2, "kept": (0, 2, 5, 7)}]


def _text(target: Any, draft: Any, **settings: Any) -> list[int]:
    settings = {"paths": 2, "depth": 3, "max_new_tokens": 20, "seed": 1} | settings
    return otspec.generate(target, draft, PROMPT, **settings).new_tokens[0]


@pytest.mark.parametrize("kind", KINDS)
def test_saved_without_what_is_borrowed_and_the_same_when_loaded(tmp_path: Path, kind: dict[str, Any]) -> None:
    target = tiny(8)
    draft = shared(target, **kind)
    before = _text(target, draft)
    draft.save_pretrained(tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    assert not [name for name in held if "embed_tokens" in name or "lm_head" in name]
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(again) is SharedLlama
    assert _text(target, again) == before
    if "kept" in kind:
        assert again.kept is not None
        assert again.kept.tolist() == list(kind["kept"])
        assert again.lm_head.weight.shape[0] == 4


def test_fingerprints_do_not_hang_on_chance(tmp_path: Path) -> None:
    """Two loaded ones are the same, with their target."""
    target = tiny(8)
    shared(target).save_pretrained(tmp_path)
    found = []
    for _ in range(2):
        model: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
        model.borrow(target)
        found.append(fingerprint(model))
    assert found[0] == found[1]


def test_what_is_borrowed_is_not_copied_and_does_not_learn() -> None:
    target = copy.deepcopy(tiny(8)).float()
    whole = shared(target)
    assert whole.lm_head.weight.data_ptr() == target.lm_head.weight.data_ptr()
    assert whole._embedding[0] is target.model.embed_tokens.weight
    learning = {name for name, weights in whole.named_parameters() if weights.requires_grad}
    assert not {"lm_head.weight", "masks"} & learning
    assert "seen.weight" in learning


@pytest.mark.parametrize("kind", KINDS)
def test_of_another_target_they_are_refused(kind: dict[str, Any]) -> None:
    draft = shared(tiny(8), **kind)
    with pytest.raises(
        ProblemError, match="the draft layers were trained for another target than this LlamaForCausalLM"
    ):
        _text(tiny(8, seed=1), draft)


@pytest.mark.parametrize("setting", [{"draft_tokens": [1, 2]}, {"draft_kernel": np.eye(8)}])
def test_tokens_that_it_was_trained_with_are_not_changed(setting: dict[str, Any]) -> None:
    target = tiny(8)
    with pytest.raises(ProblemError, match="drafts 4 tokens that it was trained with, and no others; leave out"):
        _text(target, shared(target, kept=(0, 2, 5, 7)), **setting)


def test_transformers_cannot_draft_with_it() -> None:
    target = tiny(8)
    with pytest.raises(ProblemError, match="transformers knows no SharedLlama, which drafts from the target's hidden"):
        assisted(target, shared(target, kept=(0, 2, 5, 7)), PROMPT)


def test_masks_are_as_deep_as_it_drafts() -> None:
    target = tiny(8)
    found = otspec.generate(target, shared(target, masks=2), PROMPT, paths=1, depth=8, max_new_tokens=20, seed=0)
    assert len(found.metrics.offered) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_packed_targets_lend_packed_heads(monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch has no oneDNN here")
    monkeypatch.setattr(packed, "LARGE", 0)
    target = copy.deepcopy(tiny(8)).float()
    plain, lent = shared(target, **kind), shared(target, **kind)
    wanted = _text(target, plain, temperature=0)
    pack(target)
    lent._embedding = ()  # as if just loaded
    lent.borrow(target)
    assert isinstance(lent.lm_head, PackedLinear)
    assert isinstance(lent.model.layers[0].mlp.up_proj, PackedLinear)
    assert _text(target, lent, temperature=0) == wanted


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_lessons_of_some_tokens_are_those_of_all_at_these(memory: int) -> None:
    target, kept = tiny(8), np.array([0, 2, 5, 7])
    texts = np.random.default_rng(0).integers(0, 8, (6, 9))
    some = Lessons(target, texts, (0, 2), batch=3, memory=memory, kept=kept)
    every = Lessons(target, texts, (0, 2), batch=3, memory=0)
    for rows in ([0, 1, 2], [4, 0, 5]):
        own, whole = some.lesson(rows), every.lesson(rows)
        torch.testing.assert_close(own.log_law, whole.log_law[..., kept], rtol=5e-3, atol=5e-3)
        torch.testing.assert_close(own.features, whole.features, rtol=2e-3, atol=2e-3)
        assert own.log_law.exp().sum(-1).max() < 1
