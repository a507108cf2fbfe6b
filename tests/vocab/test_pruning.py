import numpy as np
import pytest

from otspec import ProblemError
from otspec.vocab import embed, frequency_prune
from tests.each import each


@each(seed=range(20))
def test_is_a_sort_by_frequency_that_keeps_ids_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, int(rng.integers(1, 12)))  # ties everywhere
    ranked = sorted(range(counts.size), key=lambda token: (-counts[token], token))
    for size in range(1, counts.size + 1):
        assert frequency_prune(counts, size).tolist() == ranked[:size]


def test_the_pruned_head_gives_a_law_on_the_kept_tokens() -> None:
    rng = np.random.default_rng(0)
    head, hidden = rng.normal(size=(8, 3)), rng.normal(size=3)
    kept = frequency_prune(np.bincount([5, 5, 2, 7, 2, 5], minlength=8), 3)
    assert kept.tolist() == [5, 2, 7]
    weights = np.exp(head[kept] @ hidden)
    law = embed(weights / weights.sum(), kept, 8)
    assert np.flatnonzero(law).tolist() == [2, 5, 7]
    assert law[5] == weights[0] / weights.sum()


@pytest.mark.parametrize(
    ("frequencies", "size", "message"),
    [
        ([3, 1], 3, "size is 3, and there are 2 tokens"),
        ([3, 1], 0, "size is 0"),
        ([3, 1], 1.0, "size is 1.0"),
        ([3, -1], 1, r"frequencies\[1\] is -1"),
        ([3, np.nan], 1, r"frequencies\[1\] is nan"),
        ([[3, 1]], 1, r"frequencies have shape \(1, 2\)"),
        ([], 1, r"frequencies have shape \(0,\)"),
    ],
)
def test_says_what_is_wrong(frequencies: object, size: int, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        frequency_prune(frequencies, size)
