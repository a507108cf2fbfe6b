"""The table of drafters: trainings that go on where they stopped, and figures against sums made by hand."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vl_convert")
from safetensors.numpy import save_file  # noqa: E402

from benchmarks.drafters import acceptance, elsewhere, learning, small, tables, times  # noqa: E402
from benchmarks.drafters.pictures import draw  # noqa: E402
from benchmarks.drafters.plan import TINY, WAYS, Learner  # noqa: E402
from benchmarks.shipped_pair.recipe import Shape  # noqa: E402
from otspec.decode import shipped  # noqa: E402
from otspec.decode.models.fingerprint import fingerprint  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402

AS_IT_IS, STEERED = Learner("shipped", "pretrained"), Learner("shipped", "sd2", "tvd")
FROZEN = Learner("shipped", "sd2-frozen", "tvd")
SIZES: dict[str, Any] = {"seeds": 1, "texts": 4, "held_out": 3, "at_once": 7, "length": 12, "new": 6, "windows": (3,)}
SMALL = replace(TINY, learners=(AS_IT_IS, STEERED), ablations=(FROZEN,), **SIZES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one seed."""
    out = tmp_path_factory.mktemp("drafters")
    for learner, seed in SMALL.jobs():
        learning.learn(learner, seed, SMALL, out, "cpu")
        acceptance.measure(learner, seed, SMALL, out, "cpu")
    return out


def test_a_run_leaves_what_it_measured(run: Path) -> None:
    records = acceptance.gathered(run, SMALL)
    whole = [one for one in records if "tokens" in one and "window" not in one]
    assert len(whole) == 2 * len(WAYS) + 2
    assert all(one["tokens"] == SMALL.prompts * SMALL.new for one in whole)
    windows = [one for one in records if "window" in one]
    assert [one["window"] for one in windows] == [[SMALL.prompt, SMALL.prompt + 3]] * 2
    assert [len(one["by_offset"]) for one in records if "by_offset" in one] == [8, 8]


