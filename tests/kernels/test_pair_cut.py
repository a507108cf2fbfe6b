import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from otspec.kernels import pair_cut as module
from otspec.kernels.pair_cut import pair_cut
from tests.compiled import run_in_python
from tests.each import each
from tests.oracles import Floats
from tests.strategies import amounts, some


def check_division(p: Floats, pairs: Floats, off: float) -> None:
    """What a pair gives to its two tokens adds up to it, nothing is negative, and no other division loads less."""
    carried = pairs.copy()
    load, over_drafted = pair_cut(p, carried)
    assert (carried >= 0).all()
    np.testing.assert_allclose(np.triu(carried) + np.tril(carried, -1).T, np.triu(pairs), rtol=0, atol=off)
    assert_array_equal(load, carried.cumsum(axis=1)[:, -1])
    # Weak duality with equality: nothing that touches the other tokens is carried inside, and these are not overloaded.
    assert not carried[np.ix_(over_drafted, ~over_drafted)].any()
    assert (load >= p - off)[over_drafted].all()
    assert (load <= p + off)[~over_drafted].all()


@each(seed=range(50))
def test_pairs_of_whole_numbers_are_divided_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 12))
    half = np.triu(rng.integers(0, 9, (k, k))).astype(np.float64)
    p = rng.multinomial(int(half.sum()), rng.dirichlet(np.full(k, 0.5))).astype(np.float64)
    check_division(p, half + np.triu(half, 1).T, 0.0)


@st.composite
def wanted_and_pairs(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Loads wanted and masses of pairs, of up to 12 tokens."""
    k = draw(st.integers(1, 12))
    half = np.triu(draw(amounts(k * k)).reshape(k, k))
    return draw(amounts(k)), half + np.triu(half, 1).T


@some
@given(wanted=wanted_and_pairs())
def test_hostile_pairs_are_divided_up_to_rounding(wanted: tuple[Floats, Floats]) -> None:
    p, pairs = wanted
    check_division(p, pairs, 1e-13 * max(p.max(), pairs.max(), 1e-300) * p.size)


def test_long_chains_of_relief_stay_within_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code checks no index, the same code in plain Python does.

    Only neighbours share a pair, and the start gives each to its higher token; the last one wants none, and the first
    one misses all it wants, so that every token between them has to pass something on.
    """
    for length in (30, 200):
        p, pairs = np.append(np.ones(length - 1), 0.0), np.eye(length, k=1) + np.eye(length, k=-1)
        with monkeypatch.context() as patched:
            if length == 30:
                run_in_python(patched, module)
            load, over_drafted = module.pair_cut(p, pairs)
        assert_array_equal(load, p)
        assert not over_drafted.any()
