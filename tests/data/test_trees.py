"""Files of recorded trees: what verifiers get of them, and what is wrong with those that are none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError, ProblemError
from otspec.data import TreeSource
from otspec.data.formats import safetensors_about
from otspec.data.sources import TREES
from otspec.verification import Tree
from tests.data.tree_files import Arrays, drawn_trees, write_trees


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trees(tmp_path_factory.mktemp("trees") / "trees.safetensors", drawn_trees())


def test_a_tree_comes_back_as_verifiers_take_it(path: Path) -> None:
    source = TreeSource(str(path))
    assert (len(source), source.vocab, source.paths, source.depth, source.over_vocabulary) == (6, 5, 2, 2, True)
    assert [source.prompt(index) for index in range(6)] == [0, 1, 2, 0, 1, 2]
    assert source.identity["file"] == "trees.safetensors"
    for index, drawn in enumerate(drawn_trees()):
        one = source.tree(index)
        tree = Tree.of(one.paths, one.target, one.draft)
        np.testing.assert_array_equal(tree.node, drawn.node)
        np.testing.assert_array_equal(tree.token, drawn.token)
        np.testing.assert_allclose(tree.target, drawn.target, atol=1e-6)
        np.testing.assert_allclose(tree.draft, drawn.draft, atol=1e-6)


def test_what_was_not_recorded_of_a_tree_is_refused(path: Path) -> None:
    one = TreeSource(path).tree(0)
    whole = tuple(one.paths[0].tolist())
    with pytest.raises(ProblemError, match=r"nothing was drafted after \(\d, \d\), a whole path"):
        one.draft(whole)
    other = next(token for token in range(5) if token not in one.paths[:, 0])
    for prefix in ((other,), (*whole, 0)):
        with pytest.raises(ProblemError, match="laws are recorded after drafted prefixes alone"):
            one.target(prefix)


def spoilt(name: str, *place: Any, value: float) -> Callable[[Arrays], None]:
    def spoil(arrays: Arrays) -> None:
        arrays[name][place] = value

    return spoil


def unlikely(arrays: Arrays) -> None:
    arrays["draft_logits"][0, arrays["paths"][0, 0]] = -np.inf


WRONG = {
    "two numbers": (spoilt("nodes", 1, 0, value=1), r"tree 0: its prefix \(\) has two numbers"),
    "a gap": (spoilt("nodes", slice(None), 2, value=9), r"tree 0: its prefixes? .*(two numbers|not numbered from 0)"),
    "no logit": (spoilt("target_logits", 0, 1, value=np.nan), r"tree 0: target_logits\[0\]\[1\] is nan"),
    "no law": (spoilt("draft_logits", 0, value=-np.inf), r"tree 0: draft_logits\[0\] masks every token"),
    "not a token": (spoilt("paths", 0, 1, value=77), r"tree 0: token 1 of path 0 is 77, which cannot have"),
    "not drafted": (unlikely, r"tree 0: token 0 of path 0 is \d, which cannot have been drafted"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_damaged_tree_is_refused_and_the_others_are_read(tmp_path: Path, name: str) -> None:
    spoil, message = WRONG[name]
    source = TreeSource(write_trees(tmp_path / "t.safetensors", drawn_trees(), spoil=spoil))
    with pytest.raises(DataError, match=rf"t\.safetensors, {message}.*; record it anew"):
        source.tree(0)
    assert len(source.tree(1).paths) == 2


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("tokens", (0, 0, 3), 49_152, r"tokens\[0\] are not 16 different ones of 49152"),
        ("tokens", (0, 0, 3), -1, r"tokens\[0\] are not 16 different ones of 49152"),
        ("tokens", (0, 0), 7, r"tokens\[0\] are not 16 different ones of 49152"),
        ("target_rest", (0, 0), -0.1, r"target_top\[0\] and target_rest\[0\] = -0\.1 make no law"),
    ],
)
def test_damaged_columns_of_the_likeliest_tokens_are_refused(
    tmp_path: Path, name: str, place: tuple[int, ...], value: float, message: str
) -> None:
    tensors, whole = pytest.importorskip("safetensors.numpy"), TREES["smollm2"]
    arrays = tensors.load_file(whole)
    arrays[name][place] = value
    tensors.save_file(arrays, tmp_path / "t.safetensors", {"otspec": json.dumps(safetensors_about(whole))})
    with pytest.raises(DataError, match=rf"t\.safetensors, tree 0: {message}; record it anew"):
        TreeSource(tmp_path / "t.safetensors").tree(0)


def test_files_that_hold_no_trees_are_refused(tmp_path: Path, path: Path) -> None:
    cut, text, empty = tmp_path / "cut.safetensors", tmp_path / "text.safetensors", tmp_path / "e.npz"
    cut.write_bytes(path.read_bytes()[:-10])
    text.write_text("no trees")
    np.savez(empty, target_logits=np.zeros((2, 3)))
    lacking = write_trees(tmp_path / "l.safetensors", drawn_trees(), without="draft_logits")
    mute = write_trees(tmp_path / "m.safetensors", drawn_trees(), about={"paths": "many"})
    other = write_trees(tmp_path / "o.safetensors", drawn_trees(), about={"depth": 3})
    for wrong, message in (
        (tmp_path / "nowhere.safetensors", "there is no file"),
        (empty, "holds no trees of ours; record trees with otspec record --paths K --depth L"),
        (text, "cannot be read"),
        (cut, "cannot be read: the bytes of"),
        (lacking, "lacks draft_logits; record it anew"),
        (mute, "does not state the shape of its trees"),
        (other, r"states 2 paths of 3 tokens, and has nodes of shape \(2, 3\)"),
    ):
        with pytest.raises(DataError, match=message):
            TreeSource(wrong)
    with pytest.raises(DataError, match="the file is 3; pass its path"):
        TreeSource(3)  # type: ignore[arg-type]
