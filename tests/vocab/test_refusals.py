"""What cannot be meant, and the sentence that says what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from otspec import vocab
from otspec.vocab import Estimate, Moments, PairCounts, affinity, affinity_from_matrix, embed, rdk, tli
from tests.refusals import Refused, check_refused

HALF, ROWS = [0.5, 0.5], np.full((2, 2), 0.5)


def of_text(text: Any) -> PairCounts:
    found = PairCounts(5, 2)
    found.add(text)
    return found


def of_samples(samples: Any) -> Moments:
    found = Moments(3)
    found.add(samples)
    return found


def crowded() -> None:
    found = PairCounts(100, 2, most_pairs=50)
    found.add(np.arange(100))
    found.matrix()


EYE, IDS = np.eye(2), np.array([4, -1, 0])
FOREIGN = np.array([[0.5, 0.25, 0.25], [0.1, 0.0, 0.9]])
REFUSED: list[Refused] = [
    (lambda: vocab.acceptance_rate(HALF, [0.5, 0.25, 0.25]), "p has 2 tokens and q 3.*embed"),
    (lambda: vocab.drafter_kernel([HALF, [0.7, 0.7]], HALF), r"p\[1\] sums to 1.4"),
    (lambda: vocab.acceptance_rate([[HALF, [-0.5, 1.5]]], HALF), r"p\[0, 1\]\[0\] is -0.5"),
    (lambda: vocab.acceptance_rate(0.5, HALF), r"p has shape \(\)"),
    (lambda: vocab.drafter_kernel(ROWS, np.full((3, 2), 0.5)), r"p \(2, 2\), q \(3, 2\).*broadcast"),
    (lambda: vocab.acceptance_rate(["a", "b"], HALF), "p is not an array of real numbers"),
    (lambda: tli([1.0, 0.0], [1]), "q has no mass on the tokens to keep"),
    (lambda: tli(HALF, [2]), "target holds 2; token ids run from 0 to 1"),
    (lambda: tli(HALF, [0, 0]), "target holds token 0 2 times"),
    (lambda: tli(HALF, HALF), r"target is float64.*p > 0"),
    (lambda: tli(HALF, [[0], [1]]), r"target has shape \(2, 1\)"),
    (lambda: tli(HALF, [True, False, True]), r"target is a mask of shape \(3,\)"),
    (lambda: tli(ROWS, np.ones((3, 2), dtype=bool)), r"q \(2, 2\), target \(3, 2\)"),
    (lambda: embed(FOREIGN, IDS, 5), r"mass 0.25 on tokens with id -1.*tli"),
    (lambda: embed(FOREIGN, IDS[:2], 5), r"ids have shape \(2,\); q has 3 tokens"),
    (lambda: embed(FOREIGN[1], IDS, 0), "vocab is 0"),
    (lambda: vocab.frequency_prune([3, 1], 3), "size is 3, and there are 2 tokens"),
    (lambda: vocab.frequency_prune([3, -1], 1), r"frequencies\[1\] is -1"),
    (lambda: vocab.frequency_prune([[3, 1]], 1), r"frequencies have shape \(1, 2\)"),
    (lambda: vocab.rdk_linear(HALF, HALF, 0), "size is 0"),
    (lambda: affinity([[1.0, 2.0]]), "covariance has 1 rows and 2 columns; name in tokens"),
    (lambda: affinity([[1.0, 2.0]], tokens=[0, 1]), "tokens name 2 rows, and covariance has 1"),
    (lambda: affinity([[1.0, np.nan]], tokens=[0]), "covariance holds nan"),
    (lambda: affinity([[-np.inf, -np.inf]], tokens=[0]), "row 0 of covariance is -inf throughout"),
    (lambda: affinity(sparse.csr_array([[1.0, -np.inf]]), tokens=[0]), "covariance holds -inf"),
    (lambda: affinity(np.ones(3)), r"covariance has shape \(3,\)"),
    (lambda: affinity(EYE, 0.0), "tau is 0.0"),
    (lambda: affinity(EYE, 10**400), "tau is 1000"),
    (lambda: affinity(EYE, tokens=[[0], [0, 1]]), "tokens is not an array"),
    (lambda: affinity(sparse.csr_array(EYE * 1j)), "covariance is not an array of real numbers"),
    (lambda: affinity(EYE).nearest(0), "count is 0"),
    (lambda: vocab.affinity_from_factor(sparse.eye_array(2)), "factor is sparse"),
    (lambda: vocab.affinity_from_factor([[np.inf]]), "factor holds inf"),
    (lambda: vocab.affinity_from_counts([[1, 0], [0, 0]]), "row 1 of counts is 0 throughout; leave it out"),
    (lambda: vocab.affinity_from_counts([[1, -2], [0, 1]]), "counts hold -2; .*affinity"),
    (lambda: affinity_from_matrix([[0.5, 0.4], [0, 1]]), "row 0 of affinity sums to 0.9 "),
    (lambda: affinity_from_matrix([[1.5, -0.5], [0, 1]]), "affinity holds -0.5"),
    (lambda: affinity_from_matrix(sparse.csr_array([[1e308, 1e308], [1e308, 0.0]])), "row 0 of affinity sums to inf"),
    (lambda: rdk(HALF, [[3, 1], [1, 1]]), "row 0 of affinity sums to 4 .*affinity_from_counts"),
    (lambda: rdk(HALF, np.eye(3)), "q has 2 tokens and the affinity 3"),
    (lambda: rdk([1.0, 0.0], affinity_from_matrix([HALF], tokens=[1])), "q has no mass on the tokens to keep"),
    (lambda: PairCounts(0, 2), "vocab is 0"),
    (lambda: PairCounts(5, 0), "window is 0"),
    (lambda: PairCounts(5, 2, []), "tokens are none; name at least one"),
    (lambda: of_text([0, 5]), "a text holds token 5; token ids run from 0 to 4"),
    (lambda: of_text([0.5]), "a text is float64"),
    (lambda: of_text([[1, 2]]), r"a text is int64 of shape \(1, 2\)"),
    (crowded, "more than 50 different pairs of tokens, the most to hold; name fewer"),
    (lambda: Moments(100, most_cells=50), "100 rows of 100 covariances are 10,000 numbers, and most_cells is 50"),
    (lambda: of_samples([1.0, 2.0, 3.0]), r"samples have shape \(3,\); they need \(B, 3\)"),
    (lambda: of_samples([[1.0, -np.inf, 0.0]]), "samples hold -inf; .*pass probabilities"),
    (lambda: of_samples([[1.0, 2.0, 3.0]]).covariance(), "there are 1 samples; a covariance takes two"),
    (lambda: Estimate.of(of_text([]), 1.0, {}), "none of the tokens with a row is among the 0 tokens"),
    (lambda: Estimate.of(of_text([1, 2]), 1.0, {}).affinity(0.0), "tau is 0.0"),
    (lambda: Estimate.of(of_text([1, 2]), 1.0, {}).nearest(0), "count is 0"),
    (lambda: vocab.gather(of_text([]), lambda first: [], Path("nowhere"), {}, every=0), "every is 0"),
]


def test_what_cannot_be_meant_is_refused_in_a_sentence() -> None:
    check_refused(REFUSED)
