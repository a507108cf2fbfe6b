"""Sections 2 to 5.1 and Appendix A: the drafter kernel, intersection, Algorithm 1 and Theorem 5.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.inequality import Inequality
from otspec.proofs_check.instances import law, pair, positive_law
from otspec.proofs_check.search import Descent
from otspec.vocab import acceptance_rate, affinity, drafter_kernel, rdk, tli

KEY = "timor2025out"
Rng = np.random.Generator


def stochastic(rng: Rng, size: int) -> FloatArray:
    """A row-stochastic matrix: from nearly the identity to rows that are all equal."""
    rows = np.array([law(rng, size) for _ in range(size)])
    if rng.random() < 0.2:
        rows[:] = rows[0]
    stay = rng.choice([0.0, 0.0, rng.random(), 0.99])
    return stay * np.eye(size) + (1 - stay) * rows


def _moved(rng: Rng) -> dict[str, Any]:
    instance = pair(rng)
    size = instance["p"].size
    share = rng.random(size) if rng.random() < 0.5 else (rng.random(size) < 0.5).astype(np.float64)
    return {**instance, "share": share, "destination": law(rng, size)}


def _with_matrix(rng: Rng) -> dict[str, Any]:
    instance = pair(rng)
    return {**instance, "matrix": stochastic(rng, instance["p"].size)}


def _on_target(rng: Rng) -> dict[str, Any]:
    """A target law without zeros, so that all tokens are T, a law q', and a matrix."""
    size = int(rng.integers(2, 6))
    return {"p": positive_law(rng, size), "q": law(rng, size), "matrix": stochastic(rng, size)}


def _two_vocabularies(rng: Rng) -> dict[str, Any]:
    """Laws on vocabularies T and D that share a token with q > 0; p may be 0 on some of T."""
    size = int(rng.integers(2, 7))
    target, draft = rng.random((2, size)) < 0.7
    shared = int(rng.integers(size))
    target[shared] = draft[shared] = True
    p, q = (np.where(kept, law(rng, size), 0.0) + 1e-3 * np.eye(size)[shared] for kept in (target, draft))
    return {"p": p / p.sum(), "q": q / q.sum(), "target": target, "draft": draft}


def _supported(rng: Rng) -> dict[str, Any]:
    """A law q' on I, and a matrix whose rows for I stay on T."""
    size = int(rng.integers(2, 7))
    target = np.append(True, rng.random(size - 1) < 0.6)
    matrix = stochastic(rng, size) * target
    lost = matrix.sum(axis=1) == 0
    matrix[lost, 0] = 1.0
    q = positive_law(rng, size) * target
    return {"q": q / q.sum(), "target": target, "matrix": matrix / matrix.sum(axis=1, keepdims=True)}


def _contexts(rng: Rng) -> dict[str, Any]:
    """Targets in some contexts, tokens kept by the drafter, and a temperature."""
    contexts, size = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    targets = np.array([positive_law(rng, size) for _ in range(contexts)])
    kept = np.append(True, rng.random(size - 1) < 0.5)
    return {"targets": targets, "kept": kept, "tau": float(10 ** rng.uniform(-2, 2))}


def _points(rng: Rng) -> dict[str, Any]:
    size = int(rng.integers(1, 6))
    x, y = rng.normal(size=(2, size))
    return {"x": x, "y": y, "matrix": stochastic(rng, size)}


def _texts(rng: Rng) -> dict[str, Any]:
    """Laws of both models in every context of fewer than `steps` tokens and of the target one token further."""
    vocab, steps = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    contexts = sum(vocab**depth for depth in range(steps + 1))
    return {
        "target": np.array([law(rng, vocab) for _ in range(contexts)]),
        "draft": np.array([law(rng, vocab) for _ in range(contexts)]),
        "steps": steps,
    }


def _lemma_2_3(p: FloatArray, q: FloatArray) -> float:
    rate = acceptance_rate(p, q)
    return -float(max(abs(1 - drafter_kernel(p, q).sum() - rate), abs(1 - np.abs(p - q).sum() / 2 - rate)))


