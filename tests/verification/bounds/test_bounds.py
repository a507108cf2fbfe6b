"""Bounds on verifiers, against programs written out, and on causal ones against enumeration of all models of tiny laws.

Laws after different prefixes are independent draws from a few pairs of laws whose probabilities are quarters, so a
sample in which every outcome occurs as often as it is likely gives exact means.
"""

import itertools
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
from scipy.optimize import linprog

from otspec import IID, Problem, ProblemError, optimum
from otspec.verification import Block, Model, Nested, bound, causal_bound, path_law, tree_bound, tree_law
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


def _z(pairs: list[Pair], laws: Laws, text: Prefix) -> list[float]:
    """q/p of the text's prefixes, the empty one first, from its chances; a draft probability of 0 counts as 1e-30."""
    q = p = 1.0
    ratios = [1.0]
    for i, x in enumerate(text):
        p, q = p * pairs[laws[text[:i]]][0][x], q * max(pairs[laws[text[:i]]][1][x], 1e-30)
        ratios.append(q / p if p > 0 else np.inf)
    return ratios


def _position(z: list[float], window: int, cuts: Floats) -> int:
    """J of the last level: where q/p is least in the window, if it is below the cut there, and else 0."""
    level = len(z) - 1
    j = min(range(max(1, level - window + 1), level + 1), key=lambda i: (round(np.log(z[i]), 9), i))
    return j if z[j] < cuts[j - 1] * (1 - 1e-9) else 0


def _chance(pairs: list[Pair], laws: Laws, text: Prefix, role: int, start: int = 0) -> float:
    return float(np.prod([pairs[laws[text[:i]]][role][text[i]] for i in range(start, len(text))]))


def _bound(pairs: list[Pair], count: int, window: int, cuts: Floats) -> float:
    """The theorem's right-hand side for K paths, word by word."""
    models = _all_models(pairs)
    texts = {level: list(itertools.product(range(V), repeat=level)) for level in range(1, L + 1)}

    def number(laws: Laws, u: Prefix) -> float:
        """y(u), in the mean over the laws at and after u."""
        total = 0.0
        for level in range(len(u), L + 1):
            for other in models:
                mixed = {**other, **{u[:i]: laws[u[:i]] for i in range(len(u))}}
                for text in texts[level]:
                    if text[: len(u)] == u and _position(_z(pairs, mixed, text), window, cuts) == len(u):
                        total += _chance(pairs, mixed, text, 0, len(u))
        return total / len(models)

    uncovered, covered = 0.0, 0.0
    for laws in models:
        for level in texts:
            for text in texts[level]:
                if _chance(pairs, laws, text, 0) > 0 and _position(_z(pairs, laws, text), window, cuts) == 0:
                    uncovered += _chance(pairs, laws, text, 0)
        leaves = [
            (sum(number(laws, leaf[:j]) for j in range(1, L + 1)), _chance(pairs, laws, leaf, 1)) for leaf in texts[L]
        ]
        reached = 0.0
        for worth in sorted({worth for worth, _ in leaves}):
            mass = sum(chance for other, chance in leaves if other >= worth)
            covered += (worth - reached) * (1 - max(1 - mass, 0.0) ** count)
            reached = worth
    return (uncovered + covered) / len(models)


def _mean(pairs: list[Pair], value: Callable[[Model], float]) -> float:
    return float(np.mean([value(_model(pairs, laws)) for laws in _all_models(pairs)]))


def test_the_sums_are_those_of_the_theorem() -> None:
    rng = np.random.default_rng(1)
    for pairs, count in itertools.product(QUARTERS[::3], (1, 2)):
        exact = _enumerated(pairs, Shape.paths(count, L))
        for window in (1, 2):
            cuts = rng.choice([0.0, 0.3, 0.7, 1.0, 1.6, np.inf], L)
            with np.errstate(divide="ignore"):
                value = Sums.of(exact, window).value(np.log(cuts))
            assert value == pytest.approx(_bound(pairs, count, window, cuts), abs=1e-12), (pairs, count, window, cuts)


def test_one_path_has_the_value_of_block_verification() -> None:
    for pairs in QUARTERS:
        exact = _mean(pairs, lambda laws: tree_law(Block(), laws, (1,) * L).mean_accepted)
        data = _enumerated(pairs, Shape.paths(1, L))
        assert Sums.of(data, L).value(np.zeros(L)) == pytest.approx(exact, abs=1e-12), pairs
        assert bound_of(data, data, (1, L)).value == pytest.approx(exact, abs=1e-12), pairs


def test_no_verifier_exceeds_it_and_nested_comes_close() -> None:
    """On paths, and on a tree that branches."""
    ratios = []
    cases = [*itertools.product(QUARTERS[::3], [(2, 1)]), (QUARTERS[3], (3, 1)), (QUARTERS[0], (2, 2))]
    for pairs, branching in cases:
        data = _enumerated(pairs, Shape(branching))
        limit = min(_best_cuts(Sums.of(data, window))[0] for window in (1, 2))

        def accepted(laws: Model, shape: tuple[int, ...] = branching) -> float:
            return tree_law(Nested(0.0), laws, shape).mean_accepted

        nested = _mean(pairs, accepted)
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


def test_large_models_are_refused() -> None:
    with pytest.raises(ProblemError, match="make 10101 prefixes, more than 2000"):
        bound(model("tiny", 100), 2, 2)


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


def test_cutting_planes_find_the_optimum_of_the_whole_program() -> None:
    cases = *itertools.product(OF_PATHS, FAMILIES[::2]), *itertools.product(BRANCHING, FAMILIES[1::3])
    for (vocab, branching), family in cases:
        laws = model(family, vocab, 7)
        whole = _by_all_constraints(laws, vocab, len(branching), partial(_meets, laws, branching=branching))
        excess = tree_bound(laws, branching) - whole
        most = 1e-5 if sum(b > 1 for b in branching) > 1 else 10 * SOLVED
        assert -10 * SOLVED <= excess <= most, (branching, family)


def test_no_verifier_exceeds_it() -> None:
    larger = [(3, (2, 1)), (2, (2, 1, 1)), (2, (2, 2)), (2, (1, 2, 1))]
    cases = *itertools.product([(2, (2, 1))], FAMILIES), *itertools.product(larger, FAMILIES[::4])
    for (vocab, branching), family in cases:
        laws = model(family, vocab, 13)
        limit = tree_bound(laws, branching)
        for verifier in (*VERIFIERS.values(), Nested()):
            accepted = tree_law(verifier, laws, branching).mean_accepted
            assert accepted <= limit + SOLVED, (branching, family, verifier)
