"""`otspec affinity`: counts and covariances of what it reads, and a run that was killed."""

import hashlib
import importlib
from pathlib import Path

import numpy as np
import pytest

from otspec.data import open_source
from otspec.logits import law_from_logits
from otspec.vocab import PairCounts, frequency_prune, load_affinity, load_estimate, rdk
from tests.cli.running import Otspec

pytest.importorskip("safetensors")
tokenizers = pytest.importorskip("tokenizers")

command = importlib.import_module("otspec.cli.affinity")  # the package has its function of that name
TEXT = "".join(f"def f{i}(x):\n    return x + {i % 7}\n\n" for i in range(200))
TEXTS = [Path("one.py"), Path("two.py")]


@pytest.fixture(autouse=True)
def texts(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two, which are read in small pieces."""
    monkeypatch.setattr(command, "PIECE", 1000)
    for path, text in zip(TEXTS, (TEXT, "import os\n" + TEXT[:777]), strict=True):
        path.write_text(text)


def test_counts_are_those_of_the_texts(otspec: Otspec) -> None:
    said = otspec("affinity one.py two.py --window 3 --tau 0.5 --out a.safetensors")
    assert "a.safetensors: counts from " in said.out
    shipped = tokenizers.Tokenizer.from_file(str(command._tokenizer_file("shipped")))
    wanted = PairCounts(2048, 3)
    pieces = list(command._pieces(TEXTS))
    assert "".join(pieces) == TEXT + "import os\n" + TEXT[:777]
    assert len(pieces) > 5
    assert all(piece.endswith("\n") for piece in pieces[:-1])
    for piece in pieces:
        wanted.add(shipped.encode(piece, add_special_tokens=False).ids)
    found = load_estimate("a.safetensors")
    np.testing.assert_array_equal(found.matrix.toarray(), wanted.matrix().toarray()[found.tokens])
    np.testing.assert_array_equal(found.level, wanted.occurrences)
    assert (found.tau, found.about["window"], found.about["seen"]) == (0.5, 3, wanted.seen)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in TEXTS]
    assert [source["sha256"] for source in found.about["source"]] == digests
    kept = frequency_prune(found.level, 20)
    np.save("kept.npy", kept)
    otspec("affinity one.py --tokens kept.npy --nearest 5 --out b.safetensors")
    few = load_estimate("b.safetensors")
    assert set(few.tokens) <= set(kept)
    assert np.diff(few.matrix.indptr).max() == 5
    assert rdk(np.eye(2048)[kept[0]], few.affinity()).sum() == pytest.approx(1)


@pytest.mark.parametrize("of", ["logits", "probabilities"])
def test_covariances_are_those_of_the_recorded_positions(of: str, otspec: Otspec) -> None:
    np.save("kept.npy", np.arange(0, 2048, 100))
    otspec(f"affinity shipped --positions 100 --of {of} --tau 2 --tokens kept.npy --out a.safetensors")
    source = open_source("shipped")
    rows = np.array([source.position(index).target_logits for index in range(100)])
    if of == "probabilities":
        rows = np.array([law_from_logits("p", row) for row in rows])
    found = load_estimate("a.safetensors")
    wanted = np.cov(rows.T)[::100]
    np.testing.assert_allclose(found.matrix.toarray(), wanted, atol=1e-12 * np.abs(wanted).max())
    assert load_affinity("a.safetensors").vocab == 2048
    assert found.about["samples"] == 100


def test_a_run_that_breaks_off_goes_on_where_it_stopped(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/vocab has every death of what counts."""
    line = "affinity one.py two.py --save-every 2 --out"
    add, calls = PairCounts.add, list[object]()

    def counted(self: PairCounts, text: object) -> None:
        calls.append(text)
        if len(calls) == 5:
            raise OSError(5, "the disk is gone")
        add(self, text)

    monkeypatch.setattr(PairCounts, "add", counted)
    otspec(f"{line} a.safetensors", 2)
    refused = otspec("affinity one.py two.py --window 2 --save-every 2 --out a.safetensors", 2)
    assert "its window is 8, and not 2; delete it" in refused.err
    otspec(f"{line} a.safetensors")
    assert len(calls) - 5 == len(list(command._pieces(TEXTS))) - 4
    assert not list(Path().glob("*.part")) + list(Path().glob("*.new"))
