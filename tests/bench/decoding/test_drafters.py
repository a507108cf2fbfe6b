"""The table of drafters: means over repeats, Welch's test, and speed-ups paired by text."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_ind

pytest.importorskip("torch")

from otspec.bench.decoding.charts import chart_groups
from otspec.bench.decoding.drafters import compared, drafters_table, efficiencies
from otspec.bench.decoding.summary import summarise
from tests.bench.decoding.fakes import GENERATE, INTERVAL, NESTED, record

OTHER = replace(NESTED, drafter="fr:9")
RNG = np.random.default_rng(0)
STEPS = RNG.integers(5, 9, (3, 6))
"""Of the draft model as it is, by repeat and prompt; the other takes two more, and half of the time."""
RECORDS = [
    record(cell, prompt, 30, int(STEPS[repeat, prompt]) + more, seconds, repeat=repeat)
    for repeat in range(3)
    for prompt in range(6)
    for cell, more, seconds in ((GENERATE, 23, 4.0), (INTERVAL, 1, 3.0), (NESTED, 0, 2.0), (OTHER, 2, 1.0))
]


def test_figures_are_those_of_scipy_and_of_sums() -> None:
    summaries = summarise(RECORDS)
    assert [one.cell for one in compared(summaries)] == [NESTED, OTHER]
    table = drafters_table(summaries, RECORDS, "Drafters")
    assert table is not None
    plain, fewer = table.rows
    taus = 180 / STEPS.sum(axis=1)
    others = 180 / (STEPS + 2).sum(axis=1)
    assert efficiencies([one for one in RECORDS if one["drafter"]]) == pytest.approx(others)
    assert plain[:4] == ("as it is", "nested, K = 2, L = 8", f"{taus.mean():.3f}", f"{taus.std(ddof=1):.3f}")
    assert plain[4:7] == ("-", "-", "-")
    told = ttest_ind(others, taus, equal_var=False)
    assert fewer[0] == "fr:9"
    assert fewer[4:6] == (f"{told.statistic:.2f}", f"{told.pvalue:.3f}")
    assert fewer[6].startswith("2.00 [2.00, 2.00]")
    assert fewer[7].startswith("4.00")


def test_where_nothing_is_compared_there_is_no_table() -> None:
    alone = [one for one in RECORDS if one["drafter"] == ""]
    assert drafters_table(summarise(alone), alone, "Drafters") is None
    only = [one for one in RECORDS if one["drafter"] == "fr:9"]
    table = drafters_table(summarise(only), only, "Drafters")
    assert table is not None
    assert [row[4:7] for row in table.rows] == [("-", "-", "-")]


def test_the_picture_has_a_line_for_each() -> None:
    (group,) = [one for one in chart_groups(summarise(RECORDS)) if one.picture == "drafters.png"]
    (chart,) = group.charts
    shares = {(row["series"], row["x"]): row["y"] for row in chart.rows}
    assert shares == {
        (one.cell.name + (" (drafted by fr:9)" if one.cell.drafter else ""), 1): one.total.acceptance[0]
        for one in compared(summarise(RECORDS))
    }
