"""Lemmas I.1 and J.1 of [thomas2025global]: transport systems and their softmax solutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.search import Descent


@dataclass(frozen=True, eq=False)
class Transport:
    """Supplies y_b that serve demands x_a along the edges of a bipartite graph, by a softmax of variables alpha_a."""

    edges: BoolArray
    """Shape (m, V): whether a supply can serve a demand.  Each supply has an edge, unless there is slack."""
    supplies: FloatArray
    """Shape (m,)."""
    demands: FloatArray
    """Shape (V,)."""
    slack: bool
    """Whether supplies may be left unspent: the 1 in the logarithms of eq. (15) and (93)."""

    def _softmax(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logarithm of the sum over each supply's edges, and its shares, shape (m, V)."""
        logits = np.where(self.edges, alpha, -np.inf)
        top = logits.max(axis=1, initial=0.0 if self.slack else -np.inf)
        weights = np.exp(logits - top[:, None])
        total = weights.sum(axis=1) + (np.exp(-top) if self.slack else 0.0)
        return top + np.log(total), weights / total[:, None]

    def value(self, alpha: FloatArray) -> float:
        """Phi, or with slack Theta [thomas2025global, eq. (12), (15), (64), (93)]."""
        return float(self.supplies @ self._softmax(alpha)[0] - self.demands @ alpha)

    def served(self, alpha: FloatArray) -> FloatArray:
        """S, shape (m, V) [thomas2025global, eq. (14), (17)]."""
        return self.supplies[:, None] * self._softmax(alpha)[1]

    def gradient(self, alpha: FloatArray) -> FloatArray:
        """Of the value: what each demand receives, less the demand."""
        return self.served(alpha).sum(axis=0) - self.demands

    def slope(self, alpha: FloatArray) -> float:
        """1-norm of the gradient; of a system that is not truncated, the deviation of its solution."""
        return float(np.abs(self.gradient(alpha)).sum())

    def truncated(self, kept: BoolArray) -> Transport:
        """The system of a truncation T: supplies with no edge out of T, and demands in T."""
        inside = ~(self.edges & ~kept).any(axis=1)
        return replace(
            self, edges=self.edges[inside], supplies=self.supplies[inside], demands=np.where(kept, self.demands, 0.0)
        )

    def flat(self, slope: float, max_steps: int = 400) -> FloatArray:
        """Variables with a gradient of 1-norm at most `slope`, by Newton's method with the gradient as its ridge.

        The ridge keeps steps finite where the infimum is not attained: gradient and curvature then vanish alike.
        """
        alpha = np.zeros(self.demands.size)
        for _ in range(max_steps):
            served = self.served(alpha)
            gradient = served.sum(axis=0) - self.demands
            if np.abs(gradient).sum() <= slope:
                break
            spent = served / np.sqrt(np.maximum(self.supplies, np.finfo(float).tiny))[:, None]
            curvature = np.diag(served.sum(axis=0)) - spent.T @ spent
            step = np.linalg.solve(curvature + np.abs(gradient).max() * np.eye(alpha.size), gradient)
            value, fall, length = self.value(alpha), float(gradient @ step), 1.0
            while self.value(alpha - length * step) > value - 1e-4 * length * fall and length > 1e-6:
                length /= 2
            alpha -= length * step
        return alpha


def _graph(rng: np.random.Generator) -> dict[str, Any]:
    """A graph without isolated points, a flow on it, and two points."""
    supplies, demands = int(rng.integers(1, 7)), int(rng.integers(1, 6))
    edges = rng.random((supplies, demands)) < rng.uniform(0.2, 1.0)
    edges[np.arange(supplies), rng.integers(0, demands, supplies)] = True
    edges[rng.integers(0, supplies, demands), np.arange(demands)] = True
    flow = rng.gamma(10 ** rng.uniform(-1.5, 1.0), size=edges.shape) * (rng.random(edges.shape) < rng.uniform(0.5, 1.2))
    unspent = rng.gamma(0.5, size=supplies) * (rng.random(supplies) < 0.5)
    scale = 10 ** rng.uniform(-1.0, 1.0)
    alpha, beta = rng.normal(scale=scale, size=(2, demands))
    return {"edges": edges, "flow": np.where(edges, flow, 0.0), "unspent": unspent, "alpha": alpha, "beta": beta}


