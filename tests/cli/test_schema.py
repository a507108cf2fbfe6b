"""`otspec schema`: what is published, and files that are held against it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from otspec.data.recordings import TREES
from tests.bench.test_malformed import good, write_run
from tests.cli.test_commands import otspec_command
from tests.data.tree_files import Arrays, drawn_trees, write_trees


def test_schemas_are_listed_and_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert otspec_command(monkeypatch, "schema") == 0
    listed = capsys.readouterr().out
    assert "version 1" in listed
    for name in ("recording", "run", "result"):
        assert f"  {name}: " in listed
        assert otspec_command(monkeypatch, "schema", name) == 0
        assert json.loads(capsys.readouterr().out)["$id"] == f"urn:otspec:schema:1:{name}"
    assert otspec_command(monkeypatch, "schema", "rows") == 2
    assert "no schema 'rows'; known: recording, run, result" in capsys.readouterr().err


def test_files_are_held_against_theirs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(Path("run"), *good("paths", 0))
    words = [word for path in ("run", str(TREES["shipped"])) for word in ("--check", path)]
    assert otspec_command(monkeypatch, "schema", *words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "run: a run of paths, 3 results, as schema 1 has it"
    assert said[1].endswith("shipped-trees.safetensors: 256 recorded trees, likeliest tokens, as schema 1 has it")

    def spoil(arrays: Arrays) -> None:
        arrays["target_logits"][1, 0] = np.nan

    for number, (message, wrong) in enumerate(
        {
            "tree 0: target_logits[1][0] is nan": {"spoil": spoil},
            "the header of 1/t.safetensors is damaged: stored: input should be": {"about": {"stored": "int8"}},
            "the header of 2/t.safetensors is damaged: trees have paths and a depth": {},
            "the header of 3/t.safetensors says 7 rows, and it holds 2": {"about": {"positions": 7}},
        }.items()
    ):
        Path(str(number)).mkdir()
        path = write_trees(Path(f"{number}/t.safetensors"), drawn_trees(2), **wrong)  # type: ignore[arg-type]
        if not wrong:
            content = path.read_bytes()
            path.write_bytes(content.replace(b'\\"depth\\"', b'\\"other\\"'))
        assert otspec_command(monkeypatch, "schema", "--check", str(number)) == 2
        refused = capsys.readouterr().err
        assert message in refused
        assert refused.count("\n") == 1
    Path("empty").mkdir()
    for name, message in (("empty", "holds neither results nor recorded files"), ("no.safetensors", "no.safetensors")):
        assert otspec_command(monkeypatch, "schema", "--check", name) == 2
        assert message in capsys.readouterr().err
