"""DynaSpec [zhang2025dynaspec]: shortlists of tokens that depend on the context."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray, likeliest
from otspec.proofs_check import single_draft
from otspec.proofs_check.claim import Claim, Source, Unchecked, Verdict
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.printed import half_unit, listed, number, numbers
from otspec.proofs_check.search import Descent, Instance
from otspec.proofs_check.single_draft import overlap, tokens, tokens_quotient

KEY = "zhang2025dynaspec"


# --- Section 3: tokens per block and speedup ---------------------------------------------------------------------


def _mean_tokens(rates: FloatArray, weights: FloatArray) -> float:
    """Mean tokens per block of drafts, over kinds of blocks with the acceptance rate of every position."""
    return float(weights @ (1.0 + np.cumprod(rates, axis=1).sum(axis=1)))


def _independent_rates(rng: np.random.Generator) -> dict[str, Any]:
    """All blocks of independent positions, whose rates have the same law on a few values."""
    gamma, kinds = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    values = rng.choice([0.0, 0.99], kinds) if rng.random() < 0.2 else rng.uniform(0.0, 0.99, kinds)
    chance = positive_law(rng, kinds)
    choices = np.array(list(itertools.product(range(kinds), repeat=gamma)))
    return {"rates": values[choices], "weights": chance[choices].prod(axis=1)}


def _eq_1(rates: FloatArray, weights: FloatArray) -> float:
    alpha = float(weights @ rates.mean(axis=1))
    return -abs(_mean_tokens(rates, weights) - tokens_quotient(alpha, rates.shape[1]))


def _shared_rates(rng: np.random.Generator) -> dict[str, Any]:
    kinds = int(rng.integers(1, 5))
    return {"rates": rng.random(kinds), "weights": law(rng, kinds), "gamma": int(rng.integers(1, 9))}


def _one_rate(rates: FloatArray, weights: FloatArray, gamma: int) -> tuple[float, float]:
    blocks = np.repeat(rates[:, None], gamma, axis=1)
    return tokens(float(weights @ rates), gamma), _mean_tokens(blocks, weights)


def _speedup(alpha: float, gamma: int, draft: float, verify: float) -> float:
    """Eq. (2), in units of T_T."""
    return tokens_quotient(alpha, gamma) / (gamma * draft + verify)


def _costs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "alpha": rng.uniform(0.0, 0.99),
        "gamma": int(rng.integers(1, 9)),
        "draft": 10 ** rng.uniform(-3.0, 0.0),
        "verify": 1.0 + 10 ** rng.uniform(-3.0, 0.0),
    }


def _text_and_costs(rng: np.random.Generator) -> dict[str, Any]:
    return {**_costs(rng), "length": int(rng.integers(1, 60))}


def _eq_2(alpha: float, gamma: int, draft: float, verify: float, length: int) -> float:
    speedup = _speedup(alpha, gamma, draft, verify)
    measured = length / (single_draft.blocks(alpha, gamma, length) * (gamma * draft + verify))
    return float(np.minimum(speedup - measured, measured - speedup * length / (length + gamma)))


def _two_rates(rng: np.random.Generator) -> dict[str, Any]:
    low, high = np.sort(rng.random(2))
    return {"low": float(low), "high": float(high), "gamma": int(rng.integers(1, 13))}


# --- Section 3.2: shortlists ---------------------------------------------------------------------------------------


def _on_shortlist(rng: np.random.Generator) -> dict[str, Any]:
    """A target law, a shortlist of k tokens, and a draft law on it."""
    size = int(rng.integers(2, 7))
    kept = rng.choice(size, rng.integers(1, size + 1), replace=False)
    return {"p": law(rng, size), "kept": kept, "q": law(rng, kept.size)}


def _restricted(weights: FloatArray, kept: IntArray) -> FloatArray:
    """A law's share of a shortlist, normalised; uniform on it where it has none."""
    inside = np.zeros_like(weights)
    inside[kept] = weights[kept] / weights[kept].sum() if weights[kept].sum() > 0 else 1.0 / kept.size
    return inside


