"""Tables of strings, on screen and in Markdown, and reports made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Generic, TypeVar

from rich.table import Table as RichTable
from rich.text import Text

WIDE = 120
"""Characters that the full table of results takes."""


@dataclass(frozen=True)
class TextTable:
    """A table of strings, drawn on screen or written as Markdown."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str
    labels: int = 2
    """Leading columns that hold words; the others hold figures."""
    details: frozenset[str] = frozenset()
    """Columns that a narrow screen goes without."""

    def on_screen(self, width: int) -> RichTable:
        """The table as rich draws it, for a screen of so many characters; a rule parts groups of rows."""
        title, note = Text(self.title, "table.title"), Text(self.note, "table.caption")  # names in them are no markup
        table = RichTable(title=title, caption=note, title_justify="left", caption_justify="left")
        shown = [width >= WIDE or name not in self.details for name in self.header]
        for number, name in enumerate(compress(self.header, shown)):
            table.add_column(Text(name), justify="left" if number < self.labels else "right", overflow="fold")
        grouped = len({row[0] for row in self.rows}) < len(self.rows)
        for row, following in zip(self.rows, [*self.rows[1:], None], strict=False):  # there may be none
            ends = following is None or following[0] != row[0]
            table.add_row(*map(Text, compress(row, shown)), end_section=grouped and ends)
        return table

    def markdown(self) -> str:
        """The table in Markdown, with title and note as paragraphs."""
        header, *rows = (tuple(map(literal, row)) for row in (self.header, *self.rows))
        body = markdown_table(header, rows, self.labels)
        return f"## {literal(self.title)}\n\n{body}\n\n{self.note}\n"


_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|\[(?=[^\]]*\][(\[])|[`\\]")
"""What Markdown would take for a tag, a link, code or an escape."""
_EMPHASIS = (re.compile(r"\*"), re.compile(r"(?<!\w)_|_(?!\w)"))
"""What emphasises the words between two of it."""


def literal(text: str) -> str:
    r"""Words, such as the name of a file, that Markdown shows as they are.

    Examples
    --------
    >>> from otspec.reporting.tables import literal
    >>> print(literal("mean alpha* of [mine](x) <b> *.npz, *.pt"))
    mean alpha\* of \[mine](x) \<b> \*.npz, \*.pt
    """
    shown = _MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines()))
    for mark in _EMPHASIS:
        if len(mark.findall(shown)) > 1:
            shown = mark.sub(r"\\\g<0>", shown)
    return shown


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], labels: int) -> str:
    """Rows of cells in Markdown; the first `labels` columns hold words, the others figures."""
    rules = tuple("---" if number < labels else "---:" for number in range(len(header)))
    lines = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in (header, rules, *rows))
    return "\n".join(lines)


def markdown_report(
    tables: Iterable[TextTable | None], pictures: Sequence[str], about: Sequence[str], title: str
) -> str:
    """A report: its title, paragraphs on how it came about, pictures, and its tables."""
    parts = [f"# {title}\n", *(f"{paragraph}\n" for paragraph in about)]
    parts += [f"![{picture}]({picture})\n" for picture in pictures]
    parts += [table.markdown() for table in tables if table is not None]
    return "\n".join(parts)


Item = TypeVar("Item")
NOTHING = "-"
"""What stands where there is no figure."""


@dataclass(frozen=True)
class Column(Generic[Item]):
    """One column of a table."""

    name: str
    show: Callable[[Item], str]
    label: bool = False
    """Whether it holds words; such columns come first."""
    detail: bool = False
    """Whether a narrow screen goes without it."""


def table(title: str, columns: Sequence[Column[Item]], items: Iterable[Item], note: str = "") -> TextTable:
    """A table with a row for every item."""
    return TextTable(
        title,
        tuple(column.name for column in columns),
        [tuple(column.show(item) for column in columns) for item in items],
        note,
        labels=sum(column.label for column in columns),
        details=frozenset(column.name for column in columns if column.detail),
    )


def figure(value: float | None, digits: str) -> str:
    """A number with digits as `format` takes them; a dash where it is None or NaN."""
    return NOTHING if value is None or math.isnan(value) else f"{value:{digits}}"


def milliseconds(value: float) -> str:
    """Three significant digits, never in exponent form."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
