import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from otspec import ProblemError, UnknownSolver
from otspec.bench.decoding.cells import CANDIDATES, FIELDS, DecodingCell, decoding_cell_of, decoding_grid
from otspec.bench.decoding.driver import TRIALS, DecodingBenchmark, run
from otspec.bench.decoding.summary import chosen
from otspec.bench.records import KEY, RecordFolder
from otspec.bench.spellings import every_rule
from otspec.decode.base.metrics import AS_SERVED
from tests.bench.decoding.fakes import ASSISTED, GENERATE, INTERVAL, NESTED, VANILLA, benchmark
from tests.processes import killed


def kept(request: DecodingBenchmark, path: Path) -> RecordFolder:
    """A folder with what a benchmark measures, closed."""
    folder = RecordFolder(path, request.identity)
    run(request, folder)
    folder.close()
    return folder


def keys_of(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(decoding_cell_of(one), one["trial"], one["repeat"], one["prompt"]) for one in records]


def test_grid_begins_with_vanilla_and_gives_every_method_what_it_has_settings_for() -> None:
    rules = ["nested", "global_resolution/kseq"]
    cells = decoding_grid([2, 3], [4, 8], rules, ["typical", "single", "vanilla", "generate", "assisted"])
    assert cells == [
        VANILLA,
        *(DecodingCell("typical", paths=k, depth=length) for k in (2, 3) for length in (4, 8)),
        *(DecodingCell("single", paths=1, depth=length) for length in (4, 8)),
        GENERATE,
        ASSISTED,
        *(DecodingCell("multi-draft", rule, k, length) for rule in rules for k in (2, 3) for length in (4, 8)),
    ]
    assert cells[-1].settings == {"paths": 3, "depth": 8, "solver": ["global_resolution", "kseq"]}
    assert [cell.settings for cell in cells if cell.method in ("vanilla", "generate")] == [{}, {}]
    assert set(FIELDS) <= set(KEY)  # records of two cells do not stand for each other
    with pytest.raises(UnknownSolver, match=r"no solver 'guess'; known: .*; joint rules: nested, "):
        decoding_grid([2], [8], ["guess"], [])
    with pytest.raises(ProblemError, match="no method 'guess'"):
        decoding_grid([2], [8], [], ["guess"])
    with pytest.raises(ProblemError, match="multi-draft has no draft_magic"):
        decoding_grid([2], [8], ["nested"], [], truncations=[{"draft_magic": 3}])
    every, _ = every_rule()
    assert {"nested", "traversal", "interval", "kseq", "global_resolution/naive"} <= set(every)
    assert "block" not in every
    decoding_grid([2], [8], every, [])


def test_grid_of_temperatures_truncations_and_drafters_where_a_method_has_settings_for_them() -> None:
    """Certain drafts are not truncated, nor are those of text at temperature 0; both may end early."""
    ten, hot, ends = {"draft_top_k": 10}, {"draft_top_k": 0, "draft_temperature": 1.5}, {"draft_confidence": 0.4}
    cuts: list[dict[str, Any]] = [ten, hot, {"draft_top_k": 10, "draft_temperature": 0.0, **ends}]
    measured: dict[float, list[Any]] = {1.0: [ten, hot, {"draft_temperature": 0.0, **ends}], 0.0: [{}, hot, ends]}
    block, drafters, expected = DecodingCell("block", paths=1, depth=8), ["", "fr:9"], list[DecodingCell]()
    for heat, own in measured.items():
        expected += [replace(cell, temperature=heat) for cell in (VANILLA, GENERATE)]
        for cell, cut, name in itertools.product((block, NESTED), own, drafters):
            expected.append(replace(cell, temperature=heat, drafter=name, **cut))
    cells = decoding_grid([2], [8], ["nested"], ["generate", "block"], [1.0, 0.0], cuts, drafters=drafters)
    assert cells == expected
    *_, early = cells
    assert early.settings == {"paths": 2, "depth": 8, "draft_confidence": 0.4, "solver": "nested"}
    assert early.notes == ["drafted by fr:9", "drafts end below 0.4"]
    assert decoding_grid([2], [8], ["nested"], [], truncations=[hot])[1].settings["draft_top_k"] == 0
    old = {name: value for name, value in vars(early).items() if name != "draft_confidence"}
    assert decoding_cell_of(old) == replace(early, draft_confidence=None)
    assert replace(NESTED, pace="goodput").notes == ["depth by goodput"]  # of older runs
    assert "pace" not in replace(NESTED, pace="goodput").settings


