"""Tables of the scripts: rules by cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.reporting import Record
from otspec.reporting.means import grouped
from otspec.reporting.tables import NOTHING, TextTable


def with_error(value: float, error: float, digits: str = ".2f", *, sign: str = "") -> str:
    """A figure ± its error, both with the same digits, the figure with its sign if that is ``+``."""
    return f"{value:{sign}{digits}} ± {error:{digits}}"


def gain_over(base: str, digits: str = ".2f") -> Callable[[Record], str]:
    """What shows the gain of a record of `compared` over another name."""

    def show(record: Record) -> str:
        gain, error = record["gains"][base]
        return with_error(gain, error, digits, sign="+")

    return show


def pivot(
    title: str,
    records: Sequence[Record],
    down: Mapping[str, Callable[[Record], str]],
    across: Callable[[Record], str],
    value: Callable[[Record], str],
    note: str = "",
) -> TextTable:
    """A table with a row for each place and a column for each of what was measured there.

    Parameters
    ----------
    title : str
    records : sequence of dict
        One for each cell; a dash stands where there is none.
    down : mapping of str to callable
        The columns that say what a row is of, by their names.
    across : callable
        The column that a record is in.
    value : callable
        What stands in its cell.
    note : str
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for record in records:
        place = tuple(show(record) for show in down.values())
        rows.setdefault(place, {})[across(record)] = value(record)
    names = tuple(dict.fromkeys(map(across, records)))
    body = [(*place, *(row.get(name, NOTHING) for name in names)) for place, row in rows.items()]
    return TextTable(title, (*down, *names), body, note, labels=len(down))


def by_data(tell: Callable[[str, list[Record]], TextTable]) -> Callable[[Sequence[Record]], list[TextTable]]:
    """From a table of the records of one source, told with its name, to a table for each."""
    return lambda records: [
        tell(name, mine) for name, mine in grouped(records, lambda record: str(record["data"])).items()
    ]
