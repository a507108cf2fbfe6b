"""Trees from a draft model, verified by any rule or solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import DraftLaw, draft_law
from otspec.decode.base.sampling import DraftSampling, Sampling
from otspec.decode.drafters.cross_tokenizer.drafter import ForeignDrafter
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.drafters.eagle.drafter import FedDrafter
from otspec.decode.drafters.eagle.model import FedLlama
from otspec.decode.drafters.heads.drafter import HeadsDrafter
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.paced import PacedDrafter
from otspec.decode.drafters.sd2.drafter import SteeredDrafter
from otspec.decode.drafters.sd2.model import SteeredLlama
from otspec.decode.drafters.several import SeveralDrafters
from otspec.decode.drafters.shortlists.restricted import Restriction
from otspec.decode.drafters.shortlists.selection import Selection
from otspec.decode.models.context import vocabulary
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.pacing.goodput import Goodput, Pacer, pace_of
from otspec.decode.step.strategy import Prepared, listed
from otspec.decode.verify.verifiers import verifier
from otspec.errors import ProblemError
from otspec.schemes import IID
from otspec.verification.rules.catalogue import Rule
from otspec.verification.trees.shape import Shape

PATHS, DEPTH = 1, 3
"""K and L where nothing else is said: of all that docs/decoding.md has figures of, what is rarely slower than plain
decoding, on a CPU or a GPU.  `otspec tune` finds what is fastest for a pair at hand."""
PACED_DEPTH = 8
"""The largest L where each step chooses its own, and nothing else is said."""
SIBLINGS = 4
"""Children of a node whose law draws several jointly."""

WATCHING: Mapping[type[PreTrainedModel], type[LevelDrafter]] = {
    SteeredLlama: SteeredDrafter,
    FedLlama: FedDrafter,
    MedusaHeads: HeadsDrafter,
    MlpSpeculator: HeadsDrafter,
}
"""Who drafts from models that look at the target."""


@dataclass(frozen=True, eq=False)
class MultiDraft:
    """Trees from a draft model, verified jointly or node by node.

    Parameters
    ----------
    draft : PreTrainedModel
        Or several, whose paths are independent: as many of each, with ``law="independent"``.
    paths : int, optional
        K, number of independent paths; by default 1, or one for each of several draft models.
    depth : int, optional
        L, tokens of each; by default 3.
    solver : Rule, optional
        Who verifies: `nested` (the default for i.i.d. drafts; `block`, which is the same, for one path), another joint
        rule of `otspec.decode.JOINT`, or token-wise any solver of the registry, or a chain of them such as
        ``["global_resolution", "interval"]``.
    branching : sequence of int, optional
        In place of paths and depth: how many children the nodes of each level have; (n, n, n) is an n-ary tree.
    law : str
        How siblings are drawn, a name of `otspec.decode.DRAFT_LAWS`.  Other than ``"iid"``, they are verified for the
        scheme of that name.
    lossless : bool
        What a verifier of one's own is labelled.
    draft_temperature, draft_top_k, draft_top_p : optional
        Of the draft model alone, in place of what the target has: see `otspec.decode.base.sampling.DraftSampling`.
    draft_tokens, draft_kernel : optional
        The tokens that may be drafted, or a matrix that moves their mass to others: see `otspec.generate`.
    matching : Matching, optional
        What the target's tokens have to do with the draft model's, where that has another tokenizer:
        `otspec.decode.matching_of`.  Then all ids above are the target's.
    draft_shortlist : Selection, optional
        Which tokens the draft model computes at each slot, in place of these: `otspec.decode.Frequent`, or a
        `otspec.decode.Router`.
    draft_confidence : float, optional
        Where a path ends before it has L tokens: see `otspec.generate`.
    pace : str or Goodput, optional
        How deep each step drafts, and L is then 8 by default: see `otspec.generate`.

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

    draft: PreTrainedModel | Sequence[PreTrainedModel]
    paths: int | None = None
    depth: int | None = None
    solver: Rule = None
    branching: Sequence[int] | None = None
    law: str = "iid"
    lossless: bool = True
    draft_temperature: float | None = None
    draft_top_k: int | None = None
    draft_top_p: float | None = None
    draft_tokens: Any = None
    draft_kernel: Any = None
    matching: Matching | None = None
    draft_shortlist: Selection | None = None
    draft_confidence: float | None = None
    pace: str | Goodput | None = None

    def __post_init__(self) -> None:
        if self.draft_confidence is not None and not 0 <= self.draft_confidence <= 1:
            raise ProblemError(
                f"draft_confidence is {self.draft_confidence}; it is a probability in [0, 1], 0 to draft whole paths"
            )
        if self.draft_confidence and self.draft_kernel is not None:
            raise ProblemError(
                "draft_confidence goes by the draft model's own probabilities, and draft_kernel moves them to tokens "
                "that it may not have; leave out one of the two"
            )
        self._draft_sampling()
        self._pace  # noqa: B018  checks
        self._selection  # noqa: B018  checks

    @cached_property
    def _pace(self) -> Goodput | None:
        """One for all runs, so that what it measures in one serves the next."""
        if self.pace is not None and self.draft_confidence:
            raise ProblemError("pace and draft_confidence both say where drafts end; leave out one of the two")
        return pace_of(self.pace)

    @cached_property
    def _selection(self) -> Selection | None:
        if self.draft_tokens is None and self.draft_kernel is None:
            return self.draft_shortlist
        if self.draft_shortlist is not None:
            other = "draft_tokens" if self.draft_kernel is None else "draft_kernel"
            raise ProblemError(
                f"draft_shortlist and {other} are both given, and each says which tokens the draft model computes; "
                "leave one of them out"
            )
        vocab = self._own_vocab if self.matching is None else self.matching.vocab
        return Restriction.of(self.draft_tokens, self.draft_kernel, vocab)

    @property
    def _own_vocab(self) -> int:
        """Tokens that all draft models have."""
        return min(map(vocabulary, listed(self.draft)), default=0)

    def _draft_sampling(self) -> DraftSampling:
        return DraftSampling(self.draft_temperature, self.draft_top_k, self.draft_top_p)

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run."""
        law = draft_law(self.law)
        models = list(self.draft) if isinstance(self.draft, Sequence) else [self.draft]
        shape = self._shape(law, len(models))
        self._check(shape, law, vocab)
        drafts = self._draft_sampling().of(sampling)
        own = self._share(shape, law, len(models))
        if self.draft_confidence and (law.several or own.branching[:1] not in ((), (1,))):
            raise ProblemError(
                f"draft_confidence ends one path of one draft model, and {own.branching[0]} are drafted side by side "
                f"here, branching {own.branching}, law {self.law!r}; pass paths=1, or a branching that begins with 1"
            )
        kinds = [WATCHING.get(type(model), ModelDrafter) for model in models]
        if set(kinds) != {ModelDrafter} and (law.several or self.matching is not None):
            alone = "others beside it" if law.several else "a tokenizer of its own"
            raise ProblemError(f"a draft model that looks at the target drafts without {alone}; pass another one")
        if self.matching is None:
            drafters: list[LevelDrafter] = [
                kind(model, own, law, drafts, vocab, generator, self._selection, self.draft_confidence or 0.0)
                for kind, model in zip(kinds, models, strict=True)
            ]
        else:
            matching = self.matching.within(vocab, self._own_vocab)
            kept = self._selection or Restriction(matching.tokens)
            if not isinstance(kept, Restriction):
                raise ProblemError(
                    "draft_shortlist is for a draft model with the target's tokenizer, and this one has another; leave "
                    "it out, or pass draft_tokens"
                )
            kept = kept.matched(matching)
            settings = (own, law, drafts, vocab, generator, kept, matching, self.draft_confidence or 0.0)
            drafters = [ForeignDrafter(model, *settings) for model in models]
        drafter: Drafter = SeveralDrafters(drafters) if law.several else drafters[0]
        if self._pace is not None:
            if not shape.depth:
                raise ProblemError(
                    f"pace chooses how much to draft, and branching is {shape.branching}, which has no levels; leave "
                    "out one of the two"
                )
            drafter = PacedDrafter(drafter, Pacer(self._pace, shape))
        return Prepared(drafter, verifier(self.solver, shape, law))

    def _check(self, shape: Shape, law: DraftLaw, vocab: int) -> None:
        """Raise unless trees of that shape can be drafted."""
        shape.check_room(vocab)
        widest = max(shape.branching, default=0)
        if law.most is not None and widest > law.most:
            raise ProblemError(
                f"{self.law} draws at most {law.most} children of a node, and branching is {shape.branching}; "
                f"pass branching=({law.most}, ...), or another law"
            )
        if law.scheme is not IID and not law.several and widest > vocab:
            raise ProblemError(f"{widest} different children of one node, and {vocab} tokens in all")

    def _shape(self, law: DraftLaw, models: int) -> Shape:
        """As branching says, or K paths of L tokens; siblings that are drawn jointly are several."""
        if self.branching is not None:
            return Shape.of(self.branching)
        paths = PATHS
        if law.several:
            paths = max(models, 1)
        elif law.scheme is not IID:
            paths = law.most or SIBLINGS
        depth = PACED_DEPTH if self.pace is not None else DEPTH
        return Shape.paths(paths if self.paths is None else self.paths, depth if self.depth is None else self.depth)

    def _share(self, shape: Shape, law: DraftLaw, models: int) -> Shape:
        """What each of the draft models drafts."""
        if not law.several:
            if models != 1:
                raise ProblemError(
                    f'{models} draft models, and law is {self.law!r}; several draft by law="independent"'
                )
            return shape
        paths = shape.branching[0] if shape.branching else 0
        if not models or paths % models or not shape.independent_paths:
            raise ProblemError(
                f"{models} draft models draft independent paths, as many of each, and branching is {shape.branching}; "
                f"pass paths={models or 1}, or a multiple of it"
            )
        return Shape.paths(paths // models, shape.depth)
