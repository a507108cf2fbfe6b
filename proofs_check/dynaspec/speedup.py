"""Section 3: tokens per block, and speedup."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import tokens, tokens_quotient


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


@claim(
    "dynaspec-eq-1",
    _independent_rates,
    counterexample={"rates": [[1.0]], "weights": [1.0]},
    mutants={"With the exponent gamma.": {"fewer": 1}},
)
def eq_1(rates: FloatArray, weights: FloatArray, fewer: int = 0) -> float:
    """A block of gamma drafts yields (1 - alpha^(gamma+1)) / (1 - alpha) tokens on average. [zhang2025dynaspec, eq.
    (1); leviathan2023fast]

    Hypotheses: alpha in [0, 1]; the acceptance rates of the positions are i.i.d. with mean alpha.
    Assumption: alpha < 1: at alpha = 1 the quotient is 0/0; its limit, the sum of alpha^i, is gamma + 1
    Remark: Positions of one block that share their rate yield more, see dynaspec-one-rate-per-block.
    """
    alpha = float(weights @ rates.mean(axis=1))
    return -abs(mean_tokens(rates, weights) - tokens_quotient(alpha, rates.shape[1] - fewer))


def _shared_rates(rng: np.random.Generator) -> dict[str, Any]:
    kinds = int(rng.integers(1, 5))
    return {"rates": rng.random(kinds), "weights": law(rng, kinds), "gamma": int(rng.integers(1, 9))}


@inequality(
    "dynaspec-one-rate-per-block",
    _shared_rates,
    Descent("weights"),
    mutants={"1.01 times eq. (1) is one.": {"left": 1.01}},
)
def one_rate_per_block(rates: FloatArray, weights: FloatArray, gamma: int) -> tuple[float, float]:
    """If the positions of a block share one random acceptance rate of mean alpha, eq. (1) is a lower bound. [beside
    zhang2025dynaspec, eq. (1): what the i.i.d. assumption is worth]

    Beside: dynaspec-eq-1
    Remark: Jensen's inequality for every power. Rates 1 and 0 of equal chance, gamma = 4: 3, against 1.94.
    """
    blocks = np.repeat(rates[:, None], gamma, axis=1)
    return tokens(float(weights @ rates), gamma), mean_tokens(blocks, weights)


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


@claim("dynaspec-eq-2", _text_and_costs, cost=5, mutants={"From N / (N + gamma - 1) on.": {"fewer": 1}})
def eq_2(alpha: float, gamma: int, draft: float, verify: float, length: int, fewer: int = 0) -> float:
    """The speedup over plain decoding is T_T Omega(alpha, gamma) / (gamma T_D + T_V(gamma)). [zhang2025dynaspec, eq.
    (2)]

    Hypotheses: Independent acceptances; a long text; alpha < 1.
    Remark: Exact for texts of N tokens, by recursion over blocks: they are faster by this factor times something
    between N / (N + gamma) and 1.
    """
    speedup = _speedup(alpha, gamma, draft, verify)
    measured = length / (single_draft.blocks(alpha, gamma, length) * (gamma * draft + verify))
    return float(np.minimum(speedup - measured, measured - speedup * length / (length + gamma - fewer)))


@claim("dynaspec-worst-case", _costs, counterexample={"alpha": 0.0, "gamma": 5, "draft": 0.1, "verify": 1.0})
def worst_case(alpha: float, gamma: int, draft: float, verify: float) -> float:
    """In the worst case the latency of speculative decoding reverts to that of standard decoding. [zhang2025dynaspec,
    section 1]

    Hypotheses: T_V(gamma) >= T_T; costs in units of T_T.
    Instead: By eq. (2), in the worst case, alpha = 0, it is (gamma T_D + T_V(gamma)) / T_T times slower.
    """
    return _speedup(alpha, gamma, draft, verify) - 1.0


def _two_rates(rng: np.random.Generator) -> dict[str, Any]:
    low, high = np.sort(rng.random(2))
    return {"low": float(low), "high": float(high), "gamma": int(rng.integers(1, 13))}


@claim("dynaspec-omega-increases", _two_rates, mutants={"With slope at least 1.1.": {"slope": 1.1}})
def omega_increases(low: float, high: float, gamma: int, slope: float = 1.0) -> float:
    """The mean number of tokens per block is strictly increasing in alpha. [zhang2025dynaspec, consequence of Theorem
    A]

    Hypotheses: gamma >= 1; independent acceptances.
    Remark: Checked in a stronger form: with slope at least 1.
    """
    return tokens(high, gamma) - tokens(low, gamma) - slope * (high - low)
