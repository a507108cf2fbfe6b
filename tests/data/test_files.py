from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from otspec import DataError
from otspec.data import PROFILES, FileSource, ProfileSource, open_source, write_npz
from otspec.laws import FloatArray

RNG = np.random.default_rng(0)
TARGET, DRAFT = RNG.normal(size=(2, 3, 7))


def probabilities(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_logits_and_probabilities_give_the_same_problem(tmp_path: Path) -> None:
    logits = open_source(str(save(tmp_path / "l.npz", target_logits=TARGET, draft_logits=DRAFT)))
    probs = open_source(
        str(save(tmp_path / "p.npz", target_probs=probabilities(TARGET), draft_probs=probabilities(DRAFT)))
    )
    assert (len(logits), logits.vocab) == (len(probs), probs.vocab) == (3, 7)
    for index in range(3):
        one, other = logits.position(index).problem(2, top_k=3), probs.position(index).problem(2, top_k=3)
        np.testing.assert_allclose(one.p, other.p, rtol=1e-13)
        np.testing.assert_allclose(one.p, probabilities(TARGET[index]), rtol=1e-13)
        np.testing.assert_allclose(one.scheme.prob(np.array([1, 2])), other.scheme.prob(np.array([1, 2])), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_reads_safetensors(tmp_path: Path, dtype: type) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "positions.safetensors"
    safetensors.save_file({"target_logits": TARGET.astype(dtype), "draft_logits": DRAFT.astype(dtype)}, path)
    position = FileSource(path).position(1)
    np.testing.assert_array_equal(position.target_logits, TARGET[1].astype(dtype))
    np.testing.assert_array_equal(position.draft_logits, DRAFT[1].astype(dtype))


def test_zero_probabilities_stay_zero(tmp_path: Path) -> None:
    path = save(tmp_path / "p.npz", target_probs=[[0.5, 0.5, 0.0]], draft_probs=[[0.0, 0.25, 0.75]])
    problem = FileSource(path).position(0).problem(1)
    np.testing.assert_allclose(problem.p, [0.5, 0.5, 0.0], rtol=1e-15)
    assert problem.scheme.reachable().tolist() == [1, 2]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    source = ProfileSource(PROFILES["llama3"], seed=7)
    write_npz(tmp_path / "positions.npz", map(source.position, range(2)))
    back = FileSource(tmp_path / "positions.npz")
    assert (len(back), back.vocab) == (2, source.vocab)
    np.testing.assert_allclose(back.position(1).draft_logits, source.position(1).draft_logits, rtol=1e-6)


def test_identity_follows_the_content(tmp_path: Path) -> None:
    one = FileSource(save(tmp_path / "a.npz", target_logits=TARGET, draft_logits=DRAFT)).identity
    assert FileSource(tmp_path / "a.npz").identity == one
    assert FileSource(save(tmp_path / "a.npz", target_logits=TARGET, draft_logits=TARGET)).identity != one


def test_refuses_a_missing_file_and_names_the_profiles() -> None:
    with pytest.raises(DataError, match=r"no file lama3, .* \(known: llama3, gemma2, shipped\)"):
        open_source("lama3")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("positions.csv", b"1,2", r"is no \.npz or \.safetensors file"),
        ("broken.npz", b"not an archive", "cannot be read"),
        ("empty.npz", b"", "cannot be read"),
        ("broken.safetensors", b"\x01", "cannot be read"),
    ],
)
def test_refuses_what_it_cannot_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        FileSource(tmp_path / name)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"logits": TARGET}, "holds logits; positions need target_logits with draft_logits"),
        ({"target_logits": TARGET, "draft_probs": DRAFT}, "positions need target_logits with draft_logits or"),
        ({"target_logits": TARGET[0], "draft_logits": DRAFT[0]}, r"target_logits is float64 of shape \(7,\)"),
        ({"target_logits": TARGET, "draft_logits": DRAFT[:, :6]}, "both need one shape"),
        ({"target_logits": TARGET, "draft_logits": DRAFT.astype(int)}, "draft_logits is int64"),
        ({"target_logits": TARGET[:0], "draft_logits": DRAFT[:0]}, r"of shape \(0, 7\)"),
    ],
)
def test_refuses_arrays_that_hold_no_positions(tmp_path: Path, arrays: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FileSource(save(tmp_path / "x.npz", **arrays))


def test_refuses_a_row_that_is_no_law_when_it_is_read(tmp_path: Path) -> None:
    target = probabilities(TARGET)
    target[1] *= 0.98
    source = FileSource(save(tmp_path / "p.npz", target_probs=target, draft_probs=probabilities(DRAFT)))
    source.position(0)
    with pytest.raises(DataError, match=r"target_probs\[1\] sums to 0\.98"):
        source.position(1)


def test_refuses_an_index_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="indices run from 0 to 2"):
        FileSource(save(tmp_path / "l.npz", target_logits=TARGET, draft_logits=DRAFT)).position(3)


def test_does_not_unpickle(tmp_path: Path) -> None:
    path = save(tmp_path / "o.npz", target_logits=np.array([[{}]], dtype=object), draft_logits=DRAFT)
    with pytest.raises(DataError, match="cannot be read"):
        FileSource(path)
