"""Commands that the documents show can be parsed, and the quick ones of the tutorials do what is said."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from otspec.cli import app
from tests.cli.test_commands import otspec_command
from tests.each import each

ROOT = Path(__file__).parents[1]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text() for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
}
TUTORIALS = ("docs/solvers.md", "docs/check_a_theorem.md", "docs/speed_up_a_decoder.md")


def commands(text: str) -> list[str]:
    """Every line of a page that runs `otspec`, without what the shell makes of it."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    shown = re.findall(r"^(?: {4,}|\$ )(?:[A-Z_]+=\S+ )*otspec (.*)$", joined, re.MULTILINE)
    return [line for line in shown if "..." not in line]


COMMAND = typer.main.get_command(app)
COMMANDS = {name: commands(text) for name, text in PAGES.items() if commands(text)}


def parse(line: str) -> None:
    """Parse what follows `otspec` in a command; what is no command or no option of it is refused."""
    command, arguments = COMMAND, shlex.split(line, comments=True)
    while arguments and (inner := getattr(command, "commands", {}).get(arguments[0])):
        command, arguments = inner, arguments[1:]
    assert command.make_context("otspec", arguments) is not None, line


@each(name=list(COMMANDS))
def test_commands_that_are_shown_can_be_parsed(name: str) -> None:
    for line in COMMANDS[name]:
        parse(line)


def test_there_are_commands_to_parse() -> None:
    assert {"README.md", *TUTORIALS} <= set(COMMANDS)
    assert sum(map(len, COMMANDS.values())) > 60


@pytest.mark.parametrize("page", TUTORIALS)
def test_the_quick_commands_of_a_tutorial_do_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but `bench`, `tune` and `decode`, which have tests of their own and take their time."""
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"Save this as `(\w+\.py)`.*?```python\n(.*?)```", PAGES[page], re.DOTALL):
        Path(name).write_text(content)
    for line, shown in re.findall(r"^\$ otspec (.*)\n((?:(?!\$ |```).*\n)*)", PAGES[page], re.MULTILINE):
        arguments = shlex.split(line)
        if arguments[0] in ("bench", "tune", "decode"):
            continue
        status = otspec_command(monkeypatch, *arguments)
        assert status == (1 if "mine.py" in line else 0), line
        assert shown in capsys.readouterr().out
