"""What one process holds, no other gets; what was held is left as it was found."""

from pathlib import Path

import pytest

from otspec import DataError
from otspec.locking import Lock
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
