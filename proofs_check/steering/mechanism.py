"""The steered MLP, eq. (2), and what its initialisation does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import positive_law

STEP = 1e-5
"""Of the differences that a gradient is checked with: their error is about STEP^2 and 1e-16 / STEP."""


def _gate(a: FloatArray, W_g: FloatArray) -> FloatArray:
    """The activation of SwiGLU, z sigmoid(z)."""
    z = a @ W_g.T
    return z / (1.0 + np.exp(-z))


def _steered(a: FloatArray, W_u: FloatArray, W_g: FloatArray, W_d: FloatArray, bias: FloatArray) -> FloatArray:
    """Eq. (2), with bias = W_s g."""
    return ((a @ W_u.T + bias) * _gate(a, W_g)) @ W_d.T


def _matrix(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Weights of a size that keeps that of vectors."""
    return rng.standard_normal((rows, columns)) / np.sqrt(columns)


def _initial(width: int) -> FloatArray:
    """The initial W_hml, [I I I]."""
    return np.hstack([np.eye(width)] * 3)


def _training(rng: np.random.Generator) -> dict[str, Any]:
    """One position: an MLP, a head U, a target law, the verifier's features, and directions to move projections in."""
    hidden, inner, width, vocab = rng.integers((1, 1, 1, 2), (6, 6, 9, 6)).tolist()
    return {
        "a": rng.standard_normal(hidden),
        "W_u": _matrix(rng, inner, hidden),
        "W_g": _matrix(rng, inner, hidden),
        "W_d": _matrix(rng, hidden, inner),
        "U": _matrix(rng, vocab, hidden),
        "p": positive_law(rng, vocab),
        "hml": rng.standard_normal((3, width)),
        "W_s": _matrix(rng, inner, width),
        "move_s": _matrix(rng, inner, width),
        "move_hml": _matrix(rng, width, 3 * width),
    }


@dataclass(frozen=True, eq=False)
class _Loss:
    """The loss KL(p || drafter) at one position, as a function of both projections."""

    a: FloatArray
    """Shape (hidden,): what the block of the drafter reads."""
    W_u: FloatArray
    """Shape (inner, hidden): its projection up."""
    W_g: FloatArray
    """Shape (inner, hidden): its gate."""
    W_d: FloatArray
    """Shape (hidden, inner): its projection down."""
    U: FloatArray
    """Shape (V, hidden): the head."""
    p: FloatArray
    """Shape (V,): the verifier's law."""
    hml: FloatArray
    """Shape (3, width): hidden states of the verifier at three depths."""

    def log_draft(self, W_s: FloatArray, W_hml: FloatArray) -> FloatArray:
        bias = W_s @ (W_hml @ self.hml.ravel())
        return log_softmax(self.U @ _steered(self.a, self.W_u, self.W_g, self.W_d, bias))

    def __call__(self, W_s: FloatArray, W_hml: FloatArray) -> float:
        return float(self.p @ (np.log(self.p) - self.log_draft(W_s, W_hml)))

    def gradients(self, W_s: FloatArray, W_hml: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By the chain rule, of W_s and W_hml."""
        delta = _gate(self.a, self.W_g) * (self.W_d.T @ self.U.T @ (np.exp(self.log_draft(W_s, W_hml)) - self.p))
        features = self.hml.ravel()
        return np.outer(delta, W_hml @ features), np.outer(W_s.T @ delta, features)


def _gradient_of_h(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """Margin of: the gradient in W_s is delta h^T."""
    loss, W_hml = _Loss(**network), _initial(W_s.shape[1])
    of_s, _ = loss.gradients(W_s, W_hml)
    g = W_hml @ loss.hml.ravel()
    along_s = (loss(W_s + STEP * move_s, W_hml) - loss(W_s - STEP * move_s, W_hml)) / (2 * STEP)
    return -abs(float(along_s - (np.outer(of_s @ g / (g @ g), loss.hml[0]) * move_s).sum()))


@claim(
    "steering-gradients",
    _training,
    tol=1e-6,  # see STEP; the third derivative of the loss can be in the thousands
    cost=4,
    mutants={"With h in place of g.": _gradient_of_h},
)
def gradients(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """The loss has the gradients delta g^T in W_s and W_s^T delta (h, m, l)^T in W_hml, with delta that in W_s g.
    [beside berdozsteering, sections 3.2 and 3.3]

    Beside: berdozsteering, section 3.3
    Hypotheses: One position, one layer; the loss is KL(p || drafter). Against central differences.
    """
    loss, W_hml = _Loss(**network), _initial(W_s.shape[1])
    of_s, of_hml = loss.gradients(W_s, W_hml)
    along_s = (loss(W_s + STEP * move_s, W_hml) - loss(W_s - STEP * move_s, W_hml)) / (2 * STEP)
    along_hml = (loss(W_s, W_hml + STEP * move_hml) - loss(W_s, W_hml - STEP * move_hml)) / (2 * STEP)
    errors = along_s - (of_s * move_s).sum(), along_hml - (of_hml * move_hml).sum()
    return -float(np.abs(errors).max())


def _anywhere(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """Margin of: the gradient in W_hml is 0 whatever W_s."""
    return -float(np.abs(_Loss(**network).gradients(W_s, _initial(W_s.shape[1]))[1]).max())


@claim("steering-start", _training, cost=4, mutants={"W_hml has gradient 0 with any W_s.": _anywhere})
def start(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """At the initialisation W_hml has no effect on the loss, and gradient 0; a small gradient step in W_s helps.
    [beside berdozsteering, section 3.3: 'the initialization [...] is crucial']

    Beside: berdozsteering, section 3.3
    Remark: So W_s moves first and W_hml after it. Were both 0 at the start, neither would ever move.
    Margin: At W_s = 0: whether W_hml makes a difference, and whether a small step of gradient descent in W_s helps.
    """
    loss, zero, W_hml = _Loss(**network), np.zeros_like(W_s), _initial(W_s.shape[1])
    of_s, of_hml = loss.gradients(zero, W_hml)
    unmoved = np.abs(of_hml).max() + abs(loss(zero, W_hml + move_hml) - loss(zero, W_hml))
    square = float((of_s**2).sum())
    step = STEP / (1.0 + square)
    gain = loss(zero, W_hml) - loss(-step * of_s, W_hml) - 0.5 * step * square
    return float(np.minimum(-unmoved, gain))
