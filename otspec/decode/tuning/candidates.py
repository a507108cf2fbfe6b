"""The ways to decode that tuning considers: all lossless, most of them alike but for their depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otspec.laws import as_count

STEMS = (2,)
"""Lengths of stems to try: where the draft is good, paths are worth more that part only after some tokens."""


@dataclass(frozen=True)
class Family:
    """Ways to decode that differ in depth alone: settings of the method, None where one is left out."""

    paths: int
    solver: str | None = None
    law: str | None = None
    draft_temperature: float | None = None
    draft_top_k: int | None = None
    lookup: bool = False
    """Whether drafts are copied from the text, one path, and not drawn from the draft model."""
    stem: int = 0
    """How many tokens all paths share."""
    dynamic: bool = False
    """Whether drafts are a dynamic tree, of K L tokens."""
    beside_copy: bool = False
    """Whether a path of L tokens copied from the text is beside that tree."""

    @property
    def method(self) -> str:
        """A name of `otspec.decode.methods.catalogue.METHODS`."""
        if self.dynamic:
            return "dynamic-tree"
        return "prompt-lookup" if self.lookup else "multi-draft"

    def settings(self, depth: int) -> dict[str, Any]:
        """What the method takes."""
        if self.lookup:
            return {"depth": depth}
        if self.dynamic:
            return {"paths": self.paths, "depth": depth} | ({"prompt_lookup": depth} if self.beside_copy else {})
        chosen = {
            "solver": self.solver,
            "law": self.law,
            "draft_temperature": self.draft_temperature,
            "draft_top_k": self.draft_top_k,
        }
        shape: dict[str, Any] = {"paths": self.paths, "depth": depth}
        if self.stem:
            branches = [self.paths, *[1] * (depth - self.stem - 1)] if depth > self.stem else []
            shape = {"branching": [1] * min(self.stem, depth) + branches}
        return shape | {name: value for name, value in chosen.items() if value is not None}

    @property
    def name(self) -> str:
        """What it is called in tables."""
        if self.lookup:
            return "prompt lookup"
        if self.dynamic:
            return f"dynamic trees, K = {self.paths}{', beside a copied path' if self.beside_copy else ''}"
        rule = self.solver or f"{self.law} siblings"
        top = "" if self.draft_top_k is None or self.law is not None else f", drafts of top-k {self.draft_top_k}"
        stem = f" behind a stem of {self.stem}" if self.stem else ""
        return f"{rule}, K = {self.paths}{stem}{top}"


LOOKUP = Family(1, lookup=True)
"""Prompt lookup: drafts that cost no pass."""


@dataclass(frozen=True)
class Candidate:
    """One way to decode: a family at a depth L, or plain decoding."""

    family: Family | None = None
    depth: int = 0

    @property
    def method(self) -> str:
        """A name of `otspec.decode.methods.catalogue.METHODS`."""
        return "vanilla" if self.family is None else self.family.method

    @property
    def settings(self) -> dict[str, Any]:
        """What the method takes."""
        return {} if self.family is None else self.family.settings(self.depth)

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return "plain decoding" if self.family is None else f"{self.family.name}, L = {self.depth}"


PLAIN = Candidate()
"""Token by token from the target."""


def families(paths: Sequence[int], draft_top_k: Sequence[int], sampling: Mapping[str, Any], vocab: int) -> list[Family]:
    """All families for some numbers of paths.

    Sampled texts are drafted by independent paths, which `block` verifies if there is one and `nested` if there are
    several; their drafts may be truncated, or begin with a stem that all paths share (docs/paths.md).  Greedy
    texts are drafted by the likeliest tokens: independent paths would all be one, so several begin with different
    tokens, or are a dynamic tree, and a path copied from the text may be beside that.  Both may be copies alone, too.

    Parameters
    ----------
    paths : sequence of int
        K.
    draft_top_k : sequence of int
        Truncations of the drafts to try, besides none.  Those that would cut nothing are left out.
    sampling : mapping
        The target's temperature and top_k, where they are given.
    vocab : int
        Number of tokens.

    Raises
    ------
    ProblemError
        If a number is not an integer >= 1.
    """
    counts = sorted({as_count("paths", count) for count in paths})
    support = min(vocab, sampling.get("top_k") or vocab)
    cuts = sorted({as_count("draft_top_k", cut) for cut in draft_top_k})
    if sampling.get("temperature") == 0:
        drafted = [count for count in counts if count <= support]
        several = [count for count in drafted if count > 1]
        return [
            *(Family(count, "block") if count == 1 else Family(count, None, "top_k", 1.0) for count in drafted),
            *(Family(count, dynamic=True, beside_copy=beside) for beside in (False, True) for count in several),
            LOOKUP,
        ]
    return [
        *(
            Family(count, "block" if count == 1 else "nested", draft_top_k=cut)
            for count in counts
            for cut in (None, *(cut for cut in cuts if cut < support))
        ),
        *(Family(count, "nested", stem=stem) for count in counts if count > 1 for stem in STEMS),
        LOOKUP,
    ]
