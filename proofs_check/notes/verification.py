"""Speculative sampling puts out the target's law; how often it accepts: Definition 3.2 to Corollary 3.6."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.instances import law, pair
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap

KEY = "aarnphm2025speculative"


def _different_pair(rng: np.random.Generator) -> dict[str, Any]:
    """Laws that are apart enough for the quotients by 1 - beta to have 12 digits."""
    while True:
        drawn = pair(rng)
        if overlap(**drawn) < 0.99:
            return drawn


def _adjusted(p: FloatArray, q: FloatArray) -> float:
    rest, below = np.maximum(0.0, p - q), p - np.minimum(q, p)
    with np.errstate(invalid="ignore"):
        forms = rest / rest.sum(), below / below.sum(), below / (1.0 - overlap(p, q))
    return -float(np.ptp(forms, axis=0).max())


def _over_beta(p: FloatArray, q: FloatArray) -> float:
    return -float(np.abs(single_draft.residual(p, q) - (p - np.minimum(q, p)) / max(overlap(p, q), 1e-300)).max())


def _models(rng: np.random.Generator) -> dict[str, Any]:
    """Laws of target and drafter at every prefix."""
    vocab, gamma = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    rows = single_draft.prefixes(vocab, gamma)
    p, q = (np.array([law(rng, vocab) for _ in range(rows)]) for _ in range(2))
    return {"p": p, "q": q, "gamma": gamma}


def _algorithm_1(p: FloatArray, q: FloatArray, gamma: int) -> float:
    return -float(np.abs(single_draft.block(p, q, gamma) - single_draft.text(p, gamma + 1)).max())


def _other_prefix(p: FloatArray, q: FloatArray, gamma: int) -> float:
    """Margin of: target laws of other prefixes verify as well."""
    found = single_draft.block(np.roll(p, 1, axis=0), q, gamma)
    return -float(np.abs(found - single_draft.text(p, gamma + 1)).max())


def _unreplaced(p: FloatArray, q: FloatArray) -> float:
    """Margin of: with p in place of max(0, p - q) for what is rejected."""
    kept = q * single_draft.accept(p, q)
    return -float(np.abs(kept + (1.0 - kept.sum()) * p - p).max())


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """D_LK, by its definition."""
    return float(np.abs(p - (p + q) / 2).sum())


def _two_forms(p: FloatArray, q: FloatArray) -> float:
    return -abs(_divergence(p, q) - float(np.abs(q - (p + q) / 2).sum()))


def _three_laws(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 6))
    return {name: law(rng, size) for name in "pqr"}


def _metric(p: FloatArray, q: FloatArray, r: FloatArray) -> float:
    d = _divergence(p, q)
    apart, common = float(np.abs(p - q).max()), float(np.minimum(p, q).max())
    margins = (
        -abs(d - _divergence(q, p)),
        d - apart,
        p.size * apart / 2 - d,
        1.0 - d - common,
        p.size * common - (1.0 - d),
        d + _divergence(q, r) - _divergence(p, r),
    )
    return float(np.min(margins))


def _narrower(p: FloatArray, q: FloatArray, r: FloatArray, fewer: int = 0, third: float = 1.0) -> float:
    """The bounds with V - 1 in place of V (1: of D_LK, 2: of 1 - D_LK), and a part of the third side."""
    d, tokens = _divergence(p, q), p.size - 1
    apart, common = float(np.abs(p - q).max()), float(np.minimum(p, q).max())
    if fewer == 1:
        return tokens * apart / 2 - d
    if fewer == 2:
        return tokens * common - (1.0 - d)
    return d + third * _divergence(q, r) - _divergence(p, r)


def _acceptance(p: FloatArray, q: FloatArray) -> float:
    return float(q @ single_draft.accept(p, q))


def _contexts(rng: np.random.Generator) -> dict[str, Any]:
    size, many = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    p, q = (np.array([law(rng, size) for _ in range(many)]) for _ in range(2))
    return {"p": p, "q": q, "weights": law(rng, many)}


def _alpha(p: FloatArray, q: FloatArray, weights: FloatArray) -> float:
    accepted = sum(w * _acceptance(*rows) for w, *rows in zip(weights, p, q, strict=True))
    divergence = sum(w * _divergence(*rows) for w, *rows in zip(weights, p, q, strict=True))
    common = float(weights @ np.minimum(p, q).sum(axis=1))
    return -float(np.ptp((accepted, 1.0 - divergence, common)))


def _unweighted(p: FloatArray, q: FloatArray, weights: FloatArray) -> float:
    common = np.minimum(p, q).sum(axis=1)
    return -abs(float(weights @ common) - float(common.mean()))


CLAIMS = (
    Claim(
        "notes-adjusted-law",
        "The law that replaces a rejected draft, max(0, p - q) normalised, is (p - min(p, q)) / (1 - beta).",
        f"{KEY}, note a.1; leviathan2023fast",
        _different_pair,
        _adjusted,
        expected=Verdict.HIDDEN,
        assumption="p is not q: else it is 0/0, of no use because nothing is rejected, but in floats a case to guard",
        counterexample={"p": np.array([0.5, 0.5]), "q": np.array([0.5, 0.5])},
        mutations=(Mutation("Divided by beta.", _over_beta),),
    ),
    Claim(
        "notes-correctness",
        "Tokens put out by speculative sampling from p and q are distributed as those sampled from p alone.",
        f"{KEY}, note a.1; leviathan2023fast",
        pair,
        lambda p, q: -float(np.abs(single_draft.output(p, q) - p).max()),
        search=Descent(laws=("p", "q")),
        mutations=(Mutation("Rejected drafts replaced by draws from p.", _unreplaced),),
    ),
    Claim(
        "notes-algorithm-1",
        "A step of speculative decoding, followed by the target, puts out text with the target's law.",
        f"{KEY}, Algorithm 1; leviathan2023fast; chen2023accelerating",
        _models,
        _algorithm_1,
        cost=20,
        remark="All blocks of up to three drafts over three tokens, of models that depend on the whole prefix.",
        mutations=(Mutation("With target laws of other prefixes.", _other_prefix),),
    ),
    Claim(
        "notes-definition-3.2",
        "D_LK(p, q) is the same measured from p and from q.",
        f"{KEY}, Definition 3.2; leviathan2023fast",
        pair,
        _two_forms,
        mutations=(Mutation("It is |p - q|_1.", lambda p, q: -abs(_divergence(p, q) - float(np.abs(p - q).sum()))),),
    ),
    Claim(
        "notes-lemma-3.3",
        "D_LK(p, q) is 1 - sum of min(p, q).",
        f"{KEY}, Lemma 3.3; leviathan2023fast",
        pair,
        lambda p, q: -abs(_divergence(p, q) - (1.0 - overlap(p, q))),
        search=Descent(laws=("p", "q")),
        mutations=(Mutation("It is half of that.", lambda p, q: -abs(_divergence(p, q) - (1.0 - overlap(p, q)) / 2)),),
    ),
    Claim(
        "notes-corollary-3.4",
        "D_LK is a symmetric divergence in [0, 1]: 0 exactly if p = q, 1 exactly if the supports are disjoint.",
        f"{KEY}, Corollary 3.4; leviathan2023fast",
        _three_laws,
        _metric,
        search=Descent(laws=("p", "q", "r")),
        remark="Checked in a stronger form: with V tokens it lies between max |p - q| and V/2 times that, 1 - D_LK "
        "between max min(p, q) and V times that, and the triangle inequality makes it a metric (total variation).",
        mutations=(
            Mutation("At most (V - 1)/2 times max |p - q|.", lambda **laws: _narrower(**laws, fewer=1)),
            Mutation("1 - D_LK at most V - 1 times max min(p, q).", lambda **laws: _narrower(**laws, fewer=2)),
            Mutation("0.95 of the second side suffices.", lambda **laws: _narrower(**laws, third=0.95)),
        ),
    ),
    Claim(
        "notes-theorem-3.5",
        "The acceptance rate beta is 1 - D_LK(p, q).",
        f"{KEY}, Theorem 3.5; leviathan2023fast",
        pair,
        lambda p, q: -abs(_acceptance(p, q) - (1.0 - _divergence(p, q))),
        search=Descent(laws=("p", "q")),
        mutations=(
            Mutation("It is 1 - |p - q|_1.", lambda p, q: -abs(_acceptance(p, q) - (1.0 - float(np.abs(p - q).sum())))),
        ),
    ),
    Claim(
        "notes-corollary-3.6",
        "alpha is 1 - E(D_LK(p, q)), and E(min(p, q)).",
        f"{KEY}, Corollary 3.6; leviathan2023fast",
        _contexts,
        _alpha,
        remark="E(min(p, q)) stands for the mean over contexts of the sum over tokens.",
        mutations=(Mutation("Contexts counted alike.", _unweighted),),
    ),
)
