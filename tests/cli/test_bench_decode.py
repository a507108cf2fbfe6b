"""`otspec bench decode` as a user types it, on a tiny random pair."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import otspec  # noqa: E402
from otspec.bench.decoding.cells import DecodingCell  # noqa: E402
from otspec.decode.drafters.heads.model import MlpSpeculator  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.reporting.page import DRAWING, lacking  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402
from tests.cli.test_decode import lines_of  # noqa: E402


def test_bench_measures_reports_and_resumes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    saved: tuple[str, ...],
    prompts: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "report"
    cells = ("--paths", "2", "--depth", "2", "--solver", "nested,global_resolution/interval", "--baselines", "generate")
    arguments = ("bench", "decode", *saved, "--prompts", str(prompts), *cells, "--temperature", "1,0")
    arguments = (*arguments, "--max-new-tokens", "4", "--draft-top-k", "9", "--out", str(out))
    assert otspec_command(monkeypatch, *arguments, "--first", "2") == 0
    shown = capsys.readouterr().out
    assert "global_resolution/interval" in shown
    assert shown.count("Speed-up: temperature") == 2
    drawn = [*([] if lacking() else ["report.html"]), *([] if lacking(DRAWING) else ["report.png"])]
    files = {".lock", "report.md", *drawn, "results.jsonl", "run.json"}
    assert {path.name for path in out.iterdir()} == files
    report = (out / "report.md").read_text()
    assert report.count("| 2 | 2 | nested (drafts top-k 9) |") == 1
    assert report.count("| 2 | 2 | nested |") == 1  # at temperature 0
    assert report.count("| rule | ms/token | over generate | over vanilla |") == 2
    log = (out / "results.jsonl").read_text()
    assert len(log.splitlines()) == 2 * 2 * 4
    assert otspec_command(monkeypatch, *arguments, "--first", "2") == 0
    assert (out / "results.jsonl").read_text() == log
    again = " ".join(capsys.readouterr().out.split())
    assert f"{out} holds 16 records of this run, which stand; what it lacks is added." in again
    assert "Nothing was left to measure" in again
    for line in lines_of(out / "results.jsonl"):
        assert line["threads"] == torch.get_num_threads()
        assert line["load"] is None or line["load"] >= 0
    assert otspec_command(monkeypatch, *arguments, "--first", "3", "--repeats", "2") == 0
    assert (out / "results.jsonl").read_text().startswith(log)
    assert len(lines_of(out / "results.jsonl")) == 2 * 3 * 2 * 4
    capsys.readouterr()
    assert otspec_command(monkeypatch, *arguments, "--seed", "1") == 2
    assert "holds another run: its seed is 0, yours 1" in " ".join(capsys.readouterr().err.split())
    prompts.write_text("import os\n")
    assert otspec_command(monkeypatch, *arguments) == 2
    assert "holds another run: its prompts is " in " ".join(capsys.readouterr().err.split())


def test_bench_compares_drafters(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    saved: tuple[str, ...],
    prompts: Path,
    tmp_path: Path,
) -> None:
    """The draft model as it is, with some of its tokens, and another one: each as `otspec.generate` has it."""
    np.save(tmp_path / "counts.npy", np.arange(300)[::-1])
    out, names = tmp_path / "report", ("", "fr:20", saved[1])
    arguments = ("bench", "decode", *saved, "--prompts", str(prompts), "--paths", "2", "--depth", "2", "--first", "1")
    arguments = (*arguments, "--solver", "nested", "--baselines", "generate,block", "--max-new-tokens", "6")
    drafters = ("--drafter", f"full,fr:20,{saved[1]}", "--frequencies", str(tmp_path / "counts.npy"))
    assert otspec_command(monkeypatch, *arguments, *drafters, "--out", str(out)) == 0
    assert "drafted by fr:20" in capsys.readouterr().out
    lines = lines_of(out / "results.jsonl")
    assert [line["method"] for line in lines if line["drafter"]].count("block") == 2
    by = {line["drafter"]: line for line in lines if line["method"] == "multi-draft"}
    assert set(by) == set(names)
    models = load_models(saved[1], saved[3], "cpu")
    ids = torch.tensor([models.tokenizer("def f(x):").input_ids])
    for name, draft, tokens in ((names[0], models.draft, None), (names[1], models.draft, range(20))):
        assert draft is not None
        told = otspec.generate(
            models.target, draft, ids, paths=2, depth=2, solver="nested", seed=0, max_new_tokens=6, draft_tokens=tokens
        ).metrics
        assert [by[name][figure] for figure in ("tokens", "accepted")] == [told.tokens, told.accepted]
    accepted = by[names[2]]["accepted"]  # the target drafts for itself
    assert accepted == by[names[2]]["offered"]
    assert otspec_command(monkeypatch, *arguments, "--drafter", "fr:0", "--out", str(tmp_path / "no")) == 2
    assert "'fr:0' keeps '0' tokens" in " ".join(capsys.readouterr().err.split())


def test_baselines_by_default_are_what_the_draft_model_can_be_used_in(
    monkeypatch: pytest.MonkeyPatch, saved: tuple[str, ...], prompts: Path, tmp_path: Path
) -> None:
    models = load_models(saved[1], None, "cpu")
    for part in (MlpSpeculator.of(models.target, 2), models.tokenizer):
        part.save_pretrained(tmp_path / "heads")
    pair = ("--target", saved[1], "--draft", str(tmp_path / "heads"), "--prompts", str(prompts))
    more = ("--paths", "1", "--depth", "2", "--solver", "block", "--first", "1", "--max-new-tokens", "2")
    asked = ("bench", "decode", *pair, *more)
    assert otspec_command(monkeypatch, *asked, "--out", str(tmp_path / "out")) == 0
    methods = {line["method"] for line in lines_of(tmp_path / "out" / "results.jsonl")}
    assert "assisted" not in methods
    assert {"vanilla", "generate", "single", "multi-draft"} <= methods
    assert otspec_command(monkeypatch, *asked, "--baselines", "assisted", "--out", str(tmp_path / "no")) != 0


def test_a_preset_stands_for_the_options_that_are_not_given(
    monkeypatch: pytest.MonkeyPatch, saved: tuple[str, ...], prompts: Path, tmp_path: Path
) -> None:
    asked: list[dict[str, Any]] = []

    def noted(**settings: Any) -> list[DecodingCell]:
        asked.append(settings)
        return [DecodingCell("generate")]

    names = ("paths", "depths", "rules", "baselines", "temperatures", "truncations", "assisted", "drafters", "batches")
    monkeypatch.setattr(
        "otspec.bench.decoding.cells.decoding_grid", lambda *given: noted(**dict(zip(names, given, strict=True)))
    )
    common = ("bench", "decode", *saved, "--prompts", str(prompts), "--first", "1", "--max-new-tokens", "2")
    for number, more in enumerate(((), ("--paths", "2", "--draft-top-k", "V,5", "--draft-top-p", "0.5"))):
        arguments = (*common, *more, "--preset", "gr-table-4", "--out", str(tmp_path / str(number)))
        assert otspec_command(monkeypatch, *arguments) == 0
    whole, changed = asked
    assert whole["paths"] == [2, 3, 4]
    assert whole["depths"] == [8]
    as_printed, expected = "global_resolution/naive", "global_resolution/kseq"  # Appendix R, and its outlook
    assert whole["rules"] == [as_printed, expected, "nested", "interval", "kseq"]
    assert whole["temperatures"] == [1.0]
    assert whole["truncations"] == [{"draft_top_k": 10}, {"draft_top_k": 100}]
    assert (changed["paths"], changed["depths"], changed["rules"]) == ([2], [8], whole["rules"])
    assert changed["truncations"] == [{"draft_top_k": k, "draft_top_p": 0.5} for k in (0, 5)]


BAD_BENCH = [
    (("decode", "--prompts", "nowhere.txt"), "there is no file nowhere.txt"),
    (("decode", "--target", "other/model"), "no prompts for other/model; pass --prompts FILE"),
    (("decode", "--solver", "guess"), "no solver 'guess'"),
    (("decode", "--baselines", "guess"), "no method 'guess'"),
    (("decode", "--budget", "0"), "grant each rule some time"),
    (("decode", "--preset", "gr"), "no preset 'gr'; known: gr-table-4"),
    (("decode", "--reference", "lp"), "'lp' is not among the rules of this run, nested, interval"),
    (("decode", "--temperature", "1,hot"), "--temperature: 'hot' is not a number; write a list such as 1,0.6"),
    (("decode", "--temperature", "1,-1"), "--temperature: -1; a temperature is finite and >= 0"),
    (("decode", "--draft-top-p", "2"), "--draft-top-p: 2; it is a probability in (0, 1]"),
    (("decode", "--pace", "fixed,fast"), "--pace: 'fast' is no pace; write a list of fixed, goodput"),
    (("decode", "--draft-top-k", "W"), "--draft-top-k: 'W' is not a positive number or V or 0"),
    (("--seed", "1", "decode"), "write it after decode"),
]


def test_bench_says_what_is_wrong(refused: Callable[..., str], tmp_path: Path) -> None:
    for arguments, message in BAD_BENCH:
        assert message in refused("bench", *arguments), arguments
        assert not list(tmp_path.iterdir()), arguments
