"""Section 4 and appendix A.1: schedules of shortlists, and drafting with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray, likeliest
from otspec.proofs_check import single_draft
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.single_draft import restricted


def _budget(k_max: int, t: int) -> int:
    """k_c(t), as printed."""
    return k_max if t < 2 else k_max // (2 * (t + 1))


SCHEDULES = [{"k_max": k_max, "t": t} for k_max in range(1, 65) for t in range(12)]


@claim("dynaspec-budget-range", SCHEDULES, counterexample={"k_max": 5, "t": 2})
def budget_range(k_max: int, t: int) -> float:
    """The cluster budget k_c(t) lies in {k_min, ..., k_max}. [zhang2025dynaspec, section 4.2]

    Hypotheses: k_min >= 1: a step without clusters has no shortlist.
    Instead: max(k_min, floor(k_max / (2 (t + 1)))). As printed the budget is 0 as soon as 2 (t + 1) > k_max.
    """
    return float(min(_budget(k_max, t) - 1, k_max - _budget(k_max, t)))


@claim("dynaspec-budget-falls", SCHEDULES, mutants={"It falls with t.": {"by": 1}})
def budget_falls(k_max: int, t: int, by: int = 0) -> float:
    """The cluster budget gives early tokens more clusters, and later ones fewer: it does not rise with t.
    [zhang2025dynaspec, section 4.2]

    Remark: It falls at t = 2 to a sixth, not to a third.
    """
    return float(_budget(k_max, t) - _budget(k_max, t + 1) - by)


RANGES = [{"k_min": k_min, **row} for row in SCHEDULES for k_min in (1, 2, 5, 20) if k_min <= row["k_max"]]


@claim(
    "dynaspec-budget-clamped",
    RANGES,
    mutants={"It stays above k_min.": lambda k_min, k_max, t: float(max(k_min, _budget(k_max, t)) - k_min - 1)},
)
def budget_clamped(k_min: int, k_max: int, t: int) -> float:
    """max(k_min, k_c(t)) lies in {k_min, ..., k_max} and does not rise with t. [zhang2025dynaspec, section 4.2,
    mended]

    Beside: dynaspec-budget-range
    """
    now, then = (max(k_min, _budget(k_max, step)) for step in (t, t + 1))
    return float(min(now - k_min, k_max - now, now - then))


def _frequent(k_max: int, t: int) -> int:
    """K_fr(t), as printed."""
    return k_max if t < 2 else k_max // (t + 1)


@claim(
    "dynaspec-frequency-budget",
    SCHEDULES,
    mutants={"It falls with t.": lambda k_max, t: float(_frequent(k_max, t) - _frequent(k_max, t + 1) - 1)},
)
def frequency_budget(k_max: int, t: int) -> float:
    """K_fr(t) does not rise with t, and costs at most the fixed shortlist of k_max tokens. [zhang2025dynaspec, appendix
    A.1]

    Remark: It is 0 from t = k_max on, out of reach for vocabularies of that size.
    """
    return float(min(_frequent(k_max, t) - _frequent(k_max, t + 1), k_max - _frequent(k_max, t)))


def _shortlisted(rng: np.random.Generator) -> dict[str, Any]:
    vocab, gamma = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    rows = single_draft.prefixes(vocab, gamma)
    subsets = rng.integers(1, 1 << vocab, rows)  # a shortlist of its own for every prefix
    return {
        "p": np.array([law(rng, vocab) for _ in range(rows)]),
        "q": np.array([positive_law(rng, vocab) for _ in range(rows)]),
        "shortlists": (subsets[:, None] >> np.arange(vocab)) & 1,
        "gamma": gamma,
    }


def _tested_on_all(p: FloatArray, q: FloatArray, shortlists: IntArray, gamma: int) -> float:
    """Margin of: tests with the drafter's law on all tokens are lossless; of the first token."""
    drafted = restricted(q[0], np.flatnonzero(shortlists[0]))
    return -float(np.abs(single_draft.output(p[0], drafted, q[0]) - p[0]).max())


@claim("dynaspec-lossless", _shortlisted, cost=20, mutants={"Tested with the law on all tokens.": _tested_on_all})
def lossless(p: FloatArray, q: FloatArray, shortlists: IntArray, gamma: int) -> float:
    """Drafting from a shortlist that depends on the context leaves the law of the text that of the target.
    [zhang2025dynaspec, abstract: 'verification retains the full vocabulary and exactness']

    Hypotheses: Drafts are sampled from the normalised law on the shortlist, and tested with that law.
    Remark: All blocks of up to three drafts over three tokens, with a shortlist of its own at every prefix.
    """
    drafted = np.array([restricted(row, np.flatnonzero(own)) for row, own in zip(q, shortlists, strict=True)])
    return -float(np.abs(single_draft.block(p, drafted, gamma) - single_draft.text(p, gamma + 1)).max())


def _draft_tree(rng: np.random.Generator) -> dict[str, Any]:
    steps, beam, vocab = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(3, 7))
    laws = [[law(rng, vocab) for _ in range(beam)] for _ in range(steps)]
    return {"laws": np.array(laws), "k": beam, "verified": int(rng.integers(1, 1 + beam + (steps - 1) * beam**2))}


@claim(
    "dynaspec-rerank", _draft_tree, tol=0.0, cost=4, mutants={"Of highest score of their own.": {"cumulative": False}}
)
def rerank(laws: FloatArray, k: int, verified: int, cumulative: bool = True) -> float:
    """The drafts of highest cumulative score, which are verified, are a tree: every one comes with its parent.
    [zhang2025dynaspec, Algorithm 1, lines 12 to 20]

    Beside: zhang2025dynaspec, Algorithm 1, lines 12 to 20
    Hypotheses: At ties of the score the parent goes first.
    Remark: Log-probabilities only fall along a path.
    Margin: Lines 11 to 20 of Algorithm 1; minus the number of verified tokens whose parent is not.
    """
    with np.errstate(divide="ignore"):
        scores = np.log(laws)
    beam, last = [-1], np.zeros(1)
    parents: list[int] = []
    drafted: list[float] = []
    for step in scores:
        grown = []
        for row, (parent, score) in enumerate(zip(beam, last, strict=True)):
            for token in likeliest(step[row], k):
                grown.append(len(drafted))
                drafted.append((score if cumulative else 0.0) + step[row, token])
                parents.append(parent)
        best = likeliest(np.array(drafted)[grown], k)
        beam, last = np.array(grown)[best].tolist(), np.array(drafted)[grown][best]
    chosen = set(np.argsort(-np.array(drafted), kind="stable")[:verified].tolist())
    return -float(sum(parents[node] not in chosen | {-1} for node in chosen))
