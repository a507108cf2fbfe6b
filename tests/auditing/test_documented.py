"""What the page on audits shows is what the command prints."""

import re
from pathlib import Path

import pytest

from tests.cli.test_commands import otspec_command

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
RULES = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def siblings" in block)
SHOWN = re.findall(r"```console\n\$ otspec audit (.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("arguments", "output"), SHOWN, ids=[arguments for arguments, _ in SHOWN])
def test_the_page_shows_what_the_command_prints(
    arguments: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    coarse = () if "rules.py" in arguments else ("--resolution", "0.2")  # a tenth of the draws
    otspec_command(monkeypatch, "audit", *arguments.split(), *coarse)
    printed = capsys.readouterr().out
    if "method       exact" in output:
        assert without_rounding(printed) == without_rounding(output)
    else:  # the stream of a generator may change from one numpy to the next
        assert printed.partition(":")[0] == output.partition(":")[0]
        assert labels(printed) == labels(output)


def labels(text: str) -> list[str]:
    """What the lines are about."""
    return [line[:12] for line in text.splitlines()[2:] if line.strip() and not line[0].isspace()]


def without_rounding(text: str) -> str:
    """Figures of 1e-10 and less are rounding, which differs from one machine to the next."""
    return re.sub(r"\b[\d.]+e-1\d\b", "0", text)


def test_there_are_commands_to_check() -> None:
    assert len(SHOWN) == 4
