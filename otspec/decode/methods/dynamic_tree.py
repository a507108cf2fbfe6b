"""Dynamic trees of a draft model's likeliest tokens [li2024eagle2]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.base.sampling import DraftSampling, Sampling
from otspec.decode.drafters.catalogue import dynamic_class, selection_of
from otspec.decode.drafters.shortlists.selection import Selection
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.settings import DraftSettings
from otspec.decode.step.strategy import DraftModels, Prepared
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.paths import Match


@dataclass(frozen=True, eq=False)
class DynamicTree:
    """Drafts a model's likeliest tokens; tokens sampled from the target are kept while they agree with one.

    Every level goes on from the K likeliest prefixes of the level above, each by its K likeliest tokens, and of all
    that were looked at the K L likeliest are drafted.  Likely is by the draft model's own probabilities, at temperature
    1, of a token and all drafted before it.  The tree follows from the text, so it is verified as fixed drafts are.
    A model that drafts all depths at once, as Medusa's heads do, is asked once, and the likeliest prefixes of all are
    drafted.  With tokens or a shortlist of its own, the tree is of these: with a router it is DynaSpec's
    [zhang2025dynaspec, Algorithm 1].

    Parameters
    ----------
    draft : PreTrainedModel
        Also one that the target steers or feeds, or heads.
    paths : int
        K.
    depth : int
        L, tokens of a path at most.
    size : int, optional
        Tokens of a tree at most; by default K L.
    draft_tokens, draft_shortlist : optional
        As `DraftSettings` has them.
    matching : None
        A draft model with another tokenizer is refused.

    Raises
    ------
    ProblemError
        If a number is no count, there are several draft models, or the one has another tokenizer, or what is computed
        of its tokens is said twice.
    """

    draft: DraftModels
    paths: int = 4
    depth: int = 8
    size: int | None = None
    draft_tokens: Any = None
    draft_shortlist: Selection | None = None
    matching: Matching | None = None

    def __post_init__(self) -> None:
        for name in ("paths", "depth"):
            as_count(name, getattr(self, name))
        if self.size is not None:
            as_count("size", self.size)
        if not isinstance(self.draft, PreTrainedModel):
            raise ProblemError("a dynamic tree is of one draft model; pass it alone, not in a list")
        if self.matching is not None:
            raise ProblemError(
                "a dynamic tree is of a draft model with the target's tokenizer, and this one has another"
            )
        DraftSettings(draft_tokens=self.draft_tokens, draft_shortlist=self.draft_shortlist)  # checks
        self._selection  # noqa: B018  checks

    @property
    def lossless(self) -> bool:
        """Yes."""
        return True

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter of fixed drafts."""
        assert isinstance(self.draft, PreTrainedModel)
        drafter = dynamic_class(self.draft)
        size = self.paths * self.depth if self.size is None else self.size
        own = DraftSampling().of(sampling)
        made = drafter(self.draft, self.paths, self.depth, size, own, vocab, generator, self._selection)
        return Prepared(made, Match())

    @cached_property
    def _selection(self) -> Selection | None:
        assert isinstance(self.draft, PreTrainedModel)
        return selection_of([self.draft], self.draft_tokens, draft_shortlist=self.draft_shortlist)
