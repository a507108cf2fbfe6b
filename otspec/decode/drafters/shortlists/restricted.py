"""Drafting from some of the tokens: which a draft model's head is computed for, and where their mass goes.

[zhao2025frspec] keeps the most frequent ones; [timor2025out] then moves draft mass to the others by a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.shortlists.selection import Level, laid_out
from otspec.decode.models.head import with_head_for
from otspec.decode.models.tokens.matching import Matching
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.vocab import Affinity, affinity_from_matrix
from otspec.vocab.intersection import as_mask
from otspec.vocab.matrices import StoredAffinity, is_sparse


@dataclass(frozen=True, eq=False)
class Restriction:
    """The tokens that a draft model keeps.

    Make one with `of`, which checks.
    """

    tokens: IntArray
    """Their ids, ascending, shape (k,)."""
    affinity: StoredAffinity | None = None
    """Where their mass goes: a row for each of them, in any order, and perhaps for others; None where it stays."""
    own: IntArray | None = None
    """Their ids in the draft model, shape (k,), where it has another tokenizer."""

    @classmethod
    def of(cls, draft_tokens: Any, draft_kernel: Any, vocab: int) -> Restriction | None:
        """The restriction by the settings of `otspec.generate`; None if they set none.

        Parameters
        ----------
        draft_tokens, draft_kernel
        vocab : int
            The draft model's number of tokens.

        Raises
        ------
        ProblemError
            If both are given, the tokens are none or not different tokens of the draft model, or the kernel is not
            row-stochastic or not stored.
        """
        if draft_kernel is not None:
            if draft_tokens is not None:
                raise ProblemError(
                    "draft_tokens and draft_kernel are both given; the kernel's rows are the tokens that are kept, so "
                    "leave out draft_tokens"
                )
            affinity = draft_kernel if isinstance(draft_kernel, Affinity) else affinity_from_matrix(draft_kernel)
            if not isinstance(affinity, StoredAffinity):
                raise ProblemError(
                    "draft_kernel is a softmax of covariances, with an entry for every pair of tokens; pass its "
                    ".nearest(64), which keeps the 64 largest of each row"
                )
            if affinity.tokens.max() >= vocab:
                raise ProblemError(
                    f"draft_kernel has a row for token {affinity.tokens.max()}, and the draft model's tokens run from "
                    f"0 to {vocab - 1}; give rows to its tokens only (tokens= of otspec.vocab.affinity)"
                )
            return cls(np.sort(affinity.tokens), affinity)
        return None if draft_tokens is None else cls(_as_tokens(draft_tokens, vocab))

    def matched(self, matching: Matching) -> Restriction:
        """The same for a draft model with another tokenizer: those of the tokens that it knows.

        Raises
        ------
        ProblemError
            If it knows none of them.
        """
        tokens, _, places = np.intersect1d(self.tokens, matching.tokens, assume_unique=True, return_indices=True)
        if not tokens.size:
            raise ProblemError(
                f"none of the {self.tokens.size} tokens that may be drafted is a token of the draft model, whose "
                "tokenizer is another; name some that are (matching.tokens)"
            )
        return Restriction(tokens, self.affinity, matching.own[places])

    def check_target(self, vocab: int) -> None:
        """Raise unless a target of so many tokens knows all that may be drafted."""
        if self.affinity is not None and self.affinity.vocab != vocab:
            raise ProblemError(
                f"draft_kernel is for {self.affinity.vocab} tokens, and the target has {vocab}; both need one "
                "vocabulary"
            )
        if self.tokens[-1] >= vocab:
            raise ProblemError(
                f"draft_tokens holds {self.tokens[-1]}, and the target's tokens run from 0 to {vocab - 1}; drop what "
                "the target does not know"
            )

    def head(self, model: PreTrainedModel, sampling: Sampling, vocab: int) -> RestrictedHead:
        """As `otspec.decode.drafters.shortlists.selection.Selection.head`.

        Raises
        ------
        ProblemError
            If the target does not know all that may be drafted, the model's head cannot be computed for these tokens
            alone, or sampling suppresses all of them.
        """
        self.check_target(vocab)
        drafted = self._on(model)
        if not sampling.leaves_some(drafted.tokens, vocab):
            raise ProblemError(
                f"all {len(drafted.tokens)} tokens that may be drafted are suppressed by the logits processors "
                "(suppress_tokens); keep one that is not"
            )
        return RestrictedHead(with_head_for(model, drafted.own), sampling, vocab, drafted)

    def _on(self, model: PreTrainedModel) -> DraftVocabulary:
        """The same where a model is, one for as long as it and the affinity are there: graphs of drafts read it."""
        own = _DRAFTED.setdefault(model if self.affinity is None else self.affinity, {})
        key = self.tokens.tobytes(), None if self.own is None else self.own.tobytes(), model.device
        if key not in own:
            own[key] = self.on(model.device)
        return own[key]

    def on(self, device: torch.device) -> DraftVocabulary:
        """The same on the device of the models."""
        tokens = torch.from_numpy(self.tokens).to(device)
        own = tokens if self.own is None else torch.from_numpy(self.own).to(device)
        if self.affinity is None:
            return DraftVocabulary(tokens, own)
        order = np.argsort(self.affinity.tokens)
        order = order[np.isin(self.affinity.tokens[order], self.tokens)]
        matrix, totals = self.affinity.matrix[order], self.affinity.totals[order]
        if not is_sparse(matrix):
            return DraftVocabulary(tokens, own, torch.from_numpy((matrix / totals[:, None]).T).to(device))
        stored = matrix.tocoo()
        places = torch.from_numpy(np.array([stored.col, stored.row], dtype=np.int64))
        values = torch.from_numpy(stored.data / totals[stored.row])
        with torch.sparse.check_sparse_tensor_invariants():  # versions of torch warn unless this is set
            kernel = torch.sparse_coo_tensor(places, values, matrix.shape[::-1]).coalesce().to(device)
        return DraftVocabulary(tokens, own, kernel)


@dataclass(frozen=True, eq=False)
class DraftVocabulary:
    """The kept tokens, and where their mass goes, on a device."""

    tokens: torch.Tensor
    """Shape (k,), ascending."""
    own: torch.Tensor
    """Their ids in the draft model, shape (k,)."""
    kernel: torch.Tensor | None = None
    """The matrix M of [timor2025out], transposed: shape (V, k), float64, sparse or dense."""

    def redistributed(self, laws: torch.Tensor) -> torch.Tensor:
        """M^T q' for laws q' on the kept tokens, shape (..., V) both, as `otspec.vocab.rdk`."""
        if self.kernel is None:
            return laws
        moved = (self.kernel @ laws[..., self.tokens].flatten(0, -2).T).T.reshape(laws.shape)
        total = moved.sum(dim=-1, keepdim=True)
        none = total == 0  # a law that stands for none, see `Sampling.draft_laws`, may lie on no kept token
        moved[..., :1].masked_fill_(none, 1.0)
        return moved / total.masked_fill(none, 1.0)

    def support(self, sampled: int | None) -> int | None:
        """How many tokens a law has at most where sampling leaves so many; None for all."""
        if self.kernel is not None:
            return None
        return len(self.tokens) if sampled is None else min(sampled, len(self.tokens))


@dataclass(frozen=True, eq=False)
class RestrictedHead:
    """A head of fewer rows, and where the mass of its tokens goes."""

    model: PreTrainedModel
    sampling: Sampling
    vocab: int
    drafted: DraftVocabulary

    @property
    def support(self) -> int | None:
        """As sampling leaves it, or as many as are kept."""
        return self.drafted.support(self.sampling.support)

    @property
    def columns(self) -> torch.Tensor | None:
        """The kept tokens, where nothing moves their mass, and no processor knows tokens by their ids."""
        return self.drafted.tokens if self.drafted.kernel is None and self.sampling.by_values else None

    @property
    def known_by(self) -> object:
        """As `DraftHead.known_by`."""
        return None if (known := self.sampling.known_by) is None else (known, self.vocab, self.drafted)

    def logits(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `otspec.decode.drafters.shortlists.selection.DraftHead.logits`."""
        return laid_out(output, self.drafted.tokens, self.vocab)

    def laws(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `otspec.decode.drafters.shortlists.selection.DraftHead.laws`."""
        if self.columns is not None:
            return self.sampling.draft_laws(output)
        return self.drafted.redistributed(self.sampling.draft_laws(self.logits(output, level)))


_DRAFTED: WeakKeyDictionary[Any, dict[object, DraftVocabulary]] = WeakKeyDictionary()
"""By the affinity, or the model where there is none."""


def _as_tokens(tokens: Any, vocab: int) -> IntArray:
    """Ids or a mask as ascending ids.

    Raises
    ------
    ProblemError
        If they are neither, or none, or not different.
    """
    mask = as_mask("draft_tokens", tokens.cpu() if isinstance(tokens, torch.Tensor) else tokens, vocab)
    if mask.ndim != 1 or not mask.any():
        found = "holds no token" if mask.ndim == 1 else f"is a mask of shape {mask.shape}"
        raise ProblemError(f"draft_tokens {found}; pass the ids of those that may be drafted, at least one")
    return np.flatnonzero(mask)
