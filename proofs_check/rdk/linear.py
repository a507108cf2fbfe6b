"""Equations (2) and (3) and Theorem 5.4: the affinity matrix, and the formula that is to approximate RDK."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import pair
from otspec.proofs_check.search import Descent
from otspec.vocab import acceptance_rate, affinity, rdk, rdk_linear

Rng = np.random.Generator


def _covariance(rng: Rng) -> dict[str, Any]:
    size = int(rng.integers(1, 7))
    factor = rng.normal(size=(size, 2))
    return {"covariance": factor @ factor.T * 10 ** rng.uniform(-2, 3), "tau": float(10 ** rng.uniform(-2, 2))}


@claim("rdk-equation-2", _covariance, mutants={"The columns are.": {"axis": 0}})
def equation_2(covariance: FloatArray, tau: float, axis: int = 1) -> float:
    """The rows of M, softmax of the covariance over tau, are laws. [timor2025out, eq. (2)]

    Remark: With the row's largest entry subtracted first; exp alone overflows where a covariance exceeds 709 tau.
    """
    size = len(covariance)
    matrix = affinity(covariance, tau).rows(0, size)
    return float(min(matrix.min(), -np.abs(matrix.sum(axis=axis) - 1).max()))


@claim(
    "rdk-equation-2-temperature",
    _covariance,
    mutants={"At least 1.05 exp(-R / tau) / N.": {"least": 1.05}, "At most 0.95 exp(-d_ij / tau).": {"most": 0.95}},
)
def equation_2_temperature(covariance: FloatArray, tau: float, least: float = 1.0, most: float = 1.0) -> float:
    """tau controls how sharply M redistributes: rows tend to uniform as it grows, to their argmax as it falls.
    [timor2025out, eq. (2)]

    Remark: Checked as M_ij >= exp(-R / tau) / N, R being the range of row i, and M_ij <= exp(-d_ij / tau), d_ij being
    how far covariance_ij is below the largest of its row. Covariances of probabilities are at most 1/4, so with tau = 1
    all entries are within a factor 1.65 of 1/N.
    Margin: With so many times either bound.
    """
    size = len(covariance)
    matrix = affinity(covariance, tau).rows(0, size)
    spread = np.ptp(covariance, axis=1, keepdims=True) / tau
    flat = np.exp(-spread) / size
    largest = covariance.max(axis=1, keepdims=True)
    elsewhere = np.exp((covariance - largest) / tau)
    return float(min((matrix - least * flat).min(), (most * elsewhere - matrix).min()))


def _is_tli(p: FloatArray, q: FloatArray, size: int) -> tuple[float, float, float, float]:
    """theta / N; distance of eq. (3) to q', in acceptance, and mass on tokens that q' lacks."""
    moved = rdk_linear(p, q, size)
    difference = abs(float(acceptance_rate(p, moved) - acceptance_rate(p, q)))
    return float(p @ q) / size, float(np.abs(moved - q).sum()), difference, float(moved[q == 0].sum())


def _any_size(rng: Rng) -> dict[str, Any]:
    instance = pair(rng)
    return {**instance, "size": int(instance["p"].size * rng.choice([1, 1, 10, 1000]))}


@claim(
    "rdk-equation-3-is-tli",
    _any_size,
    Descent("p q"),
    tightness=lambda p, q, size: _is_tli(p, q, size)[1] / max(2 * _is_tli(p, q, size)[0], 1e-12),
    mutants={
        "0.95 times the bound on the distance.": {"counts": (1.9, 1.0, 1.0)},
        "0.95 times the bound on the acceptance.": {"counts": (2.0, 0.95, 1.0)},
        "0.95 times the bound on the mass elsewhere.": {"counts": (2.0, 1.0, 0.95)},
    },
)
def equation_3_is_tli(
    p: FloatArray, q: FloatArray, size: int, counts: tuple[float, float, float] = (2.0, 1.0, 1.0)
) -> float:
    """Equation (3) is within 2 theta / N of q' in L1, accepts as often to within theta / N, and puts at most theta / N
    of its mass on tokens that q' lacks. [otspec; about timor2025out, eq. (3)]

    Beside: rdk-theorem-5.4
    Remark: Proof in docs/vocab.md. With N = 200 000 the acceptance of TLI changes by less than 5e-6. Equation (3) takes
    the target law p, which a drafter does not know: it cannot propose tokens before verification, and with p at hand
    nothing needs to be proposed.
    """
    unit, *found = _is_tli(p, q, size)
    return min(count * unit - number for count, number in zip(counts, found, strict=True))


def _flat(rng: Rng) -> dict[str, Any]:
    """A constant, and a vocabulary large enough to exceed it."""
    constant = float(10 ** rng.uniform(0, 4))
    return {"size": int(constant * rng.uniform(4, 8)) + 2, "kept": 1, "constant": constant}


def _distance_to_rdk(p: FloatArray, q: FloatArray, covariance: Any) -> tuple[float, float]:
    """|p_Taylor - M^T q'|_1 and theta, at tau = 1."""
    return float(np.abs(rdk_linear(p, q) - rdk(q, affinity(covariance))).sum()), float(p @ q)


