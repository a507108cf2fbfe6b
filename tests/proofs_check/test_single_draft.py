"""Exact laws of speculative sampling: known values, and claims that notice when a step of it is wrong."""

from itertools import chain

import numpy as np
import pytest

from otspec.laws import FloatArray
from otspec.proofs_check import SOURCES, Verdict, check, single_draft

CLAIMS = {claim.id: claim for claim in chain.from_iterable(source.claims for source in SOURCES)}
LOSSLESS = ["notes-correctness", "notes-algorithm-1", "dynaspec-lossless", "steering-lossless"]


def unadjusted(p: FloatArray, q: FloatArray) -> FloatArray:
    """Redraws from p itself, as one does who forgets the residual."""
    return p


def lenient(p: FloatArray, q: FloatArray) -> FloatArray:
    """Accepts twice as readily."""
    return np.minimum(1.0, np.divide(2 * p, q, out=np.ones_like(p), where=q > 0))


@pytest.mark.parametrize("claim", LOSSLESS)
@pytest.mark.parametrize(("step", "wrong"), [("residual", unadjusted), ("accept", lenient)])
def test_a_wrong_step_is_noticed(monkeypatch: pytest.MonkeyPatch, claim: str, step: str, wrong: object) -> None:
    monkeypatch.setattr(single_draft, step, wrong)
    assert check(CLAIMS[claim], 400, seed=1).verdict is Verdict.FAILS


def test_text_is_the_product_of_its_laws() -> None:
    p = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(single_draft.text(p, 2), [0.2, 0.0, 0.4, 0.4])


def test_prefixes_are_numbered_by_length() -> None:
    numbers = [0, *(single_draft.child(node, x, 3) for node in range(4) for x in range(3))]
    assert numbers == list(range(single_draft.prefixes(3, 2)))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_blocks_until_the_text_is_out(alpha: float) -> None:
    two = alpha + 2 * (1 - alpha)
    three = 1 + alpha + (1 - alpha) * two
    found = [single_draft.blocks(alpha, 1, length) for length in (0, 1, 2, 3)]
    np.testing.assert_allclose(found, [0, 1, two, three])
    assert single_draft.blocks(alpha, 5, 1) == pytest.approx(1)