def test_kinds_of_text_are_decoded_by_themselves(run: Path, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    request = [("qa", "Who was the first to cross the Atlantic alone, and when?"), ("law", "Is a promise binding?")]
    lines = [{"category": kind, "turns": [text, text]} for kind, text in request] * 2
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for learner in SMALL.learners:
        elsewhere.measure(learner, 0, SMALL, run, elsewhere.Tasks((tasks,)), "cpu")
    records = elsewhere.gathered(SMALL, run)
    kinds = [elsewhere.HOME, "qa", "law"]
    assert [(one["name"], one["text"]) for one in records] == [(one.name, k) for one in SMALL.learners for k in kinds]
    assert all(one["tokens"] == one["prompts"] * SMALL.new for one in records)


def test_a_small_draft_model_is_pretrained_then_distilled_and_steered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "HELD_OUT", 8)
    target, _, tokenizer = shipped.load()
    texts, count, length = tmp_path / "texts.safetensors", 10, 24
    lines = np.array(tokenizer("import os\n" * 200).input_ids[: count * (length - 1)]).reshape(count, -1)
    begun = np.concatenate([np.full((count, 1), tokenizer.bos_token_id), lines], axis=1)
    save_file({"texts": begun}, texts, {"target": fingerprint(target)})
    shape = Shape(width=16, layers=2, heads=2, inner=16)

    def stages(first: int, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return small.make(tmp_path / name, "shipped", texts, shape, steps=(first, 2, 3), batch=2)

    (_, short), longer = next(stages(1, "short")), dict(stages(60, "longer"))
    assert short["loss"] == pytest.approx(math.log(len(tokenizer)), rel=0.05)  # it begins with no idea
    assert longer["pretrained"]["loss"] < short["loss"] - 0.2  # and learns that there is one line
    assert [(one["kind"], one["steps"]) for one in longer.values()][1:] == [("distilled", 2), ("sd2", 3)]
    draft = load_models("shipped", str(tmp_path / "longer" / "pretrained"), "cpu").draft
    assert draft is not None
    first = fingerprint(draft)
    assert [longer[kind]["draft"][1] for kind in ("distilled", "sd2")] == [first, first]  # both begin there
    assert dict(stages(7, "longer")) == longer  # what is whole is not made again
    assert not list(tmp_path.rglob("*.part"))


def _record(name: str, seed: int, accepted: list[int], **more: Any) -> dict[str, Any]:
    steps = 10
    sums = {"accepted": accepted, "sequence_steps": steps, "tokens": steps + sum(accepted)}
    return {"name": name, "seed": seed, "parameters": 1, **tables.CHAIN._asdict(), **sums, **more}


def test_figures_are_those_of_sums_made_by_hand() -> None:
    records = [_record("x", 1, [5, 3]), _record("x", 0, [9, 1]), _record("x", 0, [0, 0], temperature=0.0)]
    records += [_record("x", 0, [4, 0], window=[8, 16]), _record("x", 1, [8, 2], window=[8, 16]), _record("y", 0, [1])]
    assert tables.taus(records, "x", tables.CHAIN) == [2.0, 1.8]
    assert tables.taus(records, "x", tables.GREEDY) == [1.0]
    assert tables.reach(records, "x", tables.CHAIN) == [0.7, 0.2]
    assert tables.by_window(records, "x") == {12.0: 0.7}
    assert tables.spread([1.0, 2.0, None], 2) == "1.50 ± 0.71"


def test_speeds_are_ratios_over_the_same_prompts(tmp_path: Path) -> None:
    folder = tmp_path / times.FOLDER
    folder.mkdir()

    def line(method: str, drafter: str, prompt: int, tokens: int, seconds: float) -> str:
        about = {"trial": False, "method": method, "drafter": drafter, "prompt": prompt, "temperature": 1.0}
        spent = {"draft": seconds / 2, "rest": seconds / 2}
        return json.dumps({**about, "tokens": tokens, "seconds": spent, "offered": [4, 1]}) + "\n"

    lines = [line("vanilla", "", prompt, 10, 1.0) for prompt in range(3)]
    lines += [line("multi-draft", "/a/shipped-sd2-tvd-0", prompt, 10, 0.5) for prompt in range(2)]
    lines += [line("multi-draft", "", 0, 10, 2.0)]
    (folder / "results.jsonl").write_text("".join(lines))
    found = times.measured(tmp_path)
    assert {one["name"] for one in found} == {"vanilla", "shipped-sd2-tvd", times.AS_IT_IS}
    assert times.speed(found, "shipped-sd2-tvd", "vanilla", 1) == (2.0, 2.0, 2.0)
    assert times.speed(found, times.AS_IT_IS, "vanilla", 1) is None  # one prompt says nothing of others
    assert times.per_draft(found, "shipped-sd2-tvd") == pytest.approx(1e3 * 0.5 / 10)
    assert times.per_draft(found, "nobody") is None


def test_reports_have_a_row_for_each_and_pictures_are_drawn(run: Path, tmp_path: Path) -> None:
    records = acceptance.gathered(run, SMALL)
    first = tables.table_1(SMALL, records, run)
    assert [row[:2] for row in first.rows] == [("shipped", "pretrained"), ("shipped", "sd2")]
    every = tables.table(SMALL, records, run)
    assert [row[-1] for row in every.rows] == ["-", "0.0"]  # what learns nothing takes no time to tell of
    ablations = tables.ablations(SMALL, records, run)
    assert [row[:3] for row in ablations.rows] == [("shipped", "sd2", "tvd"), ("shipped", "sd2-frozen", "tvd")]
    assert all(len(row) == len(table.header) for table in (first, ablations, every) for row in table.rows)
    draw(SMALL, records, tmp_path / "drafters.png")
    assert (tmp_path / "drafters.png").stat().st_size > 10_000
