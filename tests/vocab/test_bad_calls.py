"""Whatever is passed: a sound result, or an error that says what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from otspec import vocab
from tests.bad_calls import LAW, check_bad_calls

LAWS = [LAW, [LAW, LAW]]
TAU, TOKENS = [1.0, 0.5], [None, [0, 1, 2]]
CALLS: list[tuple[Callable[..., Any], dict[str, list[Any]]]] = [
    (vocab.tli, {"q": LAWS, "target": [[0, 1], [True, True, False]]}),
    (vocab.embed, {"q": LAWS, "ids": [[0, 1, 2], [3, 0, 1]], "vocab": [4, 5]}),
    (vocab.rdk, {"q": LAWS, "affinity": [np.eye(3)]}),
    (vocab.rdk_linear, {"p": LAWS, "q": LAWS, "size": [None, 3]}),
    (vocab.frequency_prune, {"frequencies": [[3, 1, 2]], "size": [2]}),
    (vocab.acceptance_rate, {"p": LAWS, "q": LAWS}),
    (vocab.drafter_kernel, {"p": LAWS, "q": LAWS}),
    (vocab.affinity, {"covariance": [np.eye(3), sparse.eye_array(3)], "tau": TAU, "tokens": TOKENS}),
    (vocab.affinity_from_factor, {"factor": [np.eye(3)], "tau": TAU, "tokens": TOKENS}),
    (vocab.affinity_from_counts, {"counts": [np.eye(3) + 1], "tau": TAU, "tokens": TOKENS}),
    (vocab.PairCounts, {"vocab": [3, 5], "window": [1, 4], "tokens": TOKENS, "most_pairs": [9]}),
    (vocab.PairCounts(3, 2).add, {"text": [[0, 2, 1], [1]]}),
    (vocab.Moments, {"vocab": [3, 5], "tokens": TOKENS, "most_cells": [25]}),
    (vocab.Moments(3).add, {"samples": [LAWS[1], np.eye(3)]}),
    (vocab.affinity_from_matrix, {"matrix": [np.eye(3)], "tokens": TOKENS}),
]


@pytest.mark.parametrize(("call", "good"), CALLS, ids=[call.__name__ for call, _ in CALLS])
def test_bad_calls(call: Callable[..., Any], good: dict[str, list[Any]]) -> None:
    check_bad_calls(call, good, 30, seed=0)
