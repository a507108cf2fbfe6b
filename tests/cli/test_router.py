"""`otspec router` as a user types it, on a tiny random draft model."""

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import otspec  # noqa: E402
from otspec.decode import Budget, Router  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402


def test_a_router_of_another_draft_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("def read(path):\n    return open(path).read()\n" * 20)
    Path("b.py").write_text("import os\n" * 40)
    small = ("--clusters", "9", "--most", "4", "--width", "8", "--epochs", "2", "--tokens", "300")
    arguments = ("--draft", saved[3], "a.py", "b.py", "--out", "router.safetensors", *small)
    assert otspec_command(monkeypatch, "router", *arguments) == 0
    assert "Wrote router.safetensors: " in capsys.readouterr().out
    router = Router.load("router.safetensors")
    assert router.budget == Budget(4, falling=2)
    assert router.count <= 9
    assert 0 < router.about["positions"] <= 300
    models = load_models(saved[1], saved[3], "cpu")
    assert models.draft is not None
    text = otspec.generate(
        models.target, models.draft, torch.tensor([[1, 2, 3]]), draft_shortlist=router, solver="block", max_new_tokens=8
    )
    assert text.metrics.tokens == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.py",), "none.py cannot be read"),
        (("empty.py",), "the files are empty"),
        (("a.py", "--clusters", "5", "--most", "6"), "the budget is 6 clusters"),
        (("a.py", "--draft", "nowhere/at/all"), "the draft 'nowhere/at/all' cannot be loaded"),
        (("a.py", "--draft", "eagle"), "'eagle' names the package's draft models for some targets; pass the target"),
        (("a.py", "--target", "shipped", "--draft", "shipped"), "looks at no target, and a router learns"),
    ],
)
def test_what_is_refused(
    refused: Callable[..., str], saved: tuple[str, ...], arguments: tuple[str, ...], message: str
) -> None:
    Path("a.py").write_text("import os\n")
    Path("empty.py").touch()
    draft = () if "--draft" in arguments else ("--draft", saved[3])
    small = ("--width", "4", "--epochs", "1")
    assert message in refused("router", *arguments, *draft, *small, "--out", "router.safetensors")
    assert not Path("router.safetensors").exists()
