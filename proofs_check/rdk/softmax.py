"""Section 5.1: softmax of noisy logits (Theorem 5.2) and of two Gaussian logits (Theorem 5.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, softmax

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.instances import law
from otspec.proofs_check.search import Descent

Rng = np.random.Generator
GAUSS_LEGENDRE = np.polynomial.legendre.leggauss(100)


def _logits(rng: Rng) -> dict[str, Any]:
    size = int(rng.integers(2, 7))
    noise = rng.normal(size=size) * 10 ** rng.uniform(-3, 1) * (rng.random(size) < 0.7)
    return {"z": rng.normal(size=size) * 10 ** rng.uniform(-2, 1), "eta": noise}


def _distance(z: FloatArray, eta: FloatArray) -> float:
    return float(np.abs(softmax(z + eta) - softmax(z)).sum())


def _added(z: FloatArray, eta: FloatArray) -> FloatArray:
    """The noise that is left of eta once it is added to logits in floats: of large logits, a multiple of their ulp."""
    noise: FloatArray = (z + eta) - z
    return noise


@inequality(
    "rdk-theorem-5.2", _logits, Descent(free="z eta"), least=5e-7, mutants={"0.95 |eta|_1 / 2.": {"right": 0.95}}
)
def theorem_5_2(z: FloatArray, eta: FloatArray) -> tuple[float, float]:
    """|softmax(z + eta) - softmax(z)|_1 <= |eta|_1 / 2. [timor2025out, Theorem 5.2]

    Remark: Of use only where |eta|_1 < 4. Over a whole vocabulary the 1-norm of the noise is large:
    rdk-theorem-5.2-range needs its range alone.
    """
    return (_distance(z, eta), float(np.abs(_added(z, eta)).sum() / 2))


@inequality(
    "rdk-theorem-5.2-range", _logits, Descent(free="z eta"), least=1e-6, mutants={"0.95 times that.": {"right": 0.95}}
)
def theorem_5_2_range(z: FloatArray, eta: FloatArray) -> tuple[float, float]:
    """|softmax(z + eta) - softmax(z)|_1 <= 2 tanh((max eta - min eta) / 4). [otspec; sharper than timor2025out, Theorem
    5.2]

    Beside: rdk-theorem-5.2
    Remark: The ratio q/p has mean 1 under p and values in [a, a e^R]; the sum of p (q/p - 1)+ is largest with the ends
    only, and then with a = e^(-R/2).
    """
    return (_distance(z, eta), float(2 * np.tanh(np.ptp(_added(z, eta)) / 4)))


def _law(rng: Rng) -> dict[str, Any]:
    return {"p": law(rng, int(rng.integers(1, 8)))}


@claim("rdk-theorem-5.2-jacobian", _law, Descent("p"), mutants={"At most 0.475.": {"most": 0.475}})
def theorem_5_2_jacobian(p: FloatArray, most: float = 0.5) -> float:
    """The columns of the Jacobian of softmax have absolute sums 2 p_j (1 - p_j) <= 1/2. [timor2025out, Appendix B.3]"""
    columns = np.abs(np.diag(p) - np.outer(p, p)).sum(axis=0)
    return float(min(-np.abs(columns - 2 * p * (1 - p)).max(), (most - columns).min()))


def _two_tokens(rng: Rng) -> dict[str, Any]:
    """M = ((a, 1 - a), (1 - a, a)), and what mu2 - mu1 has beyond the least gap, 6 sqrt(a)."""
    return {"a": float(rng.uniform(0.5, 1)), "beyond": float(rng.choice([0.0, rng.exponential()]))}


def failure(a: float, gap: float, sd: float) -> float:
    """P(RDK accepts less than TLI) for two Gaussian logits, z2 - z1 of mean `gap`, p' = (a, 1 - a) and q' = (1, 0).

    It does exactly where p1 > (1 + a) / 2, that is z1 - z2 > log((1 + a) / (1 - a)).
    """
    if a == 1:
        return 0.0
    excess = gap + np.log((1 + a) / (1 - a))
    return float(ndtr(-excess / sd)) if sd > 0 else float(excess < 0)


@claim("rdk-theorem-5.3", _two_tokens, tol=0.0, mutants={"With probability at most 5e-12.": {"chance": 5e-12}})
def theorem_5_3(a: float, beyond: float, chance: float = 6e-12) -> float:
    """Two Gaussian logits, six deviations apart: with probability 99.46 % RDK accepts at least as often as TLI.
    [timor2025out, Theorem 5.3]

    Hypotheses: M is covariance and row-stochastic, so ((a, 1 - a), (1 - a, a)) with 1/2 <= a <= 1; q' = (1, 0).
    Remark: Checked in a much stronger form: it accepts less with probability at most 6e-12, by a closed form whose
    maximum is at a = 0.866. Typos in (15): one denominator has exp(mu2 + 3 sqrt(M11)) for exp(mu1 + ...), and that M11
    is a variance is used for M11 >= 0 only.
    """
    return chance - failure(a, 6 * np.sqrt(a) + beyond, np.sqrt(max(4 * a - 2, 0)))


def _one_target(rng: Rng) -> dict[str, Any]:
    return {"a": float(rng.uniform(0.5, 1)), "p1": float(rng.random())}


def _acceptance_gain(p1: float, moved: FloatArray) -> float:
    return float(min(p1, moved[0]) + min(1 - p1, moved[1]) - p1)


@claim("rdk-theorem-5.3-criterion", _one_target, mutants={"RDK gains min(1 - a, 1 + a - p1).": {"times": 1.0}})
def theorem_5_3_criterion(a: float, p1: float, times: float = 2.0) -> float:
    """For p' = (a, 1 - a) and q' = (1, 0) RDK gains min(1 - a, 1 + a - 2 p1): it loses just where p1 > (1 + a) / 2.
    [otspec; decides timor2025out, Theorem 5.3]

    Beside: rdk-theorem-5.3
    """
    gain = min(p1, a) + min(1 - p1, 1 - a) - p1
    agrees = (gain < -1e-12) <= (p1 > (1 + a) / 2) and (p1 > (1 + a) / 2 + 1e-12) <= (gain < 0)
    return -abs(gain - min(1 - a, 1 + a - times * p1)) if agrees else -np.inf


def _any_covariance(rng: Rng) -> dict[str, Any]:
    """Standard deviations and correlation of the logits, first entry of M, and what the gap of means has beyond."""
    return {
        "s1": float(10 ** rng.uniform(-2, 2)),
        "s2": float(10 ** rng.uniform(-2, 2)),
        "correlation": float(rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])),
        "a": float(rng.choice([0.0, rng.random()])),
        "beyond": float(rng.choice([0.0, rng.exponential()])),
    }


@inequality("rdk-theorem-5.3-any-covariance", _any_covariance, tol=1e-15, mutants={"0.95 times that.": {"right": 0.95}})
def theorem_5_3_any_covariance(
    s1: float, s2: float, correlation: float, a: float, beyond: float
) -> tuple[float, float]:
    """The same with logits of any covariance and any row-stochastic M: probability of failure at most 0.00135. [otspec;
    without the covariance and M being one, timor2025out, Theorem 5.3]

    Beside: rdk-theorem-5.3
    Hypotheses: mu1 + 3 s1 <= mu2 - 3 s2.
    Remark: To lose, z1 > z2 is needed, and z2 - z1 is at least three of its deviations above 0 in the mean.
    """
    sd = np.sqrt(max(s1**2 + s2**2 + 2 * -correlation * s1 * s2, 0))
    return failure(a, 3 * (s1 + s2) + beyond, sd), float(ndtr(-3))


def _correlation(rng: Rng) -> dict[str, Any]:
    return {"correlation": float(rng.choice([0.0, rng.uniform(-0.99, 0.99)]))}


def _both_within(correlation: float) -> float:
    """P(|x| <= 3 and |y| <= 3) for standard normal x and y, by Gauss-Legendre."""
    nodes, weights = GAUSS_LEGENDRE
    x, spread = 3 * nodes, np.sqrt(1 - correlation**2)
    inside = ndtr((3 - correlation * x) / spread) - ndtr((-3 - correlation * x) / spread)
    return float(3 * weights @ (inside * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)))


@claim("rdk-theorem-5.3-three-deviations", _correlation, tol=1e-9, mutants={"At least 0.995.": {"least": 0.995}})
def theorem_5_3_three_deviations(correlation: float, least: float = (1 - 2 * ndtr(-3)) ** 2) -> float:
    """Two Gaussian variables are within three deviations of their means at once with probability at least 0.9946.
    [timor2025out, eq. (13)]

    Remark: Checked as at least 0.9973^2 = 0.99461, for any correlation. 'With probability 99.46 %' has to be read as
    'at least'.
    """
    return _both_within(correlation) - least


def _semidefinite(rng: Rng) -> dict[str, Any]:
    factor = rng.gamma(1.0, size=(2, 2))
    return {"p1": float(rng.uniform(0, 0.5)), "matrix": factor @ factor.T * rng.random()}


@claim("rdk-theorem-5.3-any-m", _semidefinite, counterexample={"p1": 0.4, "matrix": [[0.1, 0.0], [0.0, 1.0]]})
def theorem_5_3_any_m(p1: float, matrix: FloatArray) -> float:
    """A variant that is not claimed: Theorem 5.3 without Assumption 4.1, for a covariance M that is not stochastic.
    [otspec; timor2025out, Theorem 5.3, has the assumption]

    Beside: rdk-theorem-5.3
    Hypotheses: p1 <= p2, which is the event that the theorem is about.
    Instead: Assumption 4.1 is needed, as the theorem states: without it p' is not a law.
    """
    return _acceptance_gain(p1, matrix[:, 0])


def _row_stochastic(rng: Rng) -> dict[str, Any]:
    return {"p1": float(rng.uniform(0, 0.5)), "matrix": np.array([law(rng, 2), law(rng, 2)])}


@claim("rdk-theorem-5.3-untransposed", _row_stochastic, counterexample={"p1": 0.4, "matrix": [[0.0, 1.0], [0.0, 1.0]]})
def theorem_5_3_untransposed(p1: float, matrix: FloatArray) -> float:
    """A variant that is not claimed: Theorem 5.3 with p' = M q', for a row-stochastic M that is not symmetric. [otspec;
    eq. (7) of timor2025out writes p' = M q']

    Beside: rdk-theorem-5.3
    Hypotheses: p1 <= p2, which is the event that the theorem is about.
    Instead: p' = M^T q', as in Algorithm 1. In the theorem M is symmetric, and they are the same.
    """
    return _acceptance_gain(p1, matrix[:, 0])
