"""Verifiers that trade the target's law for speed: lenience, and typical acceptance."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.instances import law, pair
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap

KEY = "aarnphm2025speculative"
LENIENCE = f"{KEY}, note on lenience; leviathan2023fast"


def _lenient_pair(rng: np.random.Generator) -> dict[str, Any]:
    return {**pair(rng), "lenience": 1.0 if rng.random() < 0.1 else 10 ** rng.uniform(-3.0, 0.0)}


def _five_forms(p: FloatArray, q: FloatArray, lenience: float) -> float:
    """The displayed forms of alpha, over the tokens that q drafts; minus the largest difference."""
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


def _alpha(p: FloatArray, q: FloatArray, lenience: float) -> float:
    return float(np.minimum(p / lenience, q).sum())


def _undivided(p: FloatArray, q: FloatArray, lenience: float) -> float:
    return -abs(_alpha(p, q, lenience) - float(np.minimum(p, lenience * q).sum()))


def _two_leniences(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _lenient_pair(rng)
    return {**drawn, "stricter": rng.uniform(drawn["lenience"], 1.0)}


def _increase_of_one_percent(p: FloatArray, q: FloatArray, lenience: float, stricter: float) -> float:
    return _alpha(p, q, lenience) - 1.01 * _alpha(p, q, stricter)


def _increase(p: FloatArray, q: FloatArray, lenience: float, stricter: float) -> float:
    return float(np.min([_alpha(p, q, lenience) - _alpha(p, q, stricter), _alpha(p, q, stricter) - overlap(p, q)]))


def _output(p: FloatArray, q: FloatArray, lenience: float) -> FloatArray:
    kept = q * single_draft.accept(p, lenience * q)
    return kept + (1.0 - kept.sum()) * single_draft.residual(p, q)


def _excess(p: FloatArray, q: FloatArray, lenience: float, most: float = 1.0) -> float:
    """The distance of the output, taken from so much of 1 - l."""
    return most * (1 - lenience) - float(np.abs(_output(p, q, lenience) - p).sum()) / 2


def _deviation(p: FloatArray, q: FloatArray, lenience: float, times: float = 1.0, beta: float = 1.0) -> float:
    """With so many times p/l, and beta."""
    out = _output(p, q, lenience)
    distance = float(np.abs(out - p).sum()) / 2
    return float(
        np.minimum(-abs(distance - (_alpha(p, q, lenience) - beta * overlap(p, q))), (times * p / lenience - out).min())
    )


def _target(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _lenient_pair(rng)
    return {"p": drawn["p"], "lenience": drawn["lenience"]}


def _favourite(p: FloatArray, lenience: float, accepted: BoolArray) -> float:
    """How far the least likely accepted token is above l max p; negative if the likeliest is not accepted."""
    if not accepted[p.argmax()]:
        return -float(p.max())
    return float(p[accepted].min() - lenience * p.max())


def _after_draft(p: FloatArray, q: FloatArray, token: int, lenience: float) -> FloatArray:
    """The law of what a decoder puts out where this token was drafted, shape (V,)."""
    accepted = min(1.0, float(p[token] / (lenience * q[token])))
    law: FloatArray = (1.0 - accepted) * single_draft.residual(p, q)
    law[token] += accepted
    return law


def _apart(p: FloatArray, q: FloatArray, token: int) -> float:
    """The largest difference that lenience 1/2 makes to the output."""
    return float(np.abs(_after_draft(p, q, token, 0.5) - _after_draft(p, q, token, 1.0)).max())


def _no_effect(p: FloatArray, q: FloatArray) -> float:
    """Outputs of a decoder's rule with lenience 1/2 and without, on the laws of temperature 0."""
    target, drafted = (np.eye(law.size)[law.argmax()] for law in (p, q))
    return -_apart(target, drafted, int(drafted.argmax()))


def _threshold(p: FloatArray, epsilon: float, delta: float) -> float:
    positive = p[p > 0]
    entropy = -float(positive @ np.log(positive))
    return min(epsilon, delta * float(np.exp(-entropy)))


def _sampled(p: FloatArray, q: FloatArray) -> float:
    """Margin of: lenience has no effect on the output at temperature 1, either."""
    return -max(_apart(p, q, token) for token in np.flatnonzero(q).tolist())


def _typical(rng: np.random.Generator) -> dict[str, Any]:
    return {"p": law(rng, int(rng.integers(2, 8))), "epsilon": rng.uniform(0.0, 1.0), "delta": rng.uniform(0.0, 0.999)}


