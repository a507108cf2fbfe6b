"""Pictures by matplotlib, which stays as it was for everybody else."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib as mpl

from otspec.reporting.plotting import APART, FARTHEST, draw_means, label_lines, ordered, picture, spread


def test_a_picture_leaves_settings_and_backend_alone(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)  # the backend is one of them
    with picture(tmp_path / "a.png", 3, 2) as figure:
        figure.subplots().plot([0, 1], [0, 1])
        assert dict(mpl.rcParams) != before
    assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_fails_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), picture(tmp_path / "a.png", 3, 2):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_labels_stand_at_their_lines_where_they_fit(tmp_path: Path) -> None:
    with picture(tmp_path / "a.png", 5, 4) as figure:
        axes = figure.subplots()
        for height in (0.0, 0.5, 0.51):
            axes.plot([0, 1, 2], [0, height, height], label=f"to {height:g}")
        label_lines(axes)
        figure.draw_without_rendering()
        assert axes.get_legend() is None
        words = {text.get_text(): text for text in axes.texts}
        assert set(words) == {"to 0", "to 0.5", "to 0.51"}
        heights = [words[word].get_window_extent() for word in ("to 0", "to 0.5", "to 0.51")]
        for low, high in itertools.pairwise(heights):
            assert low.y1 <= high.y0 + 1
        assert all(box.x0 > axes.get_window_extent().x1 for box in heights)


@pytest.mark.parametrize("count", [12, 2])
def test_a_legend_where_labels_do_not_fit(tmp_path: Path, count: int) -> None:
    """Too many lines that end in one place; or a line without a point to stand at."""
    with picture(tmp_path / "a.png", 5, 4) as figure:
        axes = figure.subplots()
        for number in range(count):
            axes.errorbar([0, 1], [0, 0.5] if count > 2 or number else [np.nan] * 2, label=str(number))
        label_lines(axes)
        assert not list(axes.texts)
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [str(number) for number in range(count)]


def test_spread_is_the_nearest_of_all_placements() -> None:
    rng = np.random.default_rng(0)
    most, apart = 4 * APART, APART
    grid = np.linspace(0, most, 41)
    settled = 0
    for _ in range(40):
        wanted = rng.uniform(0, most, 3)
        found = spread(list(wanted), apart, most)
        order = np.argsort(wanted)
        tried = [
            np.array(places)
            for places in itertools.product(grid, repeat=3)
            if places[1] - places[0] >= apart - 1e-9 and places[2] - places[1] >= apart - 1e-9
        ]
        best = min(float(((one - wanted[order]) ** 2).sum()) for one in tried)
        if found is None:
            continue
        settled += 1
        places = np.array(found)[order]
        assert np.diff(places).min() >= apart - 1e-9
        assert places.min() >= 0
        assert places.max() <= most + 1e-9
        assert ((places - wanted[order]) ** 2).sum() <= best + 1e-9
    assert settled > 20
    assert spread([], apart, most) == []
    assert spread([0.0] * 6, apart, most) is None
    assert spread([0.0] * 4, apart, 100 * apart) is None  # the last would stand beyond FARTHEST
    assert FARTHEST < 3 * APART


def test_means_have_their_standard_errors(tmp_path: Path) -> None:
    with picture(tmp_path / "a.png", 3, 2) as figure:
        axes = figure.subplots()
        draw_means(axes, [1, 2], [[0.0, 2.0], [5.0]])
        means, _, bars = axes.containers[0]
        np.testing.assert_allclose(np.asarray(means.get_ydata(), dtype=float), [1.0, 5.0])
        segments = np.asarray(bars[0].get_segments(), dtype=float)
        np.testing.assert_allclose(segments[:, :, 1], [[0.0, 2.0], [5.0, 5.0]])


def test_an_ordered_series_runs_from_dark_to_light() -> None:
    light = [np.mean([int(one["color"][at : at + 2], 16) for at in (1, 3, 5)]) for one in ordered(5)]
    assert light == sorted(light)
    assert all(one["linestyle"] != other["linestyle"] for one, other in itertools.pairwise(ordered(5)))
