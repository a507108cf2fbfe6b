from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks.arithmetic import CELLS, Intervals, antichains, compare, limit, main
from otspec.paths import synthetic, tree_bound
from otspec.paths.enumeration import prefixes


def test_what_codewords_meet_by_drawing_them() -> None:
    model = synthetic("tiny", 3, 4)
    at = Intervals.of(model, 2)
    leaves = [prefix for prefix in prefixes(3, 2) if len(prefix) == 2]
    ends = np.cumsum([at.size[leaf] for leaf in leaves])
    for count in (1, 2, 3):
        theta = (np.arange(20_000) + 0.5) / 20_000
        drawn = np.minimum(np.searchsorted(ends, (theta[:, None] + np.arange(count)) / count), len(leaves) - 1)
        for chosen in antichains(3, 2)[::37]:
            inside = np.array([any(leaf[: len(v)] == v for v in chosen) for leaf in leaves])
            assert at.met_by_codewords(chosen, count) == pytest.approx(inside[drawn].any(axis=1).mean(), abs=1e-3)


def test_all_sets_at_once_give_the_bound_of_cutting_planes() -> None:
    for seed in range(3):
        model = synthetic("tiny", 2, seed)
        at, sets = Intervals.of(model, 3), antichains(2, 3)
        assert len({tuple(sorted(chosen)) for chosen in sets}) == len(sets) == 677
        whole = limit(model, 3, sets, lambda chosen, at=at: at.met_by_paths(chosen, 2))  # type: ignore[misc]
        assert whole == pytest.approx(tree_bound(model, (2, 1, 1)), abs=1e-6)


def test_codewords_are_worth_more_than_paths_and_less_than_as_many_nodes() -> None:
    gains = []
    for cell in ((2, 2, 2), (2, 3, 2)):
        found = compare(*cell, models=10)
        assert (found[:, 0] >= found[:, 2] - 1e-7).mean() > 0.8
        gains.append((found[:, 1] - found[:, 0]).mean())
    assert min(gains) > 0


def test_one_codeword_is_one_path() -> None:
    found = compare(2, 2, 1, models=3)
    np.testing.assert_allclose(found[:, 0], found[:, 2], atol=1e-9)
    np.testing.assert_allclose(found[:, 3], 1.0, atol=1e-9)


def test_the_table_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["arithmetic", "--models", "1"])
    main()
    shown = capsys.readouterr().out
    assert all(" ".join(map(str, cell)) in shown for cell in CELLS)
