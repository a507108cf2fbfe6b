"""Bounds on verifiers, against programs written out, and on causal ones against enumeration of all models of tiny laws.

Laws after different prefixes are independent draws from a few pairs of laws whose probabilities are quarters, so a
sample in which every outcome occurs as often as it is likely gives exact means.
"""

import itertools
from collections.abc import Callable
from functools import cache, partial
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.optimize import linprog

from otspec import IID, Problem, optimum
from otspec.verification import Block, Model, Nested, bound, causal_bound, path_law, tree_bound, tree_law
from otspec.verification.bounds import upper_bound
from otspec.verification.bounds.causal_bound import Ratios, Sums, _best_cuts, bound_of, log_ratio
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix
from tests.oracles import Floats
from tests.verification.catalogue import VERIFIERS
from tests.verification.models import FAMILIES, model

V, L = 2, 2
Pair = tuple[Floats, Floats]
"""Target and draft law."""
Laws = dict[Prefix, int]
"""A model: which pair of laws is after each prefix."""
KINDS = ("any", "zeros", "same", "points")


@cache
def family(kind: str, seed: int) -> list[Pair]:
    """Three pairs of laws in quarters."""
    rng = np.random.default_rng((KINDS.index(kind), seed))

    def quarters() -> Floats:
        if kind == "points":
            return np.eye(V)[rng.integers(V)]
        low = 0 if kind == "zeros" else 1
        first = rng.integers(low, 5 - low)
        return np.array([first, 4 - first]) / 4

    pairs = [(quarters(), quarters()) for _ in range(3)]
    return [(p, p) for p, _ in pairs] if kind == "same" else pairs


QUARTERS = [family(kind, seed) for kind in KINDS for seed in range(3)]


def _all_models(pairs: list[Pair]) -> list[Laws]:
    inner = list(prefixes(V, L - 1))
    return [dict(zip(inner, those, strict=True)) for those in itertools.product(range(len(pairs)), repeat=len(inner))]


def _model(pairs: list[Pair], laws: Laws) -> Model:
    return Model(lambda prefix: pairs[laws.get(prefix, 0)][0], lambda prefix: pairs[laws.get(prefix, 0)][1])


def _enumerated(pairs: list[Pair], shape: Shape) -> Ratios:
    """Every text and every tree, as often as it is likely."""
    texts, trees, often = [], [], []
    for drawn in itertools.product(itertools.product(range(len(pairs)), range(V)), repeat=L):
        times = int(np.prod([4 * pairs[i][0][x] for i, x in drawn]))
        texts += [[log_ratio(pairs[i][0][x], pairs[i][1][x]) for i, x in drawn]] * times
    for laws in _all_models(pairs):
        for tokens in itertools.product(range(V), repeat=shape.slots - 1):
            before: list[Prefix] = [()]
            steps, weight = np.zeros(shape.slots), 1.0
            for slot, (above, token) in enumerate(zip(shape.parent[1:], tokens, strict=True), start=1):
                p, q = pairs[laws[before[above]]]
                weight *= 4 * q[token]
                steps[slot] = log_ratio(p[token], q[token]) if q[token] > 0 else 0.0
                before.append((*before[above], token))
            trees.append(steps[shape.paths_of_slots[:, 1:]])
            often.append(int(weight))
    return Ratios(np.array(texts), np.repeat(np.array(trees), often, axis=0))


def _mean(pairs: list[Pair], value: Callable[[Model], float]) -> float:
    return float(np.mean([value(_model(pairs, laws)) for laws in _all_models(pairs)]))


def test_one_path_has_the_value_of_block_verification() -> None:
    for pairs in QUARTERS:
        exact = _mean(pairs, lambda laws: tree_law(Block(), laws, (1,) * L).mean_accepted)
        data = _enumerated(pairs, Shape.paths(1, L))
        assert Sums.of(data, L).value(np.zeros(L)) == pytest.approx(exact, abs=1e-12), pairs
        assert bound_of(data, data, (1, L)).value == pytest.approx(exact, abs=1e-12), pairs


