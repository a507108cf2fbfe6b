from __future__ import annotations

from pathlib import Path

import pytest

from otspec import DataError
from otspec.bench.records import RunFolder

pytest.importorskip("pyarrow")


def test_refuses_the_folder_of_another_run_and_says_what_differs(tmp_path: Path) -> None:
    RunFolder(tmp_path, {"data": "llama3", "seed": 0}).close()
    with pytest.raises(DataError, match="holds another run: its seed is 0, yours 1; give --out a new folder"):
        RunFolder(tmp_path, {"data": "llama3", "seed": 1})


def test_refuses_a_folder_with_something_else_in_it(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("keep me")
    with pytest.raises(DataError, match="holds something that is no benchmark run"):
        RunFolder(tmp_path, {})
    assert (tmp_path / "thesis.tex").read_text() == "keep me"


def test_refuses_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="no benchmark run"):
        RunFolder(tmp_path / "out", {})


@pytest.mark.parametrize(("name", "content"), [("run.json", "{"), ("results.jsonl", '{"k": 1\n')])
def test_refuses_a_damaged_folder(tmp_path: Path, name: str, content: str) -> None:
    RunFolder(tmp_path, {}).close()
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match="damaged"):
        RunFolder(tmp_path, {})
