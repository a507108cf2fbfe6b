"""Random calls with arguments that nobody should pass: each ends in a sound result, or in an error of otspec's own."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

import otspec

LAW = [0.2, 0.3, 0.5]
ERRORS = (otspec.ProblemError, otspec.DataError, otspec.UnknownSolver, otspec.MissingExtra)


def wrong_values() -> list[Any]:
    """Numbers, arrays and objects of every kind; some of them are right for some arguments."""
    return [
        *(None, True, 0, -1, 1, 3, 1.5, 3 + 1j, np.nan, np.inf, -np.inf, np.float32(0.5), np.int64(2), 10**20),
        *("", "iid", "x", b"x", {}, {"a": 1}, {1}, object(), Ellipsis, slice(3), range(3), iter(LAW), lambda *_: 0),
        *([], [[]], [1], [0, 0], [1, -1, 0], LAW, [LAW, LAW], [LAW, [1.0]], [0.5, 0.5, np.nan], [-0.5, 0.5, 1.0]),
        *(np.eye(3), np.eye(3) * 1j, np.zeros(3), np.zeros((0, 3)), np.array([1, 2, 3]), np.array([True, False, True])),
        *(np.array(["a", "b", "c"]), np.array([None, 1, 2]), sparse.eye_array(3).tocsr(), sparse.csr_array((3, 3))),
    ]


def check_bad_calls(call: Callable[..., Any], good: Mapping[str, list[Any]], calls: int, seed: int) -> None:
    """Call with one or two of the good values replaced; fail on any other error, and on a result that is not finite."""
    rng = np.random.default_rng(seed)
    for _ in range(calls):
        arguments = {name: values[rng.integers(len(values))] for name, values in good.items()}
        for place in rng.permutation(len(good))[: rng.integers(1, 3)]:
            wrong = wrong_values()
            arguments[list(good)[place]] = wrong[rng.integers(len(wrong))]
        try:
            result = call(**arguments)
        except ERRORS:
            continue
        except Exception as error:
            raise AssertionError(f"called with {arguments}, raises {type(error).__name__}: {error}") from error
        numbers = result.rows(0, result.tokens.size) if isinstance(result, otspec.vocab.Affinity) else result
        if isinstance(numbers, np.ndarray):
            assert np.isfinite(numbers).all(), f"called with {arguments}, gives {numbers}"
