"""Names of files and solvers are words in every report, whatever they look like."""

import pytest
from rich.console import Console

from otspec.reporting.means import welch
from otspec.reporting.tables import TextTable
from tests.each import each

markdown_it = pytest.importorskip("markdown_it")
NAMES = ("<img src=x>", "[mine](http://x)", "*all*.npz", "_own_", "`rm`", "a\\*b", "a|b", "p < q", "[/red]")


def table(name: str) -> TextTable:
    return TextTable(name, ("data", name), [(name, "1")], f"note of {name}", labels=1)


@each(name=NAMES)
def test_reports_and_a_screen_show_names_as_they_are(name: str) -> None:
    rendered = markdown_it.MarkdownIt("commonmark").enable("table").parse(table(name).markdown())
    heading = next(rendered[at + 1] for at, token in enumerate(rendered) if token.type == "heading_open")
    heads, cells = (
        [rendered[at + 1] for at, token in enumerate(rendered) if token.type == kind] for kind in ("th_open", "td_open")
    )
    for inline in (heading, heads[1], cells[0]):
        assert {"text"} <= {child.type for child in inline.children} <= {"text", "text_special"}
        assert "".join(child.content for child in inline.children) == name
    for markup in (True, False):  # the commands' console has none
        with (console := Console(width=100, markup=markup)).capture() as shown:
            console.print(table(name).on_screen(100))
        assert [shown.get().count(one) for one in (name, "\\")] == [4, 4 * name.count("\\")]
    assert TextTable(name, (name,), [], "").on_screen(100).row_count == 0


def test_samples_of_one_and_of_no_spread_are_not_tested() -> None:
    assert welch([1.0], [2.0, 3.0]) == welch([1.0, 1.0], [1.0, 1.0]) == ("-", "-")