@claim("rdk-theorem-5.4", _flat, counterexample={"size": 2, "kept": 1, "constant": 1.0}, cost=3)
def theorem_5_4(size: int, kept: int, constant: float) -> float:
    """|p_Taylor - M^T q'|_1 <= C (theta + 1/N^2) with a constant C that depends on neither theta nor N. [timor2025out,
    Theorem 5.4]

    Hypotheses: M of equation (2). Instances: covariance 0, p uniform, q' uniform on the tokens kept.
    Instead: The ratio of both sides is about 2 N on these instances, so that every C is exceeded by some N. Equation
    (3) stays at q' (rdk-equation-3-is-tli), and M^T q' is uniform. With p 0 where q' is not, theta = 0, and 1/N^2 alone
    would have to do.
    Margin: Margin with that constant, for no covariance, p uniform, and q' uniform on the tokens kept.
    """
    p, q = np.full(size, 1 / size), np.zeros(size)
    q[:kept] = 1 / kept
    left, theta = _distance_to_rdk(p, q, sparse.csr_array((size, size)))  # no covariance: M = 1/N
    return constant * (theta + 1 / size**2) - left


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


@claim(
    "rdk-theorem-5.4-proof",
    _nearly_uniform,
    counterexample={"v": np.zeros(20), "u": np.append(380.0, np.full(19, -20.0)), "noise": np.zeros((20, 20))},
    tightness=_needed,
    cost=2,
    mutants={"With 0.9 times that.": {"constant": 0.9}},
)
def theorem_5_4_proof(v: FloatArray, u: FloatArray, noise: FloatArray, constant: float = 1.0) -> float:
    """The same under what its proof assumes, with C = 1 + 4/N. [timor2025out, Theorem 5.4 and Appendix B.2]

    Hypotheses: Covariance_ij / tau = theta p_j + O(theta^2), eq. (6).
    Assumption: N q'_j = 1 + O(theta) for all tokens j: q' is nearly uniform. The proof says that 'one shows' it; it
    does not follow, and no pruned drafter meets it.
    Remark: Proof in docs/vocab.md, Theorem 4, for N >= 4, and numbers that are at most 1 in the place of each O. For q'
    itself too: all is within O(theta) of uniform, and theta = (1 + O(theta)) / N is not free. N q' = 1 +- 1/N, p its
    opposite, attains C = 1 as N grows.
    """
    return constant - _needed(v, u, noise)


def _constant(rng: Rng) -> dict[str, Any]:
    constant = float(10 ** rng.uniform(0, 4))
    return {"size": 2 * int(constant * rng.uniform(2, 4)) + 2, "constant": constant}


@claim("rdk-theorem-5.4-first-order", _constant, counterexample={"size": 4, "constant": 1.0}, cost=3)
def theorem_5_4_first_order(size: int, constant: float) -> float:
    """Equation (3) coincides with M^T q' up to first order in theta: they differ by at most C (theta^2 + 1/N^2).
    [timor2025out, section 5.2]

    Hypotheses: What the proof of Theorem 5.4 assumes. Instances: covariance 0, p uniform, N q' = 1 +- theta.
    Instead: They differ at first order, by q' - 1/N. The proof itself leaves O(theta), the order to be matched.
    """
    p = np.full(size, 1 / size)
    q = (1 + np.tile([1, -1], size // 2) / size) / size
    left, theta = _distance_to_rdk(p, q, sparse.csr_array((size, size)))
    return constant * (theta**2 + 1 / size**2) - left


@claim("rdk-section-6.1-share", [{"tokens": 16_100, "vocabulary": 128_000}], mutants={"12.7 %.": {"printed": 12.7}})
def section_6_1_share(tokens: int, vocabulary: int, printed: float = 12.6) -> float:
    """16.1k of 128k tokens are 12.6 %. [timor2025out, section 6.1]"""
    return 0.05 - abs(100 * tokens / vocabulary - printed)


@claim(
    "rdk-section-6.2-share",
    [{"tokens": 500, "vocabulary": 200_000}],
    counterexample={"tokens": 500, "vocabulary": 200_000},
)
def section_6_2_share(tokens: int, vocabulary: int) -> float:
    """500 of 200k tokens are 0.00025 % of the vocabulary. [timor2025out, section 6.2 and Figure 6]

    Instead: They are 0.25 %.
    """
    return 5e-6 - abs(100 * tokens / vocabulary - 0.00025)
