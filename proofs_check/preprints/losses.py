"""LK losses [samarin2026lk]: what a small KL(p || q) says of acceptance, and what the loss -log alpha is."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import rel_entr, softmax

from otspec.laws import FloatArray
from otspec.proofs_check.claims import Unchecked, claim, inequality
from otspec.proofs_check.instances import law, laws, pair, positive_law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap

KEY = "samarin2026lk"
ABSTRACT = f"{KEY} (arXiv:2602.23881), abstract"
STEP = 1e-5
"""How far logits are moved."""


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """KL(p || q) as a sum of terms p (d - log(1 + d)), d = q / p - 1, none of which is negative.

    Terms p log(p / q) cancel where the laws are near: what is left is rounding, of which the bounds take a root.
    """
    drafted = p > 0
    p, only_q = p[drafted], float(q[~drafted].sum())
    off = (q[drafted] - p) / p
    with np.errstate(divide="ignore"):
        return float((p * np.maximum(off - np.log1p(off), 0.0)).sum()) + only_q


LAWS = Descent("p q")


@inequality(
    "lk-same-optimum",
    pair,
    LAWS,
    mutants={
        "At least 1 - KL / 2.": lambda p, q: overlap(p, q) - 1 + float(rel_entr(p, q).sum()) / 2,
        "1.05 times that.": {"left": 1.05},
    },
)
def same_optimum(p: FloatArray, q: FloatArray) -> tuple[float, float]:
    """Acceptance is 1 where KL(p || q) is 0: it is at least 1 - sqrt(KL / 2) and 1 - sqrt(1 - exp(-KL)). [samarin2026lk
    (arXiv:2602.23881), abstract; docs/drafters.md, Theorem 3]

    Remark: The abstract says that both have one global optimum; these bounds, of Pinsker, and of Bretagnolle and Huber,
    say how near to it. There is none the other way: KL is infinite where q lacks a token of p.
    Margin: The larger of 1 - sqrt(KL / 2) and 1 - sqrt(1 - exp(-KL)), and what is accepted.
    """
    apart = _divergence(p, q)
    return max(1 - np.sqrt(apart / 2), 1 - np.sqrt(-np.expm1(-apart))), overlap(p, q)


def _family(rng: np.random.Generator) -> dict[str, Any]:
    """Two laws that a small drafter could have."""
    return laws(rng, 4, p=law, first=positive_law, second=positive_law)


@claim(
    "lk-proxy",
    _family,
    Descent("p first second"),
    counterexample={"p": [0.8, 0.2], "first": [0.5, 0.5], "second": [0.9999, 0.0001]},
)
def proxy(p: FloatArray, first: FloatArray, second: FloatArray) -> float:
    """Of two draft laws the one of the smaller KL(p || q) has more accepted. [samarin2026lk (arXiv:2602.23881),
    abstract]

    Beside: samarin2026lk, abstract
    Instead: What the abstract says: minimising KL does not guarantee maximising acceptance, where q = p is out of
    reach.
    Margin: How much more the law of the smaller KL(p || q) has accepted.
    """
    apart = [float(rel_entr(p, q).sum()) for q in (first, second)]
    gain = overlap(p, first) - overlap(p, second)
    return 0.0 if apart[0] == apart[1] else gain if apart[0] < apart[1] else -gain


@inequality(
    "lk-log-acceptance",
    pair,
    LAWS,
    mutants={"At most KL(p || q).": {"all_of_it": True}, "1.05 times it.": {"left": 1.05}},
)
def log_acceptance(p: FloatArray, q: FloatArray, all_of_it: bool = False) -> tuple[float, float]:
    """The loss -log alpha is at most the part of KL(p || q) of the tokens with p > q. [otspec; on samarin2026lk
    (arXiv:2602.23881); docs/drafters.md, Theorem 3]

    Beside: samarin2026lk, abstract
    Remark: Attained by a point mass p, where it is KL: there the two losses are one.
    Margin: -log alpha, and the part of KL(p || q) of tokens with p > q, or `all_of_it`.
    """
    terms = rel_entr(p, q)
    found = float(terms.sum() if all_of_it else terms[p > q].sum())
    common = overlap(p, q)
    return (0.0, 0.0) if np.isinf(found) or common == 0 else (max(-np.log(common), 0.0), found)


def _logits(rng: np.random.Generator) -> dict[str, Any]:
    """A law, logits of a draft law, and a direction in which they move."""
    size = int(rng.integers(2, 6))
    return {"p": positive_law(rng, size), "logits": 2 * rng.standard_normal(size), "way": rng.standard_normal(size)}


@claim("lk-gradient", _logits, tol=1e-6, mutants={"Not divided.": {"scaled": False}})
def gradient(p: FloatArray, logits: FloatArray, way: FloatArray, scaled: bool = True) -> float:
    """The gradient of -log alpha in q's logits is q (q(B) - 1_B) / alpha, where B are the tokens with q < p. [otspec;
    on samarin2026lk (arXiv:2602.23881); docs/drafters.md, Theorem 3]

    Beside: samarin2026lk, abstract
    Remark: That of 1 - alpha, divided by alpha: by central differences.
    Margin: Minus how far a difference of -log alpha is from its gradient, q (q(B) - 1_B) / alpha, B = {q < p}. Ties
    apart: where a token's q is so near to its p that the step crosses it.
    """
    q = softmax(logits)
    if np.abs(p - q).min() < 10 * STEP * np.abs(way).max():
        return 0.0
    below, common = q < p, overlap(p, q)
    gradient = q * (q[below].sum() - below) / (common if scaled else 1.0)
    ends = [-np.log(overlap(p, softmax(logits + sign * STEP * way))) for sign in (1, -1)]
    return -abs(float(ends[0] - ends[1]) / (2 * STEP) - float(gradient @ way)) * common


@inequality(
    "lk-gradient-size",
    lambda rng: laws(rng, 5, p=positive_law, q=positive_law),
    LAWS,
    mutants={"0.95 times that.": {"right": 0.95}},
)
def gradient_size(p: FloatArray, q: FloatArray) -> tuple[float, float]:
    """Its 1-norm is at most 2 (1 - q(B)). [otspec; on samarin2026lk (arXiv:2602.23881); docs/drafters.md, Theorem 3]

    Beside: samarin2026lk, abstract
    Remark: Attained by point masses p, where that of 1 - alpha vanishes with q(B): an untrained drafter learns by one
    loss and not by the other.
    Margin: The 1-norm of that gradient, and 2 (1 - q(B)).
    """
    below, common = q < p, overlap(p, q)
    inside = float(q[below].sum())
    return (0.0, 0.0) if common == 0 else (2 * inside * (1 - inside) / common, 2 * (1 - inside))


UNCHECKED = (
    Unchecked(
        "Gains of up to 8 to 10 % in acceptance length over training by KL.",
        ABSTRACT,
        "Measured on models of 8B to 685B parameters.  What `otspec train --loss` gains on small ones is in "
        "docs/real_model.md.",
    ),
)
