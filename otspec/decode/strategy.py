"""What a method of decoding answers: who drafts, and who verifies."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from transformers import PreTrainedModel

from otspec.decode.drafters.protocol import Drafter
from otspec.decode.sampling import Sampling
from otspec.paths import PathVerifier


class Prepared(NamedTuple):
    """A strategy made ready for one run."""

    drafter: Drafter | None
    """None drafts nothing."""
    verifier: PathVerifier


class Strategy(Protocol):
    """A method of decoding: a frozen record of settings."""

    @property
    def lossless(self) -> bool:
        """Whether the text has the law that the target samples from."""

    @property
    def draft(self) -> PreTrainedModel | None:
        """The draft model, if it has one."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run.

        Raises
        ------
        ProblemError
            If the settings contradict each other.
        """
