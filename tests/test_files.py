"""Files: what one process holds no other gets, a full disk is named, and pickled objects are refused."""

from __future__ import annotations

import errno
import pickle
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError
from otspec.data import FileSource
from otspec.locking import Lock
from otspec.plans import load
from otspec.vocab.tensors import write_tensors
from otspec.writing import write_text
from tests.each import each
from tests.processes import held

HOLD = """
import sys
from pathlib import Path
from otspec.locking import Lock

lock = Lock.of_file(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
lock.release()
"""


def test_a_file_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with held(HOLD, out) as process:
        message = f"out.json is in use by process {process.pid} on .*; wait until it has ended, or give --out another"
        with pytest.raises(DataError, match=message):
            Lock.of_file(out)
        process.communicate("\n")
    assert list(tmp_path.iterdir()) == []
    Lock.of_file(out).release()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_free_again_when_its_process_was_killed(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with held(HOLD, out) as process:
        process.kill()
        process.wait()
        Lock.of_file(out).release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_gone_by_the_time_it_is_held_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may open the file just before its holder removes it: then two files would be locked."""
    import otspec.locking

    real, file = otspec.locking._lock, tmp_path / ".out.lock"
    calls = []

    def lock(opened: object) -> None:
        calls.append(opened)
        if len(calls) == 1:
            file.unlink()
        real(opened)  # type: ignore[arg-type]

    monkeypatch.setattr(otspec.locking, "_lock", lock)
    mine = Lock.of_file(tmp_path / "out")
    assert len(calls) == 2
    assert file.exists()
    mine.release()


@pytest.mark.parametrize(
    "command",
    [
        ["record", "--out", "{}/a.safetensors", "--positions", "1"],
        ["record", "--out", "{}/a.safetensors", "--positions", "1", "--paths", "2", "--depth", "1"],
        ["tune", "--out", "{}/a.safetensors"],
        ["affinity", "shipped", "--of", "logits", "--out", "{}/a.safetensors"],
        ["router", "x.txt", "--out", "{}/a.safetensors"],
        ["train", "sd2", "--out", "{}/a.safetensors"],
    ],
    ids=lambda words: " ".join(words[:1]) + (" of trees" if "--paths" in words else ""),
)
def test_commands_leave_each_others_files_alone(command: list[str], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from otspec.cli import app

    words = [word.format(tmp_path) for word in command]
    with held(HOLD, tmp_path / "a.safetensors") as process:
        result = CliRunner().invoke(app, words)
        said = str(result.exception) + result.output
        assert f"in use by process {process.pid}" in " ".join(said.split()), said


SMALL = 10_000
"""Bytes that a file may have: what is larger fails as on a full disk, after it was opened."""


@pytest.fixture
def little_room() -> Iterator[None]:
    resource = pytest.importorskip("resource")

    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("little_room")
def test_what_does_not_fit_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="large") as caught:
        write_text(tmp_path / "report.md", "x" * 2 * SMALL)
    assert caught.value.filename == str(tmp_path / "report.md")
    pytest.importorskip("safetensors")
    with pytest.raises(OSError, match="large") as caught:
        write_tensors(tmp_path / "a.safetensors", {"a": np.zeros(SMALL)}, {})
    assert Path(caught.value.filename).parent == tmp_path
    assert caught.value.errno == errno.EFBIG


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


COMMANDS = {
    "--tokens": "affinity shipped --of logits --positions 2 --out a.safetensors",
    "--frequencies": "decode --prompt a --drafter fr",
}


def command(option: str) -> Callable[[Path], object]:
    """A command that is told of a file."""
    from otspec.cli import app

    return lambda path: app([*COMMANDS[option].split(), option, str(path)], standalone_mode=False)


OBJECTS: dict[str, tuple[Callable[[Path], object], str]] = {
    **{name: (FileSource.open, name) for name in ("object.npz", "object.npy", "object.pt", "bare.npz", "bare.npy")},
    "bare.pt": (FileSource.open, "bare.pt"),
    "a plan": (load, "object.npz"),
    "no plan": (load, "bare.npz"),
    **{option: (command(option), "bare.npy") for option in COMMANDS},
}
"""What reads files, and a file that it is told of."""


@each(case=OBJECTS)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_files_of_objects_are_refused_and_nothing_is_run(
    case: tuple[Callable[[Path], object], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    read, name = case
    if name.endswith(".pt") or read not in (FileSource.open, load):
        pytest.importorskip("torch")
    with pytest.raises(DataError) as caught:
        read(write(tmp_path / name))
    assert not ADVICE.search(str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    assert not Trap.sprung
