"""Why a greedy text with drafts is not the one without: a near tie of logits, or something that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, Unpack

import torch
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel

from otspec.decode.methods.vanilla import Vanilla
from otspec.decode.models.self_check import TOLERANCE, in_more_precision, spread_of, wider
from otspec.decode.settings import RunOptions
from otspec.decode.step.harness import Generation, run
from otspec.decode.step.strategy import Strategy
from otspec.errors import ProblemError

VERDICTS = {
    "near tie": "both passes are right up to rounding, and it decides between two tokens that are nearly as likely",
    "wrong rule": "the token that was put out is not the likeliest of the pass that verified it",
    "wrong pass": "the pass over the drafts gives logits that no rounding explains",
}
"""What it can be, and what that means."""


class Logits(NamedTuple):
    """Of the two tokens, after the text that is common to both."""

    plain: float
    drafted: float


@dataclass(frozen=True)
class Divergence:
    """The first token of a greedy text with drafts that is not that of plain decoding; printed, it says why.

    Examples
    --------
    >>> from otspec.decode import Divergence, MultiDraft, explain_divergence, shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import os", return_tensors="pt")
    >>> isinstance(explain_divergence(target, MultiDraft(draft, depth=2), **prompt, max_new_tokens=8), Divergence)
    False
    """

    place: int
    """How many new tokens come before it."""
    plain: int
    """The token of plain decoding."""
    drafted: int
    """The token with drafts."""
    verdict: str
    """A key of `VERDICTS`."""
    of_one_row: Logits
    """From plain decoding's pass."""
    of_drafts: Logits
    """From the pass that verified the drafts."""
    rows: int
    """How many rows that had."""
    precise: Logits
    """From a pass in more precision, of one row."""
    dtype: str
    """Of the model."""
    precision: str
    """Of that pass: float32, or float64 where the model is in float32."""

    def __str__(self) -> str:
        passes = (
            (f"one row, {self.dtype}", self.of_one_row),
            (f"{self.rows} rows, {self.dtype}", self.of_drafts),
            (f"one row, {self.precision}", self.precise),
        )
        figures = "; ".join(f"{name}: {one.plain:.6g} and {one.drafted:.6g}" for name, one in passes)
        return (
            f"{self.verdict} at new token {self.place + 1}: {self.plain} without drafts, {self.drafted} with them; "
            f"logits of the two, {figures}; {VERDICTS[self.verdict]}"
        )


def explain_divergence(
    target: PreTrainedModel, strategy: Strategy, input_ids: torch.Tensor, **options: Unpack[RunOptions]
) -> Divergence | None:
    """Decode one prompt greedily with drafts and without, and explain the first token that differs.

    Parameters
    ----------
    target : PreTrainedModel
    strategy : Strategy
    input_ids : Tensor of int, shape (1, S)
    **options
        As `otspec.decode.run` has them, temperature 0 if none is given.

    Returns
    -------
    Divergence or None
        None where the texts are equal.

    Raises
    ------
    ProblemError
        If there are several prompts, or decoding is not greedy.

    Examples
    --------
    >>> from otspec.decode import MultiDraft, explain_divergence, shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> print(explain_divergence(target, MultiDraft(draft, depth=4), **prompt, max_new_tokens=16))
    None
    """
    if len(input_ids) != 1:
        raise ProblemError(f"there are {len(input_ids)} prompts; a divergence is explained for one at a time")
    if options.setdefault("temperature", 0) != 0:
        raise ProblemError(f"temperature is {options['temperature']}; greedy texts are compared, at temperature 0")
    settings: dict[str, Any] = {"seed": 0, **options}  # drafts may be drawn, and are drawn again
    mask = settings.pop("attention_mask", None)
    prompt = (input_ids if mask is None else input_ids[mask.bool()][None])[0].tolist()
    without, drafts = (_watched(target, one, prompt, [], settings)[0] for one in (Vanilla(), strategy))
    both = zip(without.new_tokens[0], drafts.new_tokens[0], strict=False)
    place = next((at for at, (one, other) in enumerate(both) if one != other), None)
    if place is None:
        return None
    plain, drafted = without.new_tokens[0][place], drafts.new_tokens[0][place]
    before = without.new_tokens[0][:place]
    one_row, of_drafts = (_watched(target, one, prompt, before, settings)[1] for one in (Vanilla(), strategy))
    precise = _precisely(target, prompt + before, settings)
    first, second, third = (Logits(*found[[plain, drafted]].tolist()) for found in (one_row, of_drafts, precise))
    dtype, precision = (str(one).removeprefix("torch.") for one in (target.dtype, wider(target.dtype)))
    return Divergence(
        place=place,
        plain=plain,
        drafted=drafted,
        verdict=_verdict(one_row, of_drafts, drafted, target.dtype),
        of_one_row=first,
        of_drafts=second,
        rows=_rows(drafts, place),
        precise=third,
        dtype=dtype,
        precision=precision,
    )


def _verdict(one_row: torch.Tensor, of_drafts: torch.Tensor, drafted: int, dtype: torch.dtype) -> str:
    if of_drafts[drafted] < of_drafts.max():
        return "wrong rule"
    apart, allowed = spread_of((of_drafts - one_row)[None]), TOLERANCE.get(dtype, 2.0**-3) * spread_of(one_row[None])
    return "near tie" if apart <= allowed else "wrong pass"


class _Watch(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped here
    """Keeps the scores after one text, as they were when they were last asked for."""

    def __init__(self, text: Sequence[int]) -> None:
        self.text = list(text)
        self.scores = torch.empty(0)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] == len(self.text) and input_ids[0].tolist() == self.text:
            self.scores = scores[0].double().cpu()
        return scores


def _watched(
    target: PreTrainedModel, strategy: Strategy, prompt: list[int], before: list[int], settings: dict[str, Any]
) -> tuple[Generation, torch.Tensor]:
    """A run, and its scores after the prompt and so many new tokens, shape (V,)."""
    watch = _Watch(prompt + before)
    processors = LogitsProcessorList([*(settings.get("logits_processor") or ()), watch])
    ids = torch.tensor([prompt], device=target.device)
    generation = run(target, strategy, ids, **{**settings, "logits_processor": processors, "transcript": True})
    return generation, watch.scores


def _precisely(target: PreTrainedModel, text: list[int], settings: dict[str, Any]) -> torch.Tensor:
    """Scores after the text from the same weights in more precision."""
    return _watched(in_more_precision(target), Vanilla(), text, [], {**settings, "max_new_tokens": 1})[1]


def _rows(generation: Generation, place: int) -> int:
    """Rows of the pass that gave the new token at a place."""
    ends = accumulate(len(block.accepted) + 1 for block in generation.blocks[0])
    step = next(number for number, end in enumerate(ends) if end > place)
    return generation.passes["target"][step].rows
