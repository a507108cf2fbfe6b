"""Drafts that the target reads before the host has seen them give the texts of those that it reads after."""

from typing import Any

import numpy as np
import pytest
import torch

from otspec import generate
from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.decode.models.target import Target
from otspec.decode.step.harness import Generation
from otspec.decode.step.loop import Decoder
from otspec.errors import ProblemError
from tests.contracts.draft_models import DRAFT_MODELS
from tests.decode.models import calls_of, pair, spoilt
from tests.each import each

VOCAB = 8
RULES: dict[str, dict[str, Any]] = {
    "nested": {"paths": 3, "depth": 3, "verify_on": "device"},
    "block": {"paths": 1, "depth": 3, "solver": "block", "verify_on": "device"},
    "interval": {"branching": (2, 2), "solver": "interval", "verify_on": "device"},
    "of few tokens": {"branching": (3, 2), "draft_top_k": 2, "verify_on": "device"},
    "nested, on the host": {"paths": 3, "depth": 3},
    "of few tokens, on the host": {"branching": (3, 2), "draft_top_k": 2},
    "max_flow": {"paths": 2, "depth": 2, "solver": "max_flow"},
    "without replacement": {"branching": (3, 2), "law": "without_replacement"},
    "laws of fewer tokens than siblings": {"branching": (4, 1), "law": "without_replacement", "draft_top_k": 2},
}


def texts(patch: pytest.MonkeyPatch, ahead: bool, target: Any, draft: Any, **settings: Any) -> Generation:
    """Of three prompts of different lengths."""
    patch.setattr(Decoder, "IN_TURN", () if ahead else ("cpu",))
    ids = torch.tensor([[0, 1, 2, 3], [0, 0, 5, 1], [0, 4, 4, 2]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]])
    return generate(target, draft, ids, attention_mask=mask, max_new_tokens=14, seed=3, transcript=True, **settings)


def check(patch: pytest.MonkeyPatch, target: Any, draft: Any, **settings: Any) -> None:
    """The same texts, steps and counts, and the target reads slots."""
    read = calls_of(patch, Target, "read_slots")
    expected = texts(patch, False, target, draft, **settings)
    assert not read
    found = texts(patch, True, target, draft, **settings)
    assert len(read) > 3
    assert (found.new_tokens, found.blocks) == (expected.new_tokens, expected.blocks)
    counts = [[one.record() | {"seconds": 0} for one in (of.metrics, *of.metrics_of_texts)] for of in (found, expected)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_writes_the_same(rule: str) -> None:
    """And each tree at temperature 0, where all rules are one."""
    for temperature in (1.0, 0.0) if rule in ("nested", "nested, on the host", "without replacement") else (1.0,):
        with pytest.MonkeyPatch.context() as patch:
            check(patch, *pair(VOCAB), **RULES[rule], temperature=temperature)


@each(verify_on=("device", "host"), temperature=(0.0, 1.0), paths=(1, 3))
def test_a_target_without_a_law_is_named_alike(verify_on: str, temperature: float, paths: int) -> None:
    """After the same text and as many drafted tokens, in the same words."""
    words = []
    for ahead in (False, True):
        with pytest.MonkeyPatch.context() as patch, spoilt(torch.nan, 6):
            settings = {"temperature": temperature, "verify_on": verify_on, "paths": paths, "depth": 2}
            with pytest.raises(ProblemError, match="text 1, after") as error:
                texts(patch, ahead, *pair(VOCAB), **settings)
            words.append(str(error.value))
    assert words[0] == words[1]


@each(temperature=(0.0, 1.0))
def test_drafts_that_are_launched_after_no_law_are_of_no_matter(temperature: float) -> None:
    """Of the step that ends in an error: what follows is no token."""
    target, draft = pair(VOCAB)
    with torch.no_grad(), spoilt(torch.nan, 6, row=0), pytest.MonkeyPatch.context() as patch:
        early, model = calls_of(patch, EagleDrafter, "launch_next"), DRAFT_MODELS["eagle"](target, draft)
        patch.setattr(Decoder, "IN_TURN", ())
        settings: dict[str, Any] = {"branching": (2, 2), "verify_on": "device"}
        if not temperature:
            settings |= {"law": "top_k", "draft_temperature": 1.0, "verify_on": None}
        with pytest.raises(ProblemError, match=r"text 0, after [0-9] new tokens.*logits that are nan"):
            generate(target, model, torch.tensor([[0, 1, 2]]), max_new_tokens=30, temperature=temperature, **settings)
        assert early


def test_log_probabilities_are_those_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = (
        texts(monkeypatch, ahead, *pair(VOCAB), paths=3, depth=2, logprobs=2).logprobs for ahead in (True, False)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_wide_tree_is_merged_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "read_slots", lambda *_: pytest.fail("read before it was seen"))
    assert texts(monkeypatch, True, *pair(VOCAB), branching=(256,)).new_tokens