def test_a_most_violated_constraint_is_found_where_the_root_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upper_bound, "ROOT_SLOPES", 2)  # the others are found from these
    sets = _antichains(3, 2)[1:]  # but the root alone
    number = {prefix: i for i, prefix in enumerate(prefixes(3, 2))}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        laws = {prefix: rng.dirichlet(np.full(3, 0.7)) for prefix in prefixes(3, 1)}
        drafts = upper_bound.Drafted(3, (2, 1), np.concatenate(list(laws.values())))
        limits = [_meets(Model(laws.__getitem__, laws.__getitem__), each, drafts.branching) for each in sets]
        alone = {each[0]: limit for each, limit in zip(sets, limits, strict=True) if len(each) == 1}
        accepted = np.array([1.0, *(alone[prefix] * rng.random() for prefix in number if prefix)])
        accepted[1:4] *= rng.random(3) < 0.5
        sums = [accepted[[number[prefix] for prefix in each]].sum() for each in sets]
        excess = [cut.accepted - cut.limit for cut in upper_bound._violated(accepted, drafts)]
        assert max(excess, default=0.0) == pytest.approx(max(0.0, *np.subtract(sums, limits)), abs=1e-9)


def test_no_verifier_exceeds_it_and_nested_comes_close() -> None:
    """On paths, and on trees that branch."""
    ratios = []
    for pairs, branching in itertools.product(QUARTERS[::3], [(2, 1), (1, 2)]):
        data = _enumerated(pairs, Shape(branching))
        limit = min(_best_cuts(Sums.of(data, window))[0] for window in (1, 2))
        models = [_model(pairs, laws) for laws in _all_models(pairs)]
        nested = np.mean([tree_law(Nested(0.0), laws, branching).mean_accepted for laws in models])
        assert nested <= limit + 1e-12, (pairs, branching)
        ratios.append(nested / limit if limit > 0 else 1.0)
    assert min(ratios) > 0.99


def test_estimates_have_the_exact_mean() -> None:
    """The sample that finds the cuts is another one, so that the estimate for these cuts is not biased downwards."""
    pairs = family("any", 1)

    def drawn(seed: int) -> Model:
        return Model(*(lambda prefix, role=role: _drawn(seed, prefix)[role] for role in (0, 1)))

    @cache
    def _drawn(seed: int, prefix: Prefix) -> Pair:
        return pairs[np.random.default_rng((seed, *prefix)).integers(len(pairs))]

    exact = _enumerated(pairs, Shape.paths(3, L))
    misses = []
    for seed in range(12):
        found = causal_bound(drawn, 3, L, samples=100, rng=seed)
        assert found.samples == 100
        with np.errstate(divide="ignore"):
            true = Sums.of(exact, found.window).value(np.log(np.array(found.cuts)))
        misses.append((found.value - true) / found.error)
    assert abs(np.mean(misses)) < 4.5 / np.sqrt(12)
    assert 0.6 < np.std(misses) < 1.5  # the standard error is what it says


def test_hostile_laws() -> None:
    even, first, rare = np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.array([1e-300, 1.0])

    def always(p: Floats, q: Floats) -> Callable[[int], Model]:
        return lambda seed: Model(lambda prefix: p, lambda prefix: q)

    same = causal_bound(always(even, even), 3, 4, samples=50)
    assert same.value == pytest.approx(4.0, abs=1e-12)
    assert same.error == pytest.approx(0.0, abs=1e-12)
    assert causal_bound(always(first, first[::-1]), 3, 4, samples=50).value == 0.0
    for p, q in itertools.product((even, first, rare, rare[::-1]), repeat=2):
        found = causal_bound(always(p, q), 2, 3, samples=60, rng=1)
        nested = tree_law(Nested(0.0), always(p, q)(0), (2, 1, 1)).mean_accepted
        assert np.isfinite(found.error), (p, q)
        assert nested <= found.value + 4 * found.error + 1e-12, (p, q)
        assert found.value <= 3.0 + 4 * found.error, (p, q)


SOLVED = 1e-7
"""HiGHS keeps the constraints within this."""


