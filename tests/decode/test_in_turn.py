"""Runs in turn: each writes what it does alone, and none is far ahead of the others."""

import itertools
from typing import Any

import pytest
import torch

from otspec.decode import MultiDraft, Strategy, run
from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.decode.methods import Vanilla
from otspec.decode.step.harness import begin
from otspec.decode.step.in_turn import in_turn, side_by_side
from otspec.decode.step.loop import Decoder
from otspec.decode.tuning.trials import REPEATED, Varying
from tests.contracts.draft_models import DRAFT_MODELS
from tests.decode.models import calls_of, pair

NEW = 24


@pytest.mark.parametrize("kind", DRAFT_MODELS)
@pytest.mark.parametrize("ahead", [False, True])
def test_runs_in_turn_write_what_each_does_alone(kind: str, ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With drafts that are launched ahead, of depths that vary, between the steps of others too."""
    monkeypatch.setattr(Decoder, "IN_TURN", () if ahead else ("cpu",))
    early = calls_of(monkeypatch, EagleDrafter, "launch_next")
    target, draft = pair(8)
    with torch.no_grad():
        model = DRAFT_MODELS[kind](target, draft)
    deep = MultiDraft(model, paths=2, depth=2)
    ways: list[Strategy] = [Vanilla(), deep, MultiDraft(model, depth=2), varying := Varying(deep, 2)]
    settings: dict[str, Any] = {"max_new_tokens": NEW, "seed": 3, "verify_on": "device" if ahead else None}
    prompt = torch.tensor([[0, 1, 2]])
    alone = [run(target, way, prompt, **settings).new_tokens for way in ways]
    runs = [begin(target, way, prompt, **settings) for way in ways]
    ahead_of = [0]
    for _ in in_turn(runs, itertools.count().__next__):
        going = [one.tokens for one in runs if one.tokens < NEW]
        ahead_of.append(max(one.tokens for one in runs) - min(going, default=NEW))
    assert max(ahead_of) <= 3
    assert [one.generation.new_tokens for one in runs] == alone
    depths = [depth for depth in varying.drafter.drafted if depth < 3]
    assert depths[: 2 * REPEATED] == [2] * REPEATED + [1] * REPEATED
    assert not early or ahead


def test_a_gpu_has_one_run_at_a_time() -> None:
    assert side_by_side("ab", torch.device("cuda")) == [["a"], ["b"]]
    assert side_by_side("ab", torch.device("cpu")) == ["ab"]
