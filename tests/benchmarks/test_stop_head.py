"""What a learnt head would bring, on paths whose acceptance is known."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import stop_head
from benchmarks.stop_head import DEPTH, ORACLE, PLAIN, STATES, TIMES, Paths, Steps, auc, measured, table


def _paths(rng: np.random.Generator, count: int = 240) -> Paths:
    """Paths of which hidden states tell what is accepted, and the draft model's probabilities nothing."""
    states = rng.normal(size=(count, DEPTH, 3))
    accepted = 1 / (1 + np.exp(-4 * states[..., 0] - 1))
    own = rng.uniform(0.05, 1, size=(count, DEPTH))
    return Paths(np.arange(count) % 40, accepted, own, np.stack((own, np.log(own)), -1), states)


def test_a_head_that_sees_more_is_found_to_be_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_head, "FOLDS", 2)
    records = {one["way"]: one for one in measured(_paths(np.random.default_rng(0)), 1.0)}
    assert abs(records[PLAIN]["auc"] - 0.5) < 0.06
    assert records[STATES]["auc"] > 0.75
    for where in TIMES:
        _, ratio, low, high = records[STATES][where]
        assert 1.02 < low < ratio < high
        assert records[ORACLE][where][1] > 0.99 * ratio
        assert records[PLAIN][where][1:] == [1, 1, 1]
    assert "hidden state" in str(table(list(records.values()), "ways").rows)


def test_pairs_and_steps_are_counted_one_by_one() -> None:
    rng = np.random.default_rng(1)
    score, accepted, weight = rng.uniform(size=(3, 30))
    pairs = np.outer(weight * accepted, weight * (1 - accepted))
    above = (score[:, None] > score) + (score[:, None] == score) / 2
    assert auc(score, accepted, weight) == pytest.approx((pairs * above).sum() / pairs.sum())

    chances = rng.uniform(size=(6, DEPTH))
    times = TIMES["a core"]
    steps = Steps(chances, times)
    depth = np.array([0, 1, 2, 5, 8, 8])
    for each, path, (tokens, seconds) in zip(depth, chances, steps.spent(depth), strict=True):
        assert tokens == pytest.approx(1 + sum(np.prod(path[:several]) for several in range(1, each + 1)))
        assert seconds == pytest.approx(times[0](1 + each) + each * times[1])
    everybody = np.ones(6, dtype=bool)
    certain = np.where(np.arange(DEPTH) < 3, 1.0, 0.0) * np.ones((6, 1))
    assert (Steps(certain, times).best(certain + 1e-9, everybody) <= 4).all()  # the first that is refused ends it
