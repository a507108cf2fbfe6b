"""Prompt lookup: what followed the same few tokens earlier in the text is drafted [saxena2023prompt]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from otspec.decode.drafters.paced import paced
from otspec.decode.drafters.prompt_lookup import LookupDrafter
from otspec.decode.pacing.goodput import GOODPUT, Goodput, Pacer, pace_of
from otspec.decode.pacing.menu import cuts, menu_of
from otspec.decode.sampling import Sampling
from otspec.decode.strategy import Prepared
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.paths import Match
from otspec.paths.shape import Shape


@dataclass(frozen=True)
class PromptLookup:
    """Drafts copied from the text; tokens sampled from the target are kept while they agree with one of them.

    Parameters
    ----------
    depth : int
        L, tokens of a draft.
    ngram : int
        How many last tokens of the text are looked up; where they do not occur often enough earlier, fewer.
    paths : int
        K, different drafts at most: the latest after the longest endings.  Where they begin alike they share nodes.
    pace : str or Goodput, optional
        How much each step copies, K and L at most: see `otspec.generate`.
    menu : sequence of sequences of int, optional
        With a pace, the branchings that it chooses among in place of K and L: (K, 1, ..., 1).

    Raises
    ------
    ProblemError
        If a number is no count, there is no such pace, or it cannot choose among these.
    """

    depth: int = 8
    ngram: int = 3
    paths: int = 1
    pace: str | Goodput | None = None
    menu: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        for name in ("depth", "ngram", "paths"):
            as_count(name, getattr(self, name))
        if self._pace is not None and self._pace.selector is not None:
            raise ProblemError(
                "a selector looks at the laws of a draft model, and copies have none; pass a pace without a selector"
            )
        if self.menu is None:
            return
        if self._pace is None:
            raise ProblemError(f"menu is what a pace chooses among; pass pace={GOODPUT!r}, or paths and depth")
        for shape in menu_of(self.menu):
            if not shape.independent_paths:
                raise ProblemError(f"copies are paths from the root, and the menu has {shape.branching}; leave it out")

    @cached_property
    def _pace(self) -> Goodput | None:
        """One for all runs, so that what it measures in one serves the next."""
        return pace_of(self.pace)

    @property
    def lossless(self) -> bool:
        """Yes."""
        return True

    @property
    def draft(self) -> None:
        """There is no draft model."""

    @property
    def matching(self) -> None:
        """Nor tokens of one."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter of fixed drafts."""
        if self._pace is None:
            return Prepared(LookupDrafter(self.paths, self.depth, self.ngram), Match())
        menu = cuts(Shape.paths(self.paths, self.depth)) if self.menu is None else menu_of(self.menu)
        deepest = max(one.depth for one in menu)
        return Prepared(paced(LookupDrafter(self.paths, deepest, self.ngram), Pacer(self._pace, menu)), Match())
