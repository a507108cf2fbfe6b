"""Speculative sampling puts out the target's law; how often it accepts: Definition 3.2 to Corollary 3.6."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import law, laws, pair
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap


def _different_pair(rng: np.random.Generator) -> dict[str, Any]:
    """Laws that are apart enough for the quotients by 1 - beta to have 12 digits."""
    while True:
        drawn = pair(rng)
        if overlap(**drawn) < 0.99:
            return drawn


def _over_beta(p: FloatArray, q: FloatArray) -> float:
    return -float(np.abs(single_draft.residual(p, q) - (p - np.minimum(q, p)) / max(overlap(p, q), 1e-300)).max())


@claim(
    "notes-adjusted-law",
    _different_pair,
    counterexample={"p": [0.5, 0.5], "q": [0.5, 0.5]},
    mutants={"Divided by beta.": _over_beta},
)
def adjusted_law(p: FloatArray, q: FloatArray) -> float:
    """The law that replaces a rejected draft, max(0, p - q) normalised, is (p - min(p, q)) / (1 - beta).
    [aarnphm2025speculative, note a.1; leviathan2023fast]

    Assumption: p is not q: else it is 0/0, of no use because nothing is rejected, but in floats a case to guard
    """
    rest, below = np.maximum(0.0, p - q), p - np.minimum(q, p)
    with np.errstate(invalid="ignore"):
        forms = rest / rest.sum(), below / below.sum(), below / (1.0 - overlap(p, q))
    return -float(np.ptp(forms, axis=0).max())


@claim(
    "notes-correctness",
    pair,
    Descent("p q"),
    mutants={"Rejected drafts replaced by draws from p.": {"replaced": False}},
)
def correctness(p: FloatArray, q: FloatArray, replaced: bool = True) -> float:
    """Tokens put out by speculative sampling from p and q are distributed as those sampled from p alone.
    [aarnphm2025speculative, note a.1; leviathan2023fast]
    """
    accepted = q * single_draft.accept(p, q)
    out = single_draft.output(p, q) if replaced else accepted + (1.0 - accepted.sum()) * p
    return -float(np.abs(out - p).max())


def _models(rng: np.random.Generator) -> dict[str, Any]:
    """Laws of target and drafter at every prefix."""
    vocab, gamma = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    rows = single_draft.prefixes(vocab, gamma)
    p, q = (np.array([law(rng, vocab) for _ in range(rows)]) for _ in range(2))
    return {"p": p, "q": q, "gamma": gamma}


@claim("notes-algorithm-1", _models, cost=20, mutants={"With target laws of other prefixes.": {"shift": 1}})
def algorithm_1(p: FloatArray, q: FloatArray, gamma: int, shift: int = 0) -> float:
    """A step of speculative decoding, followed by the target, puts out text with the target's law.
    [aarnphm2025speculative, Algorithm 1; leviathan2023fast; chen2023accelerating]

    Remark: All blocks of up to three drafts over three tokens, of models that depend on the whole prefix.
    """
    return -float(
        np.abs(single_draft.block(np.roll(p, shift, axis=0), q, gamma) - single_draft.text(p, gamma + 1)).max()
    )


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """D_LK, by its definition."""
    return float(np.abs(p - (p + q) / 2).sum())


@claim("notes-definition-3.2", pair, mutants={"It is |p - q|_1.": {"times": 2.0}})
def definition_3_2(p: FloatArray, q: FloatArray, times: float = 1.0) -> float:
    """D_LK(p, q) is the same measured from p and from q. [aarnphm2025speculative, Definition 3.2; leviathan2023fast]"""
    return -abs(_divergence(p, q) - times * float(np.abs(q - (p + q) / 2).sum()))


@claim("notes-lemma-3.3", pair, Descent("p q"), mutants={"It is half of that.": {"share": 0.5}})
def lemma_3_3(p: FloatArray, q: FloatArray, share: float = 1.0) -> float:
    """D_LK(p, q) is 1 - sum of min(p, q). [aarnphm2025speculative, Lemma 3.3; leviathan2023fast]"""
    return -abs(_divergence(p, q) - share * (1.0 - overlap(p, q)))


@claim(
    "notes-corollary-3.4",
    lambda rng: laws(rng, 5, p=law, q=law, r=law),
    Descent("p q r"),
    mutants={
        "At most (V - 1)/2 times max |p - q|.": {"most": 1},
        "1 - D_LK at most V - 1 times max min(p, q).": {"least": 1},
        "0.95 of the second side suffices.": {"third": 0.95},
    },
)
def corollary_3_4(
    p: FloatArray, q: FloatArray, r: FloatArray, most: int = 0, least: int = 0, third: float = 1.0
) -> float:
    """D_LK is a symmetric divergence in [0, 1]: 0 exactly if p = q, 1 exactly if the supports are disjoint.
    [aarnphm2025speculative, Corollary 3.4; leviathan2023fast]

    Remark: Checked in a stronger form: with V tokens it lies between max |p - q| and V/2 times that, 1 - D_LK between
    max min(p, q) and V times that, and the triangle inequality makes it a metric (total variation).
    """
    d = _divergence(p, q)
    apart, common = float(np.abs(p - q).max()), float(np.minimum(p, q).max())
    margins = (
        -abs(d - _divergence(q, p)),
        d - apart,
        (p.size - most) * apart / 2 - d,
        1.0 - d - common,
        (p.size - least) * common - (1.0 - d),
        d + third * _divergence(q, r) - _divergence(p, r),
    )
    return float(np.min(margins))


def _acceptance(p: FloatArray, q: FloatArray) -> float:
    return float(q @ single_draft.accept(p, q))


@claim("notes-theorem-3.5", pair, Descent("p q"), mutants={"It is 1 - |p - q|_1.": {"times": 2.0}})
def theorem_3_5(p: FloatArray, q: FloatArray, times: float = 1.0) -> float:
    """The acceptance rate beta is 1 - D_LK(p, q). [aarnphm2025speculative, Theorem 3.5; leviathan2023fast]"""
    return -abs(_acceptance(p, q) - (1.0 - times * _divergence(p, q)))


def _contexts(rng: np.random.Generator) -> dict[str, Any]:
    size, many = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    p, q = (np.array([law(rng, size) for _ in range(many)]) for _ in range(2))
    return {"p": p, "q": q, "weights": law(rng, many)}


def _unweighted(p: FloatArray, q: FloatArray, weights: FloatArray) -> float:
    common = np.minimum(p, q).sum(axis=1)
    return -abs(float(weights @ common) - float(common.mean()))


@claim("notes-corollary-3.6", _contexts, mutants={"Contexts counted alike.": _unweighted})
def corollary_3_6(p: FloatArray, q: FloatArray, weights: FloatArray) -> float:
    """alpha is 1 - E(D_LK(p, q)), and E(min(p, q)). [aarnphm2025speculative, Corollary 3.6; leviathan2023fast]

    Remark: E(min(p, q)) stands for the mean over contexts of the sum over tokens.
    """
    accepted = sum(w * _acceptance(*rows) for w, *rows in zip(weights, p, q, strict=True))
    divergence = sum(w * _divergence(*rows) for w, *rows in zip(weights, p, q, strict=True))
    common = float(weights @ np.minimum(p, q).sum(axis=1))
    return -float(np.ptp((accepted, 1.0 - divergence, common)))