def _system(edges: BoolArray, flow: FloatArray, unspent: FloatArray, slack: bool) -> Transport:
    flow = np.where(edges, np.abs(flow), 0.0)
    supplies = flow.sum(axis=1) + (np.abs(unspent) if slack else 0.0)
    return Transport(edges, supplies, flow.sum(axis=0), slack)


def _convex(
    edges: BoolArray, flow: FloatArray, unspent: FloatArray, alpha: FloatArray, beta: FloatArray, slack: bool
) -> float:
    value = _system(edges, flow, unspent, slack).value
    scale = 1.0 + (np.abs(alpha).max() + np.abs(beta).max()) * (np.abs(flow).sum() + np.abs(unspent).sum())
    bend = (value(alpha) + value(beta)) / 2 - value((alpha + beta) / 2)
    return float(min(value(alpha), bend) / scale)


def _unequal(
    edges: BoolArray, flow: FloatArray, unspent: FloatArray, slack: bool, supply: float = 0.0, demand: float = 1.0
) -> Transport:
    """The system with so much of what is unspent as supplies, too, and the demands times a number."""
    system = _system(edges, flow, unspent, slack)
    return replace(system, supplies=system.supplies + supply * np.abs(unspent), demands=demand * system.demands)


def _not_negative(alpha: FloatArray, beta: FloatArray, **system: Any) -> float:
    value = _unequal(**system).value
    return float(min(value(alpha), value(beta)))


def _gradient(epsilon: float, max_steps: int = 400, **system: Any) -> float:
    unequal = _unequal(**system)
    return epsilon - unequal.slope(unequal.flat(epsilon, max_steps))


def _graph_and_epsilon(rng: np.random.Generator) -> dict[str, Any]:
    graph = _graph(rng)
    return {name: graph[name] for name in ("edges", "flow", "unspent")} | {"epsilon": float(10 ** rng.uniform(-6, -1))}


@claim(
    "gr-lemma-I.1",
    _graph,
    Descent(free="flow alpha beta"),
    cost=5,
    mutants={"Supplies may be left.": partial(_not_negative, slack=False, supply=1.0)},
)
def lemma_i_1(**graph: Any) -> float:
    """Phi is convex and not negative when supplies y_b can serve demands x_a in full with nothing left.
    [thomas2025global, Lemma I.1]
    """
    return _convex(**graph, slack=False)


@claim(
    "gr-lemma-I.1-gradient",
    _graph_and_epsilon,
    cost=30,
    mutants={"Supplies may be left.": {"supply": 1.0, "max_steps": 50}},
)
def lemma_i_1_gradient(**graph: Any) -> float:
    """Then for every eps > 0 some point has a gradient of Phi of 1-norm at most eps. [thomas2025global, Lemma I.1]

    Remark: For eps > 0 only: the infimum need not be attained (p = (1/4, 3/4), q = (1/2, 1/2), n = 2: alpha_2 - alpha_1
    grows without bound).
    """
    return _gradient(**graph, slack=False)


@claim(
    "gr-lemma-J.1",
    _graph,
    Descent(free="flow unspent alpha beta"),
    cost=5,
    mutants={"Demands may be a tenth larger than what is served.": partial(_not_negative, slack=True, demand=1.1)},
)
def lemma_j_1(**graph: Any) -> float:
    """Theta is convex and not negative when supplies y_b can serve demands x_a in full. [thomas2025global, Lemma
    J.1]
    """
    return _convex(**graph, slack=True)


@claim(
    "gr-lemma-J.1-gradient",
    _graph_and_epsilon,
    cost=40,
    mutants={"Demands may be half as large again as what is served.": {"demand": 1.5, "max_steps": 50}},
)
def lemma_j_1_gradient(**graph: Any) -> float:
    """Then for every eps > 0 some point has a gradient of Theta of 1-norm at most eps. [thomas2025global, Lemma J.1]"""
    return _gradient(**graph, slack=True)