def _undivided(p: FloatArray, q: FloatArray) -> float:
    return -float(abs(1 - np.abs(p - q).sum() - acceptance_rate(p, q)))


def _twice_moved(p: FloatArray, q: FloatArray, share: FloatArray, destination: FloatArray) -> float:
    taken = np.minimum(q, 2 * np.clip(share, 0, 1) * drafter_kernel(p, q))
    return float(np.minimum(p, q - taken + taken.sum() * destination).sum() - np.minimum(p, q).sum())


def _kernel_moved(p: FloatArray, q: FloatArray, share: FloatArray, destination: FloatArray) -> float:
    taken = np.clip(share, 0, 1) * drafter_kernel(p, q)
    return float(np.minimum(p, q - taken + taken.sum() * destination).sum() - np.minimum(p, q).sum())


def _equation_1(p: FloatArray, q: FloatArray, target: BoolArray, draft: BoolArray) -> float:
    shared = target & draft
    with np.errstate(invalid="ignore"):  # 0 / 0, where q has no mass on I
        q0 = np.where(shared, q, 0.0) / q[shared].sum()
        by_algorithm_2 = np.where(target, q, 0.0) / q[target].sum()
    gain = np.minimum(p, q0).sum() - np.minimum(p, q).sum()
    return float(np.min([gain, -abs(q0.sum() - 1), -np.abs(by_algorithm_2 - q0).max()]))


def _one_percent_more(p: FloatArray, q: FloatArray, target: BoolArray, draft: BoolArray) -> float:
    q0 = np.where(target & draft, q, 0.0) / q[target & draft].sum()
    return float(np.minimum(p, q0).sum() - 1.01 * np.minimum(p, q).sum())


def _mass_untransposed(q: FloatArray, target: BoolArray, matrix: FloatArray) -> float:
    return -float(abs((matrix @ q)[target].sum() - 1))


def _mass_on_target(q: FloatArray, target: BoolArray, matrix: FloatArray) -> float:
    return -float(abs(rdk(q, matrix)[target].sum() - 1))


def _identity(p: FloatArray, q: FloatArray) -> float:
    if not q[p > 0].any():
        return 0.0
    q0 = tli(q, p > 0)
    return -float(np.abs(rdk(q0, np.eye(p.size)) - q0).max())


def _evenly(p: FloatArray, q: FloatArray) -> float:
    return -float(np.abs(rdk(q, np.full((p.size, p.size), 1 / p.size)) - q).max())


