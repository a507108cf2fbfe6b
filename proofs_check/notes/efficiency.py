"""Tokens per block, wall time and operations: eq. (1), Theorems 3.8 and 3.11, Corollary 3.9."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.single_draft import blocks, tokens, tokens_quotient
from otspec.walltime import speed_up

LONGEST = 40
"""Blocks are tried up to this length."""


def _rate(rng: np.random.Generator) -> dict[str, Any]:
    return {"alpha": 0.0 if rng.random() < 0.05 else rng.uniform(0.0, 0.99), "gamma": int(rng.integers(1, 9))}


@claim(
    "notes-expected-tokens",
    _rate,
    counterexample={"alpha": 1.0, "gamma": 1},
    mutants={"With the exponent gamma.": {"fewer": 1}},
)
def expected_tokens(alpha: float, gamma: int, fewer: int = 0) -> float:
    """The number of tokens per block is capped geometric, with mean (1 - alpha^(gamma+1)) / (1 - alpha).
    [aarnphm2025speculative, 'acceptance probability'; leviathan2023fast, eq. (1)]

    Hypotheses: Independent acceptances of probability alpha, in [0, 1].
    Assumption: alpha < 1: at alpha = 1 the quotient is 0/0; its limit is gamma + 1
    Remark: Over all 2^gamma patterns of acceptance.
    Margin: Over all patterns of acceptance: errors of the law of the number of tokens, and of its mean.
    """
    accepted = (np.arange(1 << gamma)[:, None] >> np.arange(gamma)) & 1
    chance = np.where(accepted, alpha, 1.0 - alpha).prod(axis=1)
    count = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    k = np.arange(1, gamma + 2)
    law = np.where(k <= gamma, (1.0 - alpha) * alpha ** (k - 1.0), alpha**gamma)
    error = np.abs(np.bincount(count, chance, gamma + 2)[1:] - law).max()
    return -float(np.maximum(error, np.abs(chance @ count - tokens_quotient(alpha, gamma - fewer))))


def _text(rng: np.random.Generator) -> dict[str, Any]:
    return {**_rate(rng), "length": int(rng.integers(1, 60))}


def _within(measured: float, factor: float, gamma: int, length: int) -> float:
    """How well a measured factor lies between the printed one and its N / (N + gamma)-th part."""
    return float(np.minimum(factor - measured, measured - factor * length / (length + gamma)))


@claim("notes-calls", _text, cost=3, mutants={"From N / (N + gamma - 1) on.": {"fewer": 1}})
def calls(alpha: float, gamma: int, length: int, fewer: int = 0) -> float:
    """Speculative sampling reduces the number of calls to the target by (1 - alpha^(gamma+1)) / (1 - alpha).
    [aarnphm2025speculative, 'wall-time improvement']

    Hypotheses: Independent acceptances; alpha < 1.
    Remark: Checked without the assumption of a long text, by recursion over blocks: for N tokens the factor is the
    printed one times something between N / (N + gamma) and 1.
    Margin: Within N / (N + gamma), or with so many fewer drafts there; as below.
    """
    return _within(length / blocks(alpha, gamma, length), tokens_quotient(alpha, gamma), gamma - fewer, length)


def _text_and_cost(rng: np.random.Generator) -> dict[str, Any]:
    return {**_text(rng), "c": 10 ** rng.uniform(-3.0, 0.3)}


@claim("notes-theorem-3.8", _text_and_cost, cost=3, mutants={"From N / (N + gamma - 1) on.": {"fewer": 1}})
def theorem_3_8(alpha: float, gamma: int, length: int, c: float, fewer: int = 0) -> float:
    """The wall time improves by the factor (1 - alpha^(gamma+1)) / ((1 - alpha)(gamma c + 1)). [aarnphm2025speculative,
    Theorem 3.8; leviathan2023fast]

    Hypotheses: Independent acceptances; alpha < 1; gamma + 1 evaluations of the target cost as much as one.
    Remark: Checked without the assumption of a long text, by recursion over blocks: for N tokens the factor is the
    printed one times something between N / (N + gamma) and 1.
    """
    time = blocks(alpha, gamma, length) * (gamma * c + 1.0)
    return _within(length / time, speed_up(alpha, c, gamma).factor, gamma - fewer, length)


def _good_draft(rng: np.random.Generator) -> dict[str, Any]:
    c, alpha = np.sort(rng.uniform(0.0, 0.99, 2))
    return {"alpha": float(alpha), "c": float(c)}


def _factors(alpha: float, c: float) -> FloatArray:
    """The factor of Theorem 3.8 for gamma = 1, 2, ..., `LONGEST`."""
    return np.array([tokens(alpha, gamma) / (gamma * c + 1.0) for gamma in range(1, LONGEST + 1)])


@claim(
    "notes-corollary-3.9",
    _good_draft,
    cost=4,
    mutants={"1.01 times that factor.": {"promise": 1.01}, "At least 1 + 0.55 (alpha - c).": {"gain": 0.55}},
)
def corollary_3_9(alpha: float, c: float, promise: float = 1.0, gain: float = 0.5) -> float:
    """If alpha > c there is a gamma that improves by a factor of at least (1 + alpha) / (1 + c).
    [aarnphm2025speculative, Corollary 3.9; leviathan2023fast]

    Remark: gamma = 1 has exactly this factor; the factor is at least 1 + (alpha - c) / 2.
    """
    promised = (1.0 + alpha) / (1.0 + c)
    return float(np.minimum(_factors(alpha, c).max() - promise * promised, promised - 1.0 - gain * (alpha - c)))


@claim(
    "notes-corollary-3.9-shorter",
    lambda rng: {"alpha": rng.uniform(0.0, 0.99), "c": 10 ** rng.uniform(-3.0, 0.0)},
    cost=4,
    mutants={"So does the next larger one.": {"longer": True}},
)
def corollary_3_9_shorter(alpha: float, c: float, longer: bool = False) -> float:
    """If a gamma improves the wall time, so does every smaller one. [aarnphm2025speculative, Corollary 3.9;
    leviathan2023fast]

    Remark: A gamma improves exactly if the mean of alpha, ..., alpha^gamma is above c, and that mean falls.
    Margin: Where a block improves, all shorter ones do: the smallest gain before the last gain.
    """
    gains = _factors(alpha, c) - 1.0
    if longer:
        return float(gains[np.flatnonzero(gains[:-1] > 1e-12) + 1].min(initial=0.0))
    better = np.flatnonzero(gains > 1e-12)
    return float(gains[: better[-1]].min(initial=0.0)) if better.size else 0.0


def _poor_draft(rng: np.random.Generator) -> dict[str, Any]:
    alpha = rng.uniform(0.0, 0.99)
    return {"alpha": alpha, "c": alpha + (0.0 if rng.random() < 0.1 else 10 ** rng.uniform(-6.0, 0.0))}


@claim("notes-corollary-3.9-converse", _poor_draft, cost=4, mutants={"If alpha <= 1.05 c.": {"times": 1.05}})
def corollary_3_9_converse(alpha: float, c: float, times: float = 1.0) -> float:
    """If alpha <= c no gamma improves the wall time. [beside aarnphm2025speculative, Corollary 3.9]

    Beside: notes-corollary-3.9
    """
    return 1.0 - float(_factors(alpha, c / times).max())


@claim(
    "notes-best-length",
    lambda rng: {"alpha": rng.uniform(0.0, 0.99), "c": 10 ** rng.uniform(-3.0, 0.0)},
    cost=4,
    mutants={"No longer block is better.": {"once_fallen": False}},
)
def best_length(alpha: float, c: float, once_fallen: bool = True) -> float:
    """Once a longer block is no better, none that is longer still is better: the first best gamma is the best. [beside
    aarnphm2025speculative, 'wall-time improvement']

    Beside: notes-corollary-3.9-shorter
    Remark: Proved: a further draft helps exactly if alpha^(gamma+1) / c is above the factor at gamma; once it is not,
    the next factor is at least that quotient, and so above the next, smaller one.
    """
    steps = np.diff(_factors(alpha, c))
    fallen = np.logical_or.accumulate(steps < -1e-12)
    return -float(steps[fallen | (not once_fallen)].max(initial=0.0))


@claim("notes-theorem-3.11", _text_and_cost, cost=3, mutants={"From N / (N + gamma - 1) on.": {"fewer": 1}})
def theorem_3_11(alpha: float, gamma: int, length: int, c: float, fewer: int = 0) -> float:
    """The operations increase by the factor (1 - alpha)(gamma c + gamma + 1) / (1 - alpha^(gamma+1)), at least 1.
    [aarnphm2025speculative, Theorem 3.11; leviathan2023fast]

    Hypotheses: Independent acceptances; alpha < 1; c is the ratio of operations per token.
    Remark: Checked without the assumption of a long text, by recursion over blocks: for N tokens the factor is the
    printed one times something between N / (N + gamma) and 1.
    """
    factor = speed_up(alpha, c, gamma).operations
    operations = blocks(alpha, gamma, length) * (gamma * c + gamma + 1.0)
    return float(np.minimum(factor - 1.0, _within(length / operations, 1.0 / factor, gamma - fewer, length)))
