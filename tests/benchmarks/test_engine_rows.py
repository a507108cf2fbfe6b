"""Rows of the table of engines, from audits of engines in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.engine_rows import main, row
from otspec.engine_audit import Acceptance, FunctionLaws, audit_engine
from otspec.engine_audit.adapters.function import Function


def law(before: tuple[int, ...]) -> list[float]:
    return [0.7, 0.2, 0.1]


def biased(before: tuple[int, ...]) -> list[float]:
    return [0.4, 0.3, 0.3] if before else [0.7, 0.2, 0.1]


class Counting(Function):
    """Says what became of its drafts."""

    def acceptance(self) -> Acceptance:
        return Acceptance(700, 2100, 1234, (600, 400, 234))


def test_a_biased_and_a_lossless_engine_have_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, engine in (("wrong", Counting(law, biased)), ("right", Function(law, law))):
        audit = audit_engine(engine, prompts=[""], laws=FunctionLaws(law), texts=4000, length=2, all_texts=True)
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(audit.to_json())
    main([str(file) for file in files])
    _, _, wrong, right = capsys.readouterr().out.splitlines()
    assert "| T = 1 | 4,000 | **not lossless** | ≥ 0.2" in wrong
    assert wrong.endswith("at token 2 | 1,234 of 2,100 drafts |")
    assert "| no evidence | 0.0" in right
    assert " a token is found in " in right
    assert right.endswith("|  |")


def test_greedy_text_alone_has_a_row() -> None:
    result = {"engine": "e", "version": "1", "method": "m", "places": [], "texts": 0, "verdict": "cannot tell"}
    result["control"] = {"rule": "", "tv": None, "caught": None}
    assert row(json.loads(json.dumps(result))) == "| e 1 | m | greedy | 0 | cannot tell |  |  |"
    result["first_drafts"] = {"texts": 200, "accepted": 100, "optimum": 120.0}
    assert row(result).endswith("|  | 0.500 of first drafts, at most 0.600 can be |")
