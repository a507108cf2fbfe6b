"""From logits to the laws that a decoder samples from: transformers' own processors, then softmax."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    LogitsProcessorList,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

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

NUCLEUS = 1024
"""How many tokens a law truncated by anything but top-k is expected to keep at most; more are sent whole."""


class Sampling:
    """How a text is sampled, of target and draft alike.

    Parameters
    ----------
    processors : LogitsProcessorList
        As `generate` prepares them: temperature, truncations, and those that read the text.  The latter, a repetition
        penalty say, shape the target only: lossless verification asks nothing of the draft law.
    do_sample : bool
        With False the law is a point mass on the largest score.
    """

    def __init__(self, processors: LogitsProcessorList, do_sample: bool) -> None:
        self.do_sample = do_sample
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

    def target_laws(self, logits: torch.Tensor, texts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Laws after given texts.

        Parameters
        ----------
        logits : Tensor, shape (R, V)
        texts : sequence of Tensors of int, shape (r, length)
            R texts in all, those of one length side by side in one tensor; looked at if `reads_text`.
        """
        if not self.reads_text:
            return self.draft_laws(logits)
        groups = torch.split(_precise(logits), [len(text) for text in texts])
        return self._laws(torch.cat([self.processors(text, group) for text, group in zip(texts, groups, strict=True)]))

    def _laws(self, scores: torch.Tensor) -> torch.Tensor:
        if self.do_sample:
            return scores.softmax(dim=-1)
        return torch.zeros_like(scores).scatter_(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


def _precise(logits: torch.Tensor) -> torch.Tensor:
    """A copy for the processors to write to, in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