def _lemma_1(p: FloatArray, kept: IntArray, q: FloatArray) -> float:
    inside = np.zeros_like(p)
    inside[kept] = q
    mass = float(p[kept].sum())
    return float(np.minimum(mass - overlap(p, inside), -abs(mass - overlap(p, _restricted(p, kept)))))


def _shortlists(vocab: int, k: int) -> IntArray:
    return np.array(list(itertools.combinations(range(vocab), k)))


def _top(p: FloatArray, k: int) -> FloatArray:
    """Mass of the k likeliest tokens along the last axis, H_k."""
    return np.sort(p, axis=-1)[..., ::-1][..., :k].sum(axis=-1)


def _one_context(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(1, 8))
    return {"p": law(rng, size), "k": int(rng.integers(1, size + 1))}


def _lemma_2(p: FloatArray, k: int) -> float:
    return -abs(float(p[_shortlists(p.size, k)].sum(axis=1).max() - _top(p, k)))


def _contexts(rng: np.random.Generator) -> dict[str, Any]:
    size, many = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    return {
        "p": np.array([law(rng, size) for _ in range(many)]),
        "weights": law(rng, many),
        "k": int(rng.integers(1, size)),
    }


def _retained(p: FloatArray, weights: FloatArray, k: int) -> tuple[float, FloatArray]:
    """Mean mass on the top-k sets of the contexts, and on every static set."""
    static = p[:, _shortlists(p.shape[1], k)].sum(axis=2)
    return float(weights @ _top(p, k)), weights @ static


def _theorem_a(p: FloatArray, weights: FloatArray, k: int) -> float:
    dynamic, static = _retained(p, weights, k)
    return dynamic - float(static.max())


def _theorem_a_ratio(p: FloatArray, weights: FloatArray, k: int) -> float:
    dynamic, static = _retained(p, weights, k)
    return float(static.max()) / dynamic


def _theorem_a_strict(p: FloatArray, weights: FloatArray, k: int) -> float:
    """Gap over what exchanging one token costs, in the contexts whose k likeliest are a different set."""
    dynamic, static = _retained(p, weights, k)
    falling = np.sort(p, axis=1)[:, ::-1]
    step = falling[:, k - 1] - falling[:, k]
    differs = np.array(
        [[set(likeliest(row, k)) != set(kept) for kept in _shortlists(row.size, k)] for row in p], dtype=np.float64
    )
    return float((dynamic - static - (weights * step) @ differs).min())


def _positions(rng: np.random.Generator) -> dict[str, Any]:
    """Blocks whose positions have target laws that may depend on one another in any way."""
    size, many, gamma = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    p = np.array([[law(rng, size) for _ in range(gamma)] for _ in range(many)])
    return {"p": p, "weights": law(rng, many), "k": int(rng.integers(1, size))}


def _consequence(p: FloatArray, weights: FloatArray, k: int) -> float:
    dynamic = _mean_tokens(_top(p, k), weights)
    static = [_mean_tokens(p[..., kept].sum(axis=2), weights) for kept in _shortlists(p.shape[2], k)]
    return float(np.min(dynamic - np.array(static)))


def _fixed_drafter(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(3, 7))
    logits = 2.0 * rng.standard_normal(size)
    p, q = np.exp(logits), np.exp(logits + rng.standard_normal(size))
    return {"p": p / p.sum(), "q": q / q.sum(), "k": int(rng.integers(1, size))}


def _real_drafter(p: FloatArray, q: FloatArray, k: int) -> float:
    dynamic = overlap(p, _restricted(q, likeliest(p, k)))
    return float(np.min([dynamic - overlap(p, _restricted(q, kept)) for kept in _shortlists(p.size, k)]))


# --- Section 4 and appendix A.1: schedules and drafting ------------------------------------------------------------


def _budget(k_max: int, t: int) -> int:
    """k_c(t), as printed."""
    return k_max if t < 2 else k_max // (2 * (t + 1))


