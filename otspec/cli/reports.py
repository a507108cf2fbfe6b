"""Reports on folders of measurements, made from what the folders hold alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from otspec.reporting.console import console

if TYPE_CHECKING:
    from otspec.bench.report import Run


def report(folder: Run, beside: Sequence[Run] = ()) -> None:
    """Write tables, pictures and the page of all that a folder holds, and put the main tables on the screen.

    What the folders of `beside` hold is in them, too.
    """
    from otspec.bench.report import kind_of, write
    from otspec.bench.stored import joined

    if beside:
        folder = joined([folder, *beside])
    kind = kind_of(folder.identity["benchmark"])
    found = kind.report(folder)
    if found is None:
        return
    write(found, folder, kind.pictures(folder.identity))
    for table in found.screen:
        console.print(table.on_screen(console.width))


def written(folder: Run) -> list[str]:
    """The files of a report that are there: tables, the page with them, pictures, and the records."""
    from otspec.bench.records import LOG, TABLE
    from otspec.bench.report import PAGE, TEXT, kind_of

    pictures = kind_of(folder.identity["benchmark"]).pictures(folder.identity)
    return [name for name in (TEXT, PAGE, *pictures, LOG, TABLE) if (folder.path / name).is_file()]
