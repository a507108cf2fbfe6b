"""Acceptance-rejection: section 'von Neumann acceptance rejection', and its comparison with speculative sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import covered, law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap, residual


def _repeat(accepted: FloatArray) -> tuple[FloatArray, float]:
    """Law of what comes out, and mean number of proposals, where one proposal is accepted with these probabilities.

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


@claim("notes-rejection-sampling", _envelope, mutants={"With probability 1/M.": {"normalised": True}})
def rejection_sampling(f: FloatArray, g: FloatArray, M: float, normalised: bool = False) -> float:
    """Rejection sampling puts out f/Z; it accepts a proposal with probability Z/M, one in M/Z on average.
    [aarnphm2025speculative, 'von Neumann acceptance rejection']

    Hypotheses: f <= M g; g covers the support of f.
    Remark: M >= 1 is assumed, and only needed for a normalised f: f = (0.1, 0.1), g = (0.5, 0.5) has M = 0.2.
    """
    accepted = _attempt(f, g, M)
    out, proposals = _repeat(accepted)
    Z = float(f.sum())
    errors = (
        np.abs(out - f / Z).max(),
        abs(float(accepted.sum()) - (1.0 if normalised else Z) / M),
        abs(proposals * Z / M - 1.0),
    )
    return -float(np.max(errors))


def _pointwise_envelope(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 5))
    g, c = law(rng, size), 1.0 + rng.exponential(1.0, size)
    return {"f": c * g * rng.uniform(0.01, 1.0, size), "g": g, "c": c}


@claim(
    "notes-rejection-pointwise", _pointwise_envelope, counterexample={"f": [0.5, 0.5], "g": [0.5, 0.5], "c": [1.0, 2.0]}
)
def rejection_pointwise(f: FloatArray, g: FloatArray, c: FloatArray) -> float:
    """With a pointwise envelope f <= c g, accepting with probability f / (c g) still puts out f/Z.
    [aarnphm2025speculative, 'von Neumann acceptance rejection', variants: 'correctness is unchanged']

    Hypotheses: c >= 1.
    Instead: The output is f/c, normalised: here (2/3, 1/3). Propose from c g, normalised.
    """
    if (f > c * g).any():
        return np.inf  # no envelope, once rounded
    out, _ = _repeat(_attempt(f, g, c))
    return -float(np.abs(out - f / f.sum()).max())


@claim(
    "notes-rejection-pointwise-acceptance",
    _pointwise_envelope,
    mutants={"It is Z over the largest c.": {"largest": True}},
)
def rejection_pointwise_acceptance(f: FloatArray, g: FloatArray, c: FloatArray, largest: bool = False) -> float:
    """With a pointwise envelope the acceptance rate is the sum of f/c. [aarnphm2025speculative, 'von Neumann acceptance
    rejection', variants]

    Hypotheses: c >= 1.
    """
    return -abs(float(_attempt(f, g, c).sum()) - float((f / (c.max() if largest else c)).sum()))


@claim(
    "notes-rejection-pointwise-mended", _pointwise_envelope, mutants={"Proposing from g.": rejection_pointwise.margin}
)
def rejection_pointwise_mended(f: FloatArray, g: FloatArray, c: FloatArray) -> float:
    """Proposing from c g, normalised, and accepting with probability f / (c g) puts out f/Z. [aarnphm2025speculative,
    'von Neumann acceptance rejection', variants, mended]

    Beside: notes-rejection-pointwise
    Remark: The acceptance rate is Z over the sum of c g.
    """
    total = float((c * g).sum())
    return rejection_sampling(f, c * g / total, total)


def _lower_bound(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _envelope(rng)
    return {**drawn, "h": drawn["f"] * rng.random(drawn["f"].size)}


@claim("notes-rejection-squeeze", _lower_bound, mutants={"By a test with a fresh U.": {"fresh": True}})
def rejection_squeeze(f: FloatArray, g: FloatArray, M: float, h: FloatArray, fresh: bool = False) -> float:
    """Accepting early where a lower bound h <= f lets U through, and else by the standard test, puts out f/Z.
    [aarnphm2025speculative, 'von Neumann acceptance rejection', variants]

    Remark: The standard test has to see the same U; a fresh one would let too much through.
    Margin: Output and proposals of the test in two stages: a U that h does not let through is uniform above h / (M g).
    """
    early, late = (np.divide(bound, M * g, out=np.zeros_like(f), where=g > 0) for bound in (h, f))
    second = late if fresh else np.divide(late - early, 1.0 - early, out=np.zeros_like(f), where=early < 1.0)
    out, proposals = _repeat(g * (early + (1.0 - early) * second))
    Z = float(f.sum())
    return -float(max(np.abs(out - f / Z).max(), abs(proposals * Z / M - 1.0)))


def _once(p: FloatArray, q: FloatArray) -> FloatArray:
    """P(a token is drafted and accepted) at M = max p/q."""
    return q * p / (float((p / q).max()) * q)


@claim(
    "notes-rejection-below-speculation",
    covered,
    Descent("p q"),
    tightness=lambda p, q: float(_once(p, q).sum()) / overlap(p, q),
    mutants={"1/M <= 0.95 times the sum.": {"share": 0.95}},
)
def rejection_below_speculation(p: FloatArray, q: FloatArray, share: float = 1.0) -> float:
    """Rejection sampling with M = max p/q accepts no more often than speculative sampling: 1/M <= sum of min(p, q).
    [aarnphm2025speculative, 'speculative sampling', note on rejection sampling; leviathan2023fast]

    Remark: All four members of the displayed chain are compared.
    """
    target = p > 0
    least = float(p.sum() * (q[target] / p[target]).min())
    most = float((p[target] * np.minimum(1.0, q[target] / p[target])).sum())
    return float(np.min([-abs(_once(p, q).sum() - least), share * most - least, -abs(most - overlap(p, q))]))


@claim("notes-rejection-once", covered, mutants={"Else a draw from max(0, p - q).": {"else_p": False}})
def rejection_once(p: FloatArray, q: FloatArray, else_p: bool = True) -> float:
    """One attempt at rejection sampling, and else a draw from the unmodified p, puts out p. [aarnphm2025speculative,
    'speculative sampling', note on rejection sampling; leviathan2023fast]
    """
    accepted = _once(p, q)
    return -float(np.abs(accepted + (1.0 - accepted.sum()) * (p if else_p else residual(p, q)) - p).max())
