"""The steered MLP, eq. (1) and (2), and what its initialisation does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim, Mutation
from otspec.proofs_check.instances import positive_law

KEY = "berdozsteering"
STEP = 1e-5
"""Of the differences that a gradient is checked with: their error is about STEP^2 and 1e-16 / STEP."""


def _gate(a: FloatArray, W_g: FloatArray) -> FloatArray:
    """The activation of SwiGLU, z sigmoid(z), per position."""
    z = a @ W_g.T
    return z / (1.0 + np.exp(-z))


def _plain(a: FloatArray, W_u: FloatArray, W_g: FloatArray, W_d: FloatArray) -> FloatArray:
    """Eq. (1), per position."""
    return ((a @ W_u.T) * _gate(a, W_g)) @ W_d.T


def _steered(a: FloatArray, W_u: FloatArray, W_g: FloatArray, W_d: FloatArray, bias: FloatArray) -> FloatArray:
    """Eq. (2), per position, with bias = W_s g."""
    return ((a @ W_u.T + bias) * _gate(a, W_g)) @ W_d.T


def _matrix(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Weights of a size that keeps that of vectors."""
    return rng.standard_normal((rows, columns)) / np.sqrt(columns)


def _mlp(rng: np.random.Generator) -> dict[str, Any]:
    hidden, inner, positions, width = rng.integers(1, 6, 4).tolist()
    return {
        "a": rng.standard_normal((positions, hidden)),
        "W_u": _matrix(rng, inner, hidden),
        "W_g": _matrix(rng, inner, hidden),
        "W_d": _matrix(rng, hidden, inner),
        "W_s": _matrix(rng, inner, width),
        "g": rng.standard_normal(width),
    }


def _zero(a: FloatArray, W_u: FloatArray, W_g: FloatArray, W_d: FloatArray, W_s: FloatArray, g: FloatArray) -> float:
    return -float(np.abs(_steered(a, W_u, W_g, W_d, np.zeros_like(W_s) @ g) - _plain(a, W_u, W_g, W_d)).max())


def _any_steering(
    a: FloatArray, W_u: FloatArray, W_g: FloatArray, W_d: FloatArray, W_s: FloatArray, g: FloatArray
) -> float:
    """Margin of: the MLPs agree whatever W_s."""
    return -float(np.abs(_steered(a, W_u, W_g, W_d, W_s @ g) - _plain(a, W_u, W_g, W_d)).max())


def _once(a: FloatArray, W_u: FloatArray, W_g: FloatArray, W_d: FloatArray, W_s: FloatArray, g: FloatArray) -> float:
    bias = W_s @ g
    anew = [_steered(position, W_u, W_g, W_d, W_s @ g) for position in a]
    return -float(np.abs(_steered(a, W_u, W_g, W_d, bias) - anew).max())


def _features(rng: np.random.Generator) -> dict[str, Any]:
    """High, middle and low hidden states of the verifier."""
    return {"hml": rng.standard_normal((3, int(rng.integers(1, 9))))}


def _initial(width: int) -> FloatArray:
    """The initial W_hml, [I I I]."""
    return np.hstack([np.eye(width)] * 3)


def _sum(hml: FloatArray) -> float:
    return -float(np.abs(_initial(hml.shape[1]) @ hml.ravel() - hml.sum(axis=0)).max())


def _two_summands(hml: FloatArray) -> float:
    return -float(np.abs(_initial(hml.shape[1]) @ hml.ravel() - hml[:2].sum(axis=0)).max())


def _training(rng: np.random.Generator) -> dict[str, Any]:
    """One position: an MLP, a head U, a target law, features, and directions to move both projections in."""
    drawn, features = _mlp(rng), _features(rng)["hml"]
    (inner, hidden), width, vocab = drawn["W_u"].shape, features.shape[1], int(rng.integers(2, 6))
    return {
        **{name: drawn[name] for name in ("W_u", "W_g", "W_d")},
        "a": drawn["a"][0],
        "U": _matrix(rng, vocab, hidden),
        "p": positive_law(rng, vocab),
        "hml": features,
        "W_s": _matrix(rng, inner, width),
        "move_s": _matrix(rng, inner, width),
        "move_hml": _matrix(rng, width, 3 * width),
    }


@dataclass(frozen=True, eq=False)
class _Loss:
    """The loss KL(p || drafter) at one position, as a function of both projections."""

    a: FloatArray
    W_u: FloatArray
    W_g: FloatArray
    W_d: FloatArray
    U: FloatArray
    p: FloatArray
    hml: FloatArray

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


