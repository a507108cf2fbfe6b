"""Files of positions: every format that is read, and what is refused."""

import itertools
import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError
from otspec.data import PROFILES, FileSource, ProfileSource, open_source, write_npz
from otspec.laws import FloatArray
from tests.each import each

RNG = np.random.default_rng(0)
TARGET, DRAFT = RNG.normal(size=(2, 3, 7))


def probabilities(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def save_logits(path: Path) -> Path:
    return save(path, target_logits=TARGET, draft_logits=DRAFT)


def test_logits_and_probabilities_give_the_same_problem(tmp_path: Path) -> None:
    logits = open_source(str(save_logits(tmp_path / "l.npz")))
    path = save(tmp_path / "p.npz", target_probs=probabilities(TARGET), draft_probs=probabilities(DRAFT))
    probs = open_source(str(path))
    assert (len(logits), logits.vocab) == (len(probs), probs.vocab) == (3, 7)
    for index in range(3):
        one, other = logits.position(index).problem(2, top_k=3), probs.position(index).problem(2, top_k=3)
        np.testing.assert_allclose(one.p, other.p, rtol=1e-13)
        np.testing.assert_allclose(one.p, probabilities(TARGET[index]), rtol=1e-13)
        np.testing.assert_allclose(one.scheme.prob(np.array([1, 2])), other.scheme.prob(np.array([1, 2])), rtol=1e-13)
    zeros = save(tmp_path / "z.npz", target_probs=[[0.5, 0.5, 0.0]], draft_probs=[[0.0, 0.25, 0.75]])
    problem = FileSource.open(zeros).position(0).problem(1)
    np.testing.assert_allclose(problem.p, [0.5, 0.5, 0.0], rtol=1e-15)
    assert problem.scheme.reachable().tolist() == [1, 2]


def safetensors_bytes(tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """A file of tensors, each of a type, a shape and its bytes, as the format's page says."""
    header, first = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (first, first + len(content))}
        first += len(content)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in tensors.values())


SMALL_TYPES: dict[str, tuple[list[int], list[float]]] = {
    "F8_E4M3": ([0x00, 0x01, 0x08, 0x38, 0xB9, 0x7E], [0, 2**-9, 2**-6, 1, -1.125, 448]),
    "F8_E5M2": ([0x00, 0x01, 0x04, 0x3C, 0xBD, 0x7B], [0, 2**-16, 2**-14, 1, -1.25, 57344]),
    "F8_E4M3FNUZ": ([0x00, 0x01, 0x08, 0x40, 0xC1, 0x7F], [0, 2**-10, 2**-7, 1, -1.125, 240]),
    "F8_E5M2FNUZ": ([0x00, 0x01, 0x04, 0x40, 0xC1, 0x7F], [0, 2**-17, 2**-15, 1, -1.25, 57344]),
    "BF16": ([0x0000, 0x3F80, 0xC049, 0x0001], [0, 1, -3.140625, 2**-133]),
}
"""Bits and the numbers that they are."""


