"""`otspec affinity` as a user types it."""

import hashlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from otspec.data import open_source
from otspec.laws import law_from_logits
from otspec.vocab import PairCounts, frequency_prune, load_affinity, load_estimate, rdk
from tests.cli.test_commands import otspec_command

pytest.importorskip("safetensors")
tokenizers = pytest.importorskip("tokenizers")

command = importlib.import_module("otspec.cli.affinity")  # the package has its function of that name
Command = Callable[..., int]
TEXT = "".join(f"def f{i}(x):\n    return x + {i % 7}\n\n" for i in range(200))


@pytest.fixture
def otspec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command, in a folder with two texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "PIECE", 1000)
    Path("one.py").write_text(TEXT)
    Path("two.py").write_text("import os\n" + TEXT[:777])
    return lambda *words: otspec_command(monkeypatch, *words)


def test_counts_are_those_of_the_texts(otspec: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert otspec("affinity", "one.py", "two.py", "--window", "3", "--tau", "0.5", "--out", "a.safetensors") == 0
    assert "a.safetensors: counts from " in capsys.readouterr().out
    shipped = tokenizers.Tokenizer.from_file(str(command._tokenizer_file("shipped")))
    wanted = PairCounts(2048, 3)
    pieces = list(command._pieces([Path("one.py"), Path("two.py")]))
    assert "".join(pieces) == TEXT + "import os\n" + TEXT[:777]
    assert len(pieces) > 5
    assert all(piece.endswith("\n") for piece in pieces[:-1])
    for piece in pieces:
        wanted.add(shipped.encode(piece, add_special_tokens=False).ids)
    found = load_estimate("a.safetensors")
    np.testing.assert_array_equal(found.matrix.toarray(), wanted.matrix().toarray()[found.tokens])
    np.testing.assert_array_equal(found.level, wanted.occurrences)
    assert (found.tau, found.about["window"], found.about["seen"]) == (0.5, 3, wanted.seen)
    digests = [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in ("one.py", "two.py")]
    assert [source["sha256"] for source in found.about["source"]] == digests
    kept = frequency_prune(found.level, 20)
    np.save("kept.npy", kept)
    assert otspec("affinity", "one.py", "--tokens", "kept.npy", "--nearest", "5", "--out", "b.safetensors") == 0
    few = load_estimate("b.safetensors")
    assert set(few.tokens) <= set(kept)
    assert np.diff(few.matrix.indptr).max() == 5
    assert rdk(np.eye(2048)[kept[0]], few.affinity()).sum() == pytest.approx(1)


@pytest.mark.parametrize("of", ["logits", "probabilities"])
def test_covariances_are_those_of_the_recorded_positions(of: str, otspec: Command) -> None:
    words = ("affinity", "shipped", "--positions", "100", "--of", of, "--tau", "2")
    np.save("kept.npy", np.arange(0, 2048, 100))
    assert otspec(*words, "--tokens", "kept.npy", "--out", "a.safetensors") == 0
    source = open_source("shipped")
    rows = np.array([source.position(index).target_logits for index in range(100)])
    if of == "probabilities":
        rows = np.array([law_from_logits("p", row) for row in rows])
    found = load_estimate("a.safetensors")
    wanted = np.cov(rows.T)[::100]
    np.testing.assert_allclose(found.matrix.toarray(), wanted, atol=1e-12 * np.abs(wanted).max())
    assert load_affinity("a.safetensors").vocab == 2048
    assert found.about["samples"] == 100


KILLED = """
import importlib, os, signal, sys
from otspec.cli import main
from otspec.vocab import PairCounts

importlib.import_module("otspec.cli.affinity").PIECE = 1000
add, calls = PairCounts.add, []

def add_or_die(self, text):
    calls.append(text)
    if len(calls) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, text)

PairCounts.add = add_or_die
sys.argv = ["otspec", *sys.argv[1:]]
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system kills in another way")
def test_a_killed_run_goes_on_where_it_stopped(
    otspec: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("affinity", "one.py", "two.py", "--save-every", "2", "--out", "a.safetensors")
    here = {**os.environ, "PYTHONPATH": str(Path(str(command.__file__)).parents[2])}
    done = subprocess.run([sys.executable, "-c", KILLED, *words], env=here, check=False)
    assert done.returncode == -signal.SIGKILL
    assert Path("a.safetensors.part").is_file()
    assert not Path("a.safetensors").exists()
    other = (*words[:3], "--window", "2", *words[3:])
    assert otspec(*other) == 2
    assert "its window is 8, and not 2; delete it" in " ".join(capsys.readouterr().err.split())
    calls: list[object] = []
    add = PairCounts.add

    def counted(self: PairCounts, text: object) -> None:
        calls.append(text)
        add(self, text)

    monkeypatch.setattr(PairCounts, "add", counted)
    assert otspec(*words) == 0
    assert len(calls) == len(list(command._pieces([Path("one.py"), Path("two.py")]))) - 4
    assert otspec(*words[:-1], "whole.safetensors") == 0
    resumed, whole = Path("a.safetensors").read_bytes(), Path("whole.safetensors").read_bytes()
    assert resumed == whole
    assert not list(Path().glob("*.part")) + list(Path().glob("*.new"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.txt", "--out", "a.safetensors"), "there is no file nowhere.txt"),
        (("one.py", "--out", "a.npz"), "give --out a name that ends in .safetensors"),
        (("one.py", "--out", "nowhere/a.safetensors"), "there is no folder nowhere"),
        (("one.py", "--out", "there.safetensors"), "is there already; delete it"),
        (("one.py", "--out", "a.safetensors", "--tokenizer", "nowhere"), "there is no tokenizer nowhere"),
        (("one.py", "--out", "a.safetensors", "--tokenizer", "one.py"), "one.py is no tokenizer"),
        (("one.py", "--out", "a.safetensors", "--vocab", "9"), "--vocab is 9, and the tokenizer has 2048"),
        (("one.py", "--out", "a.safetensors", "--tau", "0"), "tau is 0.0"),
        (("one.py", "--out", "a.safetensors", "--window", "0"), "--window"),
        (("one.py", "--out", "a.safetensors", "--tokens", "one.py"), "one.py cannot be read"),
        (("one.py", "--out", "a.safetensors", "--tokens", "high.npy"), "tokens holds 5000"),
        (("binary", "--out", "a.safetensors"), "binary is not text in UTF-8"),
        (("empty", "--out", "a.safetensors"), "is among the 0 tokens of the texts"),
        (("llama4", "--of", "logits", "--out", "a.safetensors"), "there is no file llama4"),
        (("shipped", "--of", "laws", "--out", "a.safetensors"), "--of is 'laws'; known: text, logits, probab"),
        (("shipped", "--of", "logits", "--positions", "1", "--out", "a.safetensors"), "there are 1 samples"),
        (("shipped", "--of", "logits", "--positions", "999", "--out", "a.safetensors"), "shipped has 1 to 256"),
        (
            ("llama3", "--of", "logits", "--positions", "2", "--out", "a.safetensors"),
            "name fewer tokens that get a row",
        ),
        (
            ("shipped", "--of", "logits", "--window", "2", "--out", "a.safetensors"),
            "--window says nothing of positions",
        ),
        (("one.py", "--positions", "2", "--out", "a.safetensors"), "--positions says nothing of text; leave it out"),
        (
            ("shipped", "llama3", "--of", "logits", "--out", "a.safetensors"),
            "--of logits reads one source of positions",
        ),
        (("masked.npz", "--of", "logits", "--out", "a.safetensors"), "samples hold -inf"),
    ],
)
def test_says_what_is_wrong(words: tuple[str, ...], message: str, otspec: Command, refused: Callable[..., str]) -> None:
    Path("there.safetensors").write_text("a result of hours")
    Path("binary").write_bytes(bytes(range(256)))
    Path("empty").write_text("")
    np.save("high.npy", np.array([3, 5000]))
    masked = np.zeros((2, 5))
    masked[1, 2] = -np.inf
    np.savez("masked.npz", target_logits=masked, draft_logits=masked)
    assert message in refused("affinity", *words)
    assert not Path("a.safetensors").exists()
    assert Path("there.safetensors").read_text() == "a result of hours"
    assert not Path("a.safetensors").exists()
    assert Path("there.safetensors").read_text() == "a result of hours"
