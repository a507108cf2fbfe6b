"""Which of its tokens a draft model computes: the one place that makes draft laws of what its passes give.

A `Selection` is a setting, of no model yet: the tokens of a `Restriction`, or a shortlist for every slot (`shortlists`,
`router`).  Bound to a model it is a `DraftHead`, which is all that drafting knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from otspec.decode.base.sampling import Sampling


class History(NamedTuple):
    """What the slots of a level go on from; W = 1 slot at the root."""

    tokens: torch.Tensor
    """Shape (B, W): the last token of each prefix, one that the draft model has."""
    before: torch.Tensor
    """Shape (B, W, d): what the model gave before that token, 0 where there was nothing."""


class Level(NamedTuple):
    """The slots that are about to be drafted from."""

    number: int
    """Tokens drafted before: 0 at the root."""
    history: Callable[[], History]
    """Called where laws depend on it.  It needs a model without a head."""


class DraftHead(Protocol):
    """What stands between a draft model's passes and its draft laws."""

    @property
    def model(self) -> PreTrainedModel:
        """The model that reads: the draft model, or a twin of it with fewer rows in its head, or none."""

    @property
    def support(self) -> int | None:
        """How many tokens a law is expected to have at most; None for all."""

    @property
    def columns(self) -> torch.Tensor | None:
        """The tokens that laws are over, ascending, shape (k,); None: all of the target's."""

    @property
    def known_by(self) -> object:
        """What laws depend on beside what the model gives, to be compared; None where that is more than numbers.

        A graph of a draft is replayed by every head that returns the same for the same model.
        """

    def logits(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """Logits over the target's vocabulary, shape (B, W, V), -inf where there is none; parameters as in `laws`."""

    def laws(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """Draft laws, shape (B, W, V or k), float64: what sampling makes of the logits.

        Parameters
        ----------
        output : Tensor, shape (B, W, ...)
            What the model gave after the last token of each slot's prefix.
        level : Level
            A law may depend on its own slot's prefix and on nothing else that was drawn: paths are drawn independently
            of each other, and verification relies on that.
        """


class Selection(Protocol):
    """Which of its tokens a draft model computes."""

    def head(self, model: PreTrainedModel, sampling: Sampling, vocab: int) -> DraftHead:
        """The same for a draft model, drafts that are sampled so, and a target of so many tokens.

        Raises
        ------
        ProblemError
            If it is not made for them.
        """


def laid_out(logits: torch.Tensor, tokens: torch.Tensor, vocab: int) -> torch.Tensor:
    """Logits of some tokens, shape (..., k), over all tokens, -inf elsewhere: processors index by token id."""
    everywhere = logits.new_full((*logits.shape[:-1], vocab), -torch.inf)
    everywhere[..., tokens] = logits
    return everywhere


@dataclass(frozen=True, eq=False)
class WholeHead:
    """All tokens: the logits are the model's own, cut or filled up with -inf to the target's vocabulary."""

    model: PreTrainedModel
    sampling: Sampling
    vocab: int
    columns: torch.Tensor | None = None
    """As `DraftHead.columns`, shape (k,)."""

    @property
    def support(self) -> int | None:
        """As sampling leaves it."""
        return self.sampling.support

    @property
    def known_by(self) -> object:
        """As `DraftHead.known_by`."""
        return None if (known := self.sampling.known_by) is None else (known, self.vocab)

    def logits(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `DraftHead.logits`."""
        surplus = self.vocab - output.shape[-1]
        return pad(output, (0, surplus), value=-torch.inf) if surplus > 0 else output[..., : self.vocab]

    def laws(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `DraftHead.laws`."""
        return self.sampling.draft_laws(self.logits(output, level))
