"""`otspec solve`, `bench` and `solvers`; `.ci/wheel` runs them from an installed wheel."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import otspec as package
from otspec import DraftScheme
from otspec.cli.solvers import examples, schemes_table
from otspec.data import open_source
from otspec.solver import REGISTRY
from tests.cli.running import Otspec, lines_of
from tests.cli.running import otspec_command as otspec_command  # for tests of other rooms
from tests.test_catalogue import DOCUMENTED

ROOT = Path(__file__).parents[2]
LOG = Path("out/results.jsonl")


@pytest.fixture(autouse=True)
def positions(otspec: Otspec) -> None:
    """A file of four positions over 50 tokens, in the working directory."""
    rng = np.random.default_rng(0)
    target = rng.normal(scale=2, size=(4, 50))
    np.savez("p.npz", target_logits=target, draft_logits=target + rng.normal(size=(4, 50)))


@pytest.mark.usefixtures("no_pictures")
def test_solve_shows_and_writes_every_position(otspec: Otspec) -> None:
    assert "4/4 solved" in otspec("solve p.npz --n 3 --top-k 10 --solver max_flow --out out.jsonl").out
    lines = lines_of("out.jsonl")
    assert [line["position"] for line in lines] == [0, 1, 2, 3]
    source = open_source("p.npz")
    for line in lines:
        best = package.optimum(source.position(line["position"]).problem(3, top_k=10))
        assert line["acceptance"] == pytest.approx(best.acceptance, abs=1e-9)
    assert "4/4 solved" in otspec("solve shipped --n 3 --positions 4").out
    pytest.importorskip("polars")
    otspec("bench --data shipped --k 10,V --n 2 --solver interval --positions 2 --out out")
    assert "on shipped" in Path("out/report.md").read_text()


def test_solve_says_why_not_and_tries_a_list_of_solvers_in_turn(otspec: Otspec) -> None:
    shown = otspec("solve p.npz --n 3 --solver max_flow:max_cells=10 --positions 2", 1).out
    assert shown.count("LIMIT") == 2
    assert "exceed max_cells = 10" in shown
    shown = otspec("solve p.npz --n 3 --solver max_flow:max_cells=10,slackness --top-k 5").out
    assert shown.count("OPTIMAL") == 4
    assert "exceed" not in shown


def test_solve_reads_arrays_by_the_names_that_it_is_told(otspec: Otspec) -> None:
    with np.load("p.npz") as arrays:
        p, q = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) for logits in arrays.values())
    np.savez("named.npz", p=p, q=q)
    laws = "named.npz --target-key p --draft-key q"
    for kind in ("probs", "logits"):
        otspec(f"solve {laws} --kind {kind} --n 2 --out out.jsonl")
        source = open_source("named.npz", target_key="p", draft_key="q", kind=kind)
        best = [package.optimum(source.position(index).problem(2)).acceptance for index in range(4)]
        np.testing.assert_allclose([line["acceptance"] for line in lines_of("out.jsonl")], best, atol=1e-9)


def test_bench_measures_reports_and_resumes(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    line = "bench --k 5,V --n 2 --solver max_flow,slackness --positions 3 --data p.npz --out out"
    assert "(V, 2)" in otspec(line).out
    drawn = {"lines.png", "report.png", "report.html"}
    files = {".lock", "report.md", "results.jsonl", "results.parquet", "run.json"}
    assert {path.name for path in Path("out").iterdir()} == files | drawn
    assert "| (5, 2) | max_flow |" in Path("out/report.md").read_text()
    log = LOG.read_text()
    monkeypatch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)  # drawn once
    said = otspec(line).out
    assert LOG.read_text() == log
    assert "Nothing was left to measure: out held it all, 12 records" in said
    report = Path("out/report.md").read_text()
    assert report.count("otspec bench --k 5,V") == 2  # both commands, each with its date
    assert f"otspec {package.__version__}, numpy {np.__version__}" in report
    before = lines_of(LOG)
    otspec(f"{line} --remeasure max_flow")
    after = lines_of(LOG)
    assert len(after) == len(before)
    assert [one for one in after if one in before] == [one for one in before if one["solver"] == "slackness"]
    with monkeypatch.context() as patch:
        patch.setattr("otspec.extras.installed", lambda package: package != "vl_convert")
        said = otspec(f"{line} --positions 4", 2).err  # before the work, not after it
    assert 'vl_convert is not installed and is needed here: pip install "otspec-toolkit[report]"' in said
    assert lines_of(LOG) == after
    assert "holds another run: its seed is 0, yours 1" in otspec(f"{line} --seed 1", 2).err


def test_bench_takes_several_files_and_any_law_and_names_the_row_that_is_wrong(
    otspec: Otspec, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("polars")
    with np.load("p.npz") as good:
        arrays = {name: good[name].copy() for name in good.files}
    arrays["draft_logits"][1, 7] = np.nan
    np.savez("holed.npz", **arrays)
    cells = "--k 5,6 --n 2 --solver max_flow,interval --positions 2 --temperature 0.8 --top-p 0.9"
    line = f"bench {cells} --data p.npz,holed.npz --scheme without_replacement --out out"
    assert otspec_command(monkeypatch, *line.split()) == 1
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("error: holed.npz, position 1: ")
    assert "draft_logits[1][7] is nan" in shown[0]
    assert shown[1].startswith("error: interval solved nothing; interval takes i.i.d. drafts")
    assert len(shown) == 2
    report = Path("out/report.md").read_text()
    for name in ("p.npz", "holed.npz"):
        assert f"## Solvers on {name}, without_replacement, temperature 0.8, top-p 0.9" in report
    assert {"report_1_p.npz.png", "lines_2_holed.npz.png"} <= {path.name for path in Path("out").iterdir()}


@pytest.mark.usefixtures("no_pictures")
def test_a_run_is_compared_with_others_while_it_is_measured_and_afterwards(otspec: Otspec) -> None:
    pytest.importorskip("polars")
    common = "--n 2 --solver interval,kseq --positions 4 --data p.npz"
    for k in ("5", "V"):
        otspec(f"bench --k {k} {common} --out {k}")
    about = json.loads(Path("5/run.json").read_text())
    shutil.copytree("5", "other")
    Path("other/run.json").write_text(json.dumps(about | {"processor": "abacus"}))
    shown = otspec(f"bench --k 5,V {common} --out all --against other --against V")
    assert "B compared with A" in shown.out
    assert "note: they differ in the machine: processor: A [" in shown.err
    found = json.loads(Path("all/comparison.json").read_text())
    assert [one["pairs"] for one in found["cells"]] == [4] * 4
    assert {one["acceptance"]["ratio"] for one in found["cells"]} == {1.0}
    assert "| p.npz (5, 2) | interval | 4 |" in Path("all/comparison.md").read_text()
    log = Path("all/results.jsonl").read_text()
    shown = otspec("bench --against 5 --out all")  # measures nothing
    assert "note: only B has finished p.npz (V, 2) interval, p.npz (V, 2) kseq" in shown.err
    assert Path("all/results.jsonl").read_text() == log
    assert "- only B has finished" in Path("all/comparison.md").read_text()
    for words, message in (
        ("--against V --out 5", "V and 5 have nothing in common that both finished; the first has p.npz (V, 2)"),
        ("--against nowhere --out 5", "there is no run in nowhere; name folders that `otspec bench`"),
        ("--against nowhere --out new", "there is no run in nowhere"),
    ):
        assert message in otspec(f"bench {words}", 2).err, words
    assert not Path("new").exists()


SCRIPT = """
import sys
from otspec.cli import main
from otspec.reporting.pictures import Picture

