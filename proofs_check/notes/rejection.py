"""Acceptance-rejection: section 'von Neumann acceptance rejection', and its comparison with speculative sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap, residual

KEY = "aarnphm2025speculative"


def _repeat(accepted: FloatArray) -> tuple[FloatArray, float]:
    """Law of what comes out, and mean number of proposals, where one proposal is accepted as these probabilities say.

    By doubling: 2^j proposals, then as many again if nothing was accepted.
    """
    out, proposals, left = accepted, 1.0, 1.0 - float(accepted.sum())
    while left:
        out, proposals, left = out + left * out, proposals + left * proposals, left * left
    return out, proposals


def _envelope(rng: np.random.Generator) -> dict[str, Any]:
    """An unnormalised target f, a proposal g that covers it, and M; acceptance rates from 1/200 up."""
    size = int(rng.integers(2, 6))
    shape = law(rng, size)
    share = 10 ** rng.uniform(-2.0, -0.3)
    g = share * shape + (1 - share) * law(rng, size)
    f = shape * 10 ** rng.uniform(-2.0, 2.0)
    slack = 1.0 if rng.random() < 0.5 else rng.uniform(1.0, 2.0)
    return {"f": f, "g": g, "M": slack * float((f[g > 0] / g[g > 0]).max())}


def _attempt(f: FloatArray, g: FloatArray, M: float | FloatArray) -> FloatArray:
    """P(a token is proposed and accepted)."""
    return g * np.divide(f, M * g, out=np.zeros_like(f), where=g > 0)


def _rejection(f: FloatArray, g: FloatArray, M: float) -> float:
    accepted = _attempt(f, g, M)
    out, proposals = _repeat(accepted)
    Z = float(f.sum())
    errors = np.abs(out - f / Z).max(), abs(float(accepted.sum()) - Z / M), abs(proposals * Z / M - 1.0)
    return -float(np.max(errors))


def _normalised(f: FloatArray, g: FloatArray, M: float) -> float:
    """Margin of: a proposal is accepted with probability 1/M."""
    return -abs(float(_attempt(f, g, M).sum()) - 1.0 / M)


def _pointwise_envelope(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 5))
    g, c = law(rng, size), 1.0 + rng.exponential(1.0, size)
    return {"f": c * g * rng.uniform(0.01, 1.0, size), "g": g, "c": c}


def _pointwise(f: FloatArray, g: FloatArray, c: FloatArray) -> float:
    if (f > c * g).any():
        return np.inf  # no envelope, once rounded
    out, _ = _repeat(_attempt(f, g, c))
    return -float(np.abs(out - f / f.sum()).max())


def _pointwise_acceptance(f: FloatArray, g: FloatArray, c: FloatArray) -> float:
    return -abs(float(_attempt(f, g, c).sum()) - float((f / c).sum()))


def _largest_c(f: FloatArray, g: FloatArray, c: FloatArray) -> float:
    return -abs(float(_attempt(f, g, c).sum()) - float(f.sum() / c.max()))


def _pointwise_mended(f: FloatArray, g: FloatArray, c: FloatArray) -> float:
    total = float((c * g).sum())
    return _rejection(f, c * g / total, total)


def _lower_bound(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _envelope(rng)
    return {**drawn, "h": drawn["f"] * rng.random(drawn["f"].size)}


def _squeeze(f: FloatArray, g: FloatArray, M: float, h: FloatArray, fresh: bool = False) -> float:
    """Output and proposals of the test in two stages: a U that h does not let through is uniform above h / (M g)."""
    early, late = (np.divide(bound, M * g, out=np.zeros_like(f), where=g > 0) for bound in (h, f))
    second = late if fresh else np.divide(late - early, 1.0 - early, out=np.zeros_like(f), where=early < 1.0)
    out, proposals = _repeat(g * (early + (1.0 - early) * second))
    Z = float(f.sum())
    return -float(max(np.abs(out - f / Z).max(), abs(proposals * Z / M - 1.0)))


def _covered_pair(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 6))
    return {"p": law(rng, size), "q": positive_law(rng, size)}


def _once(p: FloatArray, q: FloatArray) -> FloatArray:
    """P(a token is drafted and accepted) at M = max p/q."""
    return q * p / (float((p / q).max()) * q)


def _inequality(p: FloatArray, q: FloatArray) -> float:
    target = p > 0
    least = float(p.sum() * (q[target] / p[target]).min())
    most = float((p[target] * np.minimum(1.0, q[target] / p[target])).sum())
    return float(np.min([-abs(_once(p, q).sum() - least), most - least, -abs(most - overlap(p, q))]))


def _below_overlap(p: FloatArray, q: FloatArray) -> float:
    return 0.95 * overlap(p, q) - float(_once(p, q).sum())


def _else_residual(p: FloatArray, q: FloatArray) -> float:
    kept = _once(p, q)
    return -float(np.abs(kept + (1.0 - kept.sum()) * residual(p, q) - p).max())


def _non_iterative(p: FloatArray, q: FloatArray) -> float:
    kept = _once(p, q)
    return -float(np.abs(kept + (1.0 - kept.sum()) * p - p).max())


SECTION = f"{KEY}, 'von Neumann acceptance rejection'"

CLAIMS = (
    Claim(
        "notes-rejection-sampling",
        "Rejection sampling puts out f/Z; it accepts a proposal with probability Z/M, one in M/Z on average.",
        SECTION,
        _envelope,
        _rejection,
        hypotheses="f <= M g; g covers the support of f.",
        remark="M >= 1 is asked for, and only needed for a normalised f: f = (0.1, 0.1), g = (0.5, 0.5) has M = 0.2.",
        mutations=(Mutation("With probability 1/M.", _normalised),),
    ),
    Claim(
        "notes-rejection-pointwise",
        "With a pointwise envelope f <= c g, accepting with probability f / (c g) still puts out f/Z.",
        f"{SECTION}, variants: 'correctness is unchanged'",
        _pointwise_envelope,
        _pointwise,
        hypotheses="c >= 1.",
        expected=Verdict.FAILS,
        counterexample={"f": np.array([0.5, 0.5]), "g": np.array([0.5, 0.5]), "c": np.array([1.0, 2.0])},
        remedy="The output is f/c, normalised: here (2/3, 1/3).  Propose from c g, normalised.",
    ),
    Claim(
        "notes-rejection-pointwise-acceptance",
        "With a pointwise envelope the acceptance rate is the sum of f/c.",
        f"{SECTION}, variants",
        _pointwise_envelope,
        _pointwise_acceptance,
        hypotheses="c >= 1.",
        mutations=(Mutation("It is Z over the largest c.", _largest_c),),
    ),
    Claim(
        "notes-rejection-pointwise-mended",
        "Proposing from c g, normalised, and accepting with probability f / (c g) puts out f/Z.",
        f"{SECTION}, variants, mended",
        _pointwise_envelope,
        _pointwise_mended,
        variant_of="notes-rejection-pointwise",
        remark="The acceptance rate is Z over the sum of c g.",
        mutations=(Mutation("Proposing from g.", _pointwise),),
    ),
    Claim(
        "notes-rejection-squeeze",
        "Accepting early where a lower bound h <= f lets U through, and else by the standard test, puts out f/Z.",
        f"{SECTION}, variants",
        _lower_bound,
        _squeeze,
        remark="The standard test has to see the same U; a fresh one would let too much through.",
        mutations=(Mutation("By a test with a fresh U.", lambda **instance: _squeeze(**instance, fresh=True)),),
    ),
    Claim(
        "notes-rejection-below-speculation",
        "Rejection sampling with M = max p/q accepts no more often than speculative sampling: 1/M <= sum of min(p, q).",
        f"{KEY}, 'speculative sampling', note on rejection sampling; leviathan2023fast",
        _covered_pair,
        _inequality,
        tightness=lambda p, q: float(_once(p, q).sum()) / overlap(p, q),
        search=Descent(laws=("p", "q")),
        remark="All four members of the displayed chain are compared.",
        mutations=(Mutation("1/M <= 0.95 times the sum.", _below_overlap),),
    ),
    Claim(
        "notes-rejection-once",
        "One attempt at rejection sampling, and else a draw from the unmodified p, puts out p.",
        f"{KEY}, 'speculative sampling', note on rejection sampling; leviathan2023fast",
        _covered_pair,
        _non_iterative,
        mutations=(Mutation("Else a draw from max(0, p - q).", _else_residual),),
    ),
)
