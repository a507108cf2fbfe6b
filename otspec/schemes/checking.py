"""Whether the methods of a draft scheme agree with each other: for whoever writes a scheme of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import BoolArray, FloatArray, IntArray, as_count, sum_by
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
    """Optional methods that answered None, "only enumeration tells"."""


def check_scheme(scheme: DraftScheme, draws: int = 20_000, seed: int = 0) -> SchemeCheck:
    """Compare the methods of a draft scheme with each other, on a scheme small enough to be enumerated.

    The list that `support` gives is held against all others: `prob` on every tuple, in any shape, `sample` by a
    chi-square test, `reachable`, `hit_chain` and `priority_law` along several orders, `draft_sets`, `compact`, the
    sizes, and, where they are not None, `first_draft`, `inclusion` and `prefix_order`.  A mistake in one of them
    would surface in a solver, as a plan that is not lossless or a bound that is none.

    Parameters
    ----------
    scheme : DraftScheme
        Of a few tokens: three to six of them and two or three drafts say all.
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
        At the first inconsistency, with the method and what it says; or if the scheme is too large to enumerate.

    Examples
    --------
    >>> import otspec
    >>> bool(otspec.check_scheme(otspec.Systematic([0.2, 0.3, 0.5], n=2)))
    True
    """
    if not isinstance(scheme, DraftScheme):
        raise ProblemError(f"scheme is a {type(scheme).__name__}; derive it from otspec.schemes.DraftScheme")
    as_count("draws", draws)
    check = _Check(scheme, np.random.default_rng(seed))
    check.sizes()
    check.prob()
    check.sample(draws)
    check.orders()
    check.sets()
    check.compact()
    return SchemeCheck(check.support.probabilities.size, draws, tuple(check.laws() + check.prefixes()))


class _Check:
    """The scheme, its support, and a generator for what is tried."""

    def __init__(self, scheme: DraftScheme, rng: np.random.Generator) -> None:
        self.scheme, self.rng, self.name = scheme, rng, type(scheme).__name__
        self.n = as_count(f"{self.name}.n", self._get("n"))
        self.vocab = as_count(f"{self.name}.vocab", self._get("vocab"))
        size = self.count("support_size")
        if size > TUPLES:
            raise ProblemError(
                f"{self.name} has up to {size:,} tuples of drafts, and {TUPLES:,} are listed at most; "
                "check it on fewer tokens and drafts: a mistake in a method is one there too"
            )
        listed = self.call("support")
        self.expect(isinstance(listed, Support), "support", (), f"is a {type(listed).__name__}, not a Support")
        self.support = Support(*map(np.asarray, listed))
        self.tokens = np.unique(self.support.drafts)
        if self.tokens.size > TOKENS:
            raise ProblemError(
                f"{self.name} drafts {self.tokens.size} tokens, and the sets of {TOKENS} are listed at most; "
                "check it on fewer tokens: a mistake in a method is one there too"
            )

    def _get(self, name: str) -> Any:
        if not hasattr(self.scheme, name):
            raise ProblemError(f"{self.name} has no {name}; set it when the scheme is made")
        return getattr(self.scheme, name)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method answers; an error inside it is told as the method's."""
        try:
            return getattr(self.scheme, method)(*arguments)
        except Exception as error:
            raise ProblemError(f"{self._spelled(method, arguments)} raises {type(error).__name__}: {error}") from error

    def _spelled(self, method: str, arguments: tuple[Any, ...]) -> str:
        spelled = ", ".join(str(one.tolist() if isinstance(one, np.ndarray) else one) for one in arguments)
        return f"{self.name}.{method}({spelled if len(spelled) <= 80 else '...'})"

    def expect(self, right: bool, method: str, arguments: tuple[Any, ...], what: str) -> None:
        """Refuse the scheme unless a method is right."""
        if not right:
            raise ProblemError(f"{self._spelled(method, arguments)} {what}")

    def count(self, method: str) -> int:
        """What a method answers, as a number of things."""
        size = self.call(method)
        self.expect(isinstance(size, int | np.integer), method, (), f"is {size!r}, not an integer")
        return int(size)

    def array(self, method: str, arguments: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
        """What a method answers, as an array of a known shape."""
        values = np.asarray(self.call(method, *arguments))
        self.expect(values.dtype.kind in "iuf", method, arguments, f"is an array of {values.dtype}, not of numbers")
        self.expect(values.shape == shape, method, arguments, f"has shape {values.shape}, not {shape}")
        return values

    def close(self, method: str, arguments: tuple[Any, ...], expected: FloatArray) -> None:
        """Whether a method gives the numbers that the support gives."""
        values = self.array(method, arguments, expected.shape)
        off = ~(np.abs(values - expected) <= TIE_TOL)  # so that NaN is off
        if off.any():
            at = tuple(int(index) for index in np.argwhere(off)[0])
            self.expect(
                False,
                method,
                arguments,
                f"gives {values[at]:.9g} at {list(at)}, where the tuples of support() give {expected[at]:.9g}",
            )

    def sizes(self) -> None:
        """The support is a law over different tuples of n tokens, and no longer than it says."""
        drafts, probabilities = self.support
        right = drafts.ndim == 2 and drafts.shape[1] == self.n and np.issubdtype(drafts.dtype, np.integer)
        self.expect(right, "support", (), f"has drafts of shape {drafts.shape}, {drafts.dtype}, not (m, n) integers")
        self.expect(probabilities.shape == drafts.shape[:1], "support", (), "has not one probability for each tuple")
        inside = drafts.size > 0 and drafts.min() >= 0 and drafts.max() < self.vocab
        self.expect(inside, "support", (), f"has tokens outside 0 .. {self.vocab - 1}, or none")
        self.expect(len(np.unique(drafts, axis=0)) == len(drafts), "support", (), "has the same tuple twice")
        self.expect(bool((probabilities > 0).all()), "support", (), "has probabilities that are not above 0")
        total = float(probabilities.sum())
        self.expect(abs(total - 1) <= TIE_TOL, "support", (), f"has probabilities that sum to {total:.12g}, not 1")
        size = self.count("support_size")
        self.expect(size >= len(drafts), "support_size", (), f"is {size}, and support() has {len(drafts)} tuples")
        reached = self.array("reachable", (), self.tokens.shape)
        self.expect(
            np.array_equal(reached, self.tokens),
            "reachable",
            (),
            f"is {reached.tolist()}, and the tuples of support() hold {self.tokens.tolist()}",
        )

    def prob(self) -> None:
        """Probabilities of listed tuples, one by one and at once, and 0 for tuples that are not listed."""
        drafts, probabilities = self.support
        self.close("prob", (drafts,), probabilities)
        self.close("prob", (drafts[None, :1],), probabilities[None, :1])
        for row in (0, len(drafts) - 1):
            self.close("prob", (drafts[row],), probabilities[row])
        listed = set(map(tuple, drafts.tolist()))
        others = [one for one in self.rng.integers(0, self.vocab, (300, self.n)) if tuple(one.tolist()) not in listed]
        for one in others:
            self.close("prob", (one,), np.zeros(()))

    def sample(self, draws: int) -> None:
        """Draws of the right shape, repeated by a seed, and in the proportions of the support."""
        one = self.array("sample", (0,), (self.n,))
        again = self.array("sample", (np.random.default_rng(0),), (self.n,))
        self.expect(np.array_equal(one, again), "sample", (0,), "differs from sample(numpy.random.default_rng(0))")
        few = draws // 20 + 1
        single = np.stack([self.array("sample", (self.rng,), (self.n,)) for _ in range(few)])
        self.proportions("sample(rng)", single)
        self.proportions(f"sample(rng, {draws})", self.array("sample", (self.rng, draws), (draws, self.n)))

    def proportions(self, call: str, drawn: IntArray) -> None:
        """Chi-square of drawn tuples against the support; tuples that are rarely expected count as one."""
        from scipy.stats import chi2  # half a second

        drafts, probabilities = self.support
        row = {tuple(tokens): number for number, tokens in enumerate(drafts.tolist())}
        rows = [row.get(tuple(tokens)) for tokens in drawn.tolist()]
        if None in rows:
            strange = drawn[rows.index(None)].tolist()
            raise ProblemError(f"{self.name}.{call} draws {strange}, which support() does not list")
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
                f"{self.name}.{call} draws {which} {counts[worst]} times of {len(drawn)}, where support() and prob() "
                f"expect {expected[worst]:.1f} (chi-square over all tuples: chance {chance:.0e})"
            )

    def orders(self) -> None:
        """The hit function along orders of all tokens, and the law of the first draft in such an order."""
        for order in self.some_orders():
            self.close("hit_chain", (order,), self.support.hit_chain(order))
            self.close("priority_law", (order,), self.support.priority_law(order))

    def some_orders(self) -> Iterator[IntArray]:
        """Orders of all tokens: ascending, descending, and a few at random."""
        yield np.arange(self.vocab)
        yield np.arange(self.vocab)[::-1].copy()
        for _ in range(5):
            yield self.rng.permutation(self.vocab)

    def sets(self) -> None:
        """The sets of distinct tokens, in their order, with their masses."""
        expected, count = DraftSets.of_support(*self.support), self.count("set_count")
        # Before anything is listed by it.
        self.expect(count >= len(expected), "set_count", (), f"is {count}, and support() has {len(expected)} sets")
        sets = self.call("draft_sets")
        self.expect(isinstance(sets, DraftSets), "draft_sets", (), f"is a {type(sets).__name__}, not a DraftSets")
        self.expect(
            np.array_equal(sets.tokens, expected.tokens),
            "draft_sets",
            (),
            f"lists {len(sets)} sets, where support() has {len(expected)}, or in another order",
        )
        off = ~(np.abs(sets.mass - expected.mass) <= TIE_TOL)
        first = int(off.argmax())
        self.expect(
            not off.any(),
            "draft_sets",
            (),
            f"gives the set {expected.tokens[first].tolist()} mass {sets.mass[first]:.9g}, "
            f"where support() gives {expected.mass[first]:.9g}",
        )

    def compact(self) -> None:
        """The same law over the reachable tokens, renumbered, and a last token that is never drafted."""
        small = self.call("compact")
        right = isinstance(small, DraftScheme) and (small.n, small.vocab) == (self.n, self.tokens.size + 1)
        self.expect(right, "compact", (), f"is not a scheme of n = {self.n} over {self.tokens.size + 1} tokens")
        renumbered = np.searchsorted(self.tokens, self.support.drafts)
        values = np.asarray(small.prob(renumbered))
        off = ~(np.abs(values - self.support.probabilities) <= TIE_TOL)
        first = int(off.argmax())
        self.expect(
            not off.any(),
            "compact",
            (),
            f"gives the drafts {renumbered[first].tolist()} probability {values[first]:.9g}, "
            f"where they, {self.support.drafts[first].tolist()}, have {self.support.probabilities[first]:.9g}",
        )

    def laws(self) -> list[str]:
        """The laws that may be known; returns the names of those that are not."""
        drafts, probabilities = self.support
        first = sum_by(drafts[:, 0], probabilities, self.vocab)
        hit = (drafts[:, :, None] == np.arange(self.vocab)).any(axis=1)
        unknown = []
        for method, expected in (("first_draft", first), ("inclusion", probabilities @ hit)):
            if self.call(method) is None:
                unknown.append(method)
            else:
                self.close(method, (), expected)
        return unknown

    def prefixes(self) -> list[str]:
        """Whether prefixes of the order do as well as any token set; returns the name if no order is known."""
        members, hits = self.hits()
        for p in self.some_targets():
            order = self.call("prefix_order", p)
            if order is None:
                return ["prefix_order"]
            order = np.asarray(order)
            right = np.array_equal(np.sort(order), np.arange(self.vocab))
            self.expect(right, "prefix_order", (p,), f"is {order.tolist()}, not an order of all tokens")
            along = np.append(0.0, np.cumsum(p[order]))
            for slope in SLOPES:
                best = float((hits - slope * (members @ p[self.tokens])).min() - slope * self.undrafted(p))
                found = float((self.support.hit_chain(order) - slope * along).min())
                self.expect(
                    found <= best + TIE_TOL,
                    "prefix_order",
                    (p,),
                    f"is {order.tolist()}, whose prefixes A reach f(A) - {slope:g} p(A) = {found:.9g}, "
                    f"and another set {best:.9g}",
                )
        return []

    def undrafted(self, p: FloatArray) -> float:
        """Target mass of the tokens that are never drafted: they belong to every best set."""
        return float(np.delete(p, self.tokens).sum())

    def hits(self) -> tuple[BoolArray, FloatArray]:
        """Every set of the tokens that can be drafted, shape (2**k, k), and P(some draft in it)."""
        k = self.tokens.size
        members = (np.arange(2**k)[:, None] >> np.arange(k)) % 2 == 1
        inside = np.zeros(2**k)
        masks = np.bitwise_or.reduce(1 << np.searchsorted(self.tokens, self.support.drafts), axis=1)
        np.add.at(inside, masks, self.support.probabilities)
        for bit in range(k):  # sum over subsets: P(all drafts inside)
            inside[members[:, bit]] += inside[~members[:, bit]]
        return members, 1.0 - inside[::-1]

    def some_targets(self) -> Iterator[FloatArray]:
        """Target laws: the first draft's, at random, with zeros, peaked, uniform."""
        first = sum_by(self.support.drafts[:, 0], self.support.probabilities, self.vocab)
        yield first / first.sum()
        yield np.full(self.vocab, 1 / self.vocab)
        for power in (1, 1, 1, 10):
            weights = self.rng.random(self.vocab) ** power
            yield weights / weights.sum()
            weights[self.rng.random(self.vocab) < 0.4] = 0.0
            if weights.any():
                yield weights / weights.sum()
