"""A disk that is full names the file that had no room."""

import errno
from pathlib import Path

import numpy as np
import pytest

from otspec.vocab.tensors import write_tensors
from otspec.writing import named, write_text

resource = pytest.importorskip("resource")
SMALL = 10_000
"""Bytes that a file may have: what is larger fails as on a full disk, after it was opened."""


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    import signal

    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("little_room")
def test_a_text_that_does_not_fit_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="large") as caught:
        write_text(tmp_path / "report.md", "x" * 2 * SMALL)
    assert caught.value.filename == str(tmp_path / "report.md")


@pytest.mark.usefixtures("little_room")
def test_tensors_that_do_not_fit_name_their_file(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    with pytest.raises(OSError, match="large") as caught:
        write_tensors(tmp_path / "a.safetensors", {"a": np.zeros(SMALL)}, {})
    assert Path(caught.value.filename).parent == tmp_path
    assert caught.value.errno == errno.EFBIG


def test_what_names_a_file_already_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, named(tmp_path):
        (tmp_path / "none").read_text()
    assert caught.value.filename == str(tmp_path / "none")


def test_other_errors_are_as_they_were(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="k"), named(tmp_path):
        raise KeyError("k")
