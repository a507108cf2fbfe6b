"""The short measurement: trials, a prediction for every candidate, and a race of the best of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

from transformers import PreTrainedModel

from otspec.decode.methods.catalogue import strategy_of
from otspec.decode.models.context import positions, vocabulary
from otspec.decode.models.own_config import own_config
from otspec.decode.models.pairing import pair_up
from otspec.decode.pair.loading import batch_of
from otspec.decode.step.harness import Run, begin, sampling_settings
from otspec.decode.step.in_turn import Now, timed_in_turn
from otspec.decode.step.strategy import Strategy
from otspec.decode.tuning.candidates import PLAIN, Candidate, families
from otspec.decode.tuning.costs import CostModel, Prediction
from otspec.decode.tuning.identity import machine
from otspec.decode.tuning.race import Raced, race, winner
from otspec.decode.tuning.trials import Trials
from otspec.decode.tuning.tuned import Mark, Tuned
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.reporting.machine import load_average
from otspec.settings import Seed, check_value

PATHS = (1, 2, 4)
DRAFT_TOP_K = (20, 100)
DEPTH = 8
SECONDS = 25.0
NEW_TOKENS = 64
FINALISTS = 3
"""Candidates that are raced."""
FEWEST_TOKENS = 16
"""New tokens of a text, so that it has steps to time."""
SHARE = 0.5
"""Of the seconds, for trials; the rest is for the race."""

Progress = Callable[[str, float], None]
"""Called with what is being done, and the share of the time that is spent."""


@dataclass(frozen=True)
class Tuning:
    """What was measured, and what was made of it."""

    model: CostModel
    raced: Sequence[Raced]
    tuned: Tuned

    def prediction(self, candidate: Candidate) -> Prediction:
        """What a candidate was expected to take."""
        return self.model.predict(candidate)

    def record(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "trials": [
                {"name": name, **asdict(trial)}
                for name, trial in (
                    (PLAIN.name, self.model.plain),
                    *((family.name, trial) for family, trial in self.model.trials.items()),
                )
            ],
            "predicted": [
                {
                    "name": one.candidate.name,
                    "settings": one.candidate.settings,
                    "tokens_per_step": one.tokens,
                    "step_seconds": one.step,
                    "seconds_per_token": one.per_token,
                    "speed_up": self.model.speed_up(one),
                }
                for one in self.model.every()
            ],
            "raced": [
                {"name": one.candidate.name, "seconds_per_token": one.per_token, "speed_up": asdict(one.speed_up)}
                for one in self.raced
            ],
            "tuned": asdict(self.tuned),
        }


def tune(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    paths: Sequence[int] = PATHS,
    depth: int = DEPTH,
    draft_top_k: Sequence[int] = DRAFT_TOP_K,
    seconds: float = SECONDS,
    max_new_tokens: int = NEW_TOKENS,
    seed: int = 0,
    names: tuple[str, str] = ("target", "draft"),
    tokenizer: Any = None,
    draft_tokenizer: Any = None,
    now: Now = time.perf_counter,
    progress: Progress = lambda stage, share: None,
) -> Tuning:
    """Find the fastest lossless way to decode with a pair of models, one text at a time, on this machine.

    Candidates are trees from the draft model, and drafts copied from the text.  A little is decoded by every family of
    candidates, which gives acceptance by depth and the time of a step; from these a cost model predicts the speed-up of
    every candidate over plain decoding.  The best of them and plain decoding are then timed in turn on the same
    prompts.  The fastest is chosen if it is faster than plain decoding beyond doubt (the lower end of its interval is
    above 1), and otherwise plain decoding.

    Parameters
    ----------
    target, draft : PreTrainedModel
        Causal language models; the draft model may receive the target's hidden states.
    prompts : sequence of lists of int
        Tokens of texts such as will be decoded.
    temperature, top_k, top_p : optional
        As in `otspec.generate`.
    paths : sequence of int
        Numbers of paths K to try.
    depth : int
        The largest L.
    draft_top_k : sequence of int
        Truncations of the drafts to try, besides none.
    seconds : float
        How long to measure.  Slow models take longer: everything is measured a few times.  Compilation is not
        counted.
    max_new_tokens : int
        Of each text.
    seed : int
    names : pair of str
        The names of target and draft in the settings.
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional
        As in `otspec.generate`.
    now : callable
        A clock, in seconds.
    progress : callable
        Called with what is being done and the share of the time that is spent, often.

    Raises
    ------
    ProblemError
        If there are no prompts, a setting is out of its range, or as `otspec.generate` does.
    """
    numbers = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    sampling = {name: value for name, value in numbers.items() if value is not None}
    _check(prompts, paths, seconds, max_new_tokens)
    check_value("seed", seed, Seed)
    sampling_settings({}, temperature, top_k, top_p)
    matching = pair_up(target, draft, tokenizer, draft_tokenizer)
    depth = min(as_count("depth", depth), max_new_tokens // 4)  # so that a text has several steps
    rows = [_within(prompt, target, draft, max_new_tokens) for prompt in prompts]
    tried = [one for one in families(paths, draft_top_k, sampling, vocabulary(target)) if one.stem < depth]
    if matching is not None:  # dynamic trees are of the target's tokens
        tried = [one for one in tried if not one.dynamic]

    def begun(strategy: Strategy, prompt: Sequence[int], seed: int, new: int = max_new_tokens) -> Run:
        more: dict[str, Any] = {**batch_of([prompt], target.device), **sampling, "max_new_tokens": new, "seed": seed}
        return begin(target, strategy, tokenizer=tokenizer, draft_tokenizer=draft_tokenizer, **more)

    def strategy(candidate: Candidate) -> Strategy:
        return strategy_of(candidate.method, draft, candidate.settings, matching)

    # Graphs are captured over the longest cache; a CPU compiles the same, whatever it reads.
    prompt = (min if target.device.type == "cpu" else max)(rows, key=len)

    def warm_up(ways: Sequence[Candidate], share: float) -> None:
        for way in ways:
            progress("warming up", share)
            begun(strategy(way), prompt, seed, new=min(10, max_new_tokens)).to_the_end()

    warm_up([PLAIN, *(Candidate(family, depth) for family in tried)], 0.0)
    began = now()

    def at(stage: str) -> None:
        progress(stage, min((now() - began) / seconds, 1.0))

    trials, left = Trials(begun, rows, seed, now, target.device, lambda: at("trying every family")), tried
    rounds = max(math.ceil(math.log2(len(tried) / FINALISTS)), 1)
    for number in range(1, rounds + 1):  # successive halving
        ways = [PLAIN, *(Candidate(family, depth) for family in left)]
        trials.go_on({way: strategy(way) for way in ways}, began + SHARE * seconds * number / rounds)
        shown = {family: trials.of(Candidate(family, depth)) for family in tried}
        model = CostModel(trials.of(PLAIN), shown, max_new_tokens)
        best = [one.candidate for one in model.best() if one.candidate.family in left]
        best = best[: max(math.ceil(len(left) / 2), FINALISTS)]
        left = [one.family for one in best if one.family is not None]
    finalists = best[:FINALISTS]
    warm_up(finalists, SHARE)  # their depths are others

    def raced(number: int) -> list[float]:
        prompt, own = rows[number % len(rows)], seed + number
        begins = [partial(begun, strategy(way), prompt, own) for way in (PLAIN, *finalists)]
        return timed_in_turn(begins, target.device, now, lambda: at("racing the best"))

    found = race(finalists, raced, trials.texts, (1 - SHARE) * seconds, now)
    marks = Mark.of(names[0], target), Mark.of(names[1], draft)
    tuned = conclude(model, found, marks, sampling, machine(target))
    more = {"own_config": own_config(target, greedy=temperature == 0), "load": load_average()}
    tuned = replace(tuned, figures={**tuned.figures, **more})
    return Tuning(model, found, tuned)


def conclude(
    model: CostModel,
    raced: Sequence[Raced],
    marks: tuple[Mark, Mark],
    sampling: dict[str, Any],
    machine: dict[str, Any],
) -> Tuned:
    """The choice, from predictions and the race."""
    chosen = winner(raced)
    candidate = chosen.candidate
    figures: dict[str, Any] = {
        "new_tokens": model.text,
        "texts": len(chosen.per_token),
        "ms_per_token": 1e3 * sum(chosen.per_token) / len(chosen.per_token),
    }
    if candidate != PLAIN:
        predicted = model.predict(candidate)
        figures |= {
            "predicted_speed_up": model.speed_up(predicted),
            "measured_speed_up": chosen.speed_up.value,
            "measured_interval": [chosen.speed_up.low, chosen.speed_up.high],
            "tokens_per_step": predicted.tokens,
        }
        why = f"{candidate.name}: {chosen.speed_up} times as fast as plain decoding"
    else:
        others = [one for one in raced if one.candidate != PLAIN]
        best = max(others, key=lambda one: one.speed_up.value)
        why = (
            f"nothing is faster than plain decoding beyond doubt; the best, {best.candidate.name}, is "
            f"{best.speed_up} times as fast"
        )
    return Tuned(candidate.method, candidate.settings, why, *marks, sampling, machine, figures)


def _check(prompts: Sequence[Sequence[int]], paths: Sequence[int], seconds: float, max_new_tokens: int) -> None:
    if not prompts or not all(prompts):
        raise ProblemError("no prompts, or an empty one; tuning decodes texts such as yours, so pass some")
    if not paths:
        raise ProblemError("no numbers of paths to try; pass some, such as [1, 2, 4]")
    if not isinstance(seconds, Real) or not 0 < seconds < math.inf:
        raise ProblemError(f"seconds is {seconds!r}; pass how long to measure, 20 or more for figures to trust")
    if as_count("max_new_tokens", max_new_tokens) < FEWEST_TOKENS:
        raise ProblemError(
            f"max_new_tokens is {max_new_tokens}; texts of fewer than {FEWEST_TOKENS} tokens have too few steps to time"
        )


def _within(prompt: Sequence[int], target: PreTrainedModel, draft: PreTrainedModel, new: int) -> list[int]:
    """The end of a prompt, where the whole and the new tokens are more than the models have positions for."""
    room = min(positions(target), positions(draft)) - new
    if room < 1:
        raise ProblemError(f"max_new_tokens is {new}, and the models leave no position for a prompt; pass fewer")
    return list(prompt[-int(min(room, len(prompt))) :])
