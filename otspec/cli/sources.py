"""Files of data, as a list on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar


class Named(Protocol):
    """What has a name."""

    name: str


Opened = TypeVar("Opened", bound=Named)


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
