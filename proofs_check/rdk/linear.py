"""Equations (2) and (3) and Theorem 5.4: the affinity matrix, and the formula that is to approximate RDK."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.instances import pair
from otspec.proofs_check.rdk.sampler import KEY
from otspec.proofs_check.search import Descent, Listed
from otspec.vocab import acceptance_rate, affinity, rdk, rdk_linear

Rng = np.random.Generator


def _covariance(rng: Rng) -> dict[str, Any]:
    size = int(rng.integers(1, 7))
    factor = rng.normal(size=(size, 2))
    return {"covariance": factor @ factor.T * 10 ** rng.uniform(-2, 3), "tau": float(10 ** rng.uniform(-2, 2))}


def _flat(rng: Rng) -> dict[str, Any]:
    """A constant, and a vocabulary large enough to exceed it."""
    constant = float(10 ** rng.uniform(0, 4))
    return {"size": int(constant * rng.uniform(4, 8)) + 2, "kept": 1, "constant": constant}


def _nearly_uniform(rng: Rng) -> dict[str, Any]:
    """Laws and covariances within the assumptions of the proof; of `size` tokens, u and v in [-1, 1]."""
    if rng.random() < 0.25:  # as far from RDK as can be, to first order
        u = np.tile([1.0, -1.0], int(10 ** rng.uniform(0.4, 2.2)))
        return {"v": -u, "u": u, "noise": np.zeros((u.size, u.size))}
    size = int(rng.integers(4, 60))
    even = rng.uniform(-1, 1, size)
    v, u = even - even.mean(), rng.uniform(-1, 1, size)
    noise = rng.uniform(-1, 1, (size, size))
    return {"v": v / max(1, np.abs(v).max()), "u": u, "noise": (noise + noise.T) / 2}


def _constant(rng: Rng) -> dict[str, Any]:
    constant = float(10 ** rng.uniform(0, 4))
    return {"size": 2 * int(constant * rng.uniform(2, 4)) + 2, "constant": constant}


def _rows_are_laws(covariance: FloatArray, tau: float) -> float:
    size = len(covariance)
    matrix = affinity(covariance, tau).rows(0, size)
    return float(min(matrix.min(), -np.abs(matrix.sum(axis=1) - 1).max()))


def _columns_are_laws(covariance: FloatArray, tau: float) -> float:
    matrix = affinity(covariance, tau).rows(0, len(covariance))
    return -float(np.abs(matrix.sum(axis=0) - 1).max())


def _limits(covariance: FloatArray, tau: float, least: float = 1.0, most: float = 1.0) -> float:
    """With so many times either bound."""
    size = len(covariance)
    matrix = affinity(covariance, tau).rows(0, size)
    spread = np.ptp(covariance, axis=1, keepdims=True) / tau
    flat = np.exp(-spread) / size
    largest = covariance.max(axis=1, keepdims=True)
    elsewhere = np.exp((covariance - largest) / tau)
    return float(min((matrix - least * flat).min(), (most * elsewhere - matrix).min()))


def _distance_to_rdk(p: FloatArray, q: FloatArray, covariance: Any) -> tuple[float, float]:
    """|p_Taylor - M^T q'|_1 and theta, at tau = 1."""
    return float(np.abs(rdk_linear(p, q) - rdk(q, affinity(covariance))).sum()), float(p @ q)


def theorem_5_4(size: int, kept: int, constant: float) -> float:
    """Margin with that constant, for no covariance, p uniform, and q' uniform on the tokens kept."""
    p, q = np.full(size, 1 / size), np.zeros(size)
    q[:kept] = 1 / kept
    left, theta = _distance_to_rdk(p, q, sparse.csr_array((size, size)))  # no covariance: M = 1/N
    return constant * (theta + 1 / size**2) - left


def under_hypotheses(v: FloatArray, u: FloatArray, noise: FloatArray) -> tuple[float, float, float]:
    """Distances of eq. (3) and of q' to RDK, and theta + 1/N^2."""
    size = v.size
    p = (1 + v) / size
    q = (1 + u / size) / (1 + u / size).sum()
    theta = float(p @ q)
    covariance = theta * (p[:, None] + p) / 2 + theta**2 * noise
    left, _ = _distance_to_rdk(p, q, covariance)
    return left, float(np.abs(q - rdk(q, affinity(covariance))).sum()), theta + 1 / size**2