@each(dtype=list(SMALL_TYPES))
def test_reads_small_types(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if dtype == "BF16":  # which takes no torch
        monkeypatch.setattr("otspec.extras.installed", lambda package: False)
    else:
        pytest.importorskip("torch")
    bits, values = SMALL_TYPES[dtype]
    stored = np.array([bits], dtype=np.uint16 if dtype == "BF16" else np.uint8)
    tensor = (dtype, stored.shape, stored.tobytes())
    path = tmp_path / "f.safetensors"
    path.write_bytes(safetensors_bytes({"target_logits": tensor, "draft_logits": tensor}))
    assert FileSource.open(path).position(0).target_logits.tolist() == values


@each(dtype=["float16", "bfloat16", "float32", "float64"])
def test_reads_tensors_of_torch_and_of_safetensors(tmp_path: Path, dtype: str) -> None:
    torch, safetensors = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    target, draft = (torch.tensor(array).to(getattr(torch, dtype)) for array in (TARGET, DRAFT))
    torch.save({"target_logits": target, "draft_logits": draft, "step": 3}, tmp_path / "dict.pt")
    torch.save([target, draft], tmp_path / "pair.pt")
    torch.save(torch.stack((target, draft)), tmp_path / "stacked.pth")
    safetensors.save_file({"target_logits": target, "draft_logits": draft}, tmp_path / "x.safetensors")
    for name in ("dict.pt", "pair.pt", "stacked.pth", "x.safetensors"):
        source = open_source(tmp_path / name)
        assert (len(source), source.vocab) == (3, 7)
        np.testing.assert_array_equal(source.position(1).target_logits, target[1].double().numpy())
        np.testing.assert_array_equal(source.position(1).draft_logits, draft[1].double().numpy())


def test_reads_arrays_in_files_of_their_own(tmp_path: Path) -> None:
    for name, array in {"target_logits": TARGET, "draft_logits": DRAFT, "p": probabilities(TARGET)[:2]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "both.npy", np.stack((TARGET, DRAFT)))
    for name in ("target_logits.npy", "draft_logits.npy", "both.npy"):
        np.testing.assert_array_equal(FileSource.open(tmp_path / name).position(2).target_logits, TARGET[2])
        np.testing.assert_array_equal(FileSource.open(tmp_path / name).position(2).draft_logits, DRAFT[2])
    mapped = FileSource.open(tmp_path / "p.npy", target_key="p", draft_key="p")
    np.testing.assert_allclose(mapped.position(0).problem(1).p, probabilities(TARGET)[0], rtol=1e-13)
    before = FileSource.open(tmp_path / "target_logits.npy").identity
    np.save(tmp_path / "draft_logits.npy", TARGET)
    assert FileSource.open(tmp_path / "target_logits.npy").identity != before
    (tmp_path / "draft_logits.npy").unlink()
    with pytest.raises(DataError, match=r"holds target_logits; positions need target_logits with draft_logits"):
        FileSource.open(tmp_path / "target_logits.npy")


def test_names_of_arrays_can_be_told(tmp_path: Path) -> None:
    path = save(tmp_path / "m.npz", big=TARGET, small=DRAFT, p=probabilities(TARGET), q=probabilities(DRAFT))
    logits = open_source(path, target_key="big", draft_key="small")
    np.testing.assert_array_equal(logits.position(1).target_logits, TARGET[1])
    probs = open_source(path, target_key="p", draft_key="q")
    np.testing.assert_allclose(probs.position(1).problem(1).p, probabilities(TARGET)[1], rtol=1e-13)
    forced = open_source(path, target_key="p", draft_key="q", kind="logits")
    np.testing.assert_array_equal(forced.position(1).target_logits, probabilities(TARGET)[1])
    identities = [source.identity for source in (logits, probs, forced)]
    assert all(one != other for one, other in itertools.combinations(identities, 2))
    with pytest.raises(DataError, match=r"holds big, small, p, q; positions need large with small"):
        FileSource.open(path, target_key="large", draft_key="small")


@each(laws=[([0.1, 0.2], [0.5, 0.5]), ([0.5, 0.5], [1.0, -1.0]), ([0.0, 0.9], [0.0, 0.9])])
def test_what_may_be_either_has_to_be_told(tmp_path: Path, laws: tuple[list[float], list[float]]) -> None:
    path = save(tmp_path / "m.npz", a=[laws[0]], b=[laws[1]])
    with pytest.raises(DataError, match="cannot tell whether a and b hold logits or probabilities; pass kind='logits'"):
        FileSource.open(path, target_key="a", draft_key="b")
    FileSource.open(path, target_key="a", draft_key="b", kind="logits").position(0)


def test_what_is_written_is_read_back_and_identity_follows_the_content(tmp_path: Path) -> None:
    source = ProfileSource(PROFILES["llama3"], seed=7)
    write_npz(tmp_path / "positions.npz", map(source.position, range(2)))
    back = FileSource.open(tmp_path / "positions.npz")
    assert (len(back), back.vocab) == (2, source.vocab)
    np.testing.assert_allclose(back.position(1).draft_logits, source.position(1).draft_logits, rtol=1e-6)
    with pytest.raises(DataError, match="there are no positions to save"):
        write_npz(tmp_path / "none.npz", [])
    one = FileSource.open(save_logits(tmp_path / "a.npz")).identity
    assert FileSource.open(tmp_path / "a.npz").identity == one
    assert FileSource.open(save(tmp_path / "a.npz", target_logits=TARGET, draft_logits=TARGET)).identity != one


# --- what is refused

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"name": "lama3"}, "no file lama3, "),
    ({"name": "lama3"}, "(known: llama3, gemma2, llama3-plateau, gemma2-plateau, shipped, smollm2)"),
    ({"target_key": "a"}, "target_key is 'a' and draft_key is None; pass both names"),
    ({"kind": "laws"}, "kind is 'laws'; known: logits, probs"),
    ({"name": "llama3", "kind": "logits"}, "llama3 is a profile, which has no target_key"),
    ({"name": "llama3", "seed": -1}, "seed is -1; pass an integer >= 0"),
    ({"name": "llama3", "seed": 0.5}, "seed is 0.5"),
]


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS)
def test_wrong_arguments_are_one_clear_error(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        open_source(**{"name": save_logits(tmp_path / "l.npz"), **arguments})


SHORT = safetensors_bytes({"target_logits": ("F32", (3, 7), bytes(80))})
WRONG: dict[str, tuple[bytes | dict[str, Any], str]] = {
    "positions.csv": (b"1,2", r"not a file of a format that is read here: \.npz, \.npy, \.safetensors, \.pt"),
    "broken.npy": (b"x", "cannot be read"),
    "broken.pt": (b"no tensors", "cannot be read"),
    "cut.safetensors": (b"\xff" * 20, "it is cut short, or no safetensors file"),
    "list.safetensors": (b"\x02" + bytes(7) + b"[]", "its header is no table"),
    "short.safetensors": (SHORT, "the bytes of target_logits are 0 to 80 of 80, and its shape takes 84"),
    "other.npz": ({"logits": TARGET}, "holds logits; positions need target_logits with draft_logits"),
    "mixed.npz": ({"target_logits": TARGET, "draft_probs": DRAFT}, "positions need target_logits with draft_logits or"),
    "one.npz": ({"target_logits": TARGET[0], "draft_logits": DRAFT[0]}, r"target_logits is float64 of shape \(7,\)"),
    "shapes.npz": ({"target_logits": TARGET, "draft_logits": DRAFT[:, :6]}, "both need one shape"),
    "whole.npz": ({"target_logits": TARGET, "draft_logits": DRAFT.astype(int)}, "draft_logits is int64"),
    "none.npz": ({"target_logits": TARGET[:0], "draft_logits": DRAFT[:0]}, r"of shape \(0, 7\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refuses_what_it_cannot_read_and_what_holds_no_positions(tmp_path: Path, name: str) -> None:
    content, message = WRONG[name]
    if name.endswith(".pt"):
        pytest.importorskip("torch")
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        save(tmp_path / name, **content)
    with pytest.raises(DataError, match=message):
        FileSource.open(tmp_path / name)


def test_tensors_of_torch_run_no_code(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"target_logits": Path}, tmp_path / "code.pt")
    with pytest.raises(DataError, match="it holds more than tensors, or is damaged; save a dict of tensors"):
        FileSource.open(tmp_path / "code.pt")
    torch.save(torch.zeros(2, 7), tmp_path / "flat.pt")
    with pytest.raises(DataError, match=r"it holds one tensor of shape \(2, 7\)"):
        FileSource.open(tmp_path / "flat.pt")
    torch.save([torch.zeros(2, 7).to_sparse(), torch.zeros(2, 7)], tmp_path / "sparse.pt")
    with pytest.raises(DataError, match=r"\[0\] is float32, torch\.sparse_coo on cpu, of shape \(2, 7\); need floats"):
        open_source(tmp_path / "sparse.pt")


@each(value=[np.nan, np.inf])
def test_what_is_no_number_is_named_with_its_place(tmp_path: Path, value: float) -> None:
    logits, probs = TARGET.copy(), probabilities(TARGET)
    logits[2, 5] = probs[2, 5] = value
    for kind, array in (("logits", logits), ("probs", probs)):
        path = save(tmp_path / f"{kind}.npz", **{f"draft_{kind}": array, f"target_{kind}": array[::-1]})
        with pytest.raises(DataError, match=rf"{kind}\.npz: draft_{kind}\[2\]\[5\] is {value}"):
            FileSource.open(path)._logits(f"draft_{kind}", 2)
        with pytest.raises(DataError, match=rf"{kind}\.npz: target_{kind}\[0\]\[5\] is {value}"):
            FileSource.open(path).position(0)


def test_rows_that_are_no_laws_are_refused_when_they_are_read(tmp_path: Path) -> None:
    source = FileSource.open(save_logits(tmp_path / "l.npz"))
    with pytest.raises(DataError, match="indices run from 0 to 2"):
        source.position(3)
    masked = save(tmp_path / "m.npz", target_logits=np.full((2, 3), -np.inf), draft_logits=np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"target_logits\[1\] masks every token"):
        FileSource.open(masked).position(1)
    target = probabilities(TARGET)
    target[1] *= 0.98
    source = FileSource.open(save(tmp_path / "p.npz", target_probs=target, draft_probs=probabilities(DRAFT)))
    source.position(0)
    with pytest.raises(DataError, match=r"target_probs\[1\] sums to 0\.98"):
        source.position(1)
    logits = np.random.default_rng(0).normal(size=(1, 5000))
    law = np.nextafter(probabilities(logits).astype(np.float16), np.float16(0))
    assert 1e-5 < abs(float(law.sum(dtype=np.float64)) - 1) < 1e-2
    half = save(tmp_path / "half.npz", target_probs=law, draft_probs=law)
    with pytest.raises(DataError, match=r"target_probs\[0\] sums to .*float16: take the softmax in float32"):
        FileSource.open(half).position(0)
