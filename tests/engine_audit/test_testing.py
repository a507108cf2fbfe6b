"""`otspec.testing.assert_lossless`, as other packages call it."""

import numpy as np
import pytest

from otspec.errors import ProblemError
from otspec.testing import assert_lossless
from tests.each import each
from tests.engine_audit.engines import LAWS, QUICK, Faulty, biased_at, markov


def texts(law_of: object, count: int, seed: int) -> list[tuple[int, ...]]:
    engine = Faulty(drafted=law_of)  # type: ignore[arg-type]
    from otspec.engine_audit import Sampling

    return [text.tokens for text in engine.texts("", count, 3, Sampling(), seed, drafts=True)]


def test_an_engine() -> None:
    assert assert_lossless(Faulty(), law=markov, prompts=[""], **QUICK).outcome.control.caught
    with pytest.raises(AssertionError, match=r"^not lossless: .*position 2 at T = 1 is off by at least"):
        assert_lossless(Faulty(drafted=biased_at(2)), law=markov, prompts=[""], **QUICK)


@each(spelled=["tokens", "array", "strings"])
def test_two_lists_of_texts(spelled: str) -> None:
    def as_spelled(found: list[tuple[int, ...]]) -> object:
        if spelled == "array":
            return np.array(found)
        return found if spelled == "tokens" else ["".join(map(str, one)) for one in found]

    count = 2000 if spelled == "tokens" else 600
    plain, same, other = (
        as_spelled(texts(law, count, seed)) for seed, law in enumerate((markov, markov, biased_at(2)))
    )
    with pytest.raises(AssertionError, match=r"^not lossless: "):
        assert_lossless(other, plain)  # type: ignore[arg-type]
    if spelled != "tokens":
        return
    audit = assert_lossless(same, plain)  # type: ignore[arg-type]
    assert audit.outcome.control.caught
    assert audit.outcome.control.tv is not None
    assert 0.1 < audit.outcome.control.tv < 0.2


@each(law=[markov, LAWS])
def test_texts_and_the_exact_law(law: object) -> None:
    assert assert_lossless(texts(markov, 3000, 0), law=law).outcome.compared_with == "exact law"  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"^not lossless: "):
        assert_lossless(texts(biased_at(3), 3000, 0), law=law)  # type: ignore[arg-type]


def test_too_few_texts_do_not_pass() -> None:
    """A test that could not have failed proves nothing."""
    with pytest.raises(AssertionError, match=r"^cannot tell: .*do not suffice to catch the control"):
        assert_lossless(texts(markov, 50, 0), law=markov)


def test_a_setting_out_of_range() -> None:
    with pytest.raises(ProblemError, match="alpha is 2"):
        assert_lossless(["a"], ["a"], alpha=2)
