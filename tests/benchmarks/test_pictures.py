"""The pictures that explain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.pictures import branching_node, nested_labels
from benchmarks.pictures.__main__ import PICTURES


def test_the_areas_of_the_picture_are_the_proposal() -> None:
    found = branching_node.node()
    np.testing.assert_allclose(found.shares.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(found.shares.mean(axis=1), branching_node.DRAFT[1], atol=1e-3)
    np.testing.assert_allclose((found.shares * found.winner).mean(axis=1), found.proposal, atol=1e-3)


def test_prefixes_of_the_picture_share_all_labels() -> None:
    found = nested_labels.owners()
    for length in (1, 2):
        level = [(q, g) for prefix, (q, g, _) in found.items() if len(prefix) == length]
        np.testing.assert_allclose(np.sum(level, axis=0), [1.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn(name: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    PICTURES[name]().save(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text().startswith("<svg")
