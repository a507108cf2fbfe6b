"""Whether the methods of a draft scheme agree with each other: for whoever writes a scheme of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import BoolArray, FloatArray, IntArray, as_count, as_generator, distinct, sum_by
from otspec.schemes.calls import SchemeProbe
from otspec.schemes.draft_sets import DraftSets
from otspec.schemes.protocol import DraftScheme, Support
from otspec.tolerances import TIE_TOL

TUPLES = 20_000
"""Most tuples of a scheme that is checked: all are listed."""

TOKENS = 12
"""Most tokens that can be drafted: `prefix_order` is compared with each of their 2**12 sets."""

BY_CHANCE = 1e-9
"""A sample that is less likely than this under the stated law is no accident."""

SLOPES = (0.3, 1.0, 3.0)
"""A prefix has to minimise f - slope * p for every slope; 1 decides the optimum, the others the proposal."""


class SchemeCheck(NamedTuple):
    """What `check_scheme` found in order.

    Examples
    --------
    >>> import otspec
    >>> found = otspec.check_scheme(otspec.Table([[0, 1], [2, 2]], [0.25, 0.75], vocab=3))
    >>> print(f"{found.tuples} tuples compared, {found.draws} drawn, untold: {found.unknown}")
    2 tuples compared, 20000 drawn, untold: ('prefix_order',)
    """

    tuples: int
    """Tuples of drafts that were compared."""
    draws: int
    """Tuples that were drawn with `sample`."""
    unknown: tuple[str, ...]
    """Optional methods that returned None: their answers have to be enumerated."""


def check_scheme(scheme: DraftScheme, draws: int = 20_000, seed: int = 0) -> SchemeCheck:
    """Compare the methods of a draft scheme with each other, on a scheme small enough to be enumerated.

    The list that `support` gives is compared with all others: `prob` on every tuple, in any shape, `sample` by a
    chi-square test, `reachable`, `hit_chain` and `priority_law` along several orders, `draft_sets`, `compact`, the
    sizes, and, where they are not None, `first_draft`, `inclusion` and `prefix_order`.  A mistake in one of them
    would surface in a solver, as a plan that is not lossless or a bound that is none.

    Parameters
    ----------
    scheme : DraftScheme
        Of a few tokens: three to six of them and two or three drafts are enough.
    draws : int
        How many tuples to draw.
    seed : int
        Of the draws and of the orders that are tried: the same scheme gives the same answer.

    Returns
    -------
    SchemeCheck
        If nothing is wrong.

    Raises
    ------
    ProblemError
        At the first inconsistency, with the method and what it returns; or if the scheme is too large to enumerate.

    Examples
    --------
    >>> import otspec
    >>> bool(otspec.check_scheme(otspec.WithoutReplacement([0.2, 0.3, 0.5], n=2)))
    True
    """
    if not isinstance(scheme, DraftScheme):
        raise ProblemError(f"scheme is a {type(scheme).__name__}; derive it from otspec.schemes.DraftScheme")
    as_count("draws", draws)
    listed = EnumeratedScheme.of(SchemeProbe(scheme), as_generator(seed))
    _check_support(listed)
    _check_prob(listed)
    _check_sample(listed, draws)
    _check_orders(listed)
    _check_draft_sets(listed)
    _check_compact(listed)
    unknown = (*_check_laws(listed), *_check_prefix_order(listed))
    return SchemeCheck(listed.support.probabilities.size, draws, unknown)


class EnumeratedScheme(NamedTuple):
    """A scheme with the list of all that it can draft, which its other methods are compared with."""

    scheme: SchemeProbe
    support: Support
    tokens: IntArray
    """Shape (k,): the tokens that are drafted, ascending."""
    rng: np.random.Generator
    """Chooses what is tried."""

    @classmethod
    def of(cls, scheme: SchemeProbe, rng: np.random.Generator) -> EnumeratedScheme:
        """List the support.

        Raises
        ------
        ProblemError
            If it is no `Support`, or too large.
        """
        size = scheme.count("support_size")
        if size > TUPLES:
            raise ProblemError(
                f"{scheme.name} has up to {size:,} tuples of drafts, and {TUPLES:,} are listed at most; "
                "check it on fewer tokens and drafts: a mistake in a method is one there too"
            )
        answer = scheme.call("support")
        scheme.expect(isinstance(answer, Support), "support", (), f"is a {type(answer).__name__}, not a Support")
        support = Support(*map(np.asarray, answer))
        tokens = distinct(support.drafts)
        if tokens.size > TOKENS:
            raise ProblemError(
                f"{scheme.name} drafts {tokens.size} tokens, and the sets of {TOKENS} are listed at most; "
                "check it on fewer tokens: a mistake in a method is one there too"
            )
        return cls(scheme, support, tokens, rng)

    @property
    def first_draft(self) -> FloatArray:
        """Law of the first draft, shape (V,)."""
        return sum_by(self.support.drafts[:, 0], self.support.probabilities, self.scheme.vocab)


def _check_support(listed: EnumeratedScheme) -> None:
    """The support is a law over different tuples of n tokens, and no longer than its stated size."""
    scheme, (drafts, probabilities) = listed.scheme, listed.support
    right = drafts.ndim == 2 and drafts.shape[1] == scheme.n and np.issubdtype(drafts.dtype, np.integer)
    scheme.expect(right, "support", (), f"has drafts of shape {drafts.shape}, {drafts.dtype}, not (m, n) integers")
    scheme.expect(probabilities.shape == drafts.shape[:1], "support", (), "has not one probability for each tuple")
    inside = drafts.size > 0 and drafts.min() >= 0 and drafts.max() < scheme.vocab
    scheme.expect(inside, "support", (), f"has tokens outside 0 .. {scheme.vocab - 1}, or none")
    scheme.expect(len(np.unique(drafts, axis=0)) == len(drafts), "support", (), "has the same tuple twice")
    scheme.expect(bool((probabilities > 0).all()), "support", (), "has probabilities that are not above 0")
    total = float(probabilities.sum())
    scheme.expect(abs(total - 1) <= TIE_TOL, "support", (), f"has probabilities that sum to {total:.12g}, not 1")
    size = scheme.count("support_size")
    scheme.expect(size >= len(drafts), "support_size", (), f"is {size}, and support() has {len(drafts)} tuples")
    reached = scheme.array("reachable", (), listed.tokens.shape)
    scheme.expect(
        np.array_equal(reached, listed.tokens),
        "reachable",
        (),
        f"is {reached.tolist()}, and the tuples of support() hold {listed.tokens.tolist()}",
    )


def _check_prob(listed: EnumeratedScheme) -> None:
    """Probabilities of listed tuples, one by one and at once, and 0 for tuples that are not listed."""
    scheme, (drafts, probabilities) = listed.scheme, listed.support
    scheme.close("prob", (drafts,), probabilities)
    scheme.close("prob", (drafts[None, :1],), probabilities[None, :1])
    for row in (0, len(drafts) - 1):
        scheme.close("prob", (drafts[row],), probabilities[row])
    rows = set(map(tuple, drafts.tolist()))
    tried = listed.rng.integers(0, scheme.vocab, (300, scheme.n))
    for one in (one for one in tried if tuple(one.tolist()) not in rows):
        scheme.close("prob", (one,), np.zeros(()))


def _check_sample(listed: EnumeratedScheme, draws: int) -> None:
    """Draws of the right shape, repeated by a seed, and in the proportions of the support."""
    scheme, rng = listed.scheme, listed.rng
    one = scheme.array("sample", (0,), (scheme.n,))
    again = scheme.array("sample", (np.random.default_rng(0),), (scheme.n,))
    scheme.expect(np.array_equal(one, again), "sample", (0,), "differs from sample(numpy.random.default_rng(0))")
    few = draws // 20 + 1
    single = np.stack([scheme.array("sample", (rng,), (scheme.n,)) for _ in range(few)])
    _check_proportions(listed, "sample(rng)", single)
    _check_proportions(listed, f"sample(rng, {draws})", scheme.array("sample", (rng, draws), (draws, scheme.n)))


def _check_proportions(listed: EnumeratedScheme, call: str, drawn: IntArray) -> None:
    """Chi-square of drawn tuples, shape (draws, n), against the support; those rarely expected count as one."""
    from scipy.stats import chi2  # half a second

    name, (drafts, probabilities) = listed.scheme.name, listed.support
    row = {tuple(tokens): number for number, tokens in enumerate(drafts.tolist())}
    rows = [row.get(tuple(tokens)) for tokens in drawn.tolist()]
    if None in rows:
        strange = drawn[rows.index(None)].tolist()
        raise ProblemError(f"{name}.{call} draws {strange}, which support() does not list")
    counts = np.bincount(np.array(rows, dtype=np.int64), minlength=len(drafts))
    expected = len(drawn) * probabilities
    often = expected >= 10
    if not often.all():
        counts = np.append(counts[often], counts[~often].sum())
        expected = np.append(expected[often], expected[~often].sum())
    statistic = float(((counts - expected) ** 2 / expected).sum())
    chance = float(chi2.sf(statistic, max(counts.size - 1, 1)))
    if chance < BY_CHANCE:
        worst = int(np.argmax(np.abs(counts - expected) / np.sqrt(expected)))
        which = drafts[often][worst].tolist() if worst < int(often.sum()) else "its rare tuples"
        raise ProblemError(
            f"{name}.{call} draws {which} {counts[worst]} times of {len(drawn)}, where support() and prob() "
            f"expect {expected[worst]:.1f} (chi-square over all tuples: chance {chance:.0e})"
        )


def _check_orders(listed: EnumeratedScheme) -> None:
    """The hit function along orders of all tokens, and the law of the first draft in such an order."""
    for order in _some_orders(listed):
        listed.scheme.close("hit_chain", (order,), listed.support.hit_chain(order))
        listed.scheme.close("priority_law", (order,), listed.support.priority_law(order))


def _some_orders(listed: EnumeratedScheme) -> Iterator[IntArray]:
    """Orders of all tokens, shape (V,): ascending, descending, and a few at random."""
    vocab = listed.scheme.vocab
    yield np.arange(vocab)
    yield np.arange(vocab)[::-1].copy()
    for _ in range(5):
        yield listed.rng.permutation(vocab)


def _check_draft_sets(listed: EnumeratedScheme) -> None:
    """The sets of distinct tokens, in their order, with their masses."""
    scheme = listed.scheme
    expected, count = DraftSets.of_support(*listed.support), scheme.count("set_count")
    # Before anything is listed by it.
    scheme.expect(count >= len(expected), "set_count", (), f"is {count}, and support() has {len(expected)} sets")
    sets = scheme.call("draft_sets")
    scheme.expect(isinstance(sets, DraftSets), "draft_sets", (), f"is a {type(sets).__name__}, not a DraftSets")
    tiny = np.finfo(np.float64).tiny  # the probability of every tuple of a set may underflow where their sum does not
    sets, expected = (DraftSets(one.tokens[one.mass >= tiny], one.mass[one.mass >= tiny]) for one in (sets, expected))
    scheme.expect(
        np.array_equal(sets.tokens, expected.tokens),
        "draft_sets",
        (),
        f"lists {len(sets)} sets, where support() has {len(expected)}, or in another order",
    )
    off = ~(np.abs(sets.mass - expected.mass) <= TIE_TOL)
    first = int(off.argmax())
    scheme.expect(
        not off.any(),
        "draft_sets",
        (),
        f"gives the set {expected.tokens[first].tolist()} mass {sets.mass[first]:.9g}, "
        f"where support() gives {expected.mass[first]:.9g}",
    )


def _check_compact(listed: EnumeratedScheme) -> None:
    """The same law over the reachable tokens, renumbered, and a last token that is never drafted."""
    scheme, (drafts, probabilities) = listed.scheme, listed.support
    small, vocab = scheme.call("compact"), listed.tokens.size + 1
    right = isinstance(small, DraftScheme) and (small.n, small.vocab) == (scheme.n, vocab)
    scheme.expect(right, "compact", (), f"is not a scheme of n = {scheme.n} over {vocab} tokens")
    renumbered = np.searchsorted(listed.tokens, drafts)
    values = np.asarray(small.prob(renumbered))
    off = ~(np.abs(values - probabilities) <= TIE_TOL)
    first = int(off.argmax())
    scheme.expect(
        not off.any(),
        "compact",
        (),
        f"gives the drafts {renumbered[first].tolist()} probability {values[first]:.9g}, "
        f"where they, {drafts[first].tolist()}, have {probabilities[first]:.9g}",
    )


def _check_laws(listed: EnumeratedScheme) -> Iterator[str]:
    """The laws that may be known; yields the names of those that are not."""
    drafts, probabilities = listed.support
    hit = (drafts[:, :, None] == np.arange(listed.scheme.vocab)).any(axis=1)
    for method, expected in (("first_draft", listed.first_draft), ("inclusion", probabilities @ hit)):
        if listed.scheme.call(method) is None:
            yield method
        else:
            listed.scheme.close(method, (), expected)


def _check_prefix_order(listed: EnumeratedScheme) -> Iterator[str]:
    """Whether prefixes of the order do as well as any token set; yields the name if no order is known."""
    scheme = listed.scheme
    members, hits = _hits(listed)
    for p in _some_targets(listed):
        order = scheme.call("prefix_order", p)
        if order is None:
            yield "prefix_order"
            return
        order = np.asarray(order)
        right = np.array_equal(np.sort(order), np.arange(scheme.vocab))
        scheme.expect(right, "prefix_order", (p,), f"is {order.tolist()}, not an order of all tokens")
        along = np.append(0.0, np.cumsum(p[order]))
        undrafted = float(np.delete(p, listed.tokens).sum())  # of tokens that belong to every best set
        for slope in SLOPES:
            best = float((hits - slope * (members @ p[listed.tokens])).min() - slope * undrafted)
            found = float((listed.support.hit_chain(order) - slope * along).min())
            scheme.expect(
                found <= best + TIE_TOL,
                "prefix_order",
                (p,),
                f"is {order.tolist()}, whose prefixes A reach f(A) - {slope:g} p(A) = {found:.9g}, "
                f"and another set {best:.9g}",
            )


def _hits(listed: EnumeratedScheme) -> tuple[BoolArray, FloatArray]:
    """Every set of the k tokens that can be drafted, shape (2**k, k), and P(some draft in it), shape (2**k,)."""
    k = listed.tokens.size
    members = (np.arange(2**k)[:, None] >> np.arange(k)) % 2 == 1
    inside = np.zeros(2**k)
    masks = np.bitwise_or.reduce(1 << np.searchsorted(listed.tokens, listed.support.drafts), axis=1)
    np.add.at(inside, masks, listed.support.probabilities)
    for bit in range(k):  # sum over subsets: P(all drafts inside)
        inside[members[:, bit]] += inside[~members[:, bit]]
    return members, 1.0 - inside[::-1]


def _some_targets(listed: EnumeratedScheme) -> Iterator[FloatArray]:
    """Target laws, shape (V,): the first draft's, at random, with zeros, peaked, uniform."""
    vocab = listed.scheme.vocab
    yield listed.first_draft / listed.first_draft.sum()
    yield np.full(vocab, 1 / vocab)
    for power in (1, 1, 1, 10):
        weights = listed.rng.random(vocab) ** power
        yield weights / weights.sum()
        weights[listed.rng.random(vocab) < 0.4] = 0.0
        if weights.any():
            yield weights / weights.sum()
