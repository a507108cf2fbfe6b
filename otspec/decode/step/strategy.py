"""The interface of a method of decoding: its drafter and its verifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
from transformers import PreTrainedModel

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.models.tokens.matching import Matching
from otspec.verification import PathVerifier

DraftModels: TypeAlias = "PreTrainedModel | Sequence[PreTrainedModel] | None"
"""A draft model, several of them, or none."""


def listed(models: DraftModels) -> list[PreTrainedModel]:
    """The draft models as a list; one that stands there twice is there once."""
    each: list[PreTrainedModel] = [] if models is None else list(models) if isinstance(models, Sequence) else [models]
    return list({id(model): model for model in each}.values())


class Prepared(NamedTuple):
    """A strategy made ready for one run."""

    drafter: Drafter
    verifier: PathVerifier


class Strategy(Protocol):
    """A method of decoding: a frozen record of settings."""

    @property
    def lossless(self) -> bool:
        """Whether the text has the law that the target samples from."""

    @property
    def draft(self) -> DraftModels:
        """The draft model, or several, if it has one."""

    @property
    def matching(self) -> Matching | None:
        """The matching of the target's tokens with the draft models', where these have another tokenizer."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run.

        Raises
        ------
        ProblemError
            If the settings contradict each other.
        """


class WithoutDraftModel:
    """The members of lossless strategies without a draft model."""

    lossless = True
    draft = None
    matching = None
