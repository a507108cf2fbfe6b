"""Advice for servers: the optimum of cost tables against brute force, and what is printed of it."""

from __future__ import annotations

import itertools
import json
import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError  # noqa: E402
from otspec.decode.pacing.costs import PassTimes  # noqa: E402
from otspec.decode.tuning.advice import SERVERS, Advice, DraftModel, advice_table, settings_for  # noqa: E402
from otspec.decode.tuning.candidates import Family  # noqa: E402
from otspec.decode.tuning.costs import CostModel, Trial  # noqa: E402
from otspec.decode.tuning.tuner import Tuning  # noqa: E402


def random_advice(seed: int) -> Advice:
    """A target that is flat up to some rows and then rises, a cheaper draft model, and falling acceptance."""
    rng = np.random.default_rng(seed)
    knee, end = int(rng.integers(2, 40)), 600
    target = PassTimes((1, knee, end), (1.0, 1.0 + rng.random() / 10, 1.0 + rng.random() * end / knee))
    draft = PassTimes((1, end), (rng.random() / 4, rng.random() * 3))
    return Advice(target, draft, tuple(np.cumprod(rng.uniform(0.3, 1.0, size=rng.integers(1, 9))).tolist()))


def seconds_per_token(advice: Advice, batch: int, depth: int) -> float:
    """By the tables themselves: a draft pass after another, then the target's, shared by all tokens that come of it."""

    def at(times: PassTimes, rows: int) -> float:
        return float(np.interp(rows, times.rows, times.seconds))

    spent = sum(at(advice.draft, batch) for _ in range(depth)) + at(advice.target, batch * (depth + 1))
    given = batch * (1 + sum(advice.acceptance[at] for at in range(depth)))
    return spent / given


@pytest.mark.parametrize("seed", range(6))
def test_the_best_numbers_of_tokens_are_those_of_brute_force(seed: int) -> None:
    advice, most = random_advice(seed), 60
    depths = range(len(advice.acceptance) + 1)
    paces = [[seconds_per_token(advice, batch, depth) for depth in depths] for batch in range(1, most + 1)]
    best = np.argmin(paces, axis=1)
    assert [depth for first, last, depth in advice.schedule(most) for _ in range(first, last + 1)] == best.tolist()
    for batch, pace in enumerate(paces, start=1):
        assert advice.speed_up(batch, best[batch - 1]) == pytest.approx(pace[0] / min(pace))
    paying = np.flatnonzero(best)
    stops = int(paying[-1]) + 2 if paying.size else 1
    assert advice.stops(most) == (stops if stops <= most else None)


CHEAP = Advice(PassTimes((1, 8, 64), (1.0, 1.0, 8.0)), PassTimes((1, 64), (0.1, 0.2)), (0.8, 0.6, 0.5))
USELESS = replace(CHEAP, acceptance=(0.05, 0.01))


def test_what_vllm_is_told() -> None:
    option, given = shlex.split(settings_for("vllm", CHEAP, DraftModel("a draft")))
    said: dict[str, Any] = json.loads(given)
    assert option == "--speculative-config"
    assert said["model"] == "a draft"
    assert said["num_speculative_tokens"] == CHEAP.best(1) == 3
    ranges = said["num_speculative_tokens_per_batch_size"]
    assert ranges[0][0] == 1  # its own rules: from 1 on, without gaps, and the last one holds for all beyond
    assert all(one[1] + 1 == two[0] for one, two in itertools.pairwise(ranges))
    assert ranges[-1] == [CHEAP.stops(), 256, 0]
    assert (said["draft_sample_method"], said["rejection_sample_method"]) == ("probabilistic", "block")
    assert "probabilistic" not in settings_for("vllm", CHEAP, DraftModel("a draft", sampled=False))


def test_what_others_are_told() -> None:
    told = shlex.split(settings_for("sglang", CHEAP, DraftModel("draft", eagle=True)))
    numbers = dict(zip(told[::2], told[1::2], strict=True))
    assert numbers["--speculative-algorithm"] == "EAGLE3"
    assert numbers["--speculative-num-steps"] == "3"
    assert numbers["--speculative-eagle-topk"] == "1"
    assert numbers["--speculative-num-draft-tokens"] == "4"  # the root is one of them
    told = shlex.split(settings_for("llama.cpp", CHEAP, DraftModel("draft.gguf")))
    numbers = dict(zip(told[::2], told[1::2], strict=True))
    assert numbers["--spec-draft-n-max"] == "3"
    assert numbers["--spec-draft-sampling"] == "probabilistic"
    for server in SERVERS:
        assert settings_for(server, USELESS, DraftModel("draft")).startswith("none: ")


def test_the_table_says_what_was_measured_and_what_is_predicted() -> None:
    table = advice_table(CHEAP)
    assert [row[0] for row in table.rows] == ["1", "4", "16"]
    for row, batch in zip(table.rows, (1, 4, 16), strict=True):
        best = min(range(4), key=lambda depth: seconds_per_token(CHEAP, batch, depth))
        gain = seconds_per_token(CHEAP, batch, 0) / seconds_per_token(CHEAP, batch, best)
        fixed = seconds_per_token(CHEAP, batch, 0) / seconds_per_token(CHEAP, batch, 3)
        assert row[1:5] == (str(best), f"{CHEAP.tokens(best):.2f}", f"{gain:.2f}", f"{fixed:.2f}")
    assert f"Drafts stop paying at {CHEAP.stops()} requests." in table.note
    assert "Measured by us" in table.note
    far = replace(CHEAP, target=PassTimes((1, 4), (1.0, 1.0)))
    assert "Drafts pay up to 256 requests" in advice_table(far).note
    assert [row[-1] for row in advice_table(far).rows] == ["yes", "no", "no"]


def test_advice_is_of_one_whole_path() -> None:
    trial = Trial({0: 1.0}, start=0.0, acceptance=(0.5,), nodes=(1.0,))
    trials = {Family(1, "block"): trial, Family(2, "nested"): replace(trial, acceptance=(0.7,))}
    model = CostModel(CHEAP.target, CHEAP.draft, Trial({0: 1.0}, start=0.0), trials, 16)
    tuned: Any = None
    assert Advice.of(Tuning(model, [], tuned)) == replace(CHEAP, acceptance=(0.5,))
    with pytest.raises(ProblemError, match="no pass of its own"):
        Advice.of(Tuning(replace(model, draft=None), [], tuned))
    with pytest.raises(ProblemError, match="add 1 to paths"):
        Advice.of(Tuning(replace(model, trials={Family(2, "nested"): trial}), [], tuned))