def _frequent(k_max: int, t: int) -> int:
    """K_fr(t), as printed."""
    return k_max if t < 2 else k_max // (t + 1)


def _clamped(k_min: int, k_max: int, t: int) -> float:
    now, then = (max(k_min, _budget(k_max, step)) for step in (t, t + 1))
    return float(min(now - k_min, k_max - now, now - then))


SCHEDULES = [{"k_max": k_max, "t": t} for k_max in range(1, 65) for t in range(12)]
RANGES = [{"k_min": k_min, **row} for row in SCHEDULES for k_min in (1, 2, 5, 20) if k_min <= row["k_max"]]


def _shortlisted(rng: np.random.Generator) -> dict[str, Any]:
    vocab, gamma = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    rows = single_draft.prefixes(vocab, gamma)
    kept = rng.integers(1, 1 << vocab, rows)  # a shortlist of its own for every prefix
    return {
        "p": np.array([law(rng, vocab) for _ in range(rows)]),
        "q": np.array([positive_law(rng, vocab) for _ in range(rows)]),
        "shortlists": (kept[:, None] >> np.arange(vocab)) & 1,
        "gamma": gamma,
    }


def _lossless(p: FloatArray, q: FloatArray, shortlists: IntArray, gamma: int) -> float:
    drafted = np.array([_restricted(row, np.flatnonzero(kept)) for row, kept in zip(q, shortlists, strict=True)])
    return -float(np.abs(single_draft.block(p, drafted, gamma) - single_draft.text(p, gamma + 1)).max())


def _draft_tree(rng: np.random.Generator) -> dict[str, Any]:
    steps, beam, vocab = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(3, 7))
    laws = [[law(rng, vocab) for _ in range(beam)] for _ in range(steps)]
    return {"laws": np.array(laws), "k": beam, "verified": int(rng.integers(1, 1 + beam + (steps - 1) * beam**2))}


def _rerank(laws: FloatArray, k: int, verified: int) -> float:
    """Lines 11 to 20 of Algorithm 1; minus the number of verified tokens whose parent is not."""
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
                drafted.append(score + step[row, token])
                parents.append(parent)
        best = likeliest(np.array(drafted)[grown], k)
        beam, last = np.array(grown)[best].tolist(), np.array(drafted)[grown][best]
    chosen = set(np.argsort(-np.array(drafted), kind="stable")[:verified].tolist())
    return -float(sum(parents[node] not in chosen | {-1} for node in chosen))


# --- Tables 1 and 2 ------------------------------------------------------------------------------------------------

TASKS = ("MT", "Conv.", "RAG", "Math", "QA", "Summ.", "Code")
FR = "3.38 3.87 3.85 4.16 3.32 3.51 4.11"
OURS = "3.51 4.05 3.91 4.21 3.40 3.51 4.71"
SIZES = "27,817 27,020 27,546 27,436 27,208 27,107 27,277"
FR_PA = "3.50 3.94 3.86 4.18 3.38 3.58 4.21"

AVERAGES: list[Instance] = [
    {"row": row, "cells": cells.split(), "average": average}
    for row, cells, average in (
        ("Table 1, full vocabulary", "3.66 4.11 4.03 4.31 3.45 3.68 4.77", "4.00"),
        ("Table 1, FR-Spec", FR, "3.74"),
        ("Table 1, DynaSpec", OURS, "3.90"),
        ("Table 1, DynaSpec, vocabulary", SIZES, "27,344"),
        ("Table 2, FR-Spec-PA", FR_PA, "3.81"),
    )
]


def _average(row: str, cells: list[str], average: str) -> float:
    allowed = half_unit(average) + half_unit(cells[0])
    return allowed - abs(float(numbers(cells).mean()) - number(average))


def _versus(ours: str, theirs: str) -> list[Instance]:
    return [
        {"task": task, "ours": a, "theirs": b} for task, a, b in zip(TASKS, ours.split(), theirs.split(), strict=True)
    ]


