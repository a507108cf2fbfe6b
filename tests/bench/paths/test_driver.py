"""Rules on recorded trees: exact figures, means with their errors, and runs that go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from otspec import ProblemError
from otspec.bench.paths.driver import PathsBenchmark, run
from otspec.bench.paths.summary import paths_cell_of, summarise
from otspec.bench.paths.tables import accepted_table, failed_table, reach_table
from otspec.bench.records import RecordFolder
from otspec.data import TreeSource
from otspec.verification import Tree
from otspec.verification.rules.catalogue import verifier_of_paths
from tests.data.tree_files import drawn_trees, write_trees

RULES = ("nested", "block", "interval")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> TreeSource:
    return TreeSource(write_trees(tmp_path_factory.mktemp("trees") / "t.safetensors", drawn_trees(12), prompts=6))


def benchmark(source: TreeSource, rules: tuple[str, ...] = RULES, **settings: object) -> PathsBenchmark:
    return PathsBenchmark({source.name: source}, rules, **settings)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, source: TreeSource) -> Iterator[RecordFolder]:
    made = RecordFolder(tmp_path, benchmark(source).identity)
    yield made
    made.close()


def test_records_hold_what_rules_accept_and_the_means_are_of_them(source: TreeSource, folder: RecordFolder) -> None:
    steps: list[int] = []
    run(benchmark(source), folder, steps.append)
    assert sum(steps) == benchmark(source).count == len(folder.records) == 12 * 3
    for record in folder.records:
        one, accepted = source.tree(record["position"]), record["accepted"]
        tree = Tree.of(one.paths, one.target, one.draft)
        law = verifier_of_paths(record["rule"]).stop_law(tree)
        depths = np.array([tree.depth[node] for node in range(tree.size)])
        assert accepted == pytest.approx(sum(law.sum(axis=1) * depths))
        assert record["reach"] == pytest.approx([law[depths >= least].sum() for least in (1, 2)])
        assert (record["prompt"], record["lossless"]) == (record["position"] % 6, True)
    nested, block, interval = (
        np.array([one["accepted"] for one in folder.records if one["rule"] == rule]) for rule in RULES
    )
    rows = {one["rule"]: one for one in summarise(folder.records)}
    assert next(iter(rows)) == max(rows, key=lambda rule: rows[rule]["accepted"].value)
    mine = rows["nested"]
    assert (mine["trees"], mine["prompts"], mine["message"]) == (12, 6, "")
    assert mine["accepted"].value == pytest.approx(nested.mean())
    assert mine["gain"].value == pytest.approx((nested - interval).mean())
    assert mine["gain"].low < mine["gain"].value < mine["gain"].high
    # Two trees of a prompt are one observation.
    means = nested.reshape(2, 6).mean(axis=0)
    assert mine["error"] == pytest.approx(means.std(ddof=1) / np.sqrt(6))
    assert np.isnan(rows["interval"]["gain"].value)
    gains = {one["rule"]: one["gain"].value for one in summarise(folder.records, "block")}
    assert gains["nested"] == pytest.approx((nested - block).mean())
    table = accepted_table(list(rows.values()), "t", "interval").markdown()
    assert f"| nested | {nested.mean():.3f} ± {mine['error']:.3f} |" in table
    reach: Any = reach_table(list(rows.values()), "t")
    assert reach.header == ("rule", ">= 1", ">= 2")
    assert len(reach.rows) == 3
    folder.close()
    stored = pl.read_parquet(folder.path / "results.parquet").to_dicts()
    assert [(one["rule"], one["position"], one["reach"]) for one in stored] == [
        (one["rule"], one["position"], one["reach"]) for one in folder.records
    ]


def test_a_rule_that_fails_or_is_slow_gets_no_more_trees(source: TreeSource, folder: RecordFolder) -> None:
    failing = "max_flow:max_cells=1"
    steps: list[int] = []
    run(benchmark(source, (failing, "interval")), folder, steps.append)
    assert sum(steps) == 12 * 2
    (only,) = (one for one in folder.records if one["rule"] == failing)
    assert "exceed max_cells = 1" in only["message"]
    assert (only["accepted"], only["reach"]) == (None, None)
    summaries = summarise(folder.records)
    failed: Any = failed_table(summaries)
    assert failed.rows[0][:3] == ("t.safetensors", failing, "0")
    assert "| max_flow:max_cells=1 | - | - | - | - | 0 |" in accepted_table(summaries, "t", "interval").markdown()
    before = len(folder.records)
    run(benchmark(source, (failing, "block"), budget_s=1e-9), folder)
    blocks = [one for one in folder.records if one["rule"] == "block"]
    assert len(folder.records) == before + 1
    assert [one["position"] for one in blocks] == [0]


def test_lossy_rules_are_labelled_and_those_for_other_drafts_refused(source: TreeSource, folder: RecordFolder) -> None:
    lossy = "global_resolution:tau=0.05/kseq"
    run(benchmark(source, (lossy, "interval"), first=2), folder)
    assert {paths_cell_of(one).rule: one["lossless"] for one in folder.records} == {lossy: False, "interval": True}
    assert f"| {lossy} (lossy) |" in accepted_table(summarise(folder.records), "t", "interval").markdown()
    with pytest.raises(ProblemError, match="pick_by_plan is for siblings that are drawn jointly"):
        benchmark(source, ("pick_by_plan",))
