"""Files of data, as a list on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar


class Named(Protocol):
    """What has a name."""

    name: str


Opened = TypeVar("Opened", bound=Named)


def by_name(data: str, open_one: Callable[[str], Opened]) -> dict[str, Opened]:
    """Sources by name; of two files of one name, by their paths."""
    spellings = list(dict.fromkeys(word.strip() for word in data.split(",")))
    found = {spelling: open_one(spelling) for spelling in spellings}
    names = [source.name for source in found.values()]
    return {spelling if names.count(one.name) > 1 else one.name: one for spelling, one in found.items()}