def _longer(task: str, ours: str, theirs: str) -> float:
    """Negative at a tie, too: printed numbers differ by two half units or not at all."""
    return number(ours) - number(theirs) - half_unit(ours)


def _smaller(task: str, ours: str, theirs: str) -> float:
    return _longer(task, theirs, ours)


SOURCE = Source(
    "DynaSpec: Context-aware Dynamic Speculative Sampling for Large-Vocabulary Language Models",
    KEY,
    (
        Claim(
            "dynaspec-eq-1",
            "A block of gamma drafts yields (1 - alpha^(gamma+1)) / (1 - alpha) tokens on average.",
            f"{KEY}, eq. (1); leviathan2023fast",
            _independent_rates,
            _eq_1,
            hypotheses="alpha in [0, 1]; the acceptance rates of the positions are i.i.d. with mean alpha.",
            expected=Verdict.HIDDEN,
            assumption="alpha < 1: at alpha = 1 the quotient is 0/0; its limit, the sum of alpha^i, is gamma + 1",
            counterexample={"rates": np.array([[1.0]]), "weights": np.array([1.0])},
            remark="Positions of one block that share their rate yield more, see dynaspec-one-rate-per-block.",
        ),
        Claim(
            "dynaspec-one-rate-per-block",
            "If the positions of a block share one random acceptance rate of mean alpha, eq. (1) is a lower bound.",
            f"beside {KEY}, eq. (1): what the i.i.d. assumption is worth",
            _shared_rates,
            lambda rates, weights, gamma: -float(np.subtract(*_one_rate(rates, weights, gamma))),
            tightness=lambda rates, weights, gamma: float(np.divide(*_one_rate(rates, weights, gamma))),
            search=Descent(laws=("weights",)),
            remark="Jensen's inequality for every power.  Rates 1 and 0 of equal chance, gamma = 4: 3, against 1.94.",
        ),
        Claim(
            "dynaspec-eq-2",
            "The speedup over plain decoding is T_T Omega(alpha, gamma) / (gamma T_D + T_V(gamma)).",
            f"{KEY}, eq. (2)",
            _text_and_costs,
            _eq_2,
            hypotheses="Independent acceptances; a long text; alpha < 1.",
            cost=5,
            remark="Exact for texts of N tokens, by recursion over blocks: they are faster by this factor times "
            "something between N / (N + gamma) and 1.",
        ),
        Claim(
            "dynaspec-worst-case",
            "In the worst case the latency of speculative decoding reverts to that of standard decoding.",
            f"{KEY}, section 1",
            _costs,
            lambda alpha, gamma, draft, verify: _speedup(alpha, gamma, draft, verify) - 1.0,
            hypotheses="T_V(gamma) >= T_T; costs in units of T_T.",
            expected=Verdict.FAILS,
            counterexample={"alpha": 0.0, "gamma": 5, "draft": 0.1, "verify": 1.0},
            remedy="By eq. (2), in the worst case, alpha = 0, it is (gamma T_D + T_V(gamma)) / T_T times slower.",
        ),
        Claim(
            "dynaspec-eq-3",
            "The acceptance rate, the mean of min(1, p/q) over drafts from q, is the sum of min(p, q).",
            f"{KEY}, eq. (3)",
            lambda rng: {"p": law(rng, 5), "q": law(rng, 5)},
            lambda p, q: -abs(float(q @ single_draft.accept(p, q)) - overlap(p, q)),
        ),
        Claim(
            "dynaspec-lemma-1",
            "The best acceptance rate of a draft law on a shortlist S is p(S).",
            f"{KEY}, Lemma 1",
            _on_shortlist,
            _lemma_1,
            search=Descent(laws=("q",)),
            remark="Checked: no q on S is above, and p normalised on S attains it.  Where p(S) = 0 that law does not "
            "exist, the value 0 is right all the same.",
        ),
        Claim(
            "dynaspec-lemma-2",
            "The best shortlist of k tokens is the k likeliest under p, with acceptance rate H_k(p).",
            f"{KEY}, Lemma 2",
            _one_context,
            _lemma_2,
            remark="Against all shortlists of k tokens, k up to V.",
        ),
        Claim(
            "dynaspec-theorem-a",
            "Oracle shortlists that follow the context accept at least as often as any static one, on average.",
            f"{KEY}, Theorem A",
            _contexts,
            _theorem_a,
            tightness=_theorem_a_ratio,
            search=Descent(laws=("p", "weights")),
            cost=2,
            remark="With equality where one set is the k likeliest of almost every context: 'dominates', as the "
            "theorem says, not 'strictly dominates' (section 6).",
        ),
        Claim(
            "dynaspec-theorem-a-strict",
            "Theorem A is strict where, with positive probability, the unique top-k set is not the static one.",
            f"{KEY}, Theorem A",
            _contexts,
            _theorem_a_strict,
            search=Descent(laws=("p", "weights")),
            cost=6,
            remark="Checked in a stronger form: the gap is at least p(k-th) - p((k+1)-th), averaged over the contexts "
            "in which the sets differ.",
        ),
        Claim(
            "dynaspec-omega-increases",
            "The mean number of tokens per block is strictly increasing in alpha.",
            f"{KEY}, consequence of Theorem A",
            _two_rates,
            lambda low, high, gamma: tokens(high, gamma) - tokens(low, gamma) - (high - low),
            hypotheses="gamma >= 1; independent acceptances.",
            remark="Checked in a stronger form: with slope at least 1.",
        ),
        Claim(
            "dynaspec-theorem-a-consequence",
            "Oracle shortlists yield at least as many tokens per block as any static one.",
            f"{KEY}, consequence of Theorem A",
            _positions,
            _consequence,
            search=Descent(laws=("p", "weights")),
            cost=5,
            remark="Without the i.i.d. assumption, since oracle shortlists accept at least as often in every context.  "
            "That is needed: with dependent positions a higher mean rate alone may yield fewer tokens.",
        ),
        Claim(
            "dynaspec-theorem-a-given-drafter",
            "Theorem A for a given draft law, restricted to the shortlist and normalised, as the system runs it.",
            f"{KEY}, sections 1, 3.2 and 6: 'we show that context-conditioned supports dominate any static subset'",
            _fixed_drafter,
            _real_drafter,
            search=Descent(laws=("p", "q")),
            cost=2,
            expected=Verdict.FAILS,
            counterexample={"p": np.array([0.4, 0.35, 0.25]), "q": np.array([0.5, 0.1, 0.4]), "k": 2},
            remedy="Theorem A speaks of the best draft law on every shortlist.  For a given q the k likeliest tokens "
            "of p can lose to others: here the first two tokens accept 0.57, the first and third 0.65.",
        ),
        listed(
            "dynaspec-budget-range",
            "The cluster budget k_c(t) lies in {k_min, ..., k_max}.",
            f"{KEY}, section 4.2",
            SCHEDULES,
            lambda k_max, t: float(min(_budget(k_max, t) - 1, k_max - _budget(k_max, t))),
            hypotheses="k_min >= 1: a step without clusters has no shortlist.",
            expected=Verdict.FAILS,
            counterexample={"k_max": 5, "t": 2},
            remedy="max(k_min, floor(k_max / (2 (t + 1)))).  As printed the budget is 0 as soon as 2 (t + 1) > k_max.",
        ),
        listed(
            "dynaspec-budget-falls",
            "The cluster budget gives early tokens more clusters, and later ones fewer: it does not rise with t.",
            f"{KEY}, section 4.2",
            SCHEDULES,
            lambda k_max, t: float(_budget(k_max, t) - _budget(k_max, t + 1)),
            remark="It falls at t = 2 to a sixth, not to a third.",
        ),
        listed(
            "dynaspec-budget-clamped",
            "max(k_min, k_c(t)) lies in {k_min, ..., k_max} and does not rise with t.",
            f"{KEY}, section 4.2, mended",
            RANGES,
            _clamped,
        ),
        listed(
            "dynaspec-frequency-budget",
            "K_fr(t) does not rise with t, and costs at most the fixed shortlist of k_max tokens.",
            f"{KEY}, appendix A.1",
            SCHEDULES,
            lambda k_max, t: float(min(_frequent(k_max, t) - _frequent(k_max, t + 1), k_max - _frequent(k_max, t))),
            remark="It is 0 from t = k_max on, out of reach for vocabularies of that size.",
        ),
        Claim(
            "dynaspec-lossless",
            "Drafting from a shortlist that depends on the context leaves the law of the text that of the target.",
            f"{KEY}, section 4.3: 'verification keeps the full vocabulary and exactness'",
            _shortlisted,
            _lossless,
            hypotheses="Drafts are sampled from the normalised law on the shortlist, and tested with that law.",
            cost=20,
            remark="All blocks of up to three drafts over three tokens, with a shortlist of its own at every prefix.",
        ),
        Claim(
            "dynaspec-rerank",
            "The drafts of highest cumulative score, which are verified, are a tree: every one comes with its parent.",
            f"{KEY}, Algorithm 1, lines 12 to 20",
            _draft_tree,
            _rerank,
            tol=0.0,
            cost=4,
            hypotheses="At ties of the score the parent goes first.",
            remark="Log-probabilities only fall along a path.",
        ),
        listed(
            "dynaspec-averages",
            "The averages of Tables 1 and 2 are the means of their rows.",
            f"{KEY}, Tables 1 and 2",
            AVERAGES,
            _average,
        ),
        listed(
            "dynaspec-table-1-longer",
            "DynaSpec has a higher mean acceptance length than FR-Spec across the seven datasets.",
            f"{KEY}, section 5.2 and Table 1",
            _versus(OURS, FR),
            _longer,
            expected=Verdict.FAILS,
            counterexample={"task": "Summ.", "ours": "3.51", "theirs": "3.51"},
            remedy="At least as high on all seven, as printed, and higher on six.",
        ),
        listed(
            "dynaspec-table-1-smaller",
            "DynaSpec needs a smaller mean shortlist than FR-Spec across the seven datasets.",
            f"{KEY}, section 5.2 and Table 1",
            _versus(SIZES, " ".join(["32,768"] * 7)),
            _smaller,
            remark="Table 1 gives FR-Spec 32k; Table 2 gives the number.",
        ),
        listed(
            "dynaspec-table-2-longer",
            "FR-Spec with position-aware budgets accepts more than with a fixed one, on all seven datasets.",
            f"{KEY}, section 5.3 and Table 2",
            _versus(FR_PA, FR),
            _longer,
        ),
    ),
    (
        Unchecked(
            "BCE-with-top-k routing maximises a lower bound on retained target mass.",
            f"{KEY}, section 6",
            "The bound is not given.  Hard labels do not see mass: a cluster of mass 0.01 and one of 0.9 have the same "
            "label when both hold one of the L positive tokens, and tie at k = 1.",
        ),
        Unchecked(
            "Algorithm 1, lines 1 and 7.",
            KEY,
            "By inspection: line 7 divides by an undefined i (the text's t is the loop variable j) and has no floor; "
            "'for j = 0 to gamma' takes gamma + 1 draft steps where eq. (2) counts gamma.",
        ),
        Unchecked(
            "The head costs (M + |V_S|) d instead of |V| d; the router runs in the shadow of the drafter.",
            f"{KEY}, sections 1 and 4.3",
            "The first is a definition (and less exactly when M + |V_S| < |V|); the second is a matter of hardware.",
        ),
        Unchecked(
            "Mean acceptance lengths and shortlist sizes of Tables 1 and 2 and Figure 2.",
            f"{KEY}, section 5",
            "Measured on models and data.  k_max is not given.  A mean of 31,739 tokens for PA-FR needs k_max well "
            "above that: Table 2 compares budgets of about the same mean, not of the same k_max.",
        ),
    ),
)
