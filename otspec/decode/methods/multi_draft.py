"""Trees from a draft model, verified by any rule or solver."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self, Unpack

import torch
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import DraftLaw, draft_law
from otspec.decode.base.sampling import DraftSampling, Sampling
from otspec.decode.drafters.catalogue import drafter_of, selection_of
from otspec.decode.drafters.prompt_lookup import beside
from otspec.decode.drafters.shortlists.selection import Selection
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.settings import DraftOptions, DraftSettings, drafts_among
from otspec.decode.step.strategy import Prepared, listed
from otspec.decode.verify.verifiers import verifier
from otspec.errors import ProblemError
from otspec.schemes import IID
from otspec.verification import Shape, shape_of_choices

PATHS, DEPTH = 1, 3
"""K and L by default: of all that docs/decoding.md has figures of, what is rarely slower than
plain decoding, on a CPU or a GPU.  `otspec tune` finds what is fastest for a pair at hand."""
SIBLINGS = 4
"""Children of a node whose law draws several jointly."""


class MultiDraft:
    """Trees from a draft model, verified jointly or node by node.

    Parameters
    ----------
    draft : PreTrainedModel
        The draft model, or several with independent paths: as many of each, with ``law="independent"``.
    matching : Matching, optional
        The matching of the target's tokens with the draft model's, where that has another tokenizer:
        `otspec.decode.matching_of`.  Then all token ids among the settings are the target's.
    lossless : bool
        The label of a verifier of one's own.
    **settings
        Those of `otspec.decode.DraftSettings`.

    Raises
    ------
    ProblemError
        If a setting of the drafts is out of its range.

    Examples
    --------
    >>> from otspec.decode import MultiDraft, run, shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> strategy = MultiDraft(draft, paths=4, depth=2, solver="traversal")
    >>> run(target, strategy, **prompt, max_new_tokens=8, seed=1).metrics.tokens
    8
    """

    def __init__(
        self,
        draft: PreTrainedModel | Sequence[PreTrainedModel],
        *,
        matching: Matching | None = None,
        lossless: bool = True,
        **settings: Unpack[DraftOptions],
    ) -> None:
        drafts, others = drafts_among(settings)
        if others:
            raise TypeError(f"MultiDraft takes no {', '.join(others)}; its settings are {', '.join(drafts.all)}")
        self._set(draft, drafts, matching, lossless)

    @classmethod
    def of(
        cls,
        draft: PreTrainedModel | Sequence[PreTrainedModel],
        settings: DraftSettings,
        matching: Matching | None = None,
        lossless: bool = True,
    ) -> Self:
        """The strategy of these settings."""
        made = cls.__new__(cls)
        made._set(draft, settings, matching, lossless)
        return made

    def _set(
        self,
        draft: PreTrainedModel | Sequence[PreTrainedModel],
        settings: DraftSettings,
        matching: Matching | None,
        lossless: bool,
    ) -> None:
        self.draft = draft
        self.settings = settings
        self.matching = matching
        self.lossless = lossless
        self._draft_sampling = DraftSampling(
            self.settings.draft_temperature, self.settings.draft_top_k, self.settings.draft_top_p
        )
        self._selection  # noqa: B018  checks

    @property
    def models(self) -> list[PreTrainedModel]:
        """The draft models."""
        return list(self.draft) if isinstance(self.draft, Sequence) else [self.draft]

    @cached_property
    def _selection(self) -> Selection | None:
        of = self.settings
        return selection_of(listed(self.draft), of.draft_tokens, of.draft_kernel, of.draft_shortlist, self.matching)

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run."""
        settings, law = self.settings, draft_law(self.settings.law)
        shape = self._shape(law)
        _check(shape, law, vocab)
        drafter = drafter_of(
            self.models,
            shape,
            law,
            self._draft_sampling.of(sampling),
            vocab,
            generator,
            self._selection,
            self.matching,
            settings.draft_confidence or 0.0,
        )
        return Prepared(beside(drafter, settings.prompt_lookup), verifier(settings.solver, shape, law))

    def _shape(self, law: DraftLaw) -> Shape:
        """The shape by tree or branching, or K paths of L tokens; siblings that are drawn jointly are several."""
        settings = self.settings
        if settings.tree is not None:
            return shape_of_choices(settings.tree)
        if settings.branching is not None:
            return Shape.of(settings.branching)
        paths = PATHS
        if law.several:
            paths = max(len(self.models), 1)
        elif law.scheme is not IID:
            paths = law.most or SIBLINGS
        return Shape.paths(
            paths if settings.paths is None else settings.paths, DEPTH if settings.depth is None else settings.depth
        )


def _check(shape: Shape, law: DraftLaw, vocab: int) -> None:
    """Raise unless trees of that shape can be drafted."""
    shape.check_room(vocab)
    widest = max(shape.branching, default=0)
    if law.most is not None and widest > law.most:
        raise ProblemError(
            f"{law.name} draws at most {law.most} children of a node, and branching is {shape.branching}; "
            f"pass branching=({law.most}, ...), or another law"
        )
    if law.scheme is not IID and not law.several and widest > vocab:
        raise ProblemError(f"{widest} different children of one node, and {vocab} tokens in all")
