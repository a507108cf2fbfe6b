"""A claim: a function whose docstring is the statement, and whose value is how clearly an instance meets it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np

from otspec.errors import ProblemError
from otspec.proofs_check.search import RANDOM, Draw, Exhaustive, Instance, Search, from_plain


class Verdict(StrEnum):
    """What numbers show of a claim.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS, Verdict
    >>> failing = [claim for claim in CLAIMS.values() if claim.expected is Verdict.FAILS]
    >>> all(claim.remedy for claim in failing)  # what is true instead
    True
    """

    HOLDS = "holds"
    """On all that was tried.  Evidence, not proof."""
    HIDDEN = "holds under a hidden assumption"
    """On all that was tried and meets an assumption that the source does not state; not without it."""
    FAILS = "fails"
    """There is a counterexample that meets every stated hypothesis."""


@dataclass(frozen=True)
class Mutation:
    """A claim made too strong, and so false: a search that cannot refute it would not refute a false claim either.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS
    >>> [mutation.statement for mutation in CLAIMS["dynaspec-lemma-1"].mutations]
    ['It is at most 0.95 p(S).']
    """

    statement: str
    """What is changed: half the constant, a term less, another index."""
    margin: Callable[..., float]
    """How clearly it holds on an instance of the claim, as for the claim."""


@dataclass(frozen=True)
class Claim:
    """A statement with its hypotheses, a way to make instances of it, and a margin that shows whether it holds.

    Functions become claims by `claim` and `inequality`; called, a claim is that function still.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS
    >>> print(CLAIMS["dynaspec-lemma-1"].statement)
    The best acceptance rate of a draft law on a shortlist S is p(S).
    """

    id: str
    statement: str
    source: str
    """Key of references.bib with the theorem's number, or `otspec`."""
    draw: Draw
    """A random instance that meets the hypotheses, and the assumption where there is one."""
    margin: Callable[..., float]
    """How clearly the claim holds on an instance, called as ``margin(**instance)``.

    Right minus left side of an inequality, minus the error of an equality; negative or NaN is a contradiction.
    """
    _: KW_ONLY
    variant_of: str = ""
    """Of a statement of ours about a source, which the source does not make itself: what it sharpens, mends, alters or
    stands beside, a claim by its id or else a passage.  Empty for what a source says."""
    hypotheses: str = ""
    tol: float = 1e-12
    """Margins down to -tol are rounding."""
    search: Search = RANDOM
    """How instances are searched for."""
    cost: int = 1
    """How many trials of a cheap claim one trial of this one takes."""
    tightness: Callable[..., float] | None = None
    """Left over right side of an inequality, to see how sharp it is: 1 where it is attained."""
    assumption: str = ""
    """What the source leaves unsaid, of a claim that is expected to hold under it alone."""
    counterexample: Instance | None = None
    """The smallest known: against the claim, or without the assumption."""
    remedy: str = ""
    """What is true instead, of a claim that is expected to fail."""
    remark: str = ""
    """What else a reader should know: a stronger statement that is proved, how sharp it is, what it means."""
    mutations: tuple[Mutation, ...] = ()
    """False neighbours of the claim, which its search has to refute."""
    function: Callable[..., Any] | None = None
    """What the claim was made of, where that is not the margin but its two sides."""

    def __call__(self, *args: Any, **instance: Any) -> Any:
        """The value of the function that the claim was made of."""
        return (self.function or self.margin)(*args, **instance)

    def __post_init__(self) -> None:
        """Insist that a claim that does not simply hold has the reason, and a way to see it.

        Raises
        ------
        ValueError
            If a counterexample is missing, or a part is given that the expected verdict, or another part, excludes.
        """
        if self.assumption and self.remedy:
            raise ValueError(f"claim {self.id!r} holds under its assumption, or has a remedy since it fails; keep one")
        if (self.counterexample is None) != (self.expected is Verdict.HOLDS):
            goes = "no counterexample" if self.counterexample is not None else "a counterexample"
            raise ValueError(f"claim {self.id!r} is expected to be {self.expected.value!r}, which goes with {goes}")

    @property
    def expected(self) -> Verdict:
        """What numbers should show."""
        if self.assumption:
            return Verdict.HIDDEN
        return Verdict.FAILS if self.remedy else Verdict.HOLDS

    def margin_of(self, instance: Instance) -> float:
        """The margin on one instance.

        Raises
        ------
        ProblemError
            If it is no number, or a truth value: False would be a margin of 0, which is no contradiction.
        """
        try:
            margin = self.margin(**instance)
        except Exception as error:
            error.add_note(f"claim {self.id!r} was evaluated on {dict(instance)}")
            raise
        if np.ndim(margin) or isinstance(margin, bool | np.bool_) or not hasattr(margin, "__float__"):
            raise ProblemError(f"the margin of claim {self.id!r} is {margin}; return right less left side, a number")
        return float(margin)

    def contradicted_by(self, margin: float) -> bool:
        """Whether a margin is below what rounding explains; NaN is."""
        return not margin >= -self.tol


