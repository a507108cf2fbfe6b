"""Shortlists by frequency, and how many tokens or clusters of tokens there are on a shortlist of each level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.shortlists.selection import Level, laid_out
from otspec.decode.models.context import vocabulary
from otspec.decode.models.head import Head, without_head
from otspec.errors import ProblemError
from otspec.laws import IntArray, as_count


@dataclass(frozen=True)
class Budget:
    """How much a shortlist holds, by the number t of tokens drafted before.

    Parameters
    ----------
    most : int
        At t = 0 and t = 1, and at all t unless it falls.
    falling : int
        0 is a fixed budget.  Otherwise, from t = 2 on, it is ``most // (falling * (t + 1))``: 1 is the schedule K_fr of
        tokens [zhang2025dynaspec, appendix A.1], 2 the schedule k_c of clusters [zhang2025dynaspec, section 4.2].
    least : int
        The least budget.  As printed, both schedules come down to 0, and then nothing could be drafted.

    Raises
    ------
    ProblemError
        If these are not counts, or the least is more than the most.

    Examples
    --------
    >>> from otspec.decode import Budget
    >>> budget = Budget(most=100, falling=1, least=20)
    >>> [budget.at(level) for level in range(6)]
    [100, 100, 33, 25, 20, 20]
    """

    most: int
    falling: int = 0
    least: int = 1

    def __post_init__(self) -> None:
        as_count("most", self.most)
        as_count("least", self.least)
        if self.falling != 0:
            as_count("falling", self.falling)
        if self.least > self.most:
            raise ProblemError(f"a budget of at least {self.least} and at most {self.most}; least is at most most")

    def at(self, level: int) -> int:
        """The budget after so many drafted tokens."""
        if level < 2 or not self.falling:
            return self.most
        return max(self.least, self.most // (self.falling * (level + 1)))

    @classmethod
    def of(cls, budget: Budget | int) -> Budget:
        """A number is a fixed budget."""
        return budget if isinstance(budget, Budget) else cls(budget)


@dataclass(frozen=True, eq=False)
class Frequent:
    """The most frequent tokens, as many as the budget of a level: PA-FR [zhang2025dynaspec, appendix A.1].

    With a fixed budget it is FR-Spec [zhao2025frspec], and drafts what ``draft_tokens`` would.  Suppressed tokens, and
    those that the target does not know, take no place.

    Parameters
    ----------
    order : array_like of int, shape (k,)
        Tokens, the most frequent first, such as ``frequency_prune(counts, size)`` gives.
    budget : Budget or int
        Of tokens; a number is a fixed budget.

    Raises
    ------
    ProblemError
        If the order is not one of different tokens, or has fewer than the budget.

    Examples
    --------
    >>> from otspec.decode import Budget, Frequent, shipped
    >>> from otspec.vocab import frequency_prune
    >>> order = frequency_prune(shipped.frequencies(), size=512)  # of the tokens of the package's pair
    >>> shortlist = Frequent(order, Budget(512, falling=1, least=64))  # for draft_shortlist of otspec.generate
    >>> [shortlist.budget.at(level) for level in range(4)]
    [512, 512, 170, 128]
    """

    order: IntArray
    budget: Budget

    def __init__(self, order: Any, budget: Budget | int) -> None:
        ranked = np.asarray(order.cpu() if isinstance(order, torch.Tensor) else order)
        if ranked.ndim != 1 or not ranked.size or ranked.dtype.kind not in "iu":
            raise ProblemError(
                f"order has shape {ranked.shape} and type {ranked.dtype}; pass ids of tokens, (k,) with k >= 1, the "
                "most frequent first"
            )
        if np.unique(ranked).size < ranked.size or ranked.min() < 0:
            raise ProblemError("order holds a token twice, or a number below 0; it ranks different tokens")
        checked = Budget.of(budget)
        if checked.most > ranked.size:
            raise ProblemError(
                f"the budget is {checked.most} tokens, and order ranks {ranked.size}; rank more, or pass less"
            )
        object.__setattr__(self, "order", ranked.astype(np.int64))
        object.__setattr__(self, "budget", checked)

    def head(self, model: PreTrainedModel, sampling: Sampling, vocab: int) -> RankedHead:
        """As `otspec.decode.drafters.shortlists.selection.Selection.head`.

        Raises
        ------
        ProblemError
            If the order has tokens that the model lacks, the model's head cannot be computed apart from the rest, or
            sampling suppresses all tokens of the order.
        """
        if self.order.max() >= vocabulary(model):
            raise ProblemError(
                f"order holds {self.order.max()}, and the draft model's tokens run from 0 to {vocabulary(model) - 1}"
            )
        order = torch.from_numpy(self.order[self.order < vocab]).to(model.device)
        order = order[sampling.allowed(vocab, model.device)[order]][: self.budget.most]
        if not len(order):
            raise ProblemError(
                f"all {len(self.order)} tokens of the order are suppressed by the logits processors (suppress_tokens) "
                "or unknown to the target; rank one that is not"
            )
        twin, head = without_head(model)
        return RankedHead(twin, sampling, vocab, order, head.rows(order), self.budget)


@dataclass(frozen=True, eq=False)
class RankedHead:
    """A head whose rows are in the order of frequency: a budget of them is a view, and nothing is gathered."""

    model: PreTrainedModel
    sampling: Sampling
    vocab: int
    tokens: torch.Tensor
    """Shape (k,): the most frequent first."""
    rows: Head
    """Of these tokens, in their order."""
    budget: Budget
    columns: torch.Tensor | None = None
    """As `DraftHead.columns`, shape (k,)."""

    @property
    def known_by(self) -> object:
        """As `DraftHead.known_by`; the model is a twin that no other head has."""
        return None if (known := self.sampling.known_by) is None else (known, id(self))

    @property
    def support(self) -> int | None:
        """As sampling leaves it, or as many as are ranked."""
        sampled = self.sampling.support
        return len(self.tokens) if sampled is None else min(sampled, len(self.tokens))

    def logits(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `DraftHead.logits`; the shortlist depends on the level alone."""
        first = slice(self.budget.at(level.number))
        return laid_out(self.rows.rows(first)(output), self.tokens[first], self.vocab)

    def laws(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `otspec.decode.drafters.shortlists.selection.DraftHead.laws`."""
        return self.sampling.draft_laws(self.logits(output, level))
