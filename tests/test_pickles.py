"""Pickled objects are refused wherever arrays are read, and nobody is told how to load them all the same."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError
from otspec.data import FileSource
from otspec.plans import load
from tests.each import each

ADVICE = re.compile(r"allow_pickle|unsafe|trust|weights_only. (argument|to .False)|Re-running", re.IGNORECASE)


class Trap:
    """Leaves a trace where it is unpickled."""

    sprung = False

    @classmethod
    def spring(cls) -> Trap:
        cls.sprung = True
        return cls()

    def __reduce__(self) -> tuple[Any, ...]:
        return Trap.spring, ()


def write(path: Path) -> Path:
    """Objects in a file of each format, or a bare pickle of that name."""
    objects = np.array([Trap()], dtype=object)
    if path.name == "object.npz":
        np.savez(path, target_logits=objects, draft_logits=objects)
    elif path.name == "object.npy":
        np.save(path, objects, allow_pickle=True)
    elif path.name == "object.pt":
        pytest.importorskip("torch").save({"target_logits": Trap()}, path)
    else:
        path.write_bytes(pickle.dumps(Trap()))
    return path


@each(name=["object.npz", "object.npy", "object.pt", "bare.npz", "bare.npy", "bare.pt"])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_files_of_objects_are_refused_and_nothing_is_run(name: str, tmp_path: Path) -> None:
    if name.endswith(".pt"):
        pytest.importorskip("torch")
    with pytest.raises(DataError) as caught:
        FileSource.open(write(tmp_path / name))
    assert not ADVICE.search(str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    assert not Trap.sprung


def test_plans_likewise(tmp_path: Path) -> None:
    for name in ("object.npz", "bare.npz"):
        with pytest.raises(DataError, match="pickled Python objects, which are not loaded"):
            load(write(tmp_path / name))
    np.savez(tmp_path / "header.npz", header=np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match="is not a file of a plan of this version, or damaged"):
        load(tmp_path / "header.npz")
    assert not Trap.sprung


@each(option=["--tokens", "--frequencies"])
def test_commands_likewise(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from otspec.cli import app

    pytest.importorskip("torch")
    path = write(tmp_path / "bare.npy")
    command = {
        "--tokens": ["affinity", "shipped", "--of", "logits", "--positions", "2", "--out", f"{tmp_path}/a.safetensors"],
        "--frequencies": ["decode", "--prompt", "a", "--drafter", "fr"],
    }[option]
    with pytest.raises(DataError, match="pickled Python objects, which are not loaded"):
        app([*command, option, str(path)], standalone_mode=False)
    assert not Trap.sprung