if __name__ == "__main__":
    Picture.save = lambda *_: None  # drawing takes longer than all the rest
    sys.exit(main())
"""


@pytest.mark.usefixtures("no_pictures")
def test_a_users_solver_is_measured_by_an_installed_command_and_anew_after_an_edit(
    otspec: Otspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is a script in another folder, whose path is not that of the working directory."""
    pytest.importorskip("polars")
    Path("bin").mkdir()
    Path("bin/otspec").write_text(SCRIPT)
    mine = Path("solver_of_mine.py")
    mine.write_text(DOCUMENTED)
    line = "bench --data p.npz --k 4 --n 2 --positions 2 --out out --solver solver_of_mine:FromTarget,kseq"
    command, environment = [sys.executable, "bin/otspec", *line.split()], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Solvers on p.npz" in done.stdout
    first = lines_of(LOG)
    assert len(first) == 4
    mine.write_text(DOCUMENTED + "\n# faster now\n")
    monkeypatch.syspath_prepend(Path.cwd())
    assert "2 records were measured with other code of their solvers: measured anew" in otspec(line).out
    anew = [one for one in lines_of(LOG) if one not in first]
    assert sorted((one["solver"], one["position"]) for one in anew) == [
        (f"{mine.stem}:FromTarget", at) for at in (0, 1)
    ]


def test_solvers_are_listed(otspec: Otspec) -> None:
    shown = otspec("solvers").out
    assert all(info.name in shown for info in package.available())
    assert "[khisti2025multi" in shown  # brackets are no markup
    shown = otspec("solvers --schemes").out
    public = [getattr(package, name) for name in package.__all__]
    schemes = {one.__name__ for one in public if isinstance(one, type) and DraftScheme in one.__mro__}
    assert schemes - {"DraftScheme"} == examples().keys()
    assert all(name in shown and type(one.scheme).__name__ == name for name, one in examples().items())
    assert otspec("--version").out == f"otspec {package.__version__}"


def test_the_documented_table_of_schemes_is_the_generated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    package.available()
    others = [name for name, kind in REGISTRY.items() if not kind.__module__.startswith("otspec.solvers.")]
    for name in others:  # those that other tests register
        monkeypatch.delitem(REGISTRY, name)
    documented = (ROOT / "docs" / "draft_laws.md").read_text()
    table = documented.partition("`otspec solvers --schemes` shows -->\n")[2].partition("<!-- end")[0]
    assert table == schemes_table().markdown()


def test_a_comparison_without_the_extra_is_one_line(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.extras.installed", lambda package: package != "polars")
    for command in ("bench", "bench paths", "bench decode"):
        said = otspec(f"{command} --against before --out after", 2).err
        assert 'polars is not installed and is needed here: pip install "otspec-toolkit[bench]"' in said
