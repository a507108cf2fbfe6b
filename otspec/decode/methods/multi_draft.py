"""Trees from a draft model, verified by any rule or solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from otspec.decode.drafters.draft_laws import draft_law
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.sampling import DraftSampling, Sampling
from otspec.decode.strategy import Prepared
from otspec.decode.verifiers import Rule, verifier
from otspec.errors import ProblemError
from otspec.paths.shape import Shape
from otspec.schemes import IID


@dataclass(frozen=True, eq=False)
class MultiDraft:
    """Trees from a draft model, verified jointly or node by node.

    Parameters
    ----------
    draft : PreTrainedModel
    paths : int
        K, number of independent paths.
    depth : int
        L, tokens of each.
    solver : Rule, optional
        Who verifies: `nested` (the default for independent paths), another joint rule of `otspec.decode.JOINT`, or
        token-wise any solver of the registry, or a chain of them such as ``["global_resolution", "interval"]``.
    branching : sequence of int, optional
        In place of paths and depth: how many children the nodes of each level have; (n, n, n) is an n-ary tree.
    law : str
        How siblings are drawn, a name of `otspec.decode.DRAFT_LAWS`.  Other than ``"iid"``, they are verified for the
        scheme of that name.
    lossless : bool
        What a verifier of one's own is labelled.
    draft_temperature, draft_top_k, draft_top_p : optional
        Of the draft model alone, in place of what the target has: see `otspec.decode.sampling.DraftSampling`.

    Raises
    ------
    ProblemError
        If a setting of the drafts is out of its range.
    """

    draft: PreTrainedModel
    paths: int = 4
    depth: int = 8
    solver: Rule = None
    branching: Sequence[int] | None = None
    law: str = "iid"
    lossless: bool = True
    draft_temperature: float | None = None
    draft_top_k: int | None = None
    draft_top_p: float | None = None

    def __post_init__(self) -> None:
        self._draft_sampling()

    def _draft_sampling(self) -> DraftSampling:
        return DraftSampling(self.draft_temperature, self.draft_top_k, self.draft_top_p)

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run."""
        shape = Shape.paths(self.paths, self.depth) if self.branching is None else Shape.of(self.branching)
        law = draft_law(self.law)
        if law.scheme is not IID and max(shape.branching) > vocab:
            raise ProblemError(f"{max(shape.branching)} different children of one node, and {vocab} tokens in all")
        drafts = self._draft_sampling().of(sampling)
        return Prepared(
            ModelDrafter(self.draft, shape, law, drafts, vocab, generator), verifier(self.solver, shape, law)
        )
