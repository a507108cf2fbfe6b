"""Verifiers that trade the target's law for speed: lenience, and typical acceptance."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import law, pair
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap


def _lenient_pair(rng: np.random.Generator) -> dict[str, Any]:
    return {**pair(rng), "lenience": 1.0 if rng.random() < 0.1 else 10 ** rng.uniform(-3.0, 0.0)}


def _alpha(p: FloatArray, q: FloatArray, lenience: float) -> float:
    return float(np.minimum(p / lenience, q).sum())


def _undivided(p: FloatArray, q: FloatArray, lenience: float) -> float:
    return -abs(_alpha(p, q, lenience) - float(np.minimum(p, lenience * q).sum()))


@claim(
    "notes-lenience-alpha",
    _lenient_pair,
    counterexample={"p": [0.5, 0.5], "q": [0.5, 0.5], "lenience": 0.0},
    mutants={"It is the sum of min(p, l q).": _undivided},
)
def lenience_alpha(p: FloatArray, q: FloatArray, lenience: float) -> float:
    """With lenience l the acceptance rate is the sum of min(p/l, q); five forms of it agree. [aarnphm2025speculative,
    note on lenience; leviathan2023fast]

    Hypotheses: l in [0, 1].
    Assumption: l > 0: at l = 0 the forms with 1/l are 0/0 (alpha tends to the chance to draft a token with p > 0)
    Remark: l q is not a law, and must not be normalised.
    Margin: The displayed forms of alpha, over the tokens that q drafts; minus the largest difference.
    """
    p, q = p[q > 0], q[q > 0]
    larger = np.maximum(p, lenience * q)
    with np.errstate(divide="ignore", invalid="ignore"):
        forms = (
            q @ np.where(lenience * q <= p, 1.0, p / (lenience * q)),
            q @ (p / larger),
            (p * q / larger).sum(),
            np.divide(1.0, lenience) * np.minimum(p, lenience * q).sum(),
            np.minimum(p / lenience, q).sum(),
        )
    return -float(np.ptp(forms))


def _two_leniences(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _lenient_pair(rng)
    return {**drawn, "stricter": rng.uniform(drawn["lenience"], 1.0)}


@claim("notes-lenience-increases", _two_leniences, mutants={"By at least 1 %.": {"times": 1.01}})
def lenience_increases(p: FloatArray, q: FloatArray, lenience: float, stricter: float, times: float = 1.0) -> float:
    """Lenience increases alpha: the smaller l, the larger alpha, and never below that of l = 1.
    [aarnphm2025speculative, note on lenience; leviathan2023fast]
    """
    return float(
        np.min([_alpha(p, q, lenience) - times * _alpha(p, q, stricter), _alpha(p, q, stricter) - overlap(p, q)])
    )


def _output(p: FloatArray, q: FloatArray, lenience: float) -> FloatArray:
    accepted = q * single_draft.accept(p, lenience * q)
    return accepted + (1.0 - accepted.sum()) * single_draft.residual(p, q)


@claim(
    "notes-lenience-deviation",
    _lenient_pair,
    Descent("p q"),
    mutants={"None above 0.95 p/l.": {"times": 0.95}, "alpha_l - 0.95 beta.": {"beta": 0.95}},
)
def lenience_deviation(p: FloatArray, q: FloatArray, lenience: float, times: float = 1.0, beta: float = 1.0) -> float:
    """The price of lenience: the output law is alpha_l - beta away from p, and puts out no token above p/l. [beside
    aarnphm2025speculative, note on lenience; leviathan2023fast, which does not say that the law changes]

    Beside: notes-lenience-alpha
    Hypotheses: A rejected draft is replaced as in speculative sampling; distance in total variation.
    Remark: Proved: where q > p the output exceeds p by min(p/l, q) - p, elsewhere it does not exceed it. Lossless
    exactly if l = 1, or q > p only where p = 0. With p = (0.5, 0.5), q = (0.9, 0.1) and l = 0.5 it is (0.9, 0.1).
    Margin: With so many times p/l, and beta.
    """
    out = _output(p, q, lenience)
    distance = float(np.abs(out - p).sum()) / 2
    return float(
        np.minimum(-abs(distance - (_alpha(p, q, lenience) - beta * overlap(p, q))), (times * p / lenience - out).min())
    )


@claim("notes-lenience-price", _lenient_pair, Descent("p q"), mutants={"At most 0.9 (1 - l).": {"most": 0.9}})
def lenience_price(p: FloatArray, q: FloatArray, lenience: float, most: float = 1.0) -> float:
    """With lenience l the output law is at most 1 - l away from p, in total variation. [beside aarnphm2025speculative,
    note on lenience; leviathan2023fast]

    Beside: notes-lenience-alpha
    Hypotheses: A rejected draft is replaced as in speculative sampling.
    Remark: Proved: where q > p the excess min(p/l, q) - p is at most (1 - l) q.
    Margin: The distance of the output, taken from so much of 1 - l.
    """
    return most * (1 - lenience) - float(np.abs(_output(p, q, lenience) - p).sum()) / 2


def _target(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _lenient_pair(rng)
    return {"p": drawn["p"], "lenience": drawn["lenience"]}


def _favourite(p: FloatArray, lenience: float, accepted: BoolArray, times: float = 1.0) -> float:
    """How far the least likely accepted token is above l max p; negative if the likeliest is not accepted."""
    if not accepted[p.argmax()]:
        return -float(p.max())
    return float(p[accepted].min() - times * lenience * p.max())


@claim("notes-lenience-greedy", _target, counterexample={"p": [0.6, 0.4], "lenience": 0.9})
def lenience_greedy(p: FloatArray, lenience: float) -> float:
    """Greedy lenience accepts the target's likeliest token, and none that is less than l times as likely.
    [aarnphm2025speculative, note on greedy decoding: 'accept token x [...] in case of p(x) <= l max(p)']

    Instead: p(x) >= l max(p). As printed it accepts the unlikely tokens, and for l < 1 never the likeliest.
    """
    return _favourite(p, lenience, p <= lenience * p.max())


@claim(
    "notes-lenience-greedy-mended", _target, mutants={"None that is less than 1.01 l times as likely.": {"times": 1.01}}
)
def lenience_greedy_mended(p: FloatArray, lenience: float, times: float = 1.0) -> float:
    """Greedy lenience accepts the target's likeliest token, and none that is less than l times as likely.
    [aarnphm2025speculative, note on greedy decoding, with p(x) >= l max(p)]

    Beside: notes-lenience-greedy
    Remark: At l = 1 it is exact matching of the likeliest token.
    """
    return _favourite(p, lenience, p >= lenience * p.max(), times)


def _after_draft(p: FloatArray, q: FloatArray, token: int, lenience: float) -> FloatArray:
    """The law of what a decoder puts out where this token was drafted, shape (V,)."""
    accepted = min(1.0, float(p[token] / (lenience * q[token])))
    law: FloatArray = (1.0 - accepted) * single_draft.residual(p, q)
    law[token] += accepted
    return law


def _apart(p: FloatArray, q: FloatArray, token: int) -> float:
    """The largest difference that lenience 1/2 makes to the output."""
    return float(np.abs(_after_draft(p, q, token, 0.5) - _after_draft(p, q, token, 1.0)).max())


@claim("notes-lenience-no-op", pair, tol=0.0, mutants={"Nor has it at temperature 1.": {"temperature": 1}})
def lenience_no_op(p: FloatArray, q: FloatArray, temperature: int = 0) -> float:
    """At temperature 0 scaling q by l has no effect. [aarnphm2025speculative, note on lenience; leviathan2023fast]

    Hypotheses: Both laws are those of temperature 0; l > 0.
    Remark: A decoder's rule with lenience 1/2 against speculative sampling, by their outputs. That a factor does not
    move the largest of q goes without a check.
    Margin: Outputs of a decoder's rule with lenience 1/2 and without, on the laws of temperature 0.
    """
    if temperature:
        return -max(_apart(p, q, token) for token in np.flatnonzero(q).tolist())
    target, drafted = (np.eye(law.size)[law.argmax()] for law in (p, q))
    return -_apart(target, drafted, int(drafted.argmax()))


def _threshold(p: FloatArray, epsilon: float, delta: float) -> float:
    positive = p[p > 0]
    entropy = -float(positive @ np.log(positive))
    return min(epsilon, delta * float(np.exp(-entropy)))


def _typical(rng: np.random.Generator) -> dict[str, Any]:
    return {"p": law(rng, int(rng.integers(2, 8))), "epsilon": rng.uniform(0.0, 1.0), "delta": rng.uniform(0.0, 0.999)}


@claim("notes-typical-mode", _typical, Descent("p"), mutants={"By a factor of 1.05 / delta.": {"factor": 1.05}})
def typical_mode(p: FloatArray, epsilon: float, delta: float, factor: float = 1.0) -> float:
    """Typical acceptance accepts the target's likeliest token: it is above min(epsilon, delta exp(-H)). [beside
    aarnphm2025speculative, 'Medusa', typical acceptance]

    Beside: aarnphm2025speculative, 'Medusa'
    Hypotheses: delta < 1: with delta = 1 and p uniform the strict comparison accepts nothing.
    Remark: Proved, by a factor of 1/delta: log max p is at least the mean of log p, which is -H.
    """
    return delta * float(p.max()) / factor - _threshold(p, epsilon, delta)


def _typical_drafts(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _typical(rng)
    return {**drawn, "q": law(rng, drawn["p"].size), "r": law(rng, drawn["p"].size)}


@claim(
    "notes-typical-deviation", _typical_drafts, Descent("p q r"), mutants={"At least 1.05 times that.": {"times": 1.05}}
)
def typical_deviation(
    p: FloatArray, epsilon: float, delta: float, q: FloatArray, r: FloatArray, times: float = 1.0
) -> float:
    """The price of typical acceptance: the output is at least the accepted tokens' max(0, q - p) away from p. [beside
    aarnphm2025speculative, 'Medusa', typical acceptance, which does not claim to keep the law]

    Beside: aarnphm2025speculative, 'Medusa'
    Hypotheses: Rejected drafts are replaced by a draw from any law r; distance in total variation.
    Remark: Close to 1 where p is nearly uniform and the drafter sure: 0.98 where all of 50 tokens have p = 1/50, and
    one of them is always drafted; any delta below 1 accepts it.
    """
    accepted = p > _threshold(p, epsilon, delta)
    out = np.where(accepted, q, 0.0) + float(q[~accepted].sum()) * r
    return float(np.abs(out - p).sum()) / 2 - times * float(np.maximum(0.0, q - p)[accepted].sum())
