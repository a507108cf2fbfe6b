import numpy as np
import pytest
from numpy.testing import assert_array_equal

from otspec import Independent, Problem, optimum
from otspec.kernels import pair_cut as module
from otspec.kernels.pair_cut import pair_cut
from tests.compiled import run_in_python
from tests.each import each
from tests.networks import hostile_capacities
from tests.oracles import Floats, hit_function, mass_function, optimal_acceptance

ROUNDING = 1e-13


def hostile(seed: int) -> Problem:
    """Two laws and a target of up to seven tokens: random, tied, peaked, with zeros, points, or tails."""
    rng = np.random.default_rng(seed)
    vocab = int(rng.integers(1, 8))
    p, first, second = (_law(rng, vocab, kind) for kind in rng.integers(0, 6, 3))
    return Problem(first if rng.random() < 0.1 else p, Independent([first, first if rng.random() < 0.1 else second]))


def _law(rng: np.random.Generator, vocab: int, kind: int) -> Floats:
    if kind == 0:
        return np.eye(vocab)[rng.integers(vocab)]
    weights = {
        1: rng.random(vocab),
        2: rng.integers(0, 4, vocab) + (np.arange(vocab) == 0),
        3: rng.random(vocab) ** 30 + 1e-300,
        4: np.where(rng.random(vocab) < 0.5, 1e-300, rng.random(vocab)) + 1e-320,
        5: np.ones(vocab),
    }[kind]
    return np.asarray(weights / weights.sum(), dtype=np.float64)


@each(seed=range(200))
def test_optimum_is_the_enumerated_one_and_its_proposal_the_law_of_a_pick(seed: int) -> None:
    problem = hostile(seed)
    best = optimum(problem)
    assert best.acceptance == pytest.approx(optimal_acceptance(problem), abs=ROUNDING)
    assert best.bound == pytest.approx(best.acceptance, abs=1e-12)  # TIE_TOL
    assert best.proposal.sum() == pytest.approx(1.0, abs=ROUNDING)
    assert (mass_function(best.proposal) - hit_function(problem.scheme)).max() <= ROUNDING
    over_drafted = np.isin(np.arange(problem.vocab), best.minimiser)
    assert (best.proposal >= problem.p - ROUNDING)[over_drafted].all()
    assert (best.proposal <= problem.p + 1e-12)[~over_drafted].all()


@each(seed=range(50))
def test_pairs_are_divided_exactly(seed: int) -> None:
    # Integers are exact in floating point: what each pair gives to its two tokens adds up to the pair, to the last bit.
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 12))
    half = np.triu(rng.integers(0, 9, (k, k))).astype(np.float64)
    pairs = half + np.triu(half, 1).T
    p = rng.multinomial(int(half.sum()), rng.dirichlet(np.full(k, 0.5))).astype(np.float64)
    carried = pairs.copy()
    load, over_drafted = pair_cut(p, carried)
    assert (carried >= 0).all()
    assert (np.triu(carried) + np.tril(carried, -1).T == half).all()
    assert (load == carried.sum(axis=1)).all()
    # Weak duality with equality: nothing that touches the other tokens is carried inside, and these are not overloaded.
    assert not carried[np.ix_(over_drafted, ~over_drafted)].any()
    assert (load[over_drafted] >= p[over_drafted]).all()
    assert (load[~over_drafted] <= p[~over_drafted]).all()


def hostile_pairs(seed: int) -> tuple[Floats, Floats]:
    """Loads wanted and masses of pairs, of up to 15 tokens: with ties, zeros, underflow, or of many magnitudes."""
    rng = np.random.default_rng(seed)
    k, kind = int(rng.integers(1, 16)), seed % 4
    masses = hostile_capacities(rng, k * k, kind).reshape(k, k)
    half = np.triu(masses * (rng.random((k, k)) < rng.choice([0.1, 0.5, 1.0])))
    return hostile_capacities(rng, k, kind), half + np.triu(half, 1).T


@each(seed=range(200))
def test_hostile_pairs_are_divided_up_to_rounding(seed: int) -> None:
    p, pairs = hostile_pairs(seed)
    carried, off = pairs.copy(), 1e-13 * max(p.max(), pairs.max(), 1e-300) * p.size
    load, over_drafted = pair_cut(p, carried)
    assert (carried >= 0).all()
    np.testing.assert_allclose(np.triu(carried) + np.tril(carried, -1).T, np.triu(pairs), rtol=0, atol=off)
    assert_array_equal(load, carried.cumsum(axis=1)[:, -1])
    assert not carried[np.ix_(over_drafted, ~over_drafted)].any()
    assert (load >= p - off)[over_drafted].all()
    assert (load <= p + off)[~over_drafted].all()


def chain_of_relief(k: int) -> tuple[Floats, Floats]:
    """Only neighbours share a pair.

    The start gives each to its higher token; the last one wants none, and the first one misses all it wants, so that
    every token between them has to pass something on.
    """
    pairs = np.zeros((k, k))
    near = np.arange(k - 1)
    pairs[near, near + 1] = pairs[near + 1, near] = 1.0
    return np.append(np.ones(k - 1), 0.0), pairs


def test_long_chains_of_relief_stay_within_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code checks no index, the same code in plain Python does."""
    for length in (30, 200):
        p, pairs = chain_of_relief(length)
        with monkeypatch.context() as patched:
            if length == 30:
                run_in_python(patched, module)
            load, over_drafted = module.pair_cut(p, pairs)
        assert_array_equal(load, p)
        assert not over_drafted.any()
