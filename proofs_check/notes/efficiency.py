"""Tokens per block, wall time and operations: eq. (1), Theorems 3.8 and 3.11, Corollary 3.9."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.single_draft import blocks, tokens, tokens_quotient
from otspec.walltime import speed_up

KEY = "aarnphm2025speculative"
LONGEST = 40
"""Blocks are looked at up to this length."""


def _rate(rng: np.random.Generator) -> dict[str, Any]:
    return {"alpha": 0.0 if rng.random() < 0.05 else rng.uniform(0.0, 0.99), "gamma": int(rng.integers(1, 9))}


def _capped_geometric(alpha: float, gamma: int, fewer: int = 0) -> float:
    """Over all patterns of acceptance: errors of the law of the number of tokens, and of its mean."""
    accepted = (np.arange(1 << gamma)[:, None] >> np.arange(gamma)) & 1
    chance = np.where(accepted, alpha, 1.0 - alpha).prod(axis=1)
    count = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    k = np.arange(1, gamma + 2)
    law = np.where(k <= gamma, (1.0 - alpha) * alpha ** (k - 1.0), alpha**gamma)
    error = np.abs(np.bincount(count, chance, gamma + 2)[1:] - law).max()
    return -float(np.maximum(error, np.abs(chance @ count - tokens_quotient(alpha, gamma - fewer))))


def _text(rng: np.random.Generator) -> dict[str, Any]:
    return {**_rate(rng), "length": int(rng.integers(1, 60))}


def _text_and_cost(rng: np.random.Generator) -> dict[str, Any]:
    return {**_text(rng), "c": 10 ** rng.uniform(-3.0, 0.3)}


def _within(measured: float, factor: float, gamma: int, length: int) -> float:
    """How well a measured factor lies between the printed one and its N / (N + gamma)-th part."""
    return float(np.minimum(factor - measured, measured - factor * length / (length + gamma)))


def _calls(alpha: float, gamma: int, length: int, fewer: int = 0) -> float:
    """Within N / (N + gamma), or with so many fewer drafts there; as below."""
    return _within(length / blocks(alpha, gamma, length), tokens_quotient(alpha, gamma), gamma - fewer, length)


def _theorem_3_8(alpha: float, gamma: int, length: int, c: float, fewer: int = 0) -> float:
    time = blocks(alpha, gamma, length) * (gamma * c + 1.0)
    return _within(length / time, speed_up(alpha, c, gamma).factor, gamma - fewer, length)


def _theorem_3_11(alpha: float, gamma: int, length: int, c: float, fewer: int = 0) -> float:
    factor = speed_up(alpha, c, gamma).operations
    operations = blocks(alpha, gamma, length) * (gamma * c + gamma + 1.0)
    return float(np.minimum(factor - 1.0, _within(length / operations, 1.0 / factor, gamma - fewer, length)))


def _good_draft(rng: np.random.Generator) -> dict[str, Any]:
    c, alpha = np.sort(rng.uniform(0.0, 0.99, 2))
    return {"alpha": float(alpha), "c": float(c)}


def _poor_draft(rng: np.random.Generator) -> dict[str, Any]:
    alpha = rng.uniform(0.0, 0.99)
    return {"alpha": alpha, "c": alpha + (0.0 if rng.random() < 0.1 else 10 ** rng.uniform(-6.0, 0.0))}


def _factors(alpha: float, c: float) -> FloatArray:
    """The factor of Theorem 3.8 for gamma = 1, 2, ..., `LONGEST`."""
    return np.array([tokens(alpha, gamma) / (gamma * c + 1.0) for gamma in range(1, LONGEST + 1)])


def _corollary_3_9(alpha: float, c: float) -> float:
    promised = (1.0 + alpha) / (1.0 + c)
    return float(np.minimum(_factors(alpha, c).max() - promised, promised - 1.0 - (alpha - c) / 2))


def _larger_promise(alpha: float, c: float) -> float:
    return float(_factors(alpha, c).max()) - 1.01 * (1.0 + alpha) / (1.0 + c)


def _larger_gain(alpha: float, c: float) -> float:
    return (1.0 + alpha) / (1.0 + c) - 1.0 - 0.55 * (alpha - c)


def _next_longer(alpha: float, c: float) -> float:
    """Where a block improves, the next longer one does."""
    gains = _factors(alpha, c) - 1.0
    better = np.flatnonzero(gains[:-1] > 1e-12)
    return float(gains[better + 1].min(initial=0.0))


def _shorter(alpha: float, c: float) -> float:
    """Where a block improves, all shorter ones do: the smallest gain before the last gain."""
    gains = _factors(alpha, c) - 1.0
    better = np.flatnonzero(gains > 1e-12)
    return float(gains[: better[-1]].min(initial=0.0)) if better.size else 0.0


def _rises_then_falls(alpha: float, c: float) -> float:
    steps = np.diff(_factors(alpha, c))
    fallen = np.logical_or.accumulate(steps < -1e-12)
    return -float(steps[fallen].max(initial=0.0))


COST = f"{KEY}, 'wall-time improvement'"
LONG = (
    "Checked without the assumption of a long text, by recursion over blocks: for N tokens the factor is the printed "
    "one times something between N / (N + gamma) and 1."
)

CLAIMS = (
    Claim(
        "notes-expected-tokens",
        "The number of tokens per block is capped geometric, with mean (1 - alpha^(gamma+1)) / (1 - alpha).",
        f"{KEY}, 'acceptance probability'; leviathan2023fast, eq. (1)",
        _rate,
        _capped_geometric,
        hypotheses="Independent acceptances of probability alpha, in [0, 1].",
        expected=Verdict.HIDDEN,
        assumption="alpha < 1: at alpha = 1 the quotient is 0/0; its limit is gamma + 1",
        counterexample={"alpha": 1.0, "gamma": 1},
        remark="Over all 2^gamma patterns of acceptance.",
        mutations=(Mutation("With the exponent gamma.", lambda **instance: _capped_geometric(**instance, fewer=1)),),
    ),
    Claim(
        "notes-calls",
        "Speculative sampling reduces the number of calls to the target by (1 - alpha^(gamma+1)) / (1 - alpha).",
        COST,
        _text,
        _calls,
        hypotheses="Independent acceptances; alpha < 1.",
        cost=3,
        remark=LONG,
        mutations=(Mutation("From N / (N + gamma - 1) on.", lambda **instance: _calls(**instance, fewer=1)),),
    ),
    Claim(
        "notes-theorem-3.8",
        "The wall time improves by the factor (1 - alpha^(gamma+1)) / ((1 - alpha)(gamma c + 1)).",
        f"{KEY}, Theorem 3.8; leviathan2023fast",
        _text_and_cost,
        _theorem_3_8,
        hypotheses="Independent acceptances; alpha < 1; gamma + 1 evaluations of the target cost as much as one.",
        cost=3,
        remark=LONG,
        mutations=(Mutation("From N / (N + gamma - 1) on.", lambda **instance: _theorem_3_8(**instance, fewer=1)),),
    ),
    Claim(
        "notes-corollary-3.9",
        "If alpha > c there is a gamma that improves by a factor of at least (1 + alpha) / (1 + c).",
        f"{KEY}, Corollary 3.9; leviathan2023fast",
        _good_draft,
        _corollary_3_9,
        cost=4,
        remark="gamma = 1 has exactly this factor; the factor is at least 1 + (alpha - c) / 2.",
        mutations=(
            Mutation("1.01 times that factor.", _larger_promise),
            Mutation("At least 1 + 0.55 (alpha - c).", _larger_gain),
        ),
    ),
    Claim(
        "notes-corollary-3.9-shorter",
        "If a gamma improves the wall time, so does every smaller one.",
        f"{KEY}, Corollary 3.9; leviathan2023fast",
        lambda rng: {"alpha": rng.uniform(0.0, 0.99), "c": 10 ** rng.uniform(-3.0, 0.0)},
        _shorter,
        cost=4,
        remark="A gamma improves exactly if the mean of alpha, ..., alpha^gamma is above c, and that mean falls.",
        mutations=(Mutation("So does the next larger one.", _next_longer),),
    ),
    Claim(
        "notes-corollary-3.9-converse",
        "If alpha <= c no gamma improves the wall time.",
        f"beside {KEY}, Corollary 3.9",
        _poor_draft,
        lambda alpha, c: 1.0 - float(_factors(alpha, c).max()),
        variant_of="notes-corollary-3.9",
        cost=4,
        mutations=(Mutation("If alpha <= 1.05 c.", lambda alpha, c: 1.0 - float(_factors(alpha, c / 1.05).max())),),
    ),
    Claim(
        "notes-best-length",
        "Once a longer block is no better, none that is longer still is better: the first best gamma is the best.",
        f"beside {KEY}, 'wall-time improvement'",
        lambda rng: {"alpha": rng.uniform(0.0, 0.99), "c": 10 ** rng.uniform(-3.0, 0.0)},
        _rises_then_falls,
        variant_of="notes-corollary-3.9-shorter",
        cost=4,
        remark="Proved: a further draft helps exactly if alpha^(gamma+1) / c is above the factor at gamma; once it is "
        "not, the next factor is at least that quotient, and so above the next, smaller one.",
        mutations=(
            Mutation(
                "No longer block is better.", lambda alpha, c: -float(np.diff(_factors(alpha, c)).max(initial=0.0))
            ),
        ),
    ),
    Claim(
        "notes-theorem-3.11",
        "The operations increase by the factor (1 - alpha)(gamma c + gamma + 1) / (1 - alpha^(gamma+1)), at least 1.",
        f"{KEY}, Theorem 3.11; leviathan2023fast",
        _text_and_cost,
        _theorem_3_11,
        hypotheses="Independent acceptances; alpha < 1; c is the ratio of operations per token.",
        cost=3,
        remark=LONG,
        mutations=(Mutation("From N / (N + gamma - 1) on.", lambda **instance: _theorem_3_11(**instance, fewer=1)),),
    ),
)
