"""Affinities estimated from a stream: against the dense computation, killed and resumed, damaged and misused."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import otspec
from otspec.errors import DataError
from otspec.vocab import Affinity, Estimate, Moments, PairCounts, affinity, counting, gather, load_affinity, rdk
from tests.each import each
from tests.oracles import Floats
from tests.vocab.test_affinity import everything


def texts_of(seed: int, vocab: int, lengths: tuple[int, ...] = (0, 1, 2, 7, 40, 33)) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    popular = rng.dirichlet(np.full(vocab, 0.5))
    return [rng.choice(vocab, length, p=popular).tolist() for length in lengths]


def pairs_one_by_one(texts: list[list[int]], window: int) -> Floats:
    counts = np.zeros((9, 9))
    for text in texts:
        for s, t in np.ndindex(len(text), len(text)):
            counts[text[s], text[t]] += abs(s - t) <= window
    return counts


@each(seed=range(2), window=(1, 3, 100), block=(1, 5, 1 << 16), pending=(1, 30, 1 << 22))
def test_pairs_are_those_of_a_count_one_by_one(
    seed: int, window: int, block: int, pending: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "BLOCK", block)
    monkeypatch.setattr(counting, "PENDING", pending)
    vocab = 9
    texts = texts_of(seed, vocab)
    wanted = pairs_one_by_one(texts, window)
    found = PairCounts(vocab, window, most_pairs=int(np.count_nonzero(wanted)))
    some = np.array([7, 0, 3])
    part = PairCounts(vocab, window, some)
    for text in texts:
        found.add(text)
        part.add(np.array(text, dtype=np.uint16))
    np.testing.assert_array_equal(found.matrix().toarray(), wanted)
    np.testing.assert_array_equal(part.matrix().toarray(), wanted[some])
    assert found.matrix().nnz == np.count_nonzero(wanted)
    np.testing.assert_array_equal(found.occurrences, np.bincount(np.concatenate(texts).astype(int), minlength=vocab))
    np.testing.assert_array_equal(wanted, wanted.T)


def exact_covariance(samples: Floats) -> Floats:
    """In rational arithmetic, rounded at the end."""
    rows = [[Fraction(float(value)) for value in row] for row in samples]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    centred = [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]
    vocab = range(len(means))
    return np.array([[float(sum(row[i] * row[j] for row in centred) / (len(rows) - 1)) for j in vocab] for i in vocab])


SAMPLES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "logits": lambda rng: rng.normal(size=(23, 5)) * 4,
    "far from 0": lambda rng: 1e8 + rng.normal(size=(23, 5)),
    "alike": lambda rng: np.full((23, 5), 0.1),
    "laws": lambda rng: rng.dirichlet(np.full(5, 0.2), 23),
    "tails": lambda rng: np.exp(rng.uniform(-690, 0, (23, 5))),
    "points": lambda rng: np.eye(5)[rng.integers(0, 5, 23)],
    "float32": lambda rng: rng.dirichlet(np.ones(5), 23).astype(np.float32).astype(np.float64),
}


@each(make=SAMPLES, size=(1, 4, 23))
def test_covariances_are_exact(make: Callable[[np.random.Generator], Floats], size: int) -> None:
    samples = make(np.random.default_rng(1))
    wanted = exact_covariance(samples)
    scale = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()))
    # The means of samples far from 0 are rounded, by some of their last digit.
    allowed = 1e-12 * scale + 1e-15 * np.abs(samples).max() * np.sqrt(scale.max())
    some = np.array([4, 1])
    for found, rows in ((Moments(5), np.arange(5)), (Moments(5, some), some)):
        for start in range(0, len(samples), size):
            found.add(samples[start : start + size])
        found.add(np.zeros((0, 5)))
        assert (np.abs(found.covariance() - wanted[rows]) <= allowed[rows] + 1e-30).all()
        np.testing.assert_allclose(found.mean, samples.mean(axis=0), rtol=1e-13)
        assert found.seen == 23
    two = Moments(5)  # as few as have a covariance
    two.add(samples[:2])
    assert (np.abs(two.covariance() - exact_covariance(samples[:2])) <= allowed + 1e-30).all()


@each(tau=(0.3, 1.0, 4.0), count=(1, 3, 100))
def test_what_rdk_takes_is_that_of_the_dense_computation(tau: float, count: int, tmp_path: Path) -> None:
    """From a file, at its own temperature and at another, and cut to its largest entries before or after."""
    pytest.importorskip("safetensors")
    rng = np.random.default_rng(2)
    q = rng.dirichlet(np.full(9, 0.3), 5)
    texts, samples = texts_of(3, 9), rng.normal(size=(30, 9))
    pairs, moments = PairCounts(9, 2), Moments(9)
    for text in texts:
        pairs.add(text)
    for sample in samples:
        moments.add(sample[None])
    counts = pairs_one_by_one(texts, 2)
    seen = np.flatnonzero(counts.any(axis=1))
    factor = (samples - samples.mean(axis=0)).T / np.sqrt(29)
    makes: tuple[tuple[Any, Callable[[float], Affinity]], ...] = (
        (pairs, lambda tau: otspec.vocab.affinity_from_counts(counts[seen], tau, tokens=seen)),
        (moments, lambda tau: affinity(np.cov(samples.T), tau)),
        (moments, lambda tau: otspec.vocab.affinity_from_factor(factor, tau)),
    )
    for found, wanted in makes:
        path = tmp_path / "estimate.safetensors"
        whole = Estimate.of(found, tau, {"source": "made up"})
        whole.save(path)
        read = load_affinity(path)
        np.testing.assert_allclose(rdk(q, read), rdk(q, wanted(tau)), rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(read.tokens, wanted(tau).tokens)
        np.testing.assert_allclose(everything(load_affinity(path, 2.0)), everything(wanted(2.0)))
        few = whole.nearest(count)
        np.testing.assert_allclose(everything(few.affinity(tau)), everything(read.nearest(count)), rtol=1e-12)
        assert np.diff(few.matrix.indptr).max() <= count
        assert few.about["nearest"] == count


def test_files_keep_everything_and_say_where_it_comes_from(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    found = PairCounts(9, 3, [8, 2, 5])
    for text in texts_of(6, 9):
        found.add(text)
    estimate = Estimate.of(found, 0.7, {"source": ["a.txt"]})
    path = tmp_path / "estimate.safetensors"
    estimate.save(path)
    read = otspec.vocab.load_estimate(str(path))
    assert (read.kind, read.tau) == ("counts", 0.7)
    assert read.about == {"source": ["a.txt"], "window": 3, "seen": 83}
    np.testing.assert_array_equal(read.level, found.occurrences)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    other = tmp_path / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


class Killed(Exception):
    """Stands for the end of the process: nothing after it is run."""


def _streams() -> Iterator[tuple[Callable[[], PairCounts | Moments], list[Any]]]:
    yield lambda: PairCounts(9, 3, [1, 2, 8]), texts_of(7, 9, (30, 0, 5, 12, 44, 9, 3))
    yield lambda: Moments(9), list(np.random.default_rng(8).normal(size=(7, 4, 9)) + 5)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_run_that_was_killed_goes_on_and_ends_as_a_whole_run_does(every: int, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    for make, chunks in _streams():
        whole = make()
        for chunk in chunks:
            whole.add(chunk)
        for death in range(len(chunks) + 1):
            state = tmp_path / f"{whole.kind}-{death}.part"
            begun: list[int] = []

            def stream(first: int, end: int = death, begun: list[int] = begun, chunks: Any = chunks) -> Iterator[Any]:
                begun.append(first)
                for number in range(first, len(chunks)):
                    if number == end and len(begun) == 1:
                        raise Killed
                    yield chunks[number]

            if death < len(chunks):
                with pytest.raises(Killed):
                    gather(make(), stream, state, {"a": 1}, every=every)
            found = make()
            gather(found, stream, state, {"a": 1}, every=every)
            if death < len(chunks):
                assert begun == [0, death // every * every]
            for name, array in whole.arrays().items():
                if whole.kind == "counts":
                    np.testing.assert_array_equal(found.arrays()[name], array)
                else:
                    np.testing.assert_allclose(found.arrays()[name], array, rtol=1e-12, atol=1e-13)


def test_death_while_the_state_is_written_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy_side = pytest.importorskip("safetensors.numpy")
    texts, state = texts_of(9, 9), tmp_path / "state"
    real, written = numpy_side.save_file, []

    def torn(arrays: Any, path: Path, metadata: Any) -> None:
        written.append(path)
        if len(written) == 3:
            path.write_bytes(b"half of it")
            raise Killed
        real(arrays, path, metadata=metadata)

    monkeypatch.setattr(numpy_side, "save_file", torn)
    with pytest.raises(Killed):
        gather(PairCounts(9, 2), lambda first: texts[first:], state, {}, every=1)
    found = PairCounts(9, 2)
    come_to: list[int] = []
    gather(found, lambda first: texts[first:], state, {}, every=1, progress=come_to.append)
    assert come_to == [3, 4, 5, 6]
    np.testing.assert_array_equal(found.matrix().toarray(), pairs_one_by_one(texts, 2))


def test_a_state_of_another_run_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    state, texts = tmp_path / "state", texts_of(10, 9)
    gather(PairCounts(9, 2), lambda first: texts[first:], state, {"window": 2, "source": "a"}, every=1)
    with pytest.raises(DataError, match="its window is 2, and not 3; delete it to start anew"):
        gather(PairCounts(9, 3), lambda first: texts[first:], state, {"window": 3, "source": "a"})
    with pytest.raises(DataError, match=r"its source is 'a', and not None"):
        gather(PairCounts(9, 2), lambda first: texts[first:], state, {"window": 2})
    with pytest.raises(DataError, match="lacks 'mean'"):
        gather(Moments(9), lambda first: [], state, {"window": 2, "source": "a"})
    with pytest.raises(DataError, match="holds an unfinished affinity of otspec, not an affinity"):
        load_affinity(state)
    state.write_bytes(state.read_bytes()[:-3])
    with pytest.raises(DataError, match="state cannot be read"):
        gather(PairCounts(9, 2), lambda first: texts[first:], state, {"window": 2, "source": "a"})


def _damaged(path: Path, **changes: Any) -> Path:
    from otspec.vocab.tensors import write_tensors

    counts = sparse.csr_array(np.eye(3) + 1)
    arrays: dict[str, Any] = {"tokens": np.arange(3), "level": np.ones(3)}
    arrays |= {"ends": counts.indptr, "columns": counts.indices, "values": counts.data}
    about = {"format": "an affinity of otspec", "kind": "counts", "tau": 1.0}
    for name, value in changes.items():
        (about if name in about else arrays)[name] = value
    write_tensors(path, {name: array for name, array in arrays.items() if array is not None}, about)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": None}, "KeyError: 'values'"),
        ({"columns": np.array([0, 1, 9, 0, 1, 2, 0, 1, 2])}, "cannot be read"),
        ({"ends": np.array([0, 0, 3, 9])}, "of kind 'counts', with 0 entries in a row"),
        ({"tokens": np.array([0, 1, 1])}, "tokens holds token 1 2 times"),
        ({"tokens": np.array([0, 1])}, "tokens name 2 rows"),
        ({"values": np.full(9, np.nan)}, "values holds nan"),
        ({"kind": "guess"}, "of kind 'guess'"),
        ({"format": "weights"}, "holds weights, not an affinity of otspec"),
    ],
    ids=str,
)
def test_damaged_files_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    assert load_affinity(_damaged(tmp_path / "good.safetensors")).tokens.size == 3
    with pytest.raises(DataError, match=message):
        otspec.vocab.load_estimate(_damaged(tmp_path / "bad.safetensors", **changes))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    numpy_side = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    for metadata, message in ((None, "holds other"), ({"otspec": "[1]"}, "holds other"), ({"otspec": "{"}, "be read")):
        numpy_side.save_file({"x": np.ones(2)}, path, metadata=metadata)
        with pytest.raises(DataError, match=message):
            load_affinity(path)
