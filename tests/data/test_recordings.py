"""Recorded trees by name: those of the package, and folders of files, of which some are parts of one recording."""

from pathlib import Path

import numpy as np
import pytest

from otspec import DataError
from otspec.data import RECORDED, TopSource, TreeSource, open_trees
from otspec.data.formats import safetensors_about
from otspec.data.recordings import TREES, JoinedTrees
from tests.data.tree_files import drawn_trees, write_trees


def test_those_of_the_package_are_small_and_whole() -> None:
    assert sum(path.stat().st_size for path in TREES.values()) < 1e6
    for name, target, vocab in (("shipped", "shipped", 2048), ("smollm2", "smollm2", 49_152)):
        (trees,) = open_trees(name).values()
        assert (trees.name, trees.vocab, trees.paths, trees.depth) == (name, vocab, 4, 4)
        assert (trees.about["schema"], trees.about["target"][0], trees.about["dtype"]) == (1, target, "float32")
        for index in (0, len(trees) - 1):
            assert trees.tree(index).paths.shape == (4, 4)


def test_parts_of_a_recording_are_one_and_other_files_are_their_own(tmp_path: Path) -> None:
    drawn = drawn_trees(9)
    part = {"recording": "live"}
    for name, of, about in (("p", drawn[:2], part), ("q", drawn[2:6], part), ("r", drawn[6:], {})):
        write_trees(tmp_path / f"{name}.safetensors", of, prompts=len(of), about=about)
    write_trees(
        tmp_path / "s.safetensors", drawn_trees(1, depth=3), about=part
    )  # of another shape: not of one recording
    np.savez(tmp_path / "t.npz", target_logits=np.zeros((1, 2)), draft_logits=np.zeros((1, 2)))
    found = open_trees(str(tmp_path))
    assert [(one.name, len(one), one.depth) for one in found.values()] == [
        ("live", 6, 2),
        ("r.safetensors", 3, 2),
        ("live", 1, 3),
    ]
    joined = next(iter(found.values()))
    assert isinstance(joined, JoinedTrees)
    assert (joined.about["positions"], joined.about["prompts"]) == (6, {"count": 6})
    assert [joined.prompt(index) for index in range(6)] == list(range(6))
    parts = [TreeSource(tmp_path / f"{name}.safetensors") for name in "pq"]
    for index in range(6):
        one, other = joined.tree(index), parts[index // 2 > 0].tree(index - 2 * (index // 2 > 0))
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_array_equal(one.target_laws, other.target_laws)
    assert joined.identity["file"] == "live"
    assert joined.identity["bytes"] == sum(part.path.stat().st_size for part in parts)
    with pytest.raises(DataError, match="tree 6 of live: indices run from 0 to 5"):
        joined.tree(6)


def test_what_is_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = write_trees(tmp_path / "t.safetensors", drawn_trees(1), about={"schema": 2})
    for given in (path, tmp_path):
        with pytest.raises(DataError, match=r"t\.safetensors is of schema 2, and this otspec reads 1; make it anew"):
            open_trees(str(given))
    before_versions = RECORDED["smollm2"]
    assert "schema" not in safetensors_about(before_versions)
    assert TopSource(before_versions).about["schema"] == 1
