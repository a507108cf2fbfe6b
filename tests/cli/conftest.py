"""A tiny random pair, and prompts, that commands are told of."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """How commands are told of the pair."""
    from tests.saved_pair import save  # needs torch, and the tests of most commands do not

    target, draft = save(tmp_path_factory.mktemp("pair"))
    return ("--target", str(target), "--draft", str(draft))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A file of three."""
    path = tmp_path / "prompts.txt"
    path.write_text("def f(x):\n\nimport os\nclass A:\n")
    return path


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Make the working directory one with a module of somebody's."""

    def write(name: str, source: str) -> Path:
        (tmp_path / name).write_text(source)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        return tmp_path

    return write


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """What `otspec` says of arguments that it refuses, in an empty folder: never a traceback."""
    monkeypatch.chdir(tmp_path)

    def told(*arguments: str) -> str:
        from tests.cli.test_commands import otspec_command

        capsys.readouterr()
        assert otspec_command(monkeypatch, *arguments) == 2, arguments
        said = capsys.readouterr().err
        assert "Traceback" not in said, arguments
        return " ".join(said.replace("│", " ").split())

    return told
