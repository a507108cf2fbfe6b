"""Sections 2 to 5.1 and Appendix A: the drafter kernel, intersection, Algorithm 1 and Theorem 5.1."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.instances import law, pair, positive_law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import along, prefixes
from otspec.vocab import acceptance_rate, affinity, drafter_kernel, rdk, tli

Rng = np.random.Generator


@claim("rdk-lemma-2.3", pair, mutants={"It is 1 - |p - q|_1.": {"share": 1.0}})
def lemma_2_3(p: FloatArray, q: FloatArray, share: float = 0.5) -> float:
    """The acceptance rate is 1 - |k|_1 = 1 - |p - q|_1 / 2, k being the drafter kernel max(0, q - p). [timor2025out,
    Lemma 2.3]

    Remark: Affine with slope -1 in |k|_1, where the proof says 'inversely proportional'.
    """
    rate = acceptance_rate(p, q)
    return -float(max(abs(1 - drafter_kernel(p, q).sum() - rate), abs(1 - share * np.abs(p - q).sum() - rate)))


def _moved(rng: Rng) -> dict[str, Any]:
    instance = pair(rng)
    size = instance["p"].size
    share = rng.random(size) if rng.random() < 0.5 else (rng.random(size) < 0.5).astype(np.float64)
    return {**instance, "share": share, "destination": law(rng, size)}


@claim(
    "rdk-kernel-redistribution", _moved, Descent("p q destination"), mutants={"Nor twice that mass.": {"times": 2.0}}
)
def kernel_redistribution(
    p: FloatArray, q: FloatArray, share: FloatArray, destination: FloatArray, times: float = 1.0
) -> float:
    """Redistributing the mass of the drafter kernel cannot decrease the acceptance rate. [timor2025out, after
    Definition 2.2]

    Hypotheses: Of each token at most its kernel k(x) is moved; to which tokens is free.
    Remark: RDK is not covered: M^T q' moves mass below p too, which was accepted for sure.
    """
    taken = np.minimum(q, times * np.clip(share, 0, 1) * drafter_kernel(p, q))
    return float(np.minimum(p, q - taken + taken.sum() * destination).sum() - np.minimum(p, q).sum())


def _two_vocabularies(rng: Rng) -> dict[str, Any]:
    """Laws on vocabularies T and D that share a token with q > 0; p may be 0 on some of T."""
    size = int(rng.integers(2, 7))
    target, draft = rng.random((2, size)) < 0.7
    shared = int(rng.integers(size))
    target[shared] = draft[shared] = True
    p, q = (np.where(kept, law(rng, size), 0.0) + 1e-3 * np.eye(size)[shared] for kept in (target, draft))
    return {"p": p / p.sum(), "q": q / q.sum(), "target": target, "draft": draft}


@claim(
    "rdk-equation-1",
    _two_vocabularies,
    counterexample={"p": [1.0, 0.0], "q": [0.0, 1.0], "target": [True, False], "draft": [True, True]},
    mutants={"1.01 times as often.": {"times": 1.01}},
)
def equation_1(p: FloatArray, q: FloatArray, target: BoolArray, draft: BoolArray, times: float = 1.0) -> float:
    """TLI, q restricted to I and normalised, is a law, that of Algorithm 2, and accepts at least as often as q.
    [timor2025out, eq. (1) and Algorithm 2]

    Hypotheses: p and q are supported on T and D, and I, their intersection, is not empty.
    Assumption: q(I) > 0; it follows where T and D are the very supports, not for vocabularies.
    """
    shared = target & draft
    with np.errstate(invalid="ignore"):  # 0 / 0, where q has no mass on I
        q0 = np.where(shared, q, 0.0) / q[shared].sum()
        by_algorithm_2 = np.where(target, q, 0.0) / q[target].sum()
    gain = np.minimum(p, q0).sum() - times * np.minimum(p, q).sum()
    return float(np.min([gain, -abs(q0.sum() - 1), -np.abs(by_algorithm_2 - q0).max()]))


def stochastic(rng: Rng, size: int) -> FloatArray:
    """A row-stochastic matrix: from nearly the identity to rows that are all equal."""
    rows = np.array([law(rng, size) for _ in range(size)])
    if rng.random() < 0.2:
        rows[:] = rows[0]
    stay = rng.choice([0.0, 0.0, rng.random(), 0.99])
    return stay * np.eye(size) + (1 - stay) * rows


def _supported(rng: Rng) -> dict[str, Any]:
    """A law q' on I, and a matrix whose rows for I stay on T."""
    size = int(rng.integers(2, 7))
    target = np.append(True, rng.random(size - 1) < 0.6)
    matrix = stochastic(rng, size) * target
    lost = matrix.sum(axis=1) == 0
    matrix[lost, 0] = 1.0
    q = positive_law(rng, size) * target
    return {"q": q / q.sum(), "target": target, "matrix": matrix / matrix.sum(axis=1, keepdims=True)}


