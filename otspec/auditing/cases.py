"""A case: one instance of laws that a rule is tried on, as the driver and the report see it."""

from __future__ import annotations

from typing import Protocol

from otspec.laws import FloatArray


class Case(Protocol):
    """A position with its drafts, or the texts of a small model; checked, and known by its name."""

    @property
    def name(self) -> str:
        """Name in the report."""

    @property
    def p(self) -> FloatArray:
        """Law that the output should have, shape (V,): of a token, or of a text."""

    @property
    def q(self) -> FloatArray:
        """Law that the drafts are made from, shape (V,) or (n, V)."""

    @property
    def shown(self) -> FloatArray:
        """Law that the rule is told in place of `q`, of the same shape."""

    @property
    def n(self) -> int:
        """Drafts of a position, or paths of a tree."""

    @property
    def enumerable(self) -> bool:
        """Whether all drafts are few enough to be listed."""
