"""What to draft and how to verify it: the part of decoding that methods differ in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from transformers import PreTrainedModel

from otspec.decode.draft_laws import draft_law
from otspec.decode.drafter import Drafter, ModelDrafter
from otspec.decode.sampling import Sampling
from otspec.decode.shape import Shape
from otspec.decode.verification import Rule, verifier
from otspec.errors import ProblemError
from otspec.paths import PathVerifier
from otspec.schemes import IID


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
    """

    draft: PreTrainedModel
    paths: int = 4
    depth: int = 8
    solver: Rule = None
    branching: Sequence[int] | None = None
    law: str = "iid"
    lossless: bool = True

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run."""
        shape = Shape.paths(self.paths, self.depth) if self.branching is None else Shape.of(self.branching)
        law = draft_law(self.law)
        if law.scheme is not IID and max(shape.branching) > vocab:
            raise ProblemError(f"{max(shape.branching)} different children of one node, and {vocab} tokens in all")
        return Prepared(
            ModelDrafter(self.draft, shape, law, sampling, vocab, generator), verifier(self.solver, shape, law)
        )
