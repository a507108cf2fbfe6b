"""What cannot be meant, and the sentence that says what is wrong."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from otspec import verification
from otspec.verification import Model, Nested, TokenWise, accepted_length, causal_bound
from tests.refusals import Refused, check_refused

MODEL, LARGE = verification.synthetic("tiny", 3), verification.synthetic("tiny", 100)
TREE = MODEL.tree([[0, 1], [0, 2]])
MODELS: Any = partial(verification.synthetic, "tiny", 2)
WRONG: Any = None
REFUSED: list[Refused] = [
    (lambda: causal_bound(MODELS(0), 2, 2), "models is a single model, and the bound is on a mean over models"),
    (lambda: causal_bound(WRONG, 2, 2), "the model is None; pass otspec.verification.Model"),
    (lambda: causal_bound(MODELS, 0, 2), "paths is 0; pass an integer >= 1"),
    (lambda: causal_bound(MODELS, 2, 2, samples=1), "samples is 1; pass an integer >= 2"),
    (lambda: causal_bound(MODELS, 2, 2, windows=()), "windows is empty; pass the numbers of levels"),
    (lambda: causal_bound(MODELS, 2, 2, windows=3), "windows is 3; pass the numbers of levels"),  # type: ignore[arg-type]
    (lambda: verification.causal_tree_bound(MODELS, 4), "branching is 4; pass the number of children"),  # type: ignore[arg-type]
    (lambda: accepted_length(TokenWise(), MODELS(0), (2, 1)), "pass one that has a law of the path"),  # type: ignore[arg-type]
    (lambda: accepted_length(Nested(), lambda seed: seed, (2, 1)), "the model is .*; pass otspec.verification.Model"),  # type: ignore
    (lambda: accepted_length(Nested(), MODELS(0), 3), "branching is 3; pass the number of children"),  # type: ignore[arg-type]
    (lambda: verification.bound(LARGE, 2, 2), "make more than 2000 prefixes"),
    (lambda: verification.path_law(verification.Block(), LARGE, 3, 2), "make more than 1000000 trees"),
    (lambda: verification.path_law(Nested(), Model(LARGE.target, lambda _: [np.nan]), 1, 1), r"draft\(\)\[0\] is nan"),
    (lambda: verification.bound(Model(LARGE.target, lambda _: [1.0]), 1, 1), r"laws have \[1, 100\] tokens"),
    (lambda: verification.path_law(WRONG, MODEL, 2, 2), "the verifier is None; pass one such as"),
    (lambda: Nested(parts=10**6), "sigma is 0.5 and parts is 1000000; they are at most 100 and 1024"),
    (lambda: Nested(grain=10**400), "it is finite and >= 0"),
    (lambda: Nested(sigma=True), "sigma is True; it is finite and >= 0"),
    (lambda: Nested(parts=0), "parts is 0"),
    (lambda: TokenWise(cache_size=-1), "cache_size is -1; pass how many plans"),
    (lambda: verification.LayerVerification(cache_size=True), "cache_size is True; pass how many plans"),
    (lambda: TokenWise(scheme=3), "scheme is 3; pass a function"),  # type: ignore[arg-type]
    (lambda: Model(None, None), "target is None; pass a function"),  # type: ignore[arg-type]
    (lambda: verification.synthetic("mixed", 4, seed=-1), "seed is -1; pass an integer >= 0"),
    (lambda: TREE.prefix(-1), "node -1 of a tree; nodes run from 0, the root, to 3"),
]


def test_what_was_repaired_or_crashed_is_one_clear_error() -> None:
    check_refused(REFUSED)


def test_look_ahead_stays_finite_up_to_its_limits() -> None:
    for sigma, parts in ((100, 1024), (100.0, 2), (1e-300, 1024)):
        law = Nested(sigma=sigma, parts=parts).stop_law(TREE)
        assert np.isfinite(law).all()
        assert law.sum() == pytest.approx(1.0)
