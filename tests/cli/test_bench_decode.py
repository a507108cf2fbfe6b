"""`otspec bench decode` on a tiny random pair."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("polars")

from otspec.bench.decoding.cells import DecodingCell  # noqa: E402
from otspec.decode.drafters.heads.model import MlpSpeculator  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from tests.cli.running import Otspec, Pair, lines_of  # noqa: E402
from tests.cli.test_decode import generated  # noqa: E402
from tests.cli.test_prompts import LINES, write  # noqa: E402

LOG = Path("out/results.jsonl")


def test_bench_measures_reports_and_resumes(
    otspec: Otspec, saved: Pair, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = "--paths 2 --depth 2 --solver nested,global_resolution/interval --baselines generate --temperature 1,0"
    line = f"bench decode {saved} {prompts} {cells} --max-new-tokens 4 --draft-top-k 9 --out out"
    shown = otspec(f"{line} --first 2").out
    assert "global_resolution/interval" in shown
    assert shown.count("Speed-up: temperature") == 2
    drawn = ["report.html", "report.png"]
    assert {path.name for path in Path("out").iterdir()} == {".lock", "report.md", *drawn, LOG.name, "run.json"}
    report = Path("out/report.md").read_text()
    assert report.count("| 2 | 2 | nested (drafts top-k 9) |") == 1
    assert report.count("| 2 | 2 | nested |") == 1  # at temperature 0
    log = LOG.read_text()
    monkeypatch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)  # drawn once
    assert len(log.splitlines()) == 2 * 2 * 4
    again = otspec(f"{line} --first 2").out
    assert LOG.read_text() == log
    assert "out holds 16 records of this run, which stand; what it lacks is added." in again
    assert "Nothing was left to measure" in again
    for one in lines_of(LOG):
        assert one["threads"] == torch.get_num_threads()
        assert one["load"] is None or one["load"] >= 0
    otspec(f"{line} --first 3 --repeats 2")
    assert LOG.read_text().startswith(log)
    assert len(lines_of(LOG)) == 2 * 3 * 2 * 4
    assert "holds another run: its seed is 0, yours 1" in otspec(f"{line} --seed 1", 2).err
    assert "block efficiency" in otspec("bench decode --out out --against out").out
    Path("prompts.txt").write_text("import os\n")
    assert "holds another run: its prompts is " in otspec(line, 2).err


@pytest.mark.usefixtures("no_pictures")
def test_bench_compares_drafters(otspec: Otspec, saved: Pair, prompts: str) -> None:
    """The draft model as it is, with some of its tokens, and another one: each as `otspec.generate` has it."""
    np.save("counts.npy", np.arange(300)[::-1])
    common = f"bench decode {saved} {prompts} --paths 2 --depth 2 --first 1 --solver nested --max-new-tokens 6"
    drafters = f"--drafter full,fr:20,{saved.target} --frequencies counts.npy"
    assert "drafted by fr:20" in otspec(f"{common} --baselines generate,block {drafters} --out out").out
    lines = lines_of(LOG)
    assert [line["method"] for line in lines if line["drafter"]].count("block") == 2
    by = {line["drafter"]: line for line in lines if line["method"] == "multi-draft"}
    assert set(by) == {"", "fr:20", saved.target}
    settings: dict[str, Any] = {"paths": 2, "depth": 2, "solver": "nested", "seed": 0, "max_new_tokens": 6}
    for name, tokens in (("", None), ("fr:20", range(20))):
        shown = generated(*saved, "def f(x):", draft_tokens=tokens, **settings).metrics
        assert [by[name][figure] for figure in ("tokens", "accepted")] == [shown.tokens, shown.accepted]
    assert by[saved.target]["accepted"] == by[saved.target]["offered"]  # the target drafts for itself
    assert "'fr:0' keeps '0' tokens" in otspec(f"{common} --drafter fr:0 --out no", 2).err
    for wrong in ("5", "5/constant", "a/constant/0.4", "5/constant/much"):
        otspec(f"{common} --baselines generate --assisted {wrong} --out no", 2)


@pytest.mark.usefixtures("no_pictures")
def test_baselines_by_default_are_what_the_draft_model_can_be_used_in(
    otspec: Otspec, saved: Pair, prompts: str
) -> None:
    models = load_models(saved.target, None, "cpu")
    for part in (MlpSpeculator.of(models.target, 2), models.tokenizer):
        part.save_pretrained("heads")
    line = f"bench decode --target {saved.target} --draft heads {prompts} --paths 1 --depth 2 --solver block --first 1"
    otspec(f"{line} --max-new-tokens 2 --out out")
    methods = {one["method"] for one in lines_of(LOG)}
    assert "assisted" not in methods
    assert {"vanilla", "generate", "single", "multi-draft"} <= methods
    otspec(f"{line} --max-new-tokens 2 --baselines assisted --out no", 2)


@pytest.mark.usefixtures("no_pictures")
def test_a_preset_stands_for_the_options_that_are_not_given(
    otspec: Otspec, saved: Pair, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request: list[dict[str, Any]] = []
    names = ("paths", "depths", "rules", "baselines", "temperatures", "truncations", "assisted", "drafters", "batches")

    def noted(*inputs: Any) -> list[DecodingCell]:
        request.append(dict(zip(names, inputs, strict=True)))
        return [DecodingCell("generate")]

    monkeypatch.setattr("otspec.bench.decoding.cells.decoding_grid", noted)
    for number, more in enumerate(("", "--paths 2 --draft-top-k V,5 --draft-top-p 0.5")):
        line = f"bench decode {saved} {prompts} --first 1 --max-new-tokens 2 {more} --preset gr-table-4"
        otspec(f"{line} --out {number}")
    whole, changed = request
    assert (whole["paths"], whole["depths"], whole["temperatures"]) == ([2, 3, 4], [8], [1.0])
    as_printed, expected = "global_resolution/naive", "global_resolution/kseq"  # Appendix R, and its outlook
    assert whole["rules"] == [as_printed, expected, "nested", "interval", "kseq"]
    assert whole["truncations"] == [{"draft_top_k": 10}, {"draft_top_k": 100}]
    assert (changed["paths"], changed["depths"], changed["rules"]) == ([2], [8], whole["rules"])
    assert changed["truncations"] == [{"draft_top_k": k, "draft_top_p": 0.5} for k in (0, 5)]


@pytest.mark.usefixtures("no_pictures")
def test_a_preset_has_dynamic_trees_of_two_models_at_home_and_elsewhere(otspec: Otspec) -> None:
    less = "--first 2 --max-new-tokens 2 --drafter fr,eagle+dynaspec --temperature 0"
    otspec(f"bench decode --preset dynaspec-table-1 {less} --out out")
    lines = lines_of(LOG)
    assert {one["task"] for one in lines} == {"held-out", "writing"}
    assert {(one["method"], one["drafter"], one["paths"], one["depth"]) for one in lines} == {
        ("vanilla", "", 0, 0), *(("dynamic-tree", name, 4, 6) for name in ("fr", "eagle+dynaspec")),
    }  # fmt: skip


@pytest.mark.usefixtures("no_pictures")
def test_figures_are_told_for_each_task(otspec: Otspec, saved: Pair) -> None:
    tasks = write(Path("tasks.jsonl"), LINES)
    cells = "--paths 2 --depth 2 --solver nested --baselines '' --max-new-tokens 3"
    line = f"bench decode {saved} --tasks tasks.jsonl {cells} --out out"
    assert "by task" in otspec(f"{line} --first 4").out
    request = {(one["prompt"], one["task"]) for one in lines_of(LOG)}
    assert request == {(0, "writing"), (1, "math"), (2, "qa"), (3, "writing")}
    assert Path("out/report.md").read_text().count("| rule | math | qa | writing | mean | all |") == 3
    assert "--prompts is given too" in otspec(f"{line} --prompts tasks.jsonl", 2).err
    write(tasks, [*LINES[:-1], LINES[-1] | {"task": "maths"}])
    assert "holds another run: its prompts is" in otspec(f"{line} --first 4", 2).err


@pytest.mark.usefixtures("no_pictures")
def test_conversations_are_measured_whole(otspec: Otspec, chatty: Pair, tasks: str) -> None:
    line = f"bench decode --target {chatty.target} --draft none --tasks {tasks} --turns all --temperature 0,1"
    line = f"{line} --batch 1,2 --depth 2 --baselines prompt-lookup --max-new-tokens 6 --repeats 2 --out out"
    assert "batch 2" in otspec(line).out
    lines = lines_of(LOG)
    assert {one["method"] for one in lines} == {"vanilla", "prompt-lookup"}
    tokens = {(one["batch"], one["prompt"]): one["tokens"] for one in lines if one["method"] == "vanilla"}
    # In turn from every task: conversation 0 and 2 are of one, and are decoded together.
    assert tokens == {(1, 0): 12, (1, 1): 6, (1, 2): 12, (2, 0): 24, (2, 1): 6}
    assert {one.get("together") for one in lines if (one["batch"], one["prompt"]) == (2, 0)} == {2}
    assert len(lines) == 2 * 2 * 2 * (3 + 2)  # temperatures, methods, repeats, texts
    report = Path("out/report.md").read_text()
    assert all(f"temperature {heat}, batch {batch}" in report for heat in (1, 0) for batch in (1, 2))
    otspec(line)
    assert lines_of(LOG) == lines  # nothing was left to measure
