from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError, UnknownSolver
from otspec.bench.decoding import (
    DecodingBenchmark,
    DecodingCell,
    decoding_grid,
    every_rule,
    fingerprint,
    records_of,
    run,
)
from otspec.bench.decoding_report import (
    decoding_table,
    efficiency_table,
    failed_table,
    plot_decoding,
    summarise,
)
from otspec.bench.records import RecordFolder
from otspec.decode.metrics import Metrics
from otspec.decode.models.loading import Models
from otspec.extras import installed
from tests.decode.models import pair, tiny

VANILLA = DecodingCell("vanilla")
NESTED, INTERVAL = (DecodingCell("multi-draft", rule, 2) for rule in ("nested", "interval"))


def benchmark(cells: list[DecodingCell], **settings: Any) -> DecodingBenchmark:
    target, draft = pair()
    prompts = [[1, 2], [3], [4, 5, 6]]
    settings = {"first": 3, "depth": 2, "max_new_tokens": 5} | settings
    return DecodingBenchmark(Models(target, None, draft), ("t", "d"), cells, prompts, **settings)


def record(cell: DecodingCell, prompt: int, tokens: int, steps: int, seconds: float = 1.0, message: str = "") -> Any:
    spent = {"draft": 0.0, "target": seconds, "verification": 0.0, "rest": 0.0}
    metrics = Metrics(tokens, steps, steps, 2 * steps, [steps], [tokens - steps], spent)
    return asdict(cell) | {"prompt": prompt, "lossless": True, "message": message} | metrics.record()


def test_grid_begins_with_vanilla_and_gives_every_rule_every_k() -> None:
    cells = decoding_grid([2, 3], ["nested", "global_resolution/naive"], ["typical", "single", "vanilla"])
    assert cells == [
        VANILLA,
        DecodingCell("typical", paths=2),
        DecodingCell("typical", paths=3),
        DecodingCell("single", paths=1),
        DecodingCell("multi-draft", "nested", 2),
        DecodingCell("multi-draft", "global_resolution/naive", 2),
        DecodingCell("multi-draft", "nested", 3),
        DecodingCell("multi-draft", "global_resolution/naive", 3),
    ]
    with pytest.raises(UnknownSolver, match=r"no solver 'guess'; known: .*; joint rules: nested, "):
        decoding_grid([2], ["guess"], [])
    with pytest.raises(ProblemError, match="no method 'guess'"):
        decoding_grid([2], [], ["guess"])


def test_every_rule_can_be_spelt() -> None:
    rules, _ = every_rule()
    assert {"nested", "traversal", "interval", "kseq", "global_resolution/naive"} <= set(rules)
    assert "block" not in rules
    decoding_grid([2], rules, [])


def test_records_are_whole_and_none_is_measured_twice(tmp_path: Path) -> None:
    asked = benchmark([VANILLA, NESTED], first=2)
    folder = RecordFolder(tmp_path, asked.identity)
    steps: list[int] = []
    run(asked, folder, steps.append)
    assert sum(steps) == 4
    assert [(one["rule"], one["prompt"]) for one in folder.records] == [("", 0), ("nested", 0), ("", 1), ("nested", 1)]
    for one in folder.records:
        assert one["tokens"] == 5
        assert one["lossless"]
        assert one["message"] == ""
        assert sum(one["seconds"].values()) > 0
    before = list(folder.records)
    run(benchmark([VANILLA, NESTED, INTERVAL]), folder)
    assert folder.records[:4] == before
    assert len(folder.records) == 9
    assert len(records_of(folder.records, INTERVAL)) == 3
    folder.close()


def test_a_cell_whose_solver_fails_or_whose_time_is_spent_gets_no_more_prompts(tmp_path: Path) -> None:
    failing = DecodingCell("multi-draft", "max_flow:max_cells=1", 2)
    asked = benchmark([failing])
    folder = RecordFolder(tmp_path / "failing", asked.identity)
    run(asked, folder)
    (one,) = folder.records
    assert "exceed max_cells = 1" in one["message"]
    assert one["tokens"] == 0
    table = failed_table(summarise(folder.records))
    assert table is not None
    assert table.rows == [("2", failing.name, one["message"])]
    folder.close()

    asked = benchmark([VANILLA], budget_s=1e-6)
    folder = RecordFolder(tmp_path / "short", asked.identity)
    run(asked, folder)
    (one,) = folder.records
    assert 1 <= one["tokens"] < 5
    folder.close()


