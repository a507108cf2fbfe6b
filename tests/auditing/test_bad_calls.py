"""Whatever is passed: an audit, or an error that says what is wrong."""

from typing import Any

import pytest

import otspec
from otspec import ProblemError
from tests.bad_calls import LAW, check_bad_calls

GOOD: dict[str, list[Any]] = {
    "rule": ["naive", lambda p, q, drafts: p, lambda p, q, drafts, rng: int(rng.choice(p.size, p=p))],
    "scheme": ["iid", "without_replacement", "top_k"],
    "n": [1, 2],
    "seed": [0],
    "form": [None],
    "drafter": [None, "iid"],
    "shown": [None, lambda q: q],
    "instances": [[(LAW, LAW)]],
    "logits": [None, [([0.0, 1.0, 2.0], [1.0, 0.0, 0.0])]],
    "method": ["auto", "sampled"],
    "uniforms": [None, 3],
    "pairs": [True, False],
    "budget": [500],
    "alpha": [0.01],
    "confidence": [0.9],
    "resolution": [0.3],
    "tol": [1e-9],
    "max_seconds": [None, 600.0],
    "progress": [lambda done, most: None],
}


def test_bad_calls() -> None:
    check_bad_calls(otspec.audit, GOOD, 150, seed=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1; pass an integer >= 0"),
        ({"n": 10**20}, "n is more than 2,147,483,647"),
        ({"n": 10**6}, "n is 1000000; an audit hands a rule at most 4,096"),
        ({"uniforms": 10**8}, "an audit hands a rule at most 1,048,576"),
        ({"instances": []}, "instances is empty; leave it out"),
        ({"instances": [LAW]}, "pass a list of pairs"),
        ({"scheme": lambda q, n: q}, "which is not a draft scheme"),
        ({"scheme": lambda q: q}, "raises TypeError"),
        ({"shown": lambda q: q / 2}, "shown(q) sums to 0.5"),
        ({"shown": lambda q: 1 / 0}, "shown raises ZeroDivisionError"),
        ({"max_seconds": 1e300}, "max_seconds is 1e+300; it is above 0 and below"),
        ({"alpha": "small"}, "alpha is 'small'; pass a number"),
    ],
)
def test_what_was_repaired_or_crashed_is_one_clear_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        otspec.audit(**{"rule": "naive", **arguments})
    assert message in str(caught.value)
