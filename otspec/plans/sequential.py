"""Plans that test one draft after the other and accept the first that passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from otspec.laws import ArrayLike, FloatArray, IntArray, Seed, as_generator, draw
from otspec.plans.figures import Figures
from otspec.problem import Problem


class SequentialRule(Protocol):
    """Tests for the drafts, one after the other, and a law for the output when none is passed.

    The figures hold when the drafts come from the law that the rule is made for.
    """

    @property
    def acceptance(self) -> float:
        """P(a draft passes its test)."""

    @property
    def membership(self) -> float | None:
        """P(the output is one of the drafts), residual hits included; None where it has to be enumerated."""

    def output_law(self) -> FloatArray:
        """Exact law of the output, shape (V,)."""

    def tests(self, drafts: IntArray) -> Iterator[tuple[int, float]]:
        """The tokens of a tuple, shape (n,), to test, each with the chance that it passes if none before it did."""

    def residual(self, drafts: IntArray) -> FloatArray:
        """Law of the output, shape (V,), if no test is passed."""


@dataclass(frozen=True, eq=False, repr=False)
class Sequential(Figures):
    """Test the drafts in turn; put out the first that passes, else a draw from the residual law.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, "single").plan
    >>> print(f"{plan.acceptance:.3f}, and {plan.membership:.3f} with what the residual hits")
    0.700, and 0.760 with what the residual hits
    """

    problem: Problem
    rule: SequentialRule
    bound: float
    promised: float = 0.0
    """What `max_deviation` returns: 0 for a rule on the draft law that it is made for."""

    @property
    def acceptance(self) -> float:
        """P(a draft passes its test), the *step acceptance* that the literature reports.

        The residual law may hit a draft that failed, or was never tested, so P(output is one of the drafts), which
        the optimum maximises, is `membership`, at least this.
        """
        return self.rule.acceptance

    @property
    def membership(self) -> float:
        """P(the output is one of the drafts): acceptance and the hits of the residual law.

        In closed form where the rule has one; otherwise by enumeration of the scheme's support.
        """
        in_closed_form = self.rule.membership
        return self._enumerated.membership if in_closed_form is None else in_closed_form

    @property
    def max_deviation(self) -> float:
        """The largest deviation that the rule's construction allows, 0 for a lossless rule."""
        return self.promised

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts: shape (n,) to (V,).

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        return self._law_and_rejection(self.problem.check_drafts(drafts))[0]

    def sample(self, drafts: ArrayLike, rng: Seed) -> int:
        """Draw the output given the drafts, shape (n,): one coin per test, and the residual law only if all fail.

        Raises
        ------
        ProblemError
            As for `conditional`.
        """
        drafts, rng = self.problem.check_drafts(drafts), as_generator(rng, 1)
        for token, accepted in self.rule.tests(drafts):
            if rng.random() < accepted:
                return token
        return int(draw(self.rule.residual(drafts), rng))

    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,)."""
        return self.rule.output_law()

    def _law_and_rejection(self, drafts: IntArray) -> tuple[FloatArray, float]:
        law = np.zeros(self.problem.vocab)
        rejected = 1.0
        for token, accepted in self.rule.tests(drafts):
            law[token] += rejected * accepted
            rejected *= 1.0 - accepted
        if rejected > 0:
            law += rejected * self.rule.residual(drafts)
        return law, rejected

    @cached_property
    def _enumerated(self) -> _Enumerated:
        output = np.zeros(self.problem.vocab)
        acceptance = membership = 0.0
        for drafts, probability in zip(*self.problem.scheme.support(), strict=True):
            law, rejected = self._law_and_rejection(drafts)
            output += probability * law
            acceptance += probability * (1.0 - rejected)
            membership += probability * float(law[np.unique(drafts)].sum())
        return _Enumerated(acceptance, membership, output)


class _Enumerated(NamedTuple):
    """Figures of a rule, summed up over every tuple of drafts that can occur."""

    acceptance: float
    """P(a draft passes its test)."""
    membership: float
    """P(the output is one of the drafts)."""
    output: FloatArray
    """Shape (V,): law of the output."""


@dataclass(frozen=True, eq=False, repr=False)
class BiasedPlan(Sequential):
    """A sequential rule on drafts of another law than its own: its figures are enumerated, and the output may be off.

    A biased rule can accept more often than the optimum allows, so its gap may be negative.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.1, 0.4, 0.5], otspec.WithoutReplacement([0.6, 0.2, 0.2], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.RRS(allow_biased=True)).plan  # a rule for i.i.d. drafts
    >>> print(f"{type(plan).__name__}: the output is off by {plan.deviation:.3f}")
    BiasedPlan: the output is off by 0.100
    """

    promised: float = 2.0

    @property
    def acceptance(self) -> float:
        """P(a draft passes its test), by enumeration of the scheme's support."""
        return self._enumerated.acceptance

    @property
    def membership(self) -> float:
        """P(the output is one of the drafts), by enumeration of the scheme's support."""
        return self._enumerated.membership

    def output_law(self) -> FloatArray:
        """Exact law of the output, shape (V,), by enumeration of the scheme's support."""
        return self._enumerated.output


