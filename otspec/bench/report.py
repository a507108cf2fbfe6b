"""The report on a run: what each benchmark makes of its records, and report.md, report.html and pictures of that."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from otspec.bench.intervals import Ratio
from otspec.bench.records import Record
from otspec.reporting import page
from otspec.reporting.charts import rows_of
from otspec.reporting.means import SERIES
from otspec.reporting.pictures import Part, sheet
from otspec.reporting.tables import TextTable, markdown_report
from otspec.writing import write_text

TEXT, PAGE = "report.md", "report.html"
SHOWN_RUNS = 10
"""Commands of a much resumed folder that its report shows, the last ones."""


class Run(Protocol):
    """A run on disk, open or stored."""

    @property
    def path(self) -> Path:
        """Its folder."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What makes its records comparable."""

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """What was requested, and when."""

    @property
    def records(self) -> Sequence[Record]:
        """One for everything measured."""


@dataclass(frozen=True)
class Report:
    """Tables, and charts with their tables."""

    title: str
    machine: str
    """Where it was measured."""
    notes: Sequence[str]
    """Paragraphs, beside those on machine and commands."""
    tables: Sequence[TextTable]
    """In the order of report.md."""
    screen: Sequence[TextTable]
    """Those that a screen shows, the most important last."""
    sections: Sequence[page.Section]
    """Parts of the page; their groups of charts name the picture that they belong to."""


def write(report: Report, run: Run, may_have: Sequence[str]) -> None:
    """Write a report into the folder of its run; of the pictures that this may have no earlier ones stay beside it."""
    pictures = pictures_of(report)
    for name in may_have:
        if name not in pictures:
            (run.path / name).unlink(missing_ok=True)
    for name, parts in pictures.items():
        sheet(parts).save(run.path / name)
    paragraphs = [*about(run, report.machine), *report.notes]
    text = markdown_report(report.tables, list(pictures), paragraphs, report.title)
    write_text(run.path / TEXT, text)
    page.write_page(run.path / PAGE, report.title, paragraphs, report.sections)


def pictures_of(report: Report) -> dict[str, list[Part]]:
    """What each picture shows: the groups of charts that name it, section by section."""
    found: dict[str, list[Part]] = {}
    for section in report.sections:
        for name in dict.fromkeys(group.picture for group in section.groups if group.picture and group.charts):
            groups = [group for group in section.groups if group.picture == name]
            shown = {row.get(SERIES) for group in groups for chart in group.charts for row in rows_of(chart)}
            series = {label: style for label, style in section.series.items() if label in shown}
            found.setdefault(name, []).append(Part(section.title, series, groups))
    return found


def about(run: Run, machine: str) -> list[str]:
    """How the measurements of a folder came about: machine, versions, and the commands with their dates."""
    runs = [f"- {one['date']}: {_as_code(one['command'])}" for one in run.runs[-SHOWN_RUNS:]]
    left_out = len(run.runs) - len(runs)
    before = f" (and {left_out} before, in run.json)" if left_out else ""
    return [f"Measured on: {machine}. {' '.join(_by(run.identity))}", f"Measured by{before}:\n\n" + "\n".join(runs)]


def _by(identity: Mapping[str, Any]) -> list[str]:
    """By what code a run was measured, a sentence for each; of which data, where not all were by the same."""
    of: dict[str, list[str]] = {}
    by_data = {"": identity}
    if "code" not in identity:  # recordings of others may be among them
        by_data = {name: data["measured_by"] for name, data in identity["data"].items()}
    for name, one in by_data.items():
        packages = {"Python": one["python"], **one["versions"]}
        versions = ", ".join(f"{package} {version}" for package, version in packages.items())
        of.setdefault(f"{versions}; sources {one['code']}.", []).append(name)
    return [text if len(of) == 1 else f"{', '.join(names)}: {text}" for text, names in of.items()]


def _as_code(command: str) -> str:
    return f"`` {command} ``" if "`" in command else f"`{command}`"


def in_words(value: Any) -> str:
    """A field of an identity in words; of a merged run it is a list."""
    values = value if isinstance(value, list) else [value]
    return " or ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in values)


KINDS = ("solvers", "decoding", "paths")
"""What runs are of: `otspec bench`, `otspec bench decode` and `otspec bench paths`."""


@dataclass(frozen=True)
class BenchmarkKind:
    """One benchmark."""

    name: str
    """One of `KINDS`, as run.json has it."""
    cell_of: Callable[[Record], Any]
    """The cell that a record is of, a frozen dataclass."""
    cell: type
    """That dataclass; its fields are columns of the frame."""
    frame: Callable[[Sequence[Record]], pl.DataFrame]
    """Records as a frame, with the columns `otspec.bench.intervals.PLACE` for the place of each in its cell."""
    finished: pl.Expr
    """Whether a row counts where two runs are compared."""
    time: Ratio
    """Milliseconds."""
    figure: Ratio
    """What is compared beside time."""
    labels: Callable[[Any], tuple[str, str]]
    """What a cell is called in a table: where it was measured, and the solver or rule."""
    report: Callable[[Run], Report | None]
    """The report on a run; None while it has no records."""
    pictures: Callable[[Mapping[str, Any]], Sequence[str]]
    """Names of the pictures that a run of an identity may have."""
    size: Callable[[Any], Any] = lambda cell: 0
    """What cells are sorted by where two runs are compared."""
    paired: str = "prompts"
    """What rows are paired by, in the plural."""


def kind_of(name: str) -> BenchmarkKind:
    """The declaration of a benchmark by its name, one of `KINDS`; only that benchmark is imported."""
    found: BenchmarkKind = importlib.import_module(f"otspec.bench.{name}.benchmark").KIND
    return found
