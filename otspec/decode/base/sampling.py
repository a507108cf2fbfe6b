"""From logits to the laws that a decoder samples from: transformers' own processors, then softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    LogitsProcessorList,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.verification.trees.topology import NONE

BLIND = (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)
"""Processors that do not look at the text."""

STATEFUL = (SynthIDTextWatermarkLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor)
"""Processors that can be called once a token only."""

NUCLEUS = 1024
"""How many tokens a law truncated by anything but top-k is expected to keep at most; more are sent whole."""


class Prefix(NamedTuple):
    """A text, and its place in the batch."""

    row: int
    tokens: Sequence[int]


class Sampling:
    """How a model's logits become the laws that are sampled from.

    Parameters
    ----------
    processors : LogitsProcessorList
        As `generate` prepares them: temperature, truncations, and those that read the text.  The latter, a repetition
        penalty say, shape the target only: lossless verification asks nothing of the draft law.
    do_sample : bool
        With False the law is a point mass on the largest score.
    batch : int
        Number of texts that the processors were prepared for.

    Raises
    ------
    ProblemError
        If a processor keeps a state from token to token: on a tree there is no such order.
    """

    def __init__(self, processors: LogitsProcessorList, do_sample: bool, batch: int = 1) -> None:
        for one in processors:
            if isinstance(one, STATEFUL):
                raise ProblemError(
                    f"{type(one).__name__} expects token after token; drafted trees cannot be given that"
                )
        self.do_sample = do_sample
        self.batch = batch
        self.processors = processors
        self.blind = LogitsProcessorList(one for one in processors if isinstance(one, BLIND))
        self.reads_text = len(self.blind) < len(processors)

    @property
    def support(self) -> int | None:
        """How many tokens a law is expected to keep at most; None for all."""
        if not self.do_sample:
            return 1
        top_k = [one.top_k for one in self.blind if isinstance(one, TopKLogitsWarper)]
        truncated = any(
            isinstance(one, TopPLogitsWarper | MinPLogitsWarper | TypicalLogitsWarper | EpsilonLogitsWarper)
            for one in self.blind
        )
        return min(top_k, default=NUCLEUS if truncated else None)

    @property
    def by_values(self) -> bool:
        """Whether draft laws depend on the logits alone, whichever tokens they are of.

        Then a law over some tokens is the law over all of them, the logits of the others being -inf.
        """
        return not any(isinstance(one, SuppressTokensLogitsProcessor) for one in self.blind)

    @property
    def known_by(self) -> object:
        """What draft laws depend on beside the logits, to be compared; None where processors hold more than numbers."""
        settings = [(type(one), tuple(sorted(vars(one).items()))) for one in self.blind]
        plain = all(isinstance(value, float | int | str | None) for _, own in settings for _, value in own)
        return (self.do_sample, *settings) if plain else None

    def leaves_some(self, kept: torch.Tensor, vocab: int) -> bool:
        """Whether a draft law over these tokens alone, shape (k,), has one left after what suppresses tokens."""
        scores = torch.full((1, vocab), -torch.inf, device=kept.device)
        scores[:, kept] = 0.0
        for one in self.blind:
            scores = one(None, scores)
            if not bool((scores[:, kept] > torch.finfo(scores.dtype).min).any()):  # some put that for -inf
                return False
        return True

    def allowed(self, vocab: int, device: torch.device) -> torch.Tensor:
        """Which tokens are suppressed in no text, shape (V,), bool; truncations are not asked."""
        scores = torch.zeros(1, vocab, device=device)
        for one in self.blind:
            if isinstance(one, SuppressTokensLogitsProcessor):
                scores = one(None, scores)
        return scores[0] == 0

    def draft_laws(self, logits: torch.Tensor) -> torch.Tensor:
        """Laws from logits, shape (..., V) both, of whatever text.

        Where logits are no numbers, as where a model overflows in half precision, the law is a point mass on the first
        token: any law that drafts are drawn from leaves the text its law, and this one costs no wait for the device.
        """
        laws = self._laws(self._blind_scores(logits.flatten(0, -2)))  # some take two dimensions only
        none = laws[:, :1].isnan()  # a softmax is NaN nowhere or everywhere
        if laws.device.type != "cpu" or bool(none.any()):
            laws.masked_fill_(none, 0.0)
            laws[:, :1].masked_fill_(none, 1.0)
        return laws.view(logits.shape)

    def target_laws(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """Laws after given texts.

        Parameters
        ----------
        logits : Tensor, shape (R, V)
        prefixes : sequence of Prefix
            The R texts; looked at if `reads_text`.
        """
        return self._laws(self._target_scores(logits, prefixes))

    def target_choices(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """The tokens that greedy decoding takes after given texts, shape (R,); `NONE` where a score is NaN."""
        best = self._target_scores(logits, prefixes).max(dim=-1)
        return torch.where(best.values.isnan(), NONE, best.indices)

    def _target_scores(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        if not self.reads_text:
            return self._blind_scores(logits)
        scores = _precise(logits)
        for score, (row, tokens) in zip(scores, prefixes, strict=True):
            # Some processors know the rows of the batch apart, so each is asked in its place.
            text = torch.tensor(tokens, device=logits.device).expand(self.batch, -1)
            score.copy_(self.processors(text, score.repeat(self.batch, 1))[row])
        return scores

    def _blind_scores(self, logits: torch.Tensor) -> torch.Tensor:
        return self.blind(None, _precise(logits)) if self.blind else logits

    def _laws(self, scores: torch.Tensor) -> torch.Tensor:
        """Laws in float64: over 100 000 tokens, a softmax in float32 is off a total of 1 by 2e-5 and more."""
        if self.do_sample:
            return scores.softmax(dim=-1, dtype=torch.float64)
        point = torch.zeros(scores.shape, dtype=torch.float64, device=scores.device)
        return point.scatter_(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


@dataclass(frozen=True)
class DraftSampling:
    """What is done to the draft model's logits, where that is not what is done to the target's.

    Parameters
    ----------
    temperature : float, optional
        0 makes point masses of the draft laws, on their likeliest tokens.
    top_k : int, optional
        0 keeps all tokens.
    top_p : float, optional
        1 keeps all tokens.

    Each stands for the target's setting of that name, and for no other: what is None is as for the target, and so are
    minimal probabilities and all other truncations.  Where the target is decoded greedily its drafts are point masses
    too, unless there is a temperature here; then they are whole, unless they are truncated here.

    Raises
    ------
    ProblemError
        If a setting is out of its range.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise ProblemError(f"draft_temperature is {self.temperature}; it is finite and >= 0 (0: point masses)")
        if self.top_k is not None and self.top_k != 0:
            as_count("draft_top_k", self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ProblemError(f"draft_top_p is {self.top_p}; it is a probability in (0, 1], 1 to keep all tokens")

    def of(self, target: Sampling) -> Sampling:
        """How drafts are sampled, from how texts are."""
        if self == DraftSampling():
            return target
        processors = LogitsProcessorList(target.blind)
        for rank, value in enumerate((self.temperature, self.top_k, self.top_p)):
            if value is not None:
                _exchange(processors, rank, value)
        do_sample = target.do_sample if self.temperature is None else self.temperature > 0
        return Sampling(processors, do_sample, target.batch)


WARPERS = ((TemperatureLogitsWarper, 1), (TopKLogitsWarper, 0), (TopPLogitsWarper, 1))
"""The three in transformers' order, and the values at which each does nothing."""

BEFORE_WARPERS = (InfNanRemoveLogitsProcessor, SuppressTokensLogitsProcessor)


def _exchange(processors: LogitsProcessorList, rank: int, value: float) -> None:
    """Put a warper with another value where the list has it, or where transformers would have put it."""
    kind, idle = WARPERS[rank]
    earlier = (*BEFORE_WARPERS, *(warper for warper, _ in WARPERS[:rank]))
    processors[:] = [one for one in processors if not isinstance(one, kind)]
    # A point mass needs no temperature: `do_sample` makes it.
    if value not in (idle, 0):
        place = next((at for at, one in enumerate(processors) if not isinstance(one, earlier)), len(processors))
        processors.insert(place, kind(value if kind is TopKLogitsWarper else float(value)))


def _precise(logits: torch.Tensor) -> torch.Tensor:
    """A copy for the processors to write to, in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