def _gain(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
    if matrix[np.ix_(q > 0, p == 0)].any():
        return np.inf  # once rounded: line 2 of Algorithm 1 has no mass outside T
    return float(acceptance_rate(p, rdk(q, matrix)) - acceptance_rate(p, q))


def _mean_gain(targets: FloatArray, kept: BoolArray, tau: float) -> float:
    q0 = tli(targets, kept)
    matrix = affinity(np.cov(targets.T, bias=True), tau)
    return float((acceptance_rate(targets, rdk(q0, matrix)) - acceptance_rate(targets, q0)).mean())


def _contraction(x: FloatArray, y: FloatArray, matrix: FloatArray) -> tuple[float, float]:
    return float(np.abs(matrix.T @ (x - y)).sum()), float(np.abs(x - y).sum())


CONTRACTION = Inequality(_contraction, 1e-300)


def _transposed(x: FloatArray, y: FloatArray, matrix: FloatArray) -> float:
    return float(np.abs(x - y).sum() - np.abs(matrix @ (x - y)).sum())


def _contraction_of_laws(p: FloatArray, q: FloatArray, matrix: FloatArray, times: float = 1.0) -> float:
    return float(times * dobrushin(matrix) * np.abs(p - q).sum() - np.abs(matrix.T @ (p - q)).sum())


def dobrushin(matrix: FloatArray) -> float:
    """Largest total variation distance of two rows [dobrushin1956central]."""
    return float(np.abs(matrix[:, None] - matrix[None]).sum(axis=2).max() / 2)


def _theorem_5_1(p: FloatArray, q: FloatArray, matrix: FloatArray) -> tuple[float, float]:
    """Both sides, with q0 = q."""
    return float(np.abs(matrix.T @ q - p).sum()), float(np.abs(q - p).sum() + np.abs(matrix.T @ p - p).sum())


def _theorem_5_1_margin(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
    left, right = _theorem_5_1(p, q, matrix)
    loss = acceptance_rate(p, q) - acceptance_rate(p, rdk(q, matrix))
    return min(right - left, float(np.abs(matrix.T @ p - p).sum() / 2 - loss))


def _theorem_5_1_with(distance: float, eps: float) -> Callable[..., float]:
    """Margin with so many times |q0 - p|_1 and eps."""

    def margin(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
        right = distance * np.abs(q - p).sum() + eps * np.abs(matrix.T @ p - p).sum()
        return float(right - np.abs(matrix.T @ q - p).sum())

    return margin


def _loss_below(share: float) -> Callable[..., float]:
    """Margin of: RDK accepts at most so many eps less."""

    def margin(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
        return float(share * np.abs(matrix.T @ p - p).sum()) + _gain(p, q, matrix)

    return margin


def _theorem_5_1_sharper(
    p: FloatArray, q: FloatArray, matrix: FloatArray, times: float = 1.0, eps: float = 1.0
) -> float:
    right = times * dobrushin(matrix) * np.abs(q - p).sum() + eps * np.abs(matrix.T @ p - p).sum()
    return float(right - np.abs(matrix.T @ q - p).sum())


def _theorem_5_1_ratio(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
    left, right = _theorem_5_1(p, q, matrix)
    return left / right if right > 1e-9 else 0.0


def _vanilla(target: FloatArray, draft: FloatArray, steps: int, replaced: bool = True) -> float:
    """With rejected drafts replaced by line 9, or else by the target's law."""
    vocab = target.shape[1]
    expected, got = (np.zeros((vocab,) * (steps + 1)) for _ in range(2))
    for text in np.ndindex(expected.shape):
        along = [_context(text[:depth], vocab) for depth in range(steps + 1)]
        chances = target[along, text]  # of the text's tokens, each in its context
        expected[text] = chances.prod()
        accepted = 1.0
        for depth in range(steps):
            p, q = target[along[depth]], draft[along[depth]]
            overlap = np.minimum(p, q)
            rejected = 1 - overlap.sum()
            if rejected > 0:  # line 9, and target text after it
                residual = (p - overlap)[text[depth]] / rejected if replaced else p[text[depth]]
                got[text] += accepted * rejected * residual * chances[depth + 1 :].prod()
            accepted *= overlap[text[depth]]
        got[text] += accepted * chances[steps]
    return -float(np.abs(got - expected).max())


def _context(prefix: tuple[int, ...], vocab: int) -> int:
    """Number of a prefix: shorter ones first, those of a length in lexicographic order."""
    number = 0
    for token in prefix:
        number = number * vocab + token
    return sum(vocab**shorter for shorter in range(len(prefix))) + number


CLAIMS = (
    Claim(
        "rdk-lemma-2.3",
        "The acceptance rate is 1 - |k|_1 = 1 - |p - q|_1 / 2, k being the drafter kernel max(0, q - p).",
        f"{KEY}, Lemma 2.3",
        pair,
        _lemma_2_3,
        remark="Affine with slope -1 in |k|_1, where the proof says 'inversely proportional'.",
        mutations=(Mutation("It is 1 - |p - q|_1.", _undivided),),
    ),
    Claim(
        "rdk-kernel-redistribution",
        "Redistributing the mass of the drafter kernel cannot decrease the acceptance rate.",
        f"{KEY}, after Definition 2.2",
        _moved,
        _kernel_moved,
        hypotheses="Of each token at most its kernel k(x) is moved; to which tokens is free.",
        search=Descent(laws=("p", "q", "destination")),
        remark="RDK is not covered: M^T q' moves mass below p too, which was accepted for sure.",
        mutations=(Mutation("Nor twice that mass.", _twice_moved),),
    ),
    Claim(
        "rdk-equation-1",
        "TLI, q restricted to I and normalised, is a law, that of Algorithm 2, and accepts at least as often as q.",
        f"{KEY}, eq. (1) and Algorithm 2",
        _two_vocabularies,
        _equation_1,
        hypotheses="p and q are supported on T and D, and I, their intersection, is not empty.",
        expected=Verdict.HIDDEN,
        assumption="q(I) > 0; it follows where T and D are the very supports, not for vocabularies.",
        counterexample={
            "p": np.array([1.0, 0.0]),
            "q": np.array([0.0, 1.0]),
            "target": np.array([True, False]),
            "draft": np.array([True, True]),
        },
        mutations=(Mutation("1.01 times as often.", _one_percent_more),),
    ),
    Claim(
        "rdk-algorithm-1-mass",
        "Line 2 redistributes into the support of the target: p' = M^T q' sums to 1 over T.",
        f"{KEY}, Algorithm 1 and Assumption 4.1",
        _supported,
        _mass_on_target,
        hypotheses="M is row-stochastic, q' a law on I.",
        expected=Verdict.HIDDEN,
        assumption="Rows of M for tokens of I hold no mass outside T.",
        counterexample={
            "q": np.array([1.0, 0.0]),
            "target": np.array([True, False]),
            "matrix": np.array([[0.5, 0.5], [0.0, 1.0]]),
        },
        remark="Equation (2), whose columns are T, meets it. It has rows for I only; no other is ever used. Line 1 "
        "leaves q' undefined where D has nothing outside I: it is q there.",
        mutations=(Mutation("p' = M q'.", _mass_untransposed),),
    ),
    Claim(
        "rdk-algorithm-1-identity",
        "With M = I, RDK is TLI.",
        f"{KEY}, section 4",
        pair,
        _identity,
        mutations=(Mutation("With all rows of M uniform.", _evenly),),
    ),
    Claim(
        "rdk-algorithm-1-increases",
        "RDK provably increases the acceptance rate over TLI for any drafter: it is closer to the target, or as close.",
        f"{KEY}, section 4; Theorem 5.1, 'That is'",
        _on_target,
        _gain,
        hypotheses="M is row-stochastic, and p' supported on T. Read as 'does not decrease'; closer is the same by "
        "Lemma 2.3.",
        search=Descent(laws=("p", "q")),
        expected=Verdict.FAILS,
        counterexample={"p": np.array([0.9, 0.1]), "q": np.array([0.9, 0.1]), "matrix": np.full((2, 2), 0.5)},
        remedy="It can lose up to |M^T p - p|_1 / 2 (Theorem 5.1), so it cannot lose if M^T p = p, and gains where M "
        "takes mass to tokens that q' lacks.",
    ),
    Claim(
        "rdk-algorithm-1-increases-covariance",
        "The same on average over contexts, with M of equation (2) from the exact covariance of the targets there.",
        f"{KEY}, section 4",
        _contexts,
        _mean_gain,
        variant_of="rdk-algorithm-1-increases",
        hypotheses="Contexts are equally likely; the drafter has the target's own law, pruned to some tokens.",
        expected=Verdict.FAILS,
        counterexample={"targets": np.array([[0.8, 0.2]]), "kept": np.array([True, True]), "tau": 1.0},
        remedy="The temperature has to fit. With a small one mass stays near where it was, with a large one p' is "
        "uniform, whatever q is; then RDK gains where TLI accepts less than a uniform drafter.",
    ),
    Claim(
        "rdk-lemma-b.1",
        "|M^T x - M^T y|_1 <= |x - y|_1 for row-stochastic M.",
        f"{KEY}, Lemma B.1",
        _points,
        CONTRACTION.margin,
        tol=1e-11,
        search=Descent(free=("x", "y")),
        tightness=CONTRACTION.tightness,
        mutations=(Mutation("0.95 |x - y|_1.", CONTRACTION.with_right(0.95)),),
    ),
    Claim(
        "rdk-lemma-b.1-laws",
        "For laws, |M^T p - M^T q|_1 is at most |p - q|_1 times the largest total variation distance of two rows of M.",
        "otspec; dobrushin1956central. Sharper than timor2025out, Lemma B.1",
        _with_matrix,
        _contraction_of_laws,
        variant_of="rdk-lemma-b.1",
        search=Descent(laws=("p", "q", "matrix")),
        remark="So rows that are nearly equal make p' nearly independent of the drafter.",
        mutations=(Mutation("0.95 times that.", lambda **instance: _contraction_of_laws(**instance, times=0.95)),),
    ),
    Claim(
        "rdk-lemma-b.1-transposed",
        "A variant that is not claimed: |M x - M y|_1 <= |x - y|_1, with M in place of its transpose.",
        f"otspec; eq. (7) of {KEY} writes p' = M q'",
        _points,
        _transposed,
        variant_of="rdk-lemma-b.1",
        expected=Verdict.FAILS,
        counterexample={
            "x": np.array([1.0, 0.0]),
            "y": np.array([0.0, 0.0]),
            "matrix": np.array([[1.0, 0.0], [1.0, 0.0]]),
        },
        remedy="Lemma B.1 holds for the transpose, as stated. M of Theorem 5.3 is symmetric, so its proof is sound.",
    ),
    Claim(
        "rdk-theorem-5.1",
        "|p' - p|_1 <= |q0 - p|_1 + eps with eps = |M^T p - p|_1: RDK accepts at most eps / 2 less than TLI.",
        f"{KEY}, Theorem 5.1",
        _with_matrix,
        _theorem_5_1_margin,
        search=Descent(laws=("p", "q", "matrix")),
        tightness=_theorem_5_1_ratio,
        mutations=(
            Mutation("0.95 |q0 - p|_1 + eps.", _theorem_5_1_with(0.95, 1.0)),
            Mutation("|q0 - p|_1 + 0.95 eps.", _theorem_5_1_with(1.0, 0.95)),
            Mutation("At most 0.475 eps less.", _loss_below(0.475)),
        ),
    ),
    Claim(
        "rdk-theorem-5.1-sharper",
        "|p' - p|_1 <= d |q0 - p|_1 + eps, d being the largest total variation distance of two rows of M.",
        "otspec; sharper than timor2025out, Theorem 5.1",
        _with_matrix,
        _theorem_5_1_sharper,
        variant_of="rdk-theorem-5.1",
        search=Descent(laws=("p", "q", "matrix")),
        remark="The proof of Theorem 5.1 with rdk-lemma-b.1-laws. RDK gains for sure where eps < (1 - d) |q0 - p|_1.",
        mutations=(
            Mutation("0.95 d |q0 - p|_1 + eps.", lambda **instance: _theorem_5_1_sharper(**instance, times=0.95)),
            Mutation("d |q0 - p|_1 + 0.95 eps.", lambda **instance: _theorem_5_1_sharper(**instance, eps=0.95)),
        ),
    ),
    Claim(
        "rdk-algorithm-4",
        "Vanilla speculative decoding puts out target text, whatever the drafter: so RDK is lossless.",
        f"{KEY}, Algorithm 4",
        _texts,
        _vanilla,
        hypotheses="The draft law that is tested with is the one that drafts are sampled from.",
        cost=4,
        remark="All texts of up to four tokens, with laws of their own after every prefix; what is not put out yet is "
        "continued by target text. The residual law of line 9 is 0 / 0 where p = q, and is not needed there.",
        mutations=(
            Mutation(
                "Rejected drafts replaced by draws from p.", lambda **instance: _vanilla(**instance, replaced=False)
            ),
        ),
    ),
)
