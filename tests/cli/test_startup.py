"""What a command loads before it knows what is wanted, what it says without asking, and how it ends if interrupted."""

from pathlib import Path

import pytest
import typer

from otspec.auditing import AuditVerdict
from otspec.auditing.engines.report import EngineVerdict
from otspec.auditing.rules.forms import Form, PathForm
from otspec.bench.records import RecordFolder
from otspec.cli import app, names
from otspec.cli.audit import EXIT
from otspec.cli.run_folder import resumed
from otspec.data import NAMES
from otspec.schemes.catalogue import OWN
from tests.processes import printed

COMMANDS = (
    *("", "solve", "bench", "bench decode", "bench paths", "audit", "audit-engine", "solvers", "claims", "decode"),
    *("tune", "affinity", "record", "router", "texts", "train"),
)
HEAVY = (
    *("numpy", "numba", "scipy", "torch", "transformers", "vl_convert", "polars", "altair", "tokenizers"),
    *("safetensors", "bench", "catalogue", "data", "decode", "laws", "paths", "proofs_check", "schemes", "solvers"),
    "vocab",
)
LIGHT = ("otspec.decode", "otspec.decode.settings")
"""What of those is there from the start: the settings, which the commands list."""

ASK_FOR_HELP = f"""
import contextlib, sys
import otspec.cli

def loaded():
    heavy = {HEAVY!r}
    found = [name for name in sys.modules if name in heavy or name.removeprefix("otspec.").partition(".")[0] in heavy]
    return [name for name in found if name not in {LIGHT!r}]

assert not loaded(), f"import otspec.cli: {{loaded()}}"
for arguments in (["--version"], *(f"{{command}} --help".split() for command in {COMMANDS!r})):
    sys.argv = ["otspec", *arguments]
    with contextlib.suppress(SystemExit):
        otspec.cli.main()
    assert not loaded(), f"{{arguments}}: {{loaded()}}"
"""


def test_help_and_version_load_nothing_that_computes() -> None:
    assert printed(ASK_FOR_HELP).count("Usage: otspec") == len(COMMANDS)


def test_help_lists_the_names_that_there_are() -> None:
    assert (NAMES, tuple(OWN), tuple(Form)) == (names.PROFILES, names.SCHEMES, names.FORMS)
    assert ({*EXIT}, names.PATH_FORMS) == ({*AuditVerdict, *EngineVerdict}, tuple(map(str, PathForm)))
    shown = [one.help or "" for one in typer.main.get_command(app).commands.values()]  # type: ignore[attr-defined]
    assert not any("\n" in one.replace("\n\n", "") for one in shown)  # lines are broken as the terminal has room
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from otspec.decode import DRAFT_LAWS, training
    from otspec.decode.methods.catalogue import METHODS

    assert (tuple(METHODS), tuple(DRAFT_LAWS)) == (names.METHODS, names.DRAFT_LAWS)
    assert (tuple(training.KINDS), tuple(training.LOSSES)) == (names.TRAINED, names.LOSSES)


def test_an_interrupt_is_status_130_after_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves a closed folder, and says how to go on."""
    folder, reported = RecordFolder(tmp_path / "run", {}), list[int]()
    monkeypatch.setattr("otspec.cli.run_folder.report", lambda run, beside: reported.append(len(run.records)))

    def interrupted_run() -> None:
        with resumed(folder, "measuring", 2) as progress:
            folder.append({"position": 0})
            progress(1)
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as exit_:
        interrupted_run()
    assert (exit_.value.exit_code, reported) == (130, [1])
    assert "the same command goes on from 1 records" in capsys.readouterr().out
    with pytest.raises(ValueError, match="closed file"):
        folder.append({"position": 1})
