"""The last of a model's logits processors, where a few parameters tell what they do: temperature and truncations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from otspec.kernels.truncation import truncate

KINDS = (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MinPLogitsWarper)
"""In the order in which transformers has them."""


class SamplingParams(NamedTuple):
    """What these do, in this order."""

    temperature: float = 1.0
    top_k: int = 0
    """0 keeps all tokens."""
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def truncates(self) -> bool:
        """Whether a token may be cut."""
        return self[1:] != (0, 1.0, 0.0)


class Warpers:
    """Some processors, each called once, and the `SamplingParams` that as many of the last ones as possible stand for.

    Parameters
    ----------
    processors : sequence of LogitsProcessor
        Of scores alone.
    """

    def __init__(self, processors: Sequence[Any]) -> None:
        first = len(processors)
        while first and _known(processors[first - 1]) < min(map(_known, processors[first:]), default=len(KINDS)):
            first -= 1
        self.before = LogitsProcessorList(processors[:first])
        """Those that come first, and are others."""
        self._last = LogitsProcessorList(processors[first:])
        names = [SamplingParams._fields[_known(one)] for one in self._last]
        self.params = SamplingParams(**{name: getattr(one, name) for name, one in zip(names, self._last, strict=True)})
        """Of the last ones."""

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores after all of them, shape (R, V); these may be written to."""
        scores = self.before(None, scores)
        if scores.device.type != "cpu" or scores.dtype != torch.float32 or not self.params.truncates:
            return self._last(None, scores)
        temperature, top_k, top_p, min_p = self.params
        scores = (scores / temperature if temperature != 1 else scores).contiguous()
        truncate(scores.numpy(), top_k, top_p, min_p)
        return scores


def _known(processor: Any) -> int:
    """Its place among `KINDS`; beyond them for others, and where it has settings that are no default."""
    usual = getattr(processor, "filter_value", -torch.inf) == -torch.inf
    usual &= getattr(processor, "min_tokens_to_keep", 1) == 1
    return KINDS.index(type(processor)) if type(processor) in KINDS and usual else len(KINDS)
