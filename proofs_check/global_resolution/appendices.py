"""Appendices K and R: the grouped convex program, and errors over several tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Unchecked
from otspec.proofs_check.global_resolution.split import iid_masses, mask_of
from otspec.proofs_check.inequality import Inequality
from otspec.proofs_check.instances import iid, law
from otspec.proofs_check.search import Descent, Instance, Listed


def inclusion_exclusion(q: FloatArray, n: int, term: BoolArray, inside: BoolArray) -> float:
    """(118), and (120) with nothing inside."""
    tokens = np.flatnonzero(term)
    return sum(
        (-1) ** (tokens.size - size) * float(q[inside].sum() + q[list(A)].sum()) ** n
        for size in range(tokens.size + 1)
        for A in combinations(tokens, size)
    )


def _enumerated(q: FloatArray, n: int, term: BoolArray, inside: BoolArray) -> float:
    """Probability that the drafts outside H* form the term, tuple by tuple, inside H* whatever they do."""
    formed = np.arange(1 << q.size)
    return float(iid_masses(q, n)[(formed & ~mask_of(inside)) == mask_of(term)].sum())


def _coefficient(q: FloatArray, n: int, term: BoolArray, inside: BoolArray) -> float:
    return -abs(inclusion_exclusion(q, n, term, inside) - _enumerated(q, n, term, inside))


def _signed(q: FloatArray, n: int, term: BoolArray, inside: BoolArray) -> float:
    """The coefficient with the sign of the size of A, whatever the term."""
    return -abs((-1) ** int(term.sum()) * inclusion_exclusion(q, n, term, inside) - _enumerated(q, n, term, inside))


def _outer_term(rng: np.random.Generator) -> dict[str, Any]:
    instance = iid(rng)
    term = rng.random(instance["q"].size) < 0.6
    term[rng.integers(term.size)] = True
    inside = ~term & (rng.random(term.size) < 0.5)
    return {"q": instance["q"], "n": instance["n"], "term": term, "inside": inside}


def _inner_term(rng: np.random.Generator) -> dict[str, Any]:
    instance = _outer_term(rng)
    return {**instance, "inside": np.zeros_like(instance["inside"])}


def _terms(size: int, n: int, largest: int = 0) -> float:
    """The bound of (121) less the number of sets that n drafts of T can form, one by one."""
    bound = sum(math.comb(size, members) for members in range(1, n + 1 + largest))
    formed = iid_masses(np.full(size, 1 / size), n)
    return float(bound - int((formed > 0).sum()))


def _sizes() -> Iterator[Instance]:
    return ({"size": size, "n": n} for size in range(1, 7) for n in range(1, 6))


def _asymptotic(size: int, n: int, times: float = 1.0) -> float:
    """(121) over |T|**n / n! comes within n**2 / |T| of 1."""
    terms = sum(math.comb(size, members) for members in range(1, n + 1))
    return times * n**2 / size - abs(terms / (size**n / math.factorial(n)) - 1)


def _large_sizes() -> Iterator[Instance]:
    return ({"size": 10**exponent, "n": n} for exponent in range(1, 6) for n in range(1, 6) if n**2 < 10**exponent)


def _contexts(vocab: int, length: int) -> int:
    return sum(vocab**depth for depth in range(length))


def _several(rng: np.random.Generator) -> dict[str, Any]:
    """Next-token laws of a target, and of a verifier near it, in all contexts of fewer than L tokens."""
    vocab, length = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    target = np.array([law(rng, vocab) for _ in range(_contexts(vocab, length))])
    other = np.array([law(rng, vocab) for _ in target])
    near = 10 ** rng.uniform(-3, 0)
    return {"target": target, "output": (1 - near) * target + near * other, "length": length}


def _joint_law(laws: FloatArray, length: int) -> FloatArray:
    """Law of the first `length` tokens; contexts are listed by length, then in lexicographic order."""
    vocab, joint, start = laws.shape[1], np.ones(1), 0
    for _ in range(length):
        joint = (joint[:, None] * laws[start : start + joint.size]).ravel()
        start += joint.size // vocab
    return joint


def _steps(target: FloatArray, output: FloatArray, length: int) -> tuple[float, float]:
    """L1 errors: of the sequence, and the largest of one token."""
    sequence = np.abs(_joint_law(target, length) - _joint_law(output, length)).sum()
    return float(sequence), float(np.abs(target - output).sum(axis=1).max())


def _multi_step(target: FloatArray, output: FloatArray, length: int) -> tuple[float, float]:
    sequence, step = _steps(target, output, length)
    return sequence, length * step


def _coupled(target: FloatArray, output: FloatArray, length: int, fewer: int = 0) -> tuple[float, float]:
    sequence, step = _steps(target, output, length)
    return sequence, 2 * (1 - (1 - step / 2) ** (length - fewer))


MULTI_STEP, COUPLED = Inequality(_multi_step), Inequality(_coupled)


CLAIMS = (
    Claim(
        "gr-equation-117",
        "The coefficient of an outer term is its sum of signs and powers.",
        "thomas2025global, eq. (117), (118)",
        _outer_term,
        _coefficient,
        cost=4,
        remark="In floats the sum cancels: with q = (0.99889, 1e-3, 1e-4, 1e-5, 1e-6), n = 4 and the first token in "
        "H*, the term of the others is 2.4e-17, and the sum is off by several times that. Thresholds of 1e-4 do not "
        "see it.",
        mutations=(Mutation("The signs are those of the sizes of the sets.", _signed),),
    ),
    Claim(
        "gr-equation-119",
        "The coefficient of an inner term is its sum of signs and powers.",
        "thomas2025global, eq. (119), (120)",
        _inner_term,
        _coefficient,
        cost=4,
        mutations=(Mutation("The signs are those of the sizes of the sets.", _signed),),
    ),
    Claim(
        "gr-equation-121",
        "The functions have at most sum over i <= n of binomial(|T|, i) terms.",
        "thomas2025global, eq. (121)",
        lambda rng: {"size": int(rng.integers(1, 7)), "n": int(rng.integers(1, 6))},
        _terms,
        search=Listed(_sizes),
        remark="For |T| <= 6 and n <= 5 the terms are counted, and the bound is attained. Section 6 calls them "
        "variables; variables are |T| in number.",
        mutations=(Mutation("Over i < n.", lambda **instance: _terms(**instance, largest=-1)),),
    ),
    Claim(
        "gr-equation-121-asymptotic",
        "That sum is about |T|**n / n! for large |T|.",
        "thomas2025global, eq. (121)",
        lambda rng: {"size": int(rng.integers(100, 1000)), "n": int(rng.integers(1, 6))},
        _asymptotic,
        search=Listed(_large_sizes),
        remark="Up to a factor 1 + n**2 / |T|. It is no bound for small |T|: 1350 terms at |T| = 20, n = 3 against "
        "1333; 7 at |T| = 3, n = 5 against 2.03.",
        mutations=(
            Mutation("Up to a factor 1 + n**2 / (5 |T|).", lambda **instance: _asymptotic(**instance, times=0.2)),
        ),
    ),
    Claim(
        "gr-theorem-R.1",
        "A next-token error of at most d in every context gives an error of at most L d over L tokens; d = 15 tau.",
        "thomas2025global, Theorem R.1",
        _several,
        MULTI_STEP.margin,
        search=Descent(laws=("target", "output")),
        tightness=MULTI_STEP.tightness,
        hypotheses="Every context is within d, those too where global resolution gives up.",
        remark="d = 15 tau needs a repaired stop (gr-algorithm-1-stop). Vacuous once L d >= 2: gr-theorem-R.1-coupled "
        "is not.",
        mutations=(Mutation("0.9 L d.", MULTI_STEP.with_slack(0.9)),),
    ),
    Claim(
        "gr-theorem-R.1-coupled",
        "The error over L tokens is at most 2 (1 - (1 - d/2)**L).",
        "otspec; sharpens thomas2025global, Theorem R.1",
        _several,
        COUPLED.margin,
        variant_of="gr-theorem-R.1",
        cost=2,
        search=Descent(laws=("target", "output")),
        tightness=COUPLED.tightness,
        remark="Couple the tokens one by one: after equal prefixes the next differ with probability at most d/2.",
        mutations=(
            Mutation("0.95 times that.", COUPLED.with_slack(0.95)),
            Mutation("With L - 1 in place of L.", lambda **instance: COUPLED.margin(**instance, fewer=1)),
        ),
    ),
)

UNCHECKED = (
    Unchecked(
        "The sums (118) and (120) can be computed efficiently by dynamic programming.",
        "thomas2025global, Appendix K",
        "A statement about time; benchmarks/global_resolution measures ours.",
    ),
    Unchecked(
        "Block efficiency and speed-up of SpecTr with global resolution.",
        "thomas2025global, Appendix R, Table 4",
        "Measurements on models that are not at hand.",
    ),
)
