"""Section 3: tokens per block, and speedup."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.inequality import Inequality
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import tokens, tokens_quotient

KEY = "zhang2025dynaspec"


def mean_tokens(rates: FloatArray, weights: FloatArray) -> float:
    """Mean tokens per block of drafts, over kinds of blocks with the acceptance rate of every position."""
    return float(weights @ (1.0 + np.cumprod(rates, axis=1).sum(axis=1)))


def _independent_rates(rng: np.random.Generator) -> dict[str, Any]:
    """All blocks of independent positions, whose rates have the same law on a few values."""
    gamma, kinds = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    values = rng.choice([0.0, 0.99], kinds) if rng.random() < 0.2 else rng.uniform(0.0, 0.99, kinds)
    chance = positive_law(rng, kinds)
    choices = np.array(list(itertools.product(range(kinds), repeat=gamma)))
    return {"rates": values[choices], "weights": chance[choices].prod(axis=1)}


def _eq_1(rates: FloatArray, weights: FloatArray) -> float:
    alpha = float(weights @ rates.mean(axis=1))
    return -abs(mean_tokens(rates, weights) - tokens_quotient(alpha, rates.shape[1]))


def _eq_1_of_fewer(rates: FloatArray, weights: FloatArray) -> float:
    alpha = float(weights @ rates.mean(axis=1))
    return -abs(mean_tokens(rates, weights) - tokens_quotient(alpha, rates.shape[1] - 1))


def _shared_rates(rng: np.random.Generator) -> dict[str, Any]:
    kinds = int(rng.integers(1, 5))
    return {"rates": rng.random(kinds), "weights": law(rng, kinds), "gamma": int(rng.integers(1, 9))}


def _one_rate(rates: FloatArray, weights: FloatArray, gamma: int) -> tuple[float, float]:
    blocks = np.repeat(rates[:, None], gamma, axis=1)
    return tokens(float(weights @ rates), gamma), mean_tokens(blocks, weights)


ONE_RATE = Inequality(_one_rate)


def _speedup(alpha: float, gamma: int, draft: float, verify: float) -> float:
    """Eq. (2), in units of T_T."""
    return tokens_quotient(alpha, gamma) / (gamma * draft + verify)


def _costs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "alpha": rng.uniform(0.0, 0.99),
        "gamma": int(rng.integers(1, 9)),
        "draft": 10 ** rng.uniform(-3.0, 0.0),
        "verify": 1.0 + 10 ** rng.uniform(-3.0, 0.0),
    }


def _text_and_costs(rng: np.random.Generator) -> dict[str, Any]:
    return {**_costs(rng), "length": int(rng.integers(1, 60))}


def _eq_2(alpha: float, gamma: int, draft: float, verify: float, length: int, fewer: int = 0) -> float:
    speedup = _speedup(alpha, gamma, draft, verify)
    measured = length / (single_draft.blocks(alpha, gamma, length) * (gamma * draft + verify))
    return float(np.minimum(speedup - measured, measured - speedup * length / (length + gamma - fewer)))


def _two_rates(rng: np.random.Generator) -> dict[str, Any]:
    low, high = np.sort(rng.random(2))
    return {"low": float(low), "high": float(high), "gamma": int(rng.integers(1, 13))}


CLAIMS = (
    Claim(
        "dynaspec-eq-1",
        "A block of gamma drafts yields (1 - alpha^(gamma+1)) / (1 - alpha) tokens on average.",
        f"{KEY}, eq. (1); leviathan2023fast",
        _independent_rates,
        _eq_1,
        hypotheses="alpha in [0, 1]; the acceptance rates of the positions are i.i.d. with mean alpha.",
        expected=Verdict.HIDDEN,
        assumption="alpha < 1: at alpha = 1 the quotient is 0/0; its limit, the sum of alpha^i, is gamma + 1",
        counterexample={"rates": np.array([[1.0]]), "weights": np.array([1.0])},
        remark="Positions of one block that share their rate yield more, see dynaspec-one-rate-per-block.",
        mutations=(Mutation("With the exponent gamma.", _eq_1_of_fewer),),
    ),
    Claim(
        "dynaspec-one-rate-per-block",
        "If the positions of a block share one random acceptance rate of mean alpha, eq. (1) is a lower bound.",
        f"beside {KEY}, eq. (1): what the i.i.d. assumption is worth",
        _shared_rates,
        ONE_RATE.margin,
        variant_of="dynaspec-eq-1",
        tightness=ONE_RATE.tightness,
        search=Descent(laws=("weights",)),
        remark="Jensen's inequality for every power.  Rates 1 and 0 of equal chance, gamma = 4: 3, against 1.94.",
        mutations=(Mutation("1.01 times eq. (1) is one.", ONE_RATE.with_left(1.01)),),
    ),
    Claim(
        "dynaspec-eq-2",
        "The speedup over plain decoding is T_T Omega(alpha, gamma) / (gamma T_D + T_V(gamma)).",
        f"{KEY}, eq. (2)",
        _text_and_costs,
        _eq_2,
        hypotheses="Independent acceptances; a long text; alpha < 1.",
        cost=5,
        remark="Exact for texts of N tokens, by recursion over blocks: they are faster by this factor times "
        "something between N / (N + gamma) and 1.",
        mutations=(Mutation("From N / (N + gamma - 1) on.", lambda **instance: _eq_2(**instance, fewer=1)),),
    ),
    Claim(
        "dynaspec-worst-case",
        "In the worst case the latency of speculative decoding reverts to that of standard decoding.",
        f"{KEY}, section 1",
        _costs,
        lambda alpha, gamma, draft, verify: _speedup(alpha, gamma, draft, verify) - 1.0,
        hypotheses="T_V(gamma) >= T_T; costs in units of T_T.",
        expected=Verdict.FAILS,
        counterexample={"alpha": 0.0, "gamma": 5, "draft": 0.1, "verify": 1.0},
        remedy="By eq. (2), in the worst case, alpha = 0, it is (gamma T_D + T_V(gamma)) / T_T times slower.",
    ),
    Claim(
        "dynaspec-omega-increases",
        "The mean number of tokens per block is strictly increasing in alpha.",
        f"{KEY}, consequence of Theorem A",
        _two_rates,
        lambda low, high, gamma: tokens(high, gamma) - tokens(low, gamma) - (high - low),
        hypotheses="gamma >= 1; independent acceptances.",
        remark="Checked in a stronger form: with slope at least 1.",
        mutations=(
            Mutation(
                "With slope at least 1.1.",
                lambda low, high, gamma: tokens(high, gamma) - tokens(low, gamma) - 1.1 * (high - low),
            ),
        ),
    ),
)
