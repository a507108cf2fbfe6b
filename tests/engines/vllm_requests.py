"""Requests as vLLM flattens them for the verification of their drafts."""

import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec.engines.vllm import PLACEHOLDER, rejection_sample
from tests import laws

VOCAB = 7
LENGTHS = (3, 0, 1, 4, 2, 0, 4)
KINDS = {"model": laws.model, "zeros": laws.zeros(laws.model, 0.3), "same": laws.same(laws.model)}
KINDS |= {"ties": laws.tied_ratios}


@dataclass
class Metadata:
    temperature: torch.Tensor | None
    all_greedy: bool
    all_random: bool
    generators: dict[int, torch.Generator]


class Batch(NamedTuple):
    """Requests as vLLM flattens them."""

    tokens: torch.Tensor
    counts: list[int]
    ends: torch.Tensor
    draft: torch.Tensor | None
    logits: torch.Tensor
    bonus: torch.Tensor
    metadata: Metadata

    def named(self) -> dict[str, Any]:
        """The arguments by their names."""
        drafted = self.tokens, self.counts, max(self.counts), self.ends, self.draft
        values = *drafted, self.logits, self.bonus, self.metadata
        return dict(zip(inspect.signature(rejection_sample).parameters, values, strict=False))

    def call(self, **more: Any) -> torch.Tensor:
        return rejection_sample(**self.named(), **more)


def seeds(seed: int) -> dict[int, torch.Generator]:
    return {request: torch.Generator().manual_seed(100 * seed + request) for request in range(len(LENGTHS))}


def requests(kind: str, seed: int, drawn: bool = True) -> Batch:
    """Random requests, all random, each with a seed of its own; some tokens were refused by a grammar."""
    rng = np.random.default_rng(seed)
    total = sum(LENGTHS)
    pairs = [KINDS[kind](rng, VOCAB) for _ in range(total)]
    p, q = (np.array([pair[which] for pair in pairs]).reshape(total, VOCAB) for which in (0, 1))
    tokens = np.array([rng.choice(VOCAB, p=law / law.sum()) for law in (q if drawn else p)], dtype=np.int32)
    refused = rng.random(total) < 0.1
    with np.errstate(divide="ignore"):
        logits = np.log(p) + rng.normal(size=(total, 1))
    return Batch(
        torch.from_numpy(np.where(refused, PLACEHOLDER, tokens).astype(np.int32)),
        list(LENGTHS),
        torch.tensor(np.cumsum(LENGTHS), dtype=torch.int32),
        torch.from_numpy(q).float() if drawn else None,
        torch.from_numpy(logits).float(),
        torch.from_numpy(rng.integers(100, 200, size=(7, 1))),
        Metadata(torch.ones(7), False, True, seeds(seed)),
    )