def test_fingerprints_tell_models_apart() -> None:
    assert fingerprint(tiny(seed=0)) == fingerprint(tiny(seed=0)) != fingerprint(tiny(seed=1))


def test_figures_are_ratios_of_sums_with_errors_across_prompts() -> None:
    tokens, steps = np.array([10, 20, 12]), np.array([5, 8, 6])
    records = [record(NESTED, at, n, s, seconds=2.0) for at, (n, s) in enumerate(zip(tokens, steps, strict=True))]
    records += [record(INTERVAL, at, 8, 4) for at in range(2)]
    records += [record(VANILLA, at, 10, 10) for at in range(3)]
    records.append(record(DecodingCell("multi-draft", "lp", 2), 0, 0, 0, message="too large"))
    nested, interval, vanilla, failed = summarise(records)
    assert nested.total.block_efficiency == pytest.approx(42 / 19)
    rng = np.random.default_rng(0)  # the delta method against a bootstrap of a long list of such prompts
    copies = [record(NESTED, at, tokens[at % 3], steps[at % 3]) for at in range(300)]
    drawn = rng.integers(300, size=(2000, 300)) % 3
    bootstrap = (tokens[drawn].sum(axis=1) / steps[drawn].sum(axis=1)).std()
    assert summarise(copies)[0].error == pytest.approx(bootstrap, rel=0.1)
    assert nested.gain == pytest.approx(30 / 13 - 2.0)
    assert interval.gain == 0
    assert interval.gain_error == 0
    assert math.isnan(vanilla.gain)
    assert nested.speed_up == pytest.approx((3 / 30) / (6 / 42))
    assert vanilla.speed_up == 1
    assert nested.ms_per_token["target"] == pytest.approx(1e3 * 6 / 42)
    assert (failed.prompts, failed.message) == (0, "too large")


def test_one_prompt_has_no_error() -> None:
    summaries = summarise([record(NESTED, 0, 9, 4), record(INTERVAL, 0, 8, 4)])
    for table in (efficiency_table(summaries, "t"), decoding_table(summaries, "t")):
        assert "nan" not in " ".join(cell for row in table.rows for cell in row)
    nested = decoding_table(summaries, "t").rows[0]
    assert nested[2:4] == ("2.250", "+0.250")
    assert nested[-2] == "-"  # nothing was decoded without drafts to compare the time with


def test_tables_and_picture(tmp_path: Path) -> None:
    single = DecodingCell("single", paths=1)
    cells = [VANILLA, single, NESTED, INTERVAL, DecodingCell("multi-draft", "single", 3)]
    records = [record(cell, at, 8 + at, 4) for at in range(2) for cell in cells]
    records.append({**record(DecodingCell("typical", paths=2), 0, 9, 3), "lossless": False})
    summaries = summarise(records)
    rows = {row[0]: row[1:] for row in efficiency_table(summaries, "t").rows}
    assert rows["nested"] == ("2.125 ± 0.125", "-")
    assert rows["single (one path)"] == ("2.125 ± 0.125", "2.125 ± 0.125")
    assert rows["single"] == ("-", "2.125 ± 0.125")
    assert rows["typical (lossy)"] == ("3.000", "-")
    assert rows["paper: global resolution"] == ("2.23", "2.54")
    table = decoding_table(summaries, "t")
    assert {len(row) for row in table.rows} == {len(table.header)}
    assert [row[1] for row in table.rows if row[0] == "3"] == ["single"]
    if installed("matplotlib"):
        plot_decoding(summaries, "t", tmp_path / "p.png")
        assert (tmp_path / "p.png").stat().st_size > 0