def test_records_are_whole_and_none_is_measured_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which a text takes 1000 seconds, so that most of them are spent on the rest."""
    clock = SimpleNamespace(perf_counter=itertools.count(0, 1000).__next__)
    monkeypatch.setattr("otspec.bench.decoding.driver.time", clock)
    cells = [VANILLA, replace(NESTED, depth=2)]
    request = benchmark(cells, first=2)
    folder = RecordFolder(tmp_path, request.identity)
    steps: list[int] = []
    run(request, folder, steps.append)
    assert sum(steps) == request.count == 4
    assert [one["prompt"] for one in folder.records] == [0, 0, 1, 1]
    for one in folder.records:
        assert one["tokens"] == 5
        assert one["lossless"]
        assert one["message"] == ""
        assert one["seed"] == one["prompt"]
        assert sum(one["seconds"].values()) == pytest.approx(1000, abs=1e-6)
        assert one["of_texts"] == [{name: one[name] for name in AS_SERVED}]
        drafted, steps_of = one["num_drafts"], one["sequence_steps"]
        assert drafted == 0 if one["method"] == "vanilla" else 0 < drafted <= steps_of
        assert (one["mean_acceptance_length"] is None) == (drafted == 0)
    before = list(folder.records)
    run(benchmark([*cells, replace(INTERVAL, depth=2)], repeats=2), folder)
    assert folder.records[:4] == before
    counts = Counter(keys_of(folder.records))
    assert len(counts) == 3 * 2 * 3
    assert set(counts.values()) == {1}
    assert {(one["repeat"], one["prompt"]): one["seed"] for one in folder.records} == {
        (repeat, prompt): 3 * repeat + prompt for repeat in range(2) for prompt in range(3)
    }
    folder.close()


def test_every_prompt_has_all_cells_in_an_order_of_its_own() -> None:
    cells = [VANILLA, GENERATE, NESTED, INTERVAL, *(replace(NESTED, paths=k) for k in range(3, 9))]
    request = benchmark(cells, repeats=4, first=3)
    order = list(request.measurements(cells))
    texts = [order[start : start + len(cells)] for start in range(0, len(order), len(cells))]
    assert [{(repeat, prompt) for repeat, (prompt,), _ in text} for text in texts] == [
        {(repeat, prompt)} for repeat in range(4) for prompt in range(3)
    ]
    orders = [tuple(cell for _, _, cell in text) for text in texts]
    assert all(set(one) == set(cells) for one in orders)
    assert len(set(orders)) == len(orders)
    assert order == list(benchmark(cells, repeats=4, first=3).measurements(cells))
    assert order != list(benchmark(cells, repeats=4, first=3, seed=1).measurements(cells))


def test_settings_of_assisted_generation_are_chosen_on_the_last_prompts(tmp_path: Path) -> None:
    request = benchmark([VANILLA, ASSISTED], first=1, max_new_tokens=3)
    folder = kept(request, tmp_path)
    trials = [one for one in folder.records if one["trial"]]
    assert len(trials) == len(request.trials) == len(CANDIDATES) * min(TRIALS, 3)
    assert request.count == len(trials) + 2 == len(folder.records)
    (measured,) = (one for one in folder.records if not one["trial"] and one["method"] == "assisted")
    assert decoding_cell_of(measured) == chosen(folder.records, ASSISTED)
    assert (measured["depth"], measured["schedule"], measured["confidence"]) in CANDIDATES
    again = kept(benchmark([VANILLA, ASSISTED], first=2, max_new_tokens=3), tmp_path)
    assert again.records[: len(folder.records)] == folder.records
    assert len(again.records) == len(folder.records) + 2


def test_a_cell_whose_solver_fails_or_whose_time_is_spent_gets_no_more_prompts(tmp_path: Path) -> None:
    failing = DecodingCell("multi-draft", "max_flow:max_cells=1", 2, 2)
    (one,) = kept(benchmark([failing]), tmp_path / "failing").records
    assert "exceed max_cells = 1" in one["message"]
    assert one["tokens"] == 0
    (one,) = kept(benchmark([VANILLA], budget_s=1e-6, repeats=2), tmp_path / "short").records
    assert 1 <= one["tokens"] < 5


def test_a_run_that_is_killed_loses_nothing_and_measures_nothing_twice(tmp_path: Path) -> None:
    """With trials, repeats and two temperatures."""
    cells = [VANILLA, replace(NESTED, depth=2), replace(GENERATE, temperature=0.0), ASSISTED]
    request, trials = benchmark(cells, repeats=2, first=2, max_new_tokens=3), len(CANDIDATES) * 3
    after = trials + 9

    def work(die: Callable[[], None]) -> None:
        folder = RecordFolder(tmp_path, request.identity)
        run(request, folder, lambda steps: die() if len(folder.records) == after else None)

    killed(work)
    log = tmp_path / "results.jsonl"
    before = log.read_text()
    assert len(before.splitlines()) == after
    log.write_text(before + '{"method": "van')  # killed while it wrote
    assert len(kept(request, tmp_path).records) == request.count
    assert log.read_text().startswith(before)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    counts = Counter(keys_of(lines))
    assert set(counts.values()) == {1}
    assert sum(trial for _, trial, _, _ in counts) == trials
    assert {one["tokens"] for one in lines} == {3}
    assert all(math.isfinite(sum(one["seconds"].values())) for one in lines)
    texts = [(repeat, prompt) for _, trial, repeat, prompt in keys_of(lines) if not trial]
    assert texts == sorted(texts)  # it went on where it stopped
