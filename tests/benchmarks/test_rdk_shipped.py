import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

pytest.importorskip("torch")

from benchmarks import rdk_shipped
from otspec.errors import DataError
from otspec.vocab import acceptance_rate, frequency_prune, rdk, tli


def ask(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[dict[str, Any]]:
    """Run the script with few temperatures, fits and tokens of M; its records."""
    pytest.importorskip("vl_convert")
    taus = {"logits": (0.5,), "probabilities": (1e-4,), "counts": (0.1, 0.3)}
    for name, small in {"TAUS": taus, "FITTED": 100, "BLOCK": 20}.items():
        monkeypatch.setattr(rdk_shipped, name, small)
    monkeypatch.setattr(sys, "argv", ["script", *words])
    rdk_shipped.main()
    return [json.loads(line) for line in (Path(words[-1]) / "records.jsonl").read_text().splitlines()]


def test_leaves_records_tables_and_pictures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    records = ask(monkeypatch, "--sequences", "6", "--kept", "2048,16", "--out", str(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"records.jsonl", "report.md", "statistics.png", "acceptance.png"}
    measured = [record for record in records if "scheme" in record]
    assert len(measured) == 24 * 2 * (6 + 2 * 4)
    linear = [record for record in measured if record["scheme"] == "RDK, eq. (3)"]
    assert all(record["distance_over_bound"] <= 1 + 1e-9 for record in linear)
    assert {record["position"] for record in measured} == set(range(24))
    curves = rdk_shipped.Curves(measured)
    taus = [curves.values("RDK, counts", 16, tau=tau).mean() for tau in (0.1, 0.3)]
    assert curves.values("RDK, counts", 16).mean() == max(taus)
    with pytest.raises(DataError, match="pruning begins at 4096 tokens, and there are 2048; pass --kept"):
        next(rdk_shipped.acceptances(rdk_shipped.recorded(4), [4096, 16]))


def test_nothing_is_learnt_from_what_is_tested() -> None:
    recording = rdk_shipped.recorded(4)
    records = [record for record in rdk_shipped._schemes(*_half(recording, 0)) if record["scheme"] == "TLI"]
    changed = rdk_shipped.Recording(
        np.where(recording.of[:, None] % 2 == 1, 0.0, recording.target),
        recording.draft,
        recording.of,
        np.where(np.arange(4)[:, None] % 2 == 1, 0, recording.texts),
    )
    before, after = (rdk_shipped.Learnt.of(inputs, 0) for inputs in (recording, changed))
    np.testing.assert_array_equal(before.frequencies, after.frequencies)
    np.testing.assert_array_equal(before.counts.toarray(), after.counts.toarray())
    for kind, factor in before.factors.items():
        np.testing.assert_array_equal(factor, after.factors[kind])
    assert {record["position"] % 2 for record in records} == {1}


def _half(recording: rdk_shipped.Recording, half: int) -> tuple[Any, ...]:
    learnt = rdk_shipped.Learnt.of(recording, half)
    tested = np.flatnonzero(recording.of % 2 != half)
    p, q = softmax(recording.target[tested], axis=1), softmax(recording.draft[tested], axis=1)
    return learnt, p, q, frequency_prune(learnt.frequencies, 40), tested


def test_a_scheme_accepts_what_its_law_accepts() -> None:
    recording = rdk_shipped.recorded(4)
    learnt, p, q, kept, tested = _half(recording, 1)
    found = {(r["scheme"], r["tau"], r["position"]): r for r in rdk_shipped._schemes(learnt, p, q, kept, tested)}
    cut = tli(q, kept)
    covariance = np.cov(recording.target[recording.of % 2 == 1].T)[kept] / 0.3
    rows = softmax(covariance, axis=1)
    moved = cut[:, kept] @ rows
    np.testing.assert_allclose(rdk(q, learnt.affinity("logits", 0.3, kept)), moved, atol=1e-12)
    for row, index in enumerate(tested.tolist()):
        assert found["TLI", 0.0, index]["acceptance"] == pytest.approx(acceptance_rate(p, cut)[row])
        record = found["RDK, logits", 0.3, index]
        assert record["acceptance"] == pytest.approx(acceptance_rate(p, moved)[row])
        assert record["on_kept"] == pytest.approx(np.minimum(p, moved)[row, kept].sum())
        part = found["RDK, logits, a tenth", 0.3, index]
        assert part["acceptance"] == pytest.approx(np.minimum(p, 0.1 * moved + 0.9 * cut)[row].sum())


@pytest.mark.parametrize("freedom", [0.5, 3.0, 30.0])
def test_fits_find_the_law_that_was_drawn_from(freedom: float) -> None:
    values = 7 + 1e-6 * stats.t(freedom).ppf(rdk_shipped.plotting_positions(4000))
    law, found = rdk_shipped.fitted_t(values)
    assert found == pytest.approx(freedom, rel=0.1)
    assert law.ppf(0.9) == pytest.approx(7 + 1e-6 * stats.t(freedom).ppf(0.9), abs=1e-7)