def _gradients(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    loss, W_hml = _Loss(**network), _initial(W_s.shape[1])
    of_s, of_hml = loss.gradients(W_s, W_hml)
    along_s = (loss(W_s + STEP * move_s, W_hml) - loss(W_s - STEP * move_s, W_hml)) / (2 * STEP)
    along_hml = (loss(W_s, W_hml + STEP * move_hml) - loss(W_s, W_hml - STEP * move_hml)) / (2 * STEP)
    errors = along_s - (of_s * move_s).sum(), along_hml - (of_hml * move_hml).sum()
    return -float(np.abs(errors).max())


def _gradient_of_h(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """Margin of: the gradient in W_s is delta h^T."""
    loss, W_hml = _Loss(**network), _initial(W_s.shape[1])
    of_s, _ = loss.gradients(W_s, W_hml)
    g = W_hml @ loss.hml.ravel()
    along_s = (loss(W_s + STEP * move_s, W_hml) - loss(W_s - STEP * move_s, W_hml)) / (2 * STEP)
    return -abs(float(along_s - (np.outer(of_s @ g / (g @ g), loss.hml[0]) * move_s).sum()))


def _anywhere(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """Margin of: the gradient in W_hml is 0 whatever W_s."""
    return -float(np.abs(_Loss(**network).gradients(W_s, _initial(W_s.shape[1]))[1]).max())


def _start(W_s: FloatArray, move_s: FloatArray, move_hml: FloatArray, **network: FloatArray) -> float:
    """At W_s = 0: whether W_hml makes a difference, and whether a small step of gradient descent in W_s helps."""
    loss, zero, W_hml = _Loss(**network), np.zeros_like(W_s), _initial(W_s.shape[1])
    of_s, of_hml = loss.gradients(zero, W_hml)
    unmoved = np.abs(of_hml).max() + abs(loss(zero, W_hml + move_hml) - loss(zero, W_hml))
    square = float((of_s**2).sum())
    step = STEP / (1.0 + square)
    gain = loss(zero, W_hml) - loss(-step * of_s, W_hml) - 0.5 * step * square
    return float(np.minimum(-unmoved, gain))


CLAIMS = (
    Claim(
        "steering-zero-init",
        "With W_s = 0, as initialised, the steered MLP of eq. (2) is the MLP of eq. (1).",
        f"{KEY}, sections 3.2 and 3.3",
        _mlp,
        _zero,
        tol=0.0,
        remark="Bit for bit, so that training starts from the pretrained drafter.",
        mutations=(Mutation("With any W_s.", _any_steering),),
    ),
    Claim(
        "steering-sum-init",
        "With W_hml = [I I I] the steering vector is h + m + l.",
        f"{KEY}, section 3.3",
        _features,
        _sum,
        remark="The steering vector is then as wide as the verifier's hidden states.",
        mutations=(Mutation("It is h + m.", _two_summands),),
    ),
    Claim(
        "steering-once-per-block",
        "W_s g does not depend on the draft position: computed once per block it has the same effect.",
        f"{KEY}, section 3.2",
        _mlp,
        _once,
        tol=1e-12,  # matrix products of other shapes round differently
        mutations=(Mutation("It has no effect.", _any_steering),),
    ),
    Claim(
        "steering-gradients",
        "The loss has the gradients delta g^T in W_s and W_s^T delta (h, m, l)^T in W_hml, with delta that in W_s g.",
        f"beside {KEY}, sections 3.2 and 3.3",
        _training,
        _gradients,
        tol=1e-6,  # see STEP; the third derivative of the loss can be in the thousands
        cost=4,
        hypotheses="One position, one layer; the loss is KL(p || drafter).  Against central differences.",
        mutations=(Mutation("With h in place of g.", _gradient_of_h),),
    ),
    Claim(
        "steering-start",
        "At the initialisation W_hml has no effect on the loss, and gradient 0; a small gradient step in W_s helps.",
        f"beside {KEY}, section 3.3: 'the initialization [...] is crucial'",
        _training,
        _start,
        cost=4,
        remark="So W_s moves first and W_hml after it.  Were both 0 at the start, neither would ever move.",
        mutations=(Mutation("W_hml has gradient 0 with any W_s.", _anywhere),),
    ),
)
