"""The options of every command that reads a file of positions: which of its arrays, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """Which arrays of a file of positions are read, and what they hold."""

    target_key: str | None = None
    """The name of the target's array in the file, where it has another; pass --draft-key too."""
    draft_key: str | None = None
    """The name of the draft's array in the file."""
    kind: str | None = None
    """What the arrays hold, logits or probs, where neither names nor values tell."""

    @property
    def all(self) -> dict[str, Any]:
        """All of them, by name."""
        return dict(vars(self))
