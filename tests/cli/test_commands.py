"""The commands as a user types them, in this process; `.ci/wheel` runs them from an installed wheel."""

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import otspec
from otspec.cli import main
from otspec.cli.solvers import examples, schemes_table
from otspec.data import open_source
from otspec.extras import installed
from otspec.reporting.page import DRAWING, lacking
from otspec.solver import REGISTRY
from tests.pages import Reader


def otspec_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of `otspec` with the arguments."""
    monkeypatch.setattr(sys, "argv", ["otspec", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)


@pytest.fixture
def positions(tmp_path: Path) -> Path:
    """A file of four positions over 50 tokens."""
    rng = np.random.default_rng(0)
    target = rng.normal(scale=2, size=(4, 50))
    path = tmp_path / "positions.npz"
    np.savez(path, target_logits=target, draft_logits=target + rng.normal(size=(4, 50)))
    return path


def test_solve_shows_and_writes_every_position(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    arguments = ("solve", str(positions), "--n", "3", "--top-k", "10", "--solver", "max_flow", "--out", str(out))
    assert otspec_command(monkeypatch, *arguments) == 0
    assert "4/4 solved" in capsys.readouterr().out
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["position"] for line in lines] == [0, 1, 2, 3]
    source = open_source(str(positions))
    for line in lines:
        best = otspec.optimum(source.position(line["position"]).problem(3, top_k=10))
        assert line["acceptance"] == pytest.approx(best.acceptance, abs=1e-9)


def test_solve_says_why_not_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path
) -> None:
    arguments = ("solve", str(positions), "--n", "3", "--solver", "max_flow:max_cells=10", "--positions", "2")
    assert otspec_command(monkeypatch, *arguments) == 1
    shown = capsys.readouterr().out
    assert shown.count("LIMIT") == 2
    assert "exceed max_cells = 10" in shown


def test_solve_and_bench_read_arrays_by_the_names_that_they_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path, tmp_path: Path
) -> None:
    with np.load(positions) as arrays:
        target, draft = arrays["target_logits"], arrays["draft_logits"]
    p, q = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) for logits in (target, draft))
    path = tmp_path / "named.npz"
    np.savez(path, big=target, small=draft, p=p, q=q)

    def acceptances(*arguments: str) -> list[float]:
        out = tmp_path / "out.jsonl"
        assert otspec_command(monkeypatch, "solve", *arguments, "--n", "2", "--out", str(out)) == 0
        return [json.loads(line)["acceptance"] for line in out.read_text().splitlines()]

    wanted = acceptances(str(positions))
    assert acceptances(str(path), "--target-key", "big", "--draft-key", "small") == wanted
    laws = ("--target-key", "p", "--draft-key", "q")
    np.testing.assert_allclose(acceptances(str(path), *laws), wanted, rtol=1e-12)
    taken_for_logits = acceptances(str(path), *laws, "--kind", "logits")
    source = open_source(path, target_key="p", draft_key="q", kind="logits")
    best = [otspec.optimum(source.position(index).problem(2)).acceptance for index in range(4)]
    np.testing.assert_allclose(taken_for_logits, best, atol=1e-9)
    assert abs(taken_for_logits[0] - wanted[0]) > 0.01

    pytest.importorskip("pyarrow")
    out = tmp_path / "report"
    cells = ("--k", "V", "--n", "2", "--solver", "interval", "--positions", "4", "--out", str(out))
    assert otspec_command(monkeypatch, "bench", "--data", str(path), *laws, *cells) == 0
    measured = [json.loads(line)["acceptance"] for line in (out / "results.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(measured, wanted, rtol=1e-12)
    capsys.readouterr()
    assert otspec_command(monkeypatch, "bench", "--data", str(path), *laws, "--kind", "logits", *cells) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "holds another run: its data.named.npz.kind is probs, yours logits" in said


def test_solve_tries_a_list_of_solvers_in_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path
) -> None:
    chain = "max_flow:max_cells=10,slackness"
    assert otspec_command(monkeypatch, "solve", str(positions), "--n", "3", "--solver", chain, "--top-k", "5") == 0
    shown = capsys.readouterr().out
    assert shown.count("OPTIMAL") == 4
    assert "exceed" not in shown


def test_bench_measures_reports_and_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "report"
    cells = ("--k", "5,V", "--n", "2", "--solver", "max_flow,slackness", "--positions", "3")
    arguments = ("bench", *cells, "--data", str(positions), "--out", str(out))
    assert otspec_command(monkeypatch, *arguments) == 0
    assert "(V, 2)" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        ".lock",
        *([] if lacking(DRAWING) else ["lines.png", "report.png"]),
        *([] if lacking() else ["report.html"]),
        "report.md",
        "results.jsonl",
        "results.parquet",
        "run.json",
    }
    assert "| (5, 2) | max_flow |" in (out / "report.md").read_text()
    if not lacking():
        lines = [line for line in (out / "report.md").read_text().splitlines() if line.startswith("| ")]
        rows = [line[2:-2].split(" | ") for line in lines if not line.startswith("| ---")]
        assert [row for table in Reader((out / "report.html").read_text()).tables for row in table] == rows
    log = (out / "results.jsonl").read_text()
    capsys.readouterr()
    assert otspec_command(monkeypatch, *arguments) == 0
    assert (out / "results.jsonl").read_text() == log
    assert f"Nothing was left to measure: {out} held it all, 12 records" in " ".join(capsys.readouterr().out.split())
    report = (out / "report.md").read_text()
    assert report.count("otspec bench --k 5,V") == 2  # both commands, each with its date
    assert f"otspec {otspec.__version__}, numpy {np.__version__}" in report
    assert otspec_command(monkeypatch, *arguments, "--remeasure", "max_flow") == 0
    before, after = (
        [json.loads(line) for line in text.splitlines()] for text in (log, (out / "results.jsonl").read_text())
    )
    assert len(after) == len(before)
    assert [one for one in after if one in before] == [one for one in before if one["solver"] == "slackness"]
    reports = (("vl_convert", "No report.html and no pictures"), ("jinja2", "No report.html"))
    for absent, lost in () if lacking() else reports:
        for name in ("report.html", "report.png", "lines.png"):
            (out / name).write_text("of earlier records")
        monkeypatch.setattr("otspec.extras.installed", lambda package, absent=absent: package != absent)
        capsys.readouterr()
        assert otspec_command(monkeypatch, *arguments) == 0
        told = capsys.readouterr().out
        assert f'{lost}: {absent} is not installed: pip install "otspec-toolkit[report]"' in told
        pictures = "report.png, lines.png, " if absent == "jinja2" and installed("vl_convert") else ""
        assert f"Wrote {out}/report.md, {pictures}results.jsonl, results.parquet" in told
        assert {path.read_bytes()[:4] for path in out.glob("*.png")} <= {b"\x89PNG"}
        assert not (out / "report.html").exists()
        monkeypatch.undo()
    capsys.readouterr()
    assert otspec_command(monkeypatch, *arguments, "--seed", "1") == 2
    assert "holds another run: its seed is 0, yours 1" in " ".join(capsys.readouterr().err.split())


def test_bench_takes_several_files_and_any_law_and_names_the_row_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    with np.load(positions) as good:
        arrays = {name: good[name].copy() for name in good.files}
    arrays["draft_logits"][1, 7] = np.nan
    np.savez(tmp_path / "holed.npz", **arrays)
    out = tmp_path / "report"
    cells = ("--k", "5,6", "--n", "2", "--solver", "max_flow,interval", "--positions", "2", "--temperature", "0.8")
    data = ("--data", f"{positions},{tmp_path / 'holed.npz'}", "--scheme", "without_replacement", "--top-p", "0.9")
    assert otspec_command(monkeypatch, "bench", *cells, *data, "--out", str(out)) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("error: holed.npz, position 1: ")
    assert "draft_logits[1][7] is nan" in told[0]
    assert told[1].startswith("error: interval solved nothing; interval takes i.i.d. drafts")
    assert len(told) == 2
    report = (out / "report.md").read_text()
    for name in ("positions.npz", "holed.npz"):
        assert f"## Solvers on {name}, without_replacement, temperature 0.8, top-p 0.9" in report
    if not lacking(DRAWING):
        assert {"report_1_positions.npz.png", "lines_2_holed.npz.png"} <= {path.name for path in out.iterdir()}


def test_solvers_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert otspec_command(monkeypatch, "solvers") == 0
    shown = capsys.readouterr().out
    assert all(info.name in shown for info in otspec.available())
    assert "[khisti2025multi" in shown  # brackets are no markup


def test_the_recorded_profile_is_solved_and_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert otspec_command(monkeypatch, "solve", "shipped", "--n", "3", "--positions", "4") == 0
    assert "4/4 solved" in capsys.readouterr().out
    pytest.importorskip("pyarrow")
    cells = ("--k", "10,V", "--n", "2", "--solver", "interval", "--positions", "2", "--out", str(tmp_path / "report"))
    assert otspec_command(monkeypatch, "bench", *cells, "--data", "shipped") == 0
    assert "on shipped" in (tmp_path / "report" / "report.md").read_text()


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert otspec_command(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"otspec {otspec.__version__}\n"


BAD = [
    (("solve", "nowhere.npz"), "there is no file nowhere.npz"),
    (("solve", "deep.safetensors"), "deep.safetensors cannot be read: maximum recursion depth"),
    (("bench", "--solver", "./evil.py:X"), "./evil.py:X cannot be imported as package.module:Class"),
    (("decode", "--prompt", "a\udcffb"), "prompt 1 holds '\\udcff' at character 1, half of a pair"),
    (("record", "--prompts", "half.jsonl", "--out", "r.safetensors"), "prompt 2 holds '\\ud800' at character 0"),
    (("solve", "FILE", "--solver", "lp2"), "no solver 'lp2'; known: canonical"),
    (("solve", "FILE", "--solver", "max_flow:engine=scipy"), "no max-flow engine 'scipy'; known: numba"),
    (("solve", "FILE", "--top-p", "2"), "'--top-p': 2; it is a probability in (0, 1]"),
    (("solve", "FILE", "--temperature", "-1"), "'--temperature': -1; a temperature is finite and >= 0"),
    (("solve", "FILE", "--temperature", "nan"), "'--temperature': nan; a temperature is finite and >= 0"),
    (("solve", "FILE", "--out", "nowhere/x.jsonl"), "'--out': there is no folder nowhere; make it first"),
    (("solve", "FILE", "--out", "."), "'--out': . is a folder; name a file"),
    (("solve", "FILE", "--out", "/dev/full"), "/dev/full: No space left on device"),
    (("solve", "FILE", "--top-k", "5", "--solver", "lp:tol=-1"), "lp:tol=-1: tol = -1.0 is not a limit"),
    (("claims", "--replay", "FILE"), "cannot be read as JSON"),
    (("solve", "FILE", "--positions", "9"), "positions is 9"),
    (("solve", "FILE", "--target-key", "p"), "target_key is 'p' and draft_key is None; pass both names"),
    (("solve", "FILE", "--target-key", "p", "--draft-key", "q"), "holds target_logits, draft_logits; positions need p"),
    (("solve", "FILE", "--kind", "laws"), "kind is 'laws'; known: logits, probs"),
    (("solve", "FILE", "--kind", "probs"), "probabilities are >= 0"),
    (("solve", "shipped", "--kind", "logits"), "shipped is a profile, which has no target_key, draft_key or kind"),
    (("bench", "--data", "FILE", "--draft-key", "q"), "target_key is None and draft_key is 'q'; pass both names"),
    (("bench", "--k", "ten"), "'ten' is not a positive number or V"),
    (("bench", "--n", "0"), "'0' is not a positive number"),
    (("bench", "--n", "9999999999999"), "9999999999999 is more than 1,000,000, the most there can be"),
    (("bench", "--budget", "0"), "grant each cell some time"),
    (("bench", "--budget", "inf"), "grant each cell some time"),
    (("bench", "--scheme", "iidd"), "no draft law 'iidd'; known: iid, without_replacement"),
    (("bench", "--scheme", "independent"), "come from n draft models"),
    (("bench", "--scheme", "hub_pairs", "--n", "3"), "n is 3; hub_pairs are pairs"),
    (("bench", "--solver", "interval", "--remeasure", "kseq"), "'kseq' is not among the solvers of this run, interval"),
    (("bench", "--data", "FILE", "--positions", "5"), "positions is 5; positions.npz has 1 to 4"),
    (("bench", "--solver", "lp,guess"), "no solver 'guess'"),
]


def test_bad_input_is_one_clear_error(refused: Callable[..., str], positions: Path) -> None:
    nested = b"[" * 100_000
    Path("deep.safetensors").write_bytes(struct.pack("<Q", len(nested)) + nested)
    Path("half.jsonl").write_text('{"prompt": "a"}\n{"prompt": "\\ud800b"}\n')
    needed = {"bench": "pyarrow", "decode": "torch", "record": "torch"}
    for words, message in BAD:
        if words[0] not in needed or installed(needed[words[0]]):
            assert message in refused(*(str(positions) if word == "FILE" else word for word in words)), words
            assert not Path("report").exists(), words


def test_solvers_are_listed_by_scheme(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert otspec_command(monkeypatch, "solvers", "--schemes") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in examples())


def test_every_draft_scheme_has_an_example() -> None:
    public = {name: getattr(otspec, name) for name in otspec.__all__}
    schemes = {name for name, kind in public.items() if isinstance(kind, type) and otspec.DraftScheme in kind.__mro__}
    assert schemes - {"DraftScheme"} == examples().keys()
    assert all(type(problem.scheme).__name__ == name for name, problem in examples().items())


def test_the_documented_table_of_schemes_is_the_generated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    otspec.available()
    others = [name for name, kind in REGISTRY.items() if not kind.__module__.startswith("otspec.solvers.")]
    for name in others:  # those that other tests register
        monkeypatch.delitem(REGISTRY, name)
    documented = (Path(__file__).parents[2] / "docs" / "draft_laws.md").read_text()
    table = documented.partition("`otspec solvers --schemes` shows -->\n")[2].partition("<!-- end")[0]
    assert table == schemes_table().markdown()