@dataclass(frozen=True)
class Unchecked:
    """A statement that this package does not check, and why.

    Examples
    --------
    >>> from otspec.proofs_check import SOURCES
    >>> left = [passage for source in SOURCES for passage in source.unchecked]
    >>> print(f"{left[0].source}: {left[0].reason[:36]}...")
    thomas2025global, section 5.1: Hardness is not a matter of numbers....
    """

    statement: str
    source: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A paper, or another text, with its claims.

    Examples
    --------
    >>> from otspec.proofs_check import SOURCES
    >>> source = SOURCES[0]
    >>> print(source.cite, len(source.claims) > 10, source.claims[0].id)
    thomas2025global True gr-equation-2
    """

    title: str
    cite: str
    """Key of references.bib, or `otspec`."""
    claims: tuple[Claim, ...]
    unchecked: tuple[Unchecked, ...] = ()

    @classmethod
    def of(cls, title: str, cite: str, *modules: ModuleType) -> Source:
        """The claims of modules, which list as `UNCHECKED` what they do not check, in their order."""
        gaps = (getattr(module, "UNCHECKED", ()) for module in modules)
        return cls(title, cite, claims_of(*modules), tuple(chain.from_iterable(gaps)))


Instances: TypeAlias = Draw | Sequence[Instance]
"""Draws a random instance; or a list, all of which is tried."""

Mutant: TypeAlias = Mapping[str, Any] | Callable[..., float]
"""Keywords of a claim's function that make it false, or else another margin."""


class Parts(TypedDict, total=False):
    """What `claim` and `inequality` take by keyword: fields of `Claim`."""

    tol: float
    cost: int
    tightness: Callable[..., float] | None


NO_MUTANTS: Mapping[str, Mutant] = {}


def claim(
    id: str,  # noqa: A002
    instances: Instances,
    search: Search = RANDOM,
    *,
    mutants: Mapping[str, Mutant] = NO_MUTANTS,
    counterexample: Instance | None = None,
    **parts: Unpack[Parts],
) -> Callable[[Callable[..., float]], Claim]:
    '''Make a claim of a function: its docstring is the statement, its value the margin on an instance.

    The docstring begins with the statement, and its source in brackets.  Paragraphs that begin with a word and a colon
    are `Claim.variant_of` (Beside), `hypotheses` (Hypotheses), `assumption` (Assumption), `remedy` (Instead) and
    `remark` (Remark).  A claim with an assumption is expected to hold under it alone, one with a remedy to fail.  A
    paragraph Margin states how the value is found.

    Parameters
    ----------
    id : str
        A name of its own.
    instances : callable or sequence of mapping
        Draws an instance, called as ``instances(rng)``; or a list, all of which is tried, as the rows of a table.
    search : Search
        How instances that are drawn are searched for.
    mutants : mapping
        By their statements, false neighbours of the claim: keywords of the function, or else another margin.
    counterexample : mapping, optional
        As in `Claim`, where lists stand for arrays.
    **parts
        Fields of `Claim`.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.proofs_check import challenges, check, claim
    >>> from otspec.proofs_check.instances import pair
    >>> @claim("luck", pair, mutants={"Twice as often.": {"times": 2.0}})
    ... def surer_than_luck(p, q, times=1.0):
    ...     """Sampling accepts at least as often as luck. [my notes]
    ...
    ...     Remark: Luck is another draw from p.
    ...     """
    ...     return np.minimum(p, q).sum() - times * p @ q
    >>> check(surer_than_luck, trials=50).verdict.value
    'holds'
    >>> [found.refuted for found in challenges(surer_than_luck, trials=50)]
    [True]
    '''
    draw: Draw
    if callable(instances):
        draw = instances
    elif not (rows := instances):
        raise ProblemError(f"claim {id!r} has no instances; list some, or pass a function that draws one")
    else:
        draw, search = partial(_one_of, rows), Exhaustive(lambda: rows)
    known = None if counterexample is None else from_plain(counterexample)

    def of(margin: Callable[..., float]) -> Claim:
        mutations = tuple(
            Mutation(false, partial(margin, **how) if isinstance(how, Mapping) else how)
            for false, how in mutants.items()
        )
        said = _said(id, margin)
        return Claim(
            id, draw=draw, margin=margin, search=search, counterexample=known, mutations=mutations, **said, **parts
        )

    return of


