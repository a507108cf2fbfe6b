"""Files of positions that are damaged: one sentence, or laws that are laws; never a traceback."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError, ProblemError
from otspec.data import open_source
from tests.data.test_files import safetensors_bytes

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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRITTEN)
def test_damaged_files_end_in_a_line_or_are_right(kind: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rng = np.random.default_rng(sorted(WRITTEN).index(kind))
    ending, write = WRITTEN[kind]
    logits = rng.normal(size=(2, 3, 7)).astype(np.float32)
    whole = {"target_logits": logits[0], "draft_logits": logits[1]}
    said, cases = [], cases_of(pytestconfig)
    for case in range(cases):
        path = tmp_path / f"{case}.{ending}"
        path.write_bytes(damaged(rng, write(whole)) if rng.random() < 0.5 else write(spoilt_arrays(rng, whole)))
        try:
            positions_of(path)
        except (DataError, ProblemError) as error:
            said.append(str(error))
    assert not [one for one in said if "\n" in one]
    assert len(said) > cases // 3