@dataclass(frozen=True, eq=False)
class FixedTests:
    """A sequential rule for independent drafts whose tests do not depend on the drafts before.

    Its figures are summed up from the tests as they are, so they hold for any tests and any residual law.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> rule = otspec.solve(problem, "rrs").plan.rule
    >>> list(rule.tests(np.array([2, 1])))
    [(2, 0.4), (1, 0.0)]
    """

    laws: tuple[FloatArray, ...]
    """The law, shape (V,), of each draft that is tested."""
    passes: tuple[FloatArray, ...]
    """For each draft tested, the probability that it passes, shape (V,), by token."""
    last: FloatArray
    """Law of the output, shape (V,), if no test is passed."""
    untested: tuple[FloatArray, ...] | None = ()
    """The laws, shape (V,), of further drafts that are never tested; None if they depend on those that are."""

    def tests(self, drafts: IntArray) -> Iterator[tuple[int, float]]:
        """Token and probability of each test of a tuple, shape (n,); drafts beyond the last test are not read."""
        for token, passes in zip(drafts.tolist(), self.passes, strict=False):
            yield token, float(passes[token])

    def residual(self, drafts: IntArray) -> FloatArray:
        """The same law, shape (V,), whatever the drafts."""
        return self.last

    @cached_property
    def _totals(self) -> tuple[FloatArray, float]:
        return accept_and_reject(self.laws, self.passes)

    @property
    def accepted(self) -> FloatArray:
        """P(a draft that is this token passes its test), shape (V,)."""
        return self._totals[0]

    @property
    def acceptance(self) -> float:
        """P(a draft passes its test)."""
        return float(self.accepted.sum())

    def output_law(self) -> FloatArray:
        """Exact law of the output, shape (V,)."""
        accepted, rejected = self._totals
        return accepted + rejected * self.last

    @cached_property
    def membership(self) -> float | None:
        """Acceptance, and the hits of the residual law: drafts that failed stay independent of each other."""
        if self.untested is None:
            return None
        rejected = self._totals[1]
        if rejected == 0:
            return self.acceptance
        missed = np.ones(self.last.size)
        for law, passes in zip(self.laws, self.passes, strict=True):
            failed = law * (1.0 - passes)
            total = failed.sum()
            missed *= np.maximum(1.0 - failed / total, 0.0)
        for law in self.untested:
            missed *= 1.0 - law
        return self.acceptance + rejected * float(self.last @ (1.0 - missed))


def accept_and_reject(laws: tuple[FloatArray, ...], passes: tuple[FloatArray, ...]) -> tuple[FloatArray, float]:
    """The outcome of independent drafts that are tested in turn.

    Parameters
    ----------
    laws : tuple of ndarray, shape (V,)
        The law of each draft that is tested.
    passes : tuple of ndarray, shape (V,)
        For each of them, the probability that it passes, by token.

    Returns
    -------
    accepted : ndarray, shape (V,)
        P(a draft that is this token passes its test).
    rejected : float
        P(no draft passes).
    """
    accepted = np.zeros(laws[0].size)
    rejected = 1.0
    for law, each in zip(laws, passes, strict=True):
        accepted += rejected * law * each
        rejected *= float(law @ (1.0 - each))
    return accepted, rejected


def pass_probability(target: FloatArray, drafted: FloatArray) -> FloatArray:
    """min(1, target / drafted) by token; 0 where both are 0, because a token without target mass never passes.

    Parameters
    ----------
    target, drafted : ndarray, shape (V,)
        The mass that the output is to have on each token, and the draft's.

    Returns
    -------
    ndarray, shape (V,)
        The probability that a draft of this token passes.
    """
    return np.divide(target, drafted, out=(target > 0).astype(np.float64), where=drafted > target)
