"""Files of positions and of trees that are damaged: one sentence, or laws that are laws; never a traceback."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError, ProblemError
from otspec.data import open_source
from otspec.data.trees import TreeSource
from otspec.verification import Tree
from tests.data.test_files import safetensors_bytes
from tests.data.tree_files import drawn_trees, write_trees

CASES = 50
"""Of each kind of file; twenty times as many by hand, with `--slow`."""

VALUES = (np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45, -0.0, 7.0)

Arrays = dict[str, Any]


def cases_of(config: pytest.Config) -> int:
    """How many files are damaged."""
    return CASES * (20 if config.getoption("--slow") else 1)


def spoilt_arrays(rng: np.random.Generator, arrays: Mapping[str, Any]) -> Arrays:
    """Values, a shape, a type or a name that no recording leaves."""
    spoilt = {name: array.copy() for name, array in arrays.items()}
    name = str(rng.choice(list(spoilt)))
    array = spoilt[name]
    match int(rng.integers(6)):
        case 0:
            array.reshape(-1)[rng.integers(array.size)] = VALUES[rng.integers(len(VALUES))]
        case 1:
            array[rng.integers(len(array))] = VALUES[rng.integers(len(VALUES))]
        case 2:
            spoilt[name] = array[..., : rng.integers(array.shape[-1])]
        case 3:
            spoilt[name] = array.reshape(int(rng.choice([1, len(array), array.shape[-1]])), -1)
        case 4:
            spoilt[name] = array.astype(rng.choice(["int8", "uint64", "complex64", "float16", "bool"]))
        case 5:
            spoilt[str(rng.choice(["draft_probs", "target_probs", "other"]))] = spoilt.pop(name)
    return spoilt


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """Cut off, or with a few other bytes, most of them where the description stands."""
    if rng.random() < 0.2:
        return data[: rng.integers(len(data))]
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        changed[rng.integers(len(data) if rng.random() < 0.3 else min(len(data), 200))] = rng.integers(256)
    return bytes(changed)


def npz(arrays: Arrays) -> bytes:
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()


def pt(arrays: Arrays) -> bytes:
    torch = pytest.importorskip("torch")
    written = io.BytesIO()
    torch.save({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}, written)
    return written.getvalue()


def safetensors(arrays: Arrays) -> bytes:
    types = {"float32": "F32", "float16": "F16", "int8": "I8", "uint64": "U64", "bool": "BOOL", "complex64": "C64"}
    return safetensors_bytes({name: (types[str(a.dtype)], a.shape, a.tobytes()) for name, a in arrays.items()})


WRITTEN: dict[str, tuple[str, Callable[[Arrays], bytes]]] = {
    "npz": ("npz", npz),
    "safetensors": ("safetensors", safetensors),
    "pt": ("pt", pt),
}


def positions_of(path: Path) -> None:
    """Read all of it, as a benchmark does; what comes out are laws."""
    source = open_source(str(path))
    for index in range(len(source)):
        problem = source.position(index).problem(2, top_k=3)
        assert abs(problem.p.sum() - 1.0) < 1e-9
        assert (problem.p >= 0).all()


def trees_of(path: Path) -> None:
    source = TreeSource(path)
    for index in range(len(source)):
        one = source.tree(index)
        tree = Tree.of(one.paths, one.target, one.draft)
        np.testing.assert_allclose(tree.target.sum(axis=1), 1.0, atol=1e-6)


def check(read: Callable[[Path], None], damage: Callable[[Path], object], place: Path, cases: int, ending: str) -> None:
    """Files end in one sentence, or are right, and more than a third of them are not."""
    said = []
    for case in range(cases):
        path = place / f"{case}.{ending}"
        damage(path)
        try:
            read(path)
        except (DataError, ProblemError) as error:
            said.append(str(error))
    assert not [one for one in said if "\n" in one]
    assert len(said) > cases // 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRITTEN)
def test_damaged_files_of_positions_end_in_a_line(kind: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rng = np.random.default_rng(sorted(WRITTEN).index(kind))
    ending, write = WRITTEN[kind]
    logits = rng.normal(size=(2, 3, 7)).astype(np.float32)
    whole = {"target_logits": logits[0], "draft_logits": logits[1]}

    def damage(path: Path) -> None:
        path.write_bytes(damaged(rng, write(whole)) if rng.random() < 0.5 else write(spoilt_arrays(rng, whole)))

    check(positions_of, damage, tmp_path, cases_of(pytestconfig), ending)


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_of_trees_end_in_a_line(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rng = np.random.default_rng(9)
    trees = drawn_trees()
    whole = write_trees(tmp_path / "whole.safetensors", trees).read_bytes()

    def spoil(arrays: Arrays) -> None:
        array = arrays[str(rng.choice(list(arrays)))]
        kinds = VALUES if array.dtype.kind == "f" else (-1, 0, 3, 99, 2**31 - 1)
        array.reshape(-1)[rng.integers(array.size)] = kinds[rng.integers(len(kinds))]

    def damage(path: Path) -> None:
        if rng.random() < 0.5:
            path.write_bytes(damaged(rng, whole))
        else:
            write_trees(path, trees, spoil=spoil)

    check(trees_of, damage, tmp_path, cases_of(pytestconfig), "safetensors")
