"""From logits to the laws that a decoder samples from: transformers' own processors, then softmax."""

from __future__ import annotations

from collections.abc import Sequence
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
    """How a text is sampled, of target and draft alike.

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

    def draft_laws(self, logits: torch.Tensor) -> torch.Tensor:
        """Laws from logits, shape (..., V) both, of whatever text."""
        scores = self.blind(None, _precise(logits).flatten(0, -2))  # some take two dimensions only
        return self._laws(scores).view(logits.shape)

    def target_laws(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """Laws after given texts.

        Parameters
        ----------
        logits : Tensor, shape (R, V)
        prefixes : sequence of Prefix
            The R texts; looked at if `reads_text`.
        """
        if not self.reads_text:
            return self.draft_laws(logits)
        scores = _precise(logits)
        for score, (row, tokens) in zip(scores, prefixes, strict=True):
            # Some processors know the rows of the batch apart, so each is asked in its place.
            text = torch.tensor(tokens, device=logits.device).expand(self.batch, -1)
            score.copy_(self.processors(text, score.repeat(self.batch, 1))[row])
        return self._laws(scores)

    def _laws(self, scores: torch.Tensor) -> torch.Tensor:
        """Laws in float64: over 100 000 tokens, a softmax in float32 is off a total of 1 by 2e-5 and more."""
        if self.do_sample:
            laws = scores.softmax(dim=-1)
            return laws.double() / laws.sum(dim=-1, keepdim=True, dtype=torch.float64)
        point = torch.zeros(scores.shape, dtype=torch.float64, device=scores.device)
        return point.scatter_(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


def _precise(logits: torch.Tensor) -> torch.Tensor:
    """A copy for the processors to write to, in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
