"""Dynamic trees of a draft model's likeliest tokens [li2024eagle2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import draft_law
from otspec.decode.base.sampling import DraftSampling, Sampling
from otspec.decode.drafters.catalogue import drafter_of, selection_of
from otspec.decode.drafters.drafter import FixedDrafter
from otspec.decode.drafters.grow_tree import GrowTree
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.drafters.prompt_lookup import beside
from otspec.decode.drafters.shortlists.selection import Selection
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.settings import DraftSettings
from otspec.decode.step.strategy import DraftModels, Prepared
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.settings import Conflict, refuse
from otspec.verification import Match, Shape, shape_of_choices

PATHS, DEPTH = 4, 8
"""K and L by default."""


@dataclass(frozen=True, eq=False)
class DynamicTree:
    """Drafts a model's likeliest tokens; tokens sampled from the target are kept while they agree with one.

    Every level goes on from the K likeliest prefixes of the level above, each by its K likeliest tokens, and of all
    these the K L likeliest are drafted.  Likely is by the draft model's own probabilities, at temperature
    1, of a token and all drafted before it.  The tree follows from the text, so it is verified as fixed drafts are.
    A model that drafts all depths at once, as Medusa's heads do, is called once, and the likeliest prefixes of all are
    drafted.  With tokens or a shortlist of its own, the tree is of these: with a router it is DynaSpec's
    [zhang2025dynaspec, Algorithm 1].

    Parameters
    ----------
    draft : PreTrainedModel
        The draft model; it may be one that the target steers or feeds, or heads.
    paths : int, optional
        K; by default 4.
    depth : int, optional
        L, tokens of a path at most; by default 8.
    size : int, optional
        Tokens of a tree at most; by default K for every level, K L of a whole one.
    tree : str or sequence of sequences of int, optional
        In place of these three: a static tree, as `DraftSettings` has it, in which the node of rank i is the i-th
        likeliest token after its parent, as in Medusa [cai2024medusa] and the first EAGLE [li2024eagle].
    draft_tokens, draft_shortlist : optional
        As `DraftSettings` has them.
    matching : Matching, optional
        A draft model with another tokenizer drafts static trees alone.
    prompt_lookup : int, optional
        As `DraftSettings` has it.

    Raises
    ------
    ProblemError
        If a number is no count, there are several draft models, or the one has another tokenizer, or two settings
        choose which of its tokens are computed.
    """

    draft: DraftModels
    paths: int | None = None
    depth: int | None = None
    size: int | None = None
    tree: str | Sequence[Sequence[int]] | None = None
    draft_tokens: Any = None
    draft_shortlist: Selection | None = None
    matching: Matching | None = None
    prompt_lookup: int | None = None

    def __post_init__(self) -> None:
        of_drafts = ("paths", "depth", "tree", "draft_tokens", "draft_shortlist", "prompt_lookup")
        DraftSettings(**{name: getattr(self, name) for name in of_drafts})  # checks
        if self.size is not None:
            as_count("size", self.size)
        refuse([Conflict("tree", "size", "both set the shape of the drafts")], vars(self))
        if not isinstance(self.draft, PreTrainedModel):
            raise ProblemError("a dynamic tree is of one draft model; pass it alone, not in a list")
        if self.matching is not None and self.tree is None:
            raise ProblemError(
                "a dynamic tree is of a draft model with the target's tokenizer, and this one has another"
            )
        self._selection  # noqa: B018  checks

    @property
    def lossless(self) -> bool:
        """Yes."""
        return True

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter of fixed drafts."""
        assert isinstance(self.draft, PreTrainedModel)
        if self.tree is not None:
            shape = shape_of_choices(self.tree)
            shape.check_room(vocab)
            whole = DraftSampling(temperature=1.0, top_k=0, top_p=1.0).of(sampling)
            likeliest = drafter_of(
                [self.draft], shape, draft_law("top_k"), whole, vocab, generator, self._selection, self.matching
            )
            return Prepared(beside(FixedDrafter(likeliest), self.prompt_lookup), Match())
        paths, depth = self.paths or PATHS, self.depth or DEPTH
        own, shape = DraftSampling().of(sampling), Shape.paths(paths, depth)
        drafter = drafter_of([self.draft], shape, draft_law("iid"), own, vocab, generator, self._selection)
        assert isinstance(drafter, LevelDrafter)
        return Prepared(beside(GrowTree(drafter, paths, self.size), self.prompt_lookup), Match())

    @cached_property
    def _selection(self) -> Selection | None:
        assert isinstance(self.draft, PreTrainedModel)
        return selection_of(
            [self.draft], self.draft_tokens, draft_shortlist=self.draft_shortlist, matching=self.matching
        )