def inequality(
    id: str,  # noqa: A002
    instances: Instances,
    search: Search = RANDOM,
    *,
    least: float = 1e-12,
    in_ratio: bool = False,
    mutants: Mapping[str, Mutant] = NO_MUTANTS,
    counterexample: Instance | None = None,
    **parts: Unpack[Parts],
) -> Callable[[Callable[..., tuple[float, float]]], Claim]:
    '''Make a claim of a function of two sides, left <= right.  Its tightness is their ratio, 1 where it is attained.

    Parameters
    ----------
    id, instances, search, counterexample, **parts
        As for `claim`.
    least : float
        A right side below it counts as this where the left one is divided by it: two sides of 0 are not tight.
    in_ratio : bool
        Whether the margin is 1 less the tightness, for sides of many orders of magnitude, and not right less left.
    mutants : mapping
        As for `claim`; ``{"left": 1.1}`` and ``{"right": 0.9}`` multiply a side, ``{"ratio": 0.9}`` limits the ratio.

    Examples
    --------
    >>> from otspec.proofs_check import inequality
    >>> def draw(rng):
    ...     return {"a": rng.random(), "b": rng.random()}
    >>> @inequality("means", draw, mutants={"0.9 times that.": {"right": 0.9}})
    ... def means(a, b):
    ...     """2 a b <= a^2 + b^2. [my notes]"""
    ...     return 2 * a * b, a * a + b * b
    >>> means.margin(a=1.0, b=2.0), means.tightness(a=1.0, b=2.0), means.mutations[0].margin(a=1.0, b=1.0)
    (1.0, 0.8, -0.19999999999999996)
    '''

    def of(sides: Callable[..., tuple[float, float]]) -> Claim:
        def tightness(**instance: Any) -> float:
            left, right = sides(**instance)
            return left / max(right, least)

        def margin(left: float = 1.0, right: float = 1.0, **instance: Any) -> float:
            less, more = sides(**instance)
            return right * more - left * less

        def slack(ratio: float = 1.0, **instance: Any) -> float:
            return ratio - tightness(**instance)

        changed: dict[str, Mutant] = {
            statement: partial(slack, **how) if isinstance(how, Mapping) and (in_ratio or "ratio" in how) else how
            for statement, how in mutants.items()
        }
        found = slack if in_ratio else margin
        found.__doc__ = sides.__doc__
        whole: Parts = {"tightness": tightness, **parts}
        made = claim(id, instances, search, mutants=changed, counterexample=counterexample, **whole)(found)
        return replace(made, function=sides)

    return of


def claims_of(*modules: ModuleType) -> tuple[Claim, ...]:
    """The claims that modules name at their top level, in their order."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Claim))


LABELS = {
    "Beside": "variant_of",
    "Hypotheses": "hypotheses",
    "Assumption": "assumption",
    "Instead": "remedy",
    "Remark": "remark",
    "Margin": "",
}
"""Words that begin the paragraphs of a claim's docstring, and the fields of `Claim` that they fill."""
CITED = re.compile(r"(?P<statement>.+) \[(?P<source>(?:[^][]|\[[^][]*\])+)\]")
"""The first paragraph: what is claimed, and then its source in brackets."""


def _said(id: str, function: Callable[..., object]) -> dict[str, Any]:  # noqa: A002
    """The parts of a docstring by the fields that they fill."""
    first, *rest = re.split(rf"\n({'|'.join(LABELS)}): ", inspect.getdoc(function) or "")
    cited = CITED.fullmatch(" ".join(first.split()))
    if cited is None:
        raise ValueError(
            f"the docstring of claim {id!r} begins with {first!r}; make it what is claimed and its source in brackets, "
            "as 'There are two. [my notes]'"
        )
    labelled = {LABELS[label]: text for label, text in zip(rest[::2], rest[1::2], strict=True) if LABELS[label]}
    return cited.groupdict() | {name: " ".join(text.split()) for name, text in labelled.items()}


def _one_of(rows: Sequence[Instance], rng: np.random.Generator) -> Instance:
    return rows[int(rng.integers(len(rows)))]
