"""What every draft scheme owes to the rest: by enumeration of tuples and token sets, and in rational arithmetic."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, DraftScheme, Greedy, HubPairs, Independent, Problem, ProblemError, TopK, WithoutReplacement
from otspec.schemes.draft_sets import PAD, DraftSets
from tests.each import each
from tests.instances import BY_PREFIXES, Q4, VARIED, Instance
from tests.oracles import Floats, Ints, all_tuples, hit_function, mass_function, set_masses
from tests.refusals import check_refused

ROUNDING = 1e-13
"""Sums of at most 216 products of probabilities, or of the nodes of a quadrature."""
LAWS: dict[str, Floats] = {
    "plain": Q4,
    "zeros": np.array([0.0, 0.5, 0.0, 0.3, 0.2]),
    "exactly-three": np.array([0.2, 0.0, 0.7, 0.1]),
    "point": np.array([0.0, 1.0, 0.0]),
    "one-token": np.ones(1),
    "ties": np.full(5, 0.2),
    "halves": np.array([0.5, 0.5 - 1e-20, 1e-20, 0.0]),
    "giant": np.array([1e-9, 1 - 1e-8, 2e-9, 7e-9]),
    "two-giants": np.array([0.5, 1e-30, 0.5, 2e-30, 1e-40]),
    "tail": np.array([1e-300, 1 - 1e-12, 1e-12, 1e-290]),
    "smallest-floats": np.array([5e-324, 1.0, 1e-323, 1e-310]),
}
LONG = np.full(1000, 1e-3)
_0 = Fraction(0)


def independent(q: Floats, n: int) -> Independent:
    """Each draft from the law with its tokens moved on by one place more."""
    return Independent(np.array([np.roll(q, draft) for draft in range(n)]))


def distinct(drafts: tuple[int, ...], q: list[Fraction]) -> Fraction:
    """The next token among those that were not drawn yet."""
    left, chance = list(q), Fraction(1)
    for token in drafts:
        chance *= left[token] / sum(left) if left[token] else 0
        left[token] = Fraction(0)
    return chance


def greedy(drafts: tuple[int, ...], q: list[Fraction]) -> Fraction:
    """The likeliest first, the lower of equals; the last is drawn from the others."""
    *fixed, last = drafts
    order = sorted(range(len(q)), key=lambda token: (-q[token], token))
    if last in fixed or fixed != order[: len(fixed)]:
        return _0
    return q[last] / sum(q[token] for token in order[len(fixed) :])


def pairs(drafts: tuple[int, ...], q: list[Fraction]) -> Fraction:
    """A token from q and the hub after it, or the hub from q and another token after it [sun2024spechub]."""
    hub, (first, second) = q.index(max(q)), drafts
    if q[hub] == 1:
        return Fraction(first == second == hub)
    if (first == hub) == (second == hub):
        return _0
    return q[first] if second == hub else q[hub] * q[second] / (1 - q[hub])


Chance = Callable[[tuple[int, ...], list[Fraction]], Fraction]
EXACT: dict[str, tuple[Callable[[Floats, int], DraftScheme | None], Chance]] = {
    "iid": (IID, lambda drafts, q: math.prod((q[token] for token in drafts), start=Fraction(1))),
    "independent": (
        independent,
        lambda drafts, q: math.prod((q[(x - draft) % len(q)] for draft, x in enumerate(drafts)), start=Fraction(1)),
    ),
    "without replacement": (WithoutReplacement, distinct),
    "greedy": (Greedy, greedy),
    "top-k": (
        TopK,
        lambda drafts, q: Fraction([*drafts] == sorted(range(len(q)), key=lambda x: (-q[x], x))[: len(drafts)]),
    ),
    "hub pairs": (lambda q, n: HubPairs(q) if n == 2 else None, pairs),
}
"""How each scheme is made of a law and n, and the exact chance of a tuple under a law of fractions with total 1."""


def made(kind: str, q: Floats, n: int) -> DraftScheme | None:
    """None where there are no such drafts."""
    try:
        return EXACT[kind][0](q, n)
    except ProblemError:
        return None


HOSTILE = [
    Instance(f"{kind}, {name}, n = {n}", Problem(np.full(q.size, 1 / q.size), scheme))
    for kind, (name, q), n in itertools.product(EXACT, LAWS.items(), (1, 2, 3))
    if (scheme := made(kind, q, n)) is not None
]
varied = each(instance=[*VARIED, *HOSTILE])


@each(kind=list(EXACT), name=list(LAWS), n=(1, 2, 3))
def test_chances_are_those_of_rational_arithmetic(kind: str, name: str, n: int) -> None:
    """Relative: sums of positive terms, so that a token of 1e-300 is as right as others; below 1e-308 less so."""
    q, scheme = LAWS[name], made(kind, LAWS[name], n)
    if scheme is None:
        return
    total = sum(map(Fraction, q.tolist()))
    exact = [Fraction(mass) / total for mass in q.tolist()]
    tuples = all_tuples(scheme)
    chances = [EXACT[kind][1](tuple(drafts), exact) for drafts in tuples.tolist()]
    assert sum(chances) == 1
    assert_allclose(scheme.prob(tuples), [float(chance) for chance in chances], rtol=1e-14, atol=1e-320)
    assert scheme.prob(tuples[0]).shape == ()
    for order in itertools.islice(itertools.permutations(range(q.size)), 0, None, 7):
        rank, law = np.argsort(order), [_0] * q.size
        for drafts, chance in zip(tuples.tolist(), chances, strict=True):
            law[min(drafts, key=rank.__getitem__)] += chance
        lost = 1e-320 if kind == "without replacement" else 1e-290  # a product may underflow in one of both
        assert_allclose(scheme.priority_law(np.array(order)), [float(x) for x in law], rtol=2e-12, atol=lost)
    reached = [token for token in range(q.size) if any(c and token in t for t, c in zip(tuples, chances, strict=True))]
    assert set(reached) == set(scheme.reachable().tolist())


def orders(vocab: int) -> list[Ints]:
    """Every order of up to four tokens, some of more."""
    rng = np.random.default_rng(0)
    return [rng.permutation(vocab) for _ in range(min(math.factorial(vocab), 24))]


@varied
def test_support_lists_every_tuple_that_can_occur(instance: Instance) -> None:
    scheme = instance.problem.scheme
    drafts, probabilities = scheme.support()
    tuples = all_tuples(scheme)
    assert scheme.prob(tuples).sum() == pytest.approx(1.0, abs=ROUNDING)
    possible = tuples[scheme.prob(tuples) > 0]
    assert {tuple(row) for row in drafts.tolist()} == {tuple(row) for row in possible.tolist()}
    assert len(drafts) == len(possible) <= scheme.support_size()
    assert_array_equal(probabilities, scheme.prob(drafts))
    assert set(np.unique(drafts)) <= set(scheme.reachable().tolist())
    # The compact scheme renumbers, and adds a token that is never drafted.
    tokens, compact = scheme.reachable(), scheme.compact()
    assert (compact.n, compact.vocab) == (scheme.n, tokens.size + 1)
    drafts, probabilities = compact.support()
    assert drafts.max() < tokens.size
    assert_allclose(scheme.prob(tokens[drafts]), probabilities, rtol=1e-14, atol=1e-320)


@varied
def test_hits_along_orders_are_those_of_enumeration(instance: Instance) -> None:
    """The hit function is submodular, the chain is that of prefixes, the priority law that of the best placed draft."""
    scheme = instance.problem.scheme
    hits, tuples = hit_function(scheme), all_tuples(scheme)
    a, b = np.meshgrid(np.arange(hits.size), np.arange(hits.size))
    assert (hits[a] + hits[b] - hits[a | b] - hits[a & b]).min() >= -ROUNDING
    for order in orders(scheme.vocab):
        chain = scheme.hit_chain(order)
        assert_allclose(chain, hits[np.concatenate(([0], np.cumsum(1 << order)))], rtol=0, atol=ROUNDING)
        assert chain[0] == 0
        assert chain[-1] == pytest.approx(1.0, abs=ROUNDING)
        assert (np.diff(chain) >= 0).all()
        best = order[np.argsort(order)[tuples].min(axis=1)]
        expected = np.bincount(best, weights=scheme.prob(tuples), minlength=scheme.vocab)
        assert_allclose(scheme.priority_law(order), expected, rtol=0, atol=ROUNDING)


@varied
def test_draft_sets_are_those_of_enumeration(instance: Instance) -> None:
    """Relative, as each mass is a sum of positive products; those near 1e-308 lose digits, or all of them."""
    scheme = instance.problem.scheme
    sets, grouped, expected = scheme.draft_sets(), DraftSets.of_support(*scheme.support()), set_masses(scheme)
    assert len(sets) <= scheme.set_count()
    if isinstance(scheme, WithoutReplacement):
        assert scheme.set_count() == math.comb(np.count_nonzero(scheme.q), scheme.n)
    found = {tuple(row[row != PAD].tolist()): mass for row, mass in zip(sets.tokens, sets.mass, strict=True)}
    assert len(found) == len(sets)
    assert expected.keys() <= found.keys()
    assert [tuple(row) for row in sets.tokens.tolist()] == sorted(tuple(row) for row in sets.tokens.tolist())
    lost = 1e-320 if instance.name.startswith("without") else 1e-300
    for key, mass in found.items():
        assert mass == pytest.approx(expected.get(key, 0.0), rel=1e-13, abs=lost)
    regular, regular_too = sets.mass > 1e-305, grouped.mass > 1e-305
    assert_array_equal(sets.tokens[regular], grouped.tokens[regular_too])
    assert_allclose(sets.mass[regular], grouped.mass[regular_too], rtol=1e-13)


@each(instance=BY_PREFIXES)
def test_prefixes_serve_every_slope(instance: Instance) -> None:
    # For each slope s, a prefix attains the minimum of f(A) - s p(A) over all A: the minorant has the same segments.
    problem = instance.problem
    order = problem.scheme.prefix_order(problem.p)
    assert order is not None
    assert_array_equal(np.sort(order), np.arange(problem.vocab))
    hits, masses = hit_function(problem.scheme), mass_function(problem.p)
    prefixes = np.concatenate(([0], np.cumsum(1 << order)))
    for slope in np.concatenate((np.geomspace(1e-12, 1e12, 49), np.linspace(0, 3, 31))):
        value = hits - slope * masses
        assert value[prefixes].min() <= value.min() + ROUNDING / 10 * max(1.0, slope)


def test_sizes_may_be_any_integer_and_what_memory_cannot_hold_is_not_listed() -> None:
    assert IID(np.full(100_000, 1e-5), 20).support_size() == 10**100
    assert Independent(np.full((20, 1000), 1e-3)).support_size() == 10**60
    for scheme in (IID(LONG, 10), WithoutReplacement(LONG, 10), Independent(np.stack([LONG] * 10))):
        with pytest.raises(ProblemError, match=r"about 10\*\*\d+ tuples of 10 tokens, too many .*truncate the drafts"):
            scheme.support()
        with pytest.raises(ProblemError, match=r"of 10 tokens, too many to list"):
            scheme.draft_sets()


SHORT = r"n is \d, but q > 0 for \d tokens only.*draw fewer, or soften q"
NO_MORE = r"n is 3, and q has only 2 tokens of probability above 0; .* Draft n = 2"
REFUSED: list[tuple[Callable[[Any, Any], DraftScheme], Any, Any, str]] = [
    *(
        (make, Q4, n, "pass an integer >= 1")
        for make in (IID, WithoutReplacement)
        for n in (0, -1, 2.0, True, "2", None)
    ),
    *((make, Q4, 0, "n is 0; pass an integer >= 1") for make in (Greedy, TopK)),
    *(
        (make, Q4 * 0.9, 2, r"q sums to 0\.9")
        for make in (IID, WithoutReplacement, Greedy, TopK, lambda q, n: HubPairs(q))
    ),
    *((make, [0.5, 0.5, 0.0], 3, NO_MORE) for make in (Greedy, TopK)),
    *((WithoutReplacement, LAWS[law], n, SHORT) for law, n in (("zeros", 4), ("exactly-three", 4), ("plain", 5))),
    # Logits 800 apart: the softmax of a top-k of 3 holds a single token in float64.
    (WithoutReplacement, np.exp([0.0, -800.0, -801.0]), 2, "q > 0 for 1 tokens only"),
    (lambda q, n: Independent(q), [0.5, 0.5], 1, r"qs has shape \(2,\); n laws over V tokens have shape \(n, V\)"),
    (lambda q, n: Independent(q), np.empty((0, 3)), 0, r"qs has shape \(0, 3\)"),
    (lambda q, n: Independent(q), [[0.5, 0.5], [0.5, 0.4]], 2, r"qs\[1\] sums to 0\.9"),
    (lambda q, n: Independent(q), [[0.5, 0.5], [1.5, -0.5]], 2, r"qs\[1\]\[1\] is -0\.5"),
    (lambda q, n: Independent(q), [[0.5, 0.5], [1.0]], 2, "qs is not an array of real numbers"),
]


def test_what_is_no_scheme_is_refused() -> None:
    check_refused((partial(make, q, n), message) for make, q, n, message in REFUSED)


def test_an_integer_of_numpy_and_lists_are_taken() -> None:
    assert type(IID(Q4, np.int64(3)).n) is int  # type: ignore[arg-type]  # what an array of settings holds
    for make in (IID, WithoutReplacement, Greedy, TopK):
        assert make(Q4.tolist(), 2).vocab == 4
