import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from otspec import Independent, Problem, Table, optimum
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


@each(seed=range(300))
def test_optimum_is_the_enumerated_one_and_the_flow_s(seed: int) -> None:
    problem = hostile(seed)
    best = optimum(problem)
    assert best.acceptance == pytest.approx(optimal_acceptance(problem), abs=ROUNDING)
    assert best.bound == pytest.approx(best.acceptance, abs=1e-12)  # TIE_TOL
    # A table has no laws of its own to cut along: its optimum goes by the bipartite flow.
    flow = optimum(Problem(problem.p, Table(*problem.scheme.support(), problem.vocab)))
    assert best.acceptance == pytest.approx(flow.acceptance, abs=ROUNDING)
    assert best.bound == pytest.approx(flow.bound, abs=1e-12)


@each(seed=range(300))
def test_proposal_is_the_law_of_a_pick(seed: int) -> None:
    problem = hostile(seed)
    best = optimum(problem)
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


def cut_by_recursion(p: Floats, pairs: Floats) -> Floats:
    """What `pair_cut` leaves of the pairs, by the same steps in recursive Python: the same to the last bit."""
    k, carried = p.size, pairs.copy()
    load = pairs.diagonal().copy()
    for i in range(k):
        for j in range(i):
            carried[i, j] = min(pairs[i, j], max(p[i] - load[i], 0.0))
            carried[j, i] = pairs[i, j] - carried[i, j]
            load[i] += carried[i, j]
            load[j] += carried[j, i]
    surplus, missing = np.maximum(load - p, 0.0), np.maximum(p - load, 0.0)

    def find(i: int) -> list[int] | None:
        if level[i] == nearest and missing[i] > 0:
            return [i]
        while level[i] < nearest and following[i]:
            j = following[i][0]
            if level.get(j) == level[i] + 1 and carried[i, j] > 0 and (rest := find(j)) is not None:
                return [i, *rest]
            following[i].pop(0)
        return None

    while True:
        layer, nearest = np.flatnonzero(surplus).tolist(), 0
        level = dict.fromkeys(layer, 0)
        while layer and not missing[layer].any():
            nearest += 1
            layer = [j for j in range(k) if j not in level and carried[layer, j].any()]
            level |= dict.fromkeys(layer, nearest)
        if not layer:
            return carried
        following = [list(range(k)) for _ in range(k)]
        for root in np.flatnonzero(surplus).tolist():
            while surplus[root] > 0 and (path := find(root)) is not None:
                steps = list(itertools.pairwise(path))
                amount = min(surplus[root], missing[path[-1]], *(carried[step] for step in steps))
                surplus[root] -= amount
                missing[path[-1]] -= amount
                for i, j in steps:
                    carried[i, j] -= amount
                    carried[j, i] += amount


@each(seed=range(200))
def test_pairs_are_divided_as_by_the_recursion(seed: int) -> None:
    p, pairs = hostile_pairs(seed)
    carried = pairs.copy()
    load, over_drafted = pair_cut(p, carried)
    assert_array_equal(carried, cut_by_recursion(p, pairs))
    assert_array_equal(load, carried.cumsum(axis=1)[:, -1])
    assert not carried[np.ix_(over_drafted, ~over_drafted)].any()


def test_a_chain_stays_within_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    p, pairs = chain_of_relief(30)
    with monkeypatch.context() as patched:
        run_in_python(patched, module)
        load, over_drafted = module.pair_cut(p, pairs.copy())
    assert_array_equal(load, p)
    assert not over_drafted.any()


def chain_of_relief(k: int) -> tuple[Floats, Floats]:
    """Only neighbours share a pair.

    The start gives each to its higher token; the last one wants none, and the first one misses all it wants, so that
    every token between them has to pass something on.
    """
    pairs = np.zeros((k, k))
    near = np.arange(k - 1)
    pairs[near, near + 1] = pairs[near + 1, near] = 1.0
    return np.append(np.ones(k - 1), 0.0), pairs


def test_long_chains_of_relief() -> None:
    p, pairs = chain_of_relief(200)
    load, over_drafted = pair_cut(p, pairs)
    assert (load == p).all()
    assert not over_drafted.any()
