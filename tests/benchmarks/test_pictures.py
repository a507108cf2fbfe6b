"""The pictures of nested labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import branching_picture, paths_picture
from otspec.extras import installed


def test_the_areas_of_the_picture_are_the_proposal(tmp_path: Path) -> None:
    found = branching_picture.node()
    np.testing.assert_allclose(found.shares.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(found.shares.mean(axis=1), branching_picture.DRAFT[1], atol=1e-3)
    np.testing.assert_allclose((found.shares * found.winner).mean(axis=1), found.proposal, atol=1e-3)
    if installed("vl_convert"):
        branching_picture.draw(tmp_path / "node.png")
        assert (tmp_path / "node.png").stat().st_size > 0


def test_prefixes_of_the_picture_share_all_labels() -> None:
    found = paths_picture.owners()
    for length in (1, 2):
        level = [(q, g) for prefix, (q, g, _) in found.items() if len(prefix) == length]
        np.testing.assert_allclose(np.sum(level, axis=0), [1.0, 1.0], atol=1e-12)