@claim(
    "rdk-algorithm-1-mass",
    _supported,
    counterexample={"q": [1.0, 0.0], "target": [True, False], "matrix": [[0.5, 0.5], [0.0, 1.0]]},
    mutants={"p' = M q'.": {"transposed": False}},
)
def algorithm_1_mass(q: FloatArray, target: BoolArray, matrix: FloatArray, transposed: bool = True) -> float:
    """Line 2 redistributes into the support of the target: p' = M^T q' sums to 1 over T. [timor2025out, Algorithm 1 and
    Assumption 4.1]

    Hypotheses: M is row-stochastic, q' a law on I.
    Assumption: Rows of M for tokens of I hold no mass outside T.
    Remark: Equation (2), whose columns are T, meets it. It has rows for I only; no other is ever used. Line 1 leaves q'
    undefined where D has nothing outside I: it is q there.
    """
    return -float(abs((rdk(q, matrix) if transposed else matrix @ q)[target].sum() - 1))


@claim("rdk-algorithm-1-identity", pair, mutants={"With all rows of M uniform.": {"even": True}})
def algorithm_1_identity(p: FloatArray, q: FloatArray, even: bool = False) -> float:
    """With M = I, RDK is TLI. [timor2025out, section 4]"""
    if even:
        return -float(np.abs(rdk(q, np.full((p.size, p.size), 1 / p.size)) - q).max())
    if not q[p > 0].any():
        return 0.0
    q0 = tli(q, p > 0)
    return -float(np.abs(rdk(q0, np.eye(p.size)) - q0).max())


def _on_target(rng: Rng) -> dict[str, Any]:
    """A target law without zeros, so that all tokens are T, a law q', and a matrix."""
    size = int(rng.integers(2, 6))
    return {"p": positive_law(rng, size), "q": law(rng, size), "matrix": stochastic(rng, size)}