def _needed(v: FloatArray, u: FloatArray, noise: FloatArray) -> float:
    """The C that would do, over 1 + 4/N."""
    taylor, plain, scale = under_hypotheses(v, u, noise)
    return max(taylor, plain) / scale / (1 + 4 / v.size)


def _hypotheses_margin(v: FloatArray, u: FloatArray, noise: FloatArray, constant: float = 1.0) -> float:
    return constant - _needed(v, u, noise)


def _first_order(size: int, constant: float) -> float:
    p = np.full(size, 1 / size)
    q = (1 + np.tile([1, -1], size // 2) / size) / size
    left, theta = _distance_to_rdk(p, q, sparse.csr_array((size, size)))
    return constant * (theta**2 + 1 / size**2) - left


def _is_tli(p: FloatArray, q: FloatArray, size: int) -> tuple[float, float, float, float]:
    """theta / N; distance of eq. (3) to q', in acceptance, and mass on tokens that q' lacks."""
    moved = rdk_linear(p, q, size)
    difference = abs(float(acceptance_rate(p, moved) - acceptance_rate(p, q)))
    return float(p @ q) / size, float(np.abs(moved - q).sum()), difference, float(moved[q == 0].sum())


def _tli_margin(p: FloatArray, q: FloatArray, size: int, counts: tuple[float, float, float] = (2.0, 1.0, 1.0)) -> float:
    unit, *found = _is_tli(p, q, size)
    return min(count * unit - number for count, number in zip(counts, found, strict=True))


def _any_size(rng: Rng) -> dict[str, Any]:
    instance = pair(rng)
    return {**instance, "size": int(instance["p"].size * rng.choice([1, 1, 10, 1000]))}


CLAIMS = (
    Claim(
        "rdk-equation-2",
        "The rows of M, softmax of the covariance over tau, are laws.",
        f"{KEY}, eq. (2)",
        _covariance,
        _rows_are_laws,
        remark="With the row's largest entry subtracted first; exp alone overflows where a covariance exceeds 709 tau.",
        mutations=(Mutation("The columns are.", _columns_are_laws),),
    ),
    Claim(
        "rdk-equation-2-temperature",
        "tau controls how sharply M redistributes: rows tend to uniform as it grows, to their argmax as it falls.",
        f"{KEY}, eq. (2)",
        _covariance,
        _limits,
        remark="Checked as M_ij >= exp(-R / tau) / N, R being the range of row i, and M_ij <= exp(-d_ij / tau), d_ij "
        "being how far covariance_ij is below the largest of its row. Covariances of probabilities are at most 1/4, so "
        "with tau = 1 all entries are within a factor 1.65 of 1/N.",
        mutations=(
            Mutation("At least 1.05 exp(-R / tau) / N.", lambda **instance: _limits(**instance, least=1.05)),
            Mutation("At most 0.95 exp(-d_ij / tau).", lambda **instance: _limits(**instance, most=0.95)),
        ),
    ),
    Claim(
        "rdk-equation-3-is-tli",
        "Equation (3) is within 2 theta / N of q' in L1, accepts as often to within theta / N, and puts at most "
        "theta / N of its mass on tokens that q' lacks.",
        "otspec; about timor2025out, eq. (3)",
        _any_size,
        _tli_margin,
        variant_of="rdk-theorem-5.4",
        search=Descent(laws=("p", "q")),
        tightness=lambda p, q, size: _is_tli(p, q, size)[1] / max(2 * _is_tli(p, q, size)[0], 1e-12),
        remark="Proof in docs/vocab.md. With N = 200 000 the acceptance of TLI changes by less than 5e-6. "
        "Equation (3) takes the target law p, which a drafter does not know: it cannot propose tokens before "
        "verification, and with p at hand nothing needs to be proposed.",
        mutations=(
            *(
                Mutation(f"0.95 times the bound on {what}.", partial(_tli_margin, counts=counts))
                for what, counts in (
                    ("the distance", (1.9, 1.0, 1.0)),
                    ("the acceptance", (2.0, 0.95, 1.0)),
                    ("the mass elsewhere", (2.0, 1.0, 0.95)),
                )
            ),
        ),
    ),
    Claim(
        "rdk-theorem-5.4",
        "|p_Taylor - M^T q'|_1 <= C (theta + 1/N^2) with a constant C that depends on neither theta nor N.",
        f"{KEY}, Theorem 5.4",
        _flat,
        theorem_5_4,
        hypotheses="M of equation (2). Instances: covariance 0, p uniform, q' uniform on the tokens kept.",
        expected=Verdict.FAILS,
        counterexample={"size": 2, "kept": 1, "constant": 1.0},
        remedy="The ratio of both sides is about 2 N on these instances, so that every C is exceeded by some N. "
        "Equation (3) stays at q' (rdk-equation-3-is-tli), and M^T q' is uniform. With p 0 where q' is not, theta = 0, "
        "and 1/N^2 alone would have to do.",
        cost=3,
    ),
    Claim(
        "rdk-theorem-5.4-proof",
        "The same under what its proof assumes, with C = 1 + 4/N.",
        f"{KEY}, Theorem 5.4 and Appendix B.2",
        _nearly_uniform,
        _hypotheses_margin,
        hypotheses="Covariance_ij / tau = theta p_j + O(theta^2), eq. (6).",
        expected=Verdict.HIDDEN,
        assumption="N q'_j = 1 + O(theta) for all tokens j: q' is nearly uniform. The proof says that 'one shows' it; "
        "it does not follow, and no pruned drafter meets it.",
        counterexample={"v": np.zeros(20), "u": np.append(380.0, np.full(19, -20.0)), "noise": np.zeros((20, 20))},
        tightness=_needed,
        cost=2,
        remark="Proof in docs/vocab.md, Theorem 4, for N >= 4, and numbers that are at most 1 in the place of "
        "each O. For q' itself too: all is within O(theta) of uniform, and theta = (1 + O(theta)) / N is not free. "
        "N q' = 1 +- 1/N, p its opposite, attains C = 1 as N grows.",
        mutations=(Mutation("With 0.9 times that.", partial(_hypotheses_margin, constant=0.9)),),
    ),
    Claim(
        "rdk-theorem-5.4-first-order",
        "Equation (3) coincides with M^T q' up to first order in theta: they differ by at most C (theta^2 + 1/N^2).",
        f"{KEY}, section 5.2",
        _constant,
        _first_order,
        hypotheses="What the proof of Theorem 5.4 assumes. Instances: covariance 0, p uniform, N q' = 1 +- theta.",
        expected=Verdict.FAILS,
        counterexample={"size": 4, "constant": 1.0},
        remedy="They differ at first order, by q' - 1/N. The proof itself leaves O(theta), the order to be matched.",
        cost=3,
    ),
    Claim(
        "rdk-section-6.1-share",
        "16.1k of 128k tokens are 12.6 %.",
        f"{KEY}, section 6.1",
        lambda rng: {"tokens": 16_100, "vocabulary": 128_000},
        lambda tokens, vocabulary: 0.05 - abs(100 * tokens / vocabulary - 12.6),
        search=Listed(lambda: [{"tokens": 16_100, "vocabulary": 128_000}]),
        mutations=(Mutation("12.7 %.", lambda tokens, vocabulary: 0.05 - abs(100 * tokens / vocabulary - 12.7)),),
    ),
    Claim(
        "rdk-section-6.2-share",
        "500 of 200k tokens are 0.00025 % of the vocabulary.",
        f"{KEY}, section 6.2 and Figure 6",
        lambda rng: {"tokens": 500, "vocabulary": 200_000},
        lambda tokens, vocabulary: 5e-6 - abs(100 * tokens / vocabulary - 0.00025),
        search=Listed(lambda: [{"tokens": 500, "vocabulary": 200_000}]),
        expected=Verdict.FAILS,
        counterexample={"tokens": 500, "vocabulary": 200_000},
        remedy="They are 0.25 %.",
    ),
)