def _typical_drafts(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _typical(rng)
    return {**drawn, "q": law(rng, drawn["p"].size), "r": law(rng, drawn["p"].size)}


def _lossy(p: FloatArray, epsilon: float, delta: float, q: FloatArray, r: FloatArray, times: float = 1.0) -> float:
    accepted = p > _threshold(p, epsilon, delta)
    out = np.where(accepted, q, 0.0) + float(q[~accepted].sum()) * r
    return float(np.abs(out - p).sum()) / 2 - times * float(np.maximum(0.0, q - p)[accepted].sum())


GREEDY = "Greedy lenience accepts the target's likeliest token, and none that is less than l times as likely."

CLAIMS = (
    Claim(
        "notes-lenience-alpha",
        "With lenience l the acceptance rate is the sum of min(p/l, q); five forms of it agree.",
        LENIENCE,
        _lenient_pair,
        _five_forms,
        hypotheses="l in [0, 1].",
        expected=Verdict.HIDDEN,
        assumption="l > 0: at l = 0 the forms with 1/l are 0/0 (alpha tends to the chance to draft a token with p > 0)",
        counterexample={"p": np.array([0.5, 0.5]), "q": np.array([0.5, 0.5]), "lenience": 0.0},
        remark="l q is not a law, and must not be normalised.",
        mutations=(Mutation("It is the sum of min(p, l q).", _undivided),),
    ),
    Claim(
        "notes-lenience-increases",
        "Lenience increases alpha: the smaller l, the larger alpha, and never below that of l = 1.",
        LENIENCE,
        _two_leniences,
        _increase,
        mutations=(Mutation("By at least 1 %.", _increase_of_one_percent),),
    ),
    Claim(
        "notes-lenience-deviation",
        "The price of lenience: the output law is alpha_l - beta away from p, and puts out no token above p/l.",
        f"beside {LENIENCE}, which does not say that the law changes",
        _lenient_pair,
        _deviation,
        variant_of="notes-lenience-alpha",
        hypotheses="A rejected draft is replaced as in speculative sampling; distance in total variation.",
        search=Descent(laws=("p", "q")),
        remark="Proved: where q > p the output exceeds p by min(p/l, q) - p, elsewhere it does not exceed it.  "
        "Lossless exactly if l = 1, or q > p only where p = 0.  With p = (0.5, 0.5), q = (0.9, 0.1) and l = 0.5 it "
        "is (0.9, 0.1).",
        mutations=(
            Mutation(
                "None above 0.95 p/l.",
                lambda p, q, lenience: float((0.95 * p / lenience - _output(p, q, lenience)).min()),
            ),
            Mutation("alpha_l - 0.95 beta.", lambda **instance: _deviation(**instance, beta=0.95)),
        ),
    ),
    Claim(
        "notes-lenience-price",
        "With lenience l the output law is at most 1 - l away from p, in total variation.",
        f"beside {LENIENCE}",
        _lenient_pair,
        _excess,
        variant_of="notes-lenience-alpha",
        hypotheses="A rejected draft is replaced as in speculative sampling.",
        search=Descent(laws=("p", "q")),
        remark="Proved: where q > p the excess min(p/l, q) - p is at most (1 - l) q.",
        mutations=(Mutation("At most 0.9 (1 - l).", lambda **instance: _excess(**instance, most=0.9)),),
    ),
    Claim(
        "notes-lenience-greedy",
        GREEDY,
        f"{KEY}, note on greedy decoding: 'accept token x [...] in case of p(x) <= l max(p)'",
        _target,
        lambda p, lenience: _favourite(p, lenience, p <= lenience * p.max()),
        expected=Verdict.FAILS,
        counterexample={"p": np.array([0.6, 0.4]), "lenience": 0.9},
        remedy="p(x) >= l max(p).  As printed it accepts the unlikely tokens, and for l < 1 never the likeliest.",
    ),
    Claim(
        "notes-lenience-greedy-mended",
        GREEDY,
        f"{KEY}, note on greedy decoding, with p(x) >= l max(p)",
        _target,
        lambda p, lenience: _favourite(p, lenience, p >= lenience * p.max()),
        variant_of="notes-lenience-greedy",
        remark="At l = 1 it is exact matching of the likeliest token.",
        mutations=(
            Mutation(
                "None that is less than 1.01 l times as likely.",
                lambda p, lenience: float(p[p >= lenience * p.max()].min() - 1.01 * lenience * p.max()),
            ),
        ),
    ),
    Claim(
        "notes-lenience-no-op",
        "At temperature 0 scaling q by l has no effect.",
        LENIENCE,
        pair,
        _no_effect,
        hypotheses="Both laws are those of temperature 0; l > 0.",
        tol=0.0,
        remark="A decoder's rule with lenience 1/2 against speculative sampling, by "
        "their outputs. That a factor does not move the largest of q goes without a check.",
        mutations=(Mutation("Nor has it at temperature 1.", _sampled),),
    ),
    Claim(
        "notes-typical-mode",
        "Typical acceptance accepts the target's likeliest token: it is above min(epsilon, delta exp(-H)).",
        f"beside {KEY}, 'Medusa', typical acceptance",
        _typical,
        lambda p, epsilon, delta: delta * float(p.max()) - _threshold(p, epsilon, delta),
        variant_of=f"{KEY}, 'Medusa'",
        hypotheses="delta < 1: with delta = 1 and p uniform the strict comparison accepts nothing.",
        search=Descent(laws=("p",)),
        remark="Proved, by a factor of 1/delta: log max p is at least the mean of log p, which is -H.",
        mutations=(
            Mutation(
                "By a factor of 1.05 / delta.",
                lambda p, epsilon, delta: delta * float(p.max()) / 1.05 - _threshold(p, epsilon, delta),
            ),
        ),
    ),
    Claim(
        "notes-typical-deviation",
        "The price of typical acceptance: the output is at least the accepted tokens' max(0, q - p) away from p.",
        f"beside {KEY}, 'Medusa', typical acceptance, which does not claim to keep the law",
        _typical_drafts,
        _lossy,
        variant_of=f"{KEY}, 'Medusa'",
        hypotheses="Rejected drafts are replaced by a draw from any law r; distance in total variation.",
        search=Descent(laws=("p", "q", "r")),
        remark="Close to 1 where p is nearly uniform and the drafter sure: 0.98 where all of 50 tokens have "
        "p = 1/50, and one of them is always drafted; any delta below 1 accepts it.",
        mutations=(Mutation("At least 1.05 times that.", lambda **instance: _lossy(**instance, times=1.05)),),
    ),
)