def _antichains(vocab: int, length: int, prefix: Prefix = ()) -> list[list[Prefix]]:
    """All sets of prefixes at or below one, none of which begins another."""
    if len(prefix) == length:
        return [[], [prefix]]
    below = [_antichains(vocab, length, (*prefix, x)) for x in range(vocab)]
    return [[prefix], *(list(itertools.chain(*parts)) for parts in itertools.product(*below))]


def _by_all_constraints(laws: Model, vocab: int, length: int, limit: Callable[[list[Prefix]], float]) -> float:
    """The bound's linear program with every constraint written out: `limit` says what the sum over an antichain is."""
    number = {prefix: i for i, prefix in enumerate(prefixes(vocab, length))}
    rows, limits = [], []
    for prefix in number:
        if prefix:
            row = np.zeros(len(number))
            row[number[prefix]] = 1.0
            row[number[prefix[:-1]]] = -np.asarray(laws.target(prefix[:-1]))[prefix[-1]]
            rows.append(row)
            limits.append(0.0)
    for chain in _antichains(vocab, length):
        row = np.zeros(len(number))
        row[[number[prefix] for prefix in chain]] = 1.0
        rows.append(row)
        limits.append(limit(chain))
    found = linprog(-np.ones(len(number)), A_ub=np.array(rows), b_ub=limits, bounds=(0, None), method="highs")
    assert found.fun is not None
    return -found.fun - 1


def test_one_step_and_one_path() -> None:
    for family in FAMILIES:
        laws = model(family, 4, 2)
        problem = Problem(np.asarray(laws.target(())), IID(np.asarray(laws.draft(())), 3))
        assert bound(laws, 3, 1) == pytest.approx(optimum(problem).bound, abs=SOLVED), family
        small = model(family, 3, 2)
        block = path_law(Block(), small, 1, 2).mean_accepted
        assert bound(small, 1, 2) == pytest.approx(block, abs=SOLVED), family


def _meets(laws: Model, chain: list[Prefix], branching: tuple[int, ...], prefix: Prefix = ()) -> float:
    """P(a tree drafted below a prefix meets a set)."""
    if prefix in chain:
        return 1.0
    if len(prefix) == len(branching):
        return 0.0
    law = np.asarray(laws.draft(prefix))
    one = sum(float(law[x]) * _meets(laws, chain, branching, (*prefix, x)) for x in range(law.size))
    return float(1 - max(1 - one, 0.0) ** branching[len(prefix)])


OF_PATHS = [(2, (2, 1)), (2, (4, 1)), (3, (2, 1)), (2, (2, 1, 1))]
BRANCHING = [(2, (2, 2)), (2, (1, 3)), (3, (2, 2)), (2, (2, 2, 2)), (2, (1, 2, 2)), (2, (3, 1, 2))]


def test_cutting_planes_find_the_optimum_of_the_whole_program(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = Mock(wraps=linprog)
    monkeypatch.setattr(upper_bound, "linprog", solved)
    cases = *itertools.product(OF_PATHS, FAMILIES[::4]), *itertools.product(BRANCHING, FAMILIES[1::4])
    for (vocab, branching), family in cases:
        laws = model(family, vocab, 7)
        whole = _by_all_constraints(laws, vocab, len(branching), partial(_meets, laws, branching=branching))
        solved.reset_mock()
        excess = tree_bound(laws, branching) - whole
        assert solved.call_count < 20  # what HiGHS violates by its tolerance is no new cut
        most = 1e-5 if sum(b > 1 for b in branching) > 1 else 10 * SOLVED
        assert -10 * SOLVED <= excess <= most, (branching, family)


def test_no_verifier_exceeds_it() -> None:
    larger = [(3, (2, 1)), (2, (2, 2)), (2, (1, 2, 1))]
    cases = *itertools.product([(2, (2, 1))], FAMILIES), *itertools.product(larger, FAMILIES[::4])
    for (vocab, branching), family in cases:
        laws = model(family, vocab, 13)
        limit = tree_bound(laws, branching)
        for verifier in (*VERIFIERS.values(), Nested()):
            accepted = tree_law(verifier, laws, branching).mean_accepted
            assert accepted <= limit + SOLVED, (branching, family, verifier)