@claim(
    "rdk-algorithm-1-increases",
    _on_target,
    Descent("p q"),
    counterexample={"p": [0.9, 0.1], "q": [0.9, 0.1], "matrix": np.full((2, 2), 0.5)},
)
def algorithm_1_increases(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
    """RDK provably increases the acceptance rate over TLI for any drafter: it is closer to the target, or as close.
    [timor2025out, section 4; Theorem 5.1, 'That is']

    Hypotheses: M is row-stochastic, and p' supported on T. Read as 'does not decrease'; closer is the same by Lemma
    2.3.
    Instead: It can lose up to |M^T p - p|_1 / 2 (Theorem 5.1), so it cannot lose if M^T p = p, and gains where M takes
    mass to tokens that q' lacks.
    """
    if matrix[np.ix_(q > 0, p == 0)].any():
        return np.inf  # once rounded: line 2 of Algorithm 1 has no mass outside T
    return float(acceptance_rate(p, rdk(q, matrix)) - acceptance_rate(p, q))


def _contexts(rng: Rng) -> dict[str, Any]:
    """Targets in some contexts, tokens kept by the drafter, and a temperature."""
    contexts, size = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    targets = np.array([positive_law(rng, size) for _ in range(contexts)])
    kept = np.append(True, rng.random(size - 1) < 0.5)
    return {"targets": targets, "kept": kept, "tau": float(10 ** rng.uniform(-2, 2))}


@claim(
    "rdk-algorithm-1-increases-covariance",
    _contexts,
    counterexample={"targets": [[0.8, 0.2]], "kept": [True, True], "tau": 1.0},
)
def algorithm_1_increases_covariance(targets: FloatArray, kept: BoolArray, tau: float) -> float:
    """The same on average over contexts, with M of equation (2) from the exact covariance of the targets there.
    [timor2025out, section 4]

    Beside: rdk-algorithm-1-increases
    Hypotheses: Contexts are equally likely; the drafter has the target's own law, pruned to some tokens.
    Instead: The temperature has to fit. With a small one mass stays near where it was, with a large one p' is uniform,
    whatever q is; then RDK gains where TLI accepts less than a uniform drafter.
    """
    q0 = tli(targets, kept)
    matrix = affinity(np.cov(targets.T, bias=True), tau)
    return float((acceptance_rate(targets, rdk(q0, matrix)) - acceptance_rate(targets, q0)).mean())


def _points(rng: Rng) -> dict[str, Any]:
    size = int(rng.integers(1, 6))
    x, y = rng.normal(size=(2, size))
    return {"x": x, "y": y, "matrix": stochastic(rng, size)}


@inequality(
    "rdk-lemma-b.1",
    _points,
    Descent(free="x y"),
    in_ratio=True,  # what moves freely is soon of any size
    least=1e-300,
    mutants={"0.95 |x - y|_1.": {"ratio": 0.95}},
)
def lemma_b_1(x: FloatArray, y: FloatArray, matrix: FloatArray) -> tuple[float, float]:
    """|M^T x - M^T y|_1 <= |x - y|_1 for row-stochastic M. [timor2025out, Lemma B.1]"""
    return float(np.abs(matrix.T @ (x - y)).sum()), float(np.abs(x - y).sum())


def _with_matrix(rng: Rng) -> dict[str, Any]:
    instance = pair(rng)
    return {**instance, "matrix": stochastic(rng, instance["p"].size)}


def dobrushin(matrix: FloatArray) -> float:
    """Largest total variation distance of two rows [dobrushin1956central]."""
    return float(np.abs(matrix[:, None] - matrix[None]).sum(axis=2).max() / 2)


@claim("rdk-lemma-b.1-laws", _with_matrix, Descent("p q matrix"), mutants={"0.95 times that.": {"times": 0.95}})
def lemma_b_1_laws(p: FloatArray, q: FloatArray, matrix: FloatArray, times: float = 1.0) -> float:
    """For laws, |M^T p - M^T q|_1 is at most |p - q|_1 times the largest total variation distance of two rows of M.
    [otspec; dobrushin1956central. Sharper than timor2025out, Lemma B.1]

    Beside: rdk-lemma-b.1
    Remark: So rows that are nearly equal make p' nearly independent of the drafter.
    """
    return float(times * dobrushin(matrix) * np.abs(p - q).sum() - np.abs(matrix.T @ (p - q)).sum())


@claim(
    "rdk-lemma-b.1-transposed",
    _points,
    counterexample={"x": [1.0, 0.0], "y": [0.0, 0.0], "matrix": [[1.0, 0.0], [1.0, 0.0]]},
)
def lemma_b_1_transposed(x: FloatArray, y: FloatArray, matrix: FloatArray) -> float:
    """A variant that is not claimed: |M x - M y|_1 <= |x - y|_1, with M in place of its transpose. [otspec; eq. (7) of
    timor2025out writes p' = M q']

    Beside: rdk-lemma-b.1
    Instead: Lemma B.1 holds for the transpose, as stated. M of Theorem 5.3 is symmetric, so its proof is sound.
    """
    return float(np.abs(x - y).sum() - np.abs(matrix @ (x - y)).sum())


def _theorem_5_1_ratio(p: FloatArray, q: FloatArray, matrix: FloatArray) -> float:
    """Of both sides, with q0 = q."""
    left, right = float(np.abs(matrix.T @ q - p).sum()), float(np.abs(q - p).sum() + np.abs(matrix.T @ p - p).sum())
    return left / right if right > 1e-9 else 0.0


@claim(
    "rdk-theorem-5.1",
    _with_matrix,
    Descent("p q matrix"),
    tightness=_theorem_5_1_ratio,
    mutants={
        "0.95 |q0 - p|_1 + eps.": {"distance": 0.95},
        "|q0 - p|_1 + 0.95 eps.": {"eps": 0.95},
        "At most 0.475 eps less.": {"loss": 0.475},
    },
)
def theorem_5_1(
    p: FloatArray, q: FloatArray, matrix: FloatArray, distance: float = 1.0, eps: float = 1.0, loss: float = 0.5
) -> float:
    """|p' - p|_1 <= |q0 - p|_1 + eps with eps = |M^T p - p|_1: RDK accepts at most eps / 2 less than TLI.
    [timor2025out, Theorem 5.1]
    """
    left, apart, moved = (float(np.abs(each).sum()) for each in (matrix.T @ q - p, q - p, matrix.T @ p - p))
    lost = float(acceptance_rate(p, q) - acceptance_rate(p, rdk(q, matrix)))
    return min(distance * apart + eps * moved - left, loss * moved - lost)


@claim(
    "rdk-theorem-5.1-sharper",
    _with_matrix,
    Descent("p q matrix"),
    mutants={"0.95 d |q0 - p|_1 + eps.": {"times": 0.95}, "d |q0 - p|_1 + 0.95 eps.": {"eps": 0.95}},
)
def theorem_5_1_sharper(
    p: FloatArray, q: FloatArray, matrix: FloatArray, times: float = 1.0, eps: float = 1.0
) -> float:
    """|p' - p|_1 <= d |q0 - p|_1 + eps, d being the largest total variation distance of two rows of M. [otspec; sharper
    than timor2025out, Theorem 5.1]

    Beside: rdk-theorem-5.1
    Remark: The proof of Theorem 5.1 with rdk-lemma-b.1-laws. RDK gains for sure where eps < (1 - d) |q0 - p|_1.
    """
    right = times * dobrushin(matrix) * np.abs(q - p).sum() + eps * np.abs(matrix.T @ p - p).sum()
    return float(right - np.abs(matrix.T @ q - p).sum())


def _texts(rng: Rng) -> dict[str, Any]:
    """Laws of both models in every context of fewer than `steps` tokens and of the target one token further."""
    vocab, steps = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    contexts = prefixes(vocab, steps)
    return {
        "target": np.array([law(rng, vocab) for _ in range(contexts)]),
        "draft": np.array([law(rng, vocab) for _ in range(contexts)]),
        "steps": steps,
    }


@claim("rdk-algorithm-4", _texts, cost=4, mutants={"Rejected drafts replaced by draws from p.": {"replaced": False}})
def algorithm_4(target: FloatArray, draft: FloatArray, steps: int, replaced: bool = True) -> float:
    """Vanilla speculative decoding puts out target text, whatever the drafter: so RDK is lossless. [timor2025out,
    Algorithm 4]

    Hypotheses: The draft law that is tested with is the one that drafts are sampled from.
    Remark: All texts of up to four tokens, with laws of their own after every prefix; what is not put out yet is
    continued by target text. The residual law of line 9 is 0 / 0 where p = q, and is not needed there.
    Margin: With rejected drafts replaced by line 9, or else by the target's law.
    """
    vocab = target.shape[1]
    expected, got = (np.zeros((vocab,) * (steps + 1)) for _ in range(2))
    for text in np.ndindex(expected.shape):
        contexts = along(text[:-1], vocab)
        chances = target[contexts, text]  # of the text's tokens, each in its context
        expected[text] = chances.prod()
        accepted = 1.0
        for depth in range(steps):
            p, q = target[contexts[depth]], draft[contexts[depth]]
            overlap = np.minimum(p, q)
            rejected = 1 - overlap.sum()
            if rejected > 0:  # line 9, and target text after it
                residual = (p - overlap)[text[depth]] / rejected if replaced else p[text[depth]]
                got[text] += accepted * rejected * residual * chances[depth + 1 :].prod()
            accepted *= overlap[text[depth]]
        got[text] += accepted * chances[steps]
    return -float(np.abs(got - expected).max())
