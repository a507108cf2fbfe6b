"""Files of data on a command line: a list of them by name, and which arrays of theirs are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from otspec.data.position import Numbered


Opened = TypeVar("Opened", bound="Numbered")


def by_name(data: str, open_all: Callable[[str], Mapping[str, Opened]]) -> dict[str, Opened]:
    """Sources by name; of two of one name, by their paths.

    Parameters
    ----------
    data : str
        Spellings, as a list.
    open_all : callable
        From a spelling to what is there, by path.
    """
    found: dict[str, Opened] = {}
    for spelling in dict.fromkeys(word.strip() for word in data.split(",")):
        found |= open_all(spelling)
    names = [source.name for source in found.values()]
    return {path if names.count(one.name) > 1 else one.name: one for path, one in found.items()}


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """Which arrays of a file of positions are read, and what they hold."""

    target_key: str | None = None
    """The name of the target's array in the file, where it has another; pass --draft-key too."""
    draft_key: str | None = None
    """The name of the draft's array in the file."""
    kind: str | None = None
    """What the arrays hold, logits or probs, where neither names nor values show it."""

    @property
    def all(self) -> dict[str, Any]:
        """All of them, by name."""
        return dict(vars(self))
