"""Section 3.2: the acceptance rate that a shortlist allows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray, likeliest
from otspec.proofs_check import single_draft
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.dynaspec.speedup import mean_tokens
from otspec.proofs_check.instances import law
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import overlap, restricted


@claim(
    "dynaspec-eq-3",
    lambda rng: {"p": law(rng, 5), "q": law(rng, 5)},
    mutants={"The mean over drafts from p.": {"from_p": True}},
)
def eq_3(p: FloatArray, q: FloatArray, from_p: bool = False) -> float:
    """The acceptance rate, the mean of min(1, p/q) over drafts from q, is the sum of min(p, q). [zhang2025dynaspec, eq.
    (3)]
    """
    return -abs(float((p if from_p else q) @ single_draft.accept(p, q)) - overlap(p, q))


def _on_shortlist(rng: np.random.Generator) -> dict[str, Any]:
    """A target law, a shortlist of k tokens, and a draft law on it."""
    size = int(rng.integers(2, 7))
    shortlist = rng.choice(size, rng.integers(1, size + 1), replace=False)
    return {"p": law(rng, size), "shortlist": shortlist, "q": law(rng, shortlist.size)}


@claim("dynaspec-lemma-1", _on_shortlist, Descent("q"), mutants={"It is at most 0.95 p(S).": {"most": 0.95}})
def lemma_1(p: FloatArray, shortlist: IntArray, q: FloatArray, most: float = 1.0) -> float:
    """The best acceptance rate of a draft law on a shortlist S is p(S). [zhang2025dynaspec, Lemma 1]

    Remark: Checked: no q on S is above, and p normalised on S attains it. Where p(S) = 0 that law does not exist, the
    value 0 is right all the same.
    """
    inside = np.zeros_like(p)
    inside[shortlist] = q
    mass = float(p[shortlist].sum())
    return float(np.minimum(most * mass - overlap(p, inside), -abs(mass - overlap(p, restricted(p, shortlist)))))


def _shortlists(vocab: int, k: int) -> IntArray:
    return np.array(list(itertools.combinations(range(vocab), k)))


def _top(p: FloatArray, k: int) -> FloatArray:
    """Mass of the k likeliest tokens along the last axis, H_k."""
    return np.sort(p, axis=-1)[..., ::-1][..., :k].sum(axis=-1)


def _one_context(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(1, 8))
    return {"p": law(rng, size), "k": int(rng.integers(1, size + 1))}


@claim("dynaspec-lemma-2", _one_context, mutants={"With acceptance rate H_(k-1).": {"fewer": 1}})
def lemma_2(p: FloatArray, k: int, fewer: int = 0) -> float:
    """The best shortlist of k tokens is the k likeliest under p, with acceptance rate H_k(p). [zhang2025dynaspec, Lemma
    2]

    Remark: Against all shortlists of k tokens, k up to V.
    """
    return -abs(float(p[_shortlists(p.size, k)].sum(axis=1).max() - _top(p, k - fewer)))


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


@inequality(
    "dynaspec-theorem-a", _contexts, Descent("p weights"), cost=2, mutants={"1.01 times as often.": {"left": 1.01}}
)
def theorem_a(p: FloatArray, weights: FloatArray, k: int) -> tuple[float, float]:
    """Oracle shortlists that follow the context accept at least as often as any static one, on average.
    [zhang2025dynaspec, Theorem A]

    Remark: With equality where one set is the k likeliest of almost every context: 'dominates', as the theorem says,
    not 'strictly' (section 6).
    """
    dynamic, static = _retained(p, weights, k)
    return float(static.max()), dynamic


@claim(
    "dynaspec-theorem-a-strict",
    _contexts,
    Descent("p weights"),
    cost=6,
    mutants={"By 1.1 times that gap.": {"times": 1.1}},
)
def theorem_a_strict(p: FloatArray, weights: FloatArray, k: int, times: float = 1.0) -> float:
    """Theorem A is strict where, with positive probability, the unique top-k set is not the static one.
    [zhang2025dynaspec, Theorem A]

    Remark: Checked in a stronger form: the gap is at least p(k-th) - p((k+1)-th), averaged over the contexts in which
    the sets differ.
    Margin: Gap over what exchanging one token costs, in the contexts whose k likeliest are a different set.
    """
    dynamic, static = _retained(p, weights, k)
    falling = np.sort(p, axis=1)[:, ::-1]
    step = falling[:, k - 1] - falling[:, k]
    differs = np.array(
        [[set(likeliest(row, k)) != set(kept) for kept in _shortlists(row.size, k)] for row in p], dtype=np.float64
    )
    return float((dynamic - static - times * (weights * step) @ differs).min())


def _blocks(rng: np.random.Generator) -> dict[str, Any]:
    """Contexts, and how many positions a block has."""
    drawn = _contexts(rng)
    return {**drawn, "gamma": int(rng.integers(1, 5))}


@claim(
    "dynaspec-theorem-a-consequence",
    _blocks,
    Descent("p weights"),
    cost=8,
    mutants={"1.01 times as many.": {"times": 1.01}},
)
def theorem_a_consequence(p: FloatArray, weights: FloatArray, k: int, gamma: int, times: float = 1.0) -> float:
    """Oracle shortlists yield Omega(alpha, gamma) tokens per block, at least as many as any static one.
    [zhang2025dynaspec, consequence of Theorem A]

    Hypotheses: The acceptance rates of the positions are i.i.d. (section 3.2): contexts are drawn anew.
    Remark: Over all sequences of contexts, against Omega at the mean rate. In text, where a token decides the next
    context, it fails: dynaspec-theorem-a-consequence-in-text.
    Margin: Tokens per block over all sequences of contexts, against Omega, and against those of every static set.
    """
    among = np.array(list(itertools.product(range(weights.size), repeat=gamma)))
    chance = weights[among].prod(axis=1)
    kept = [_top(p, k), *(p[:, shortlist].sum(axis=1) for shortlist in _shortlists(p.shape[1], k))]
    dynamic, *static = (mean_tokens(rates[among], chance) for rates in kept)
    omega, *others = (single_draft.tokens(float(weights @ rates), gamma) for rates in kept)
    error = float(np.abs(np.array([dynamic - omega, *np.subtract(static, others)])).max())
    return dynamic - times * max(static) if error <= 1e-12 else -1.0 - error


def _text(rng: np.random.Generator) -> dict[str, Any]:
    """A target law at every prefix of fewer than gamma tokens; half of the times one that is hard on oracles.

    There first tokens are about as likely, the likeliest leads to laws close to uniform, and another repeats itself.
    """
    size, gamma = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    p = np.array([law(rng, size) for _ in range(single_draft.prefixes(size, gamma - 1))])
    if rng.random() < 0.5:
        return {"p": p, "gamma": gamma, "k": int(rng.integers(1, size))}
    p = 0.8 / size + 0.2 * p
    last = (np.arange(1, len(p)) - 1) % size
    repeats = last != p[0].argmax()
    p[1:][repeats] = np.eye(size)[last[repeats]]
    return {"p": p, "gamma": gamma, "k": 1}


@claim(
    "dynaspec-theorem-a-consequence-in-text",
    _text,
    cost=2,
    counterexample={"p": [[0.5, 0.4, 0.1], [0.4, 0.3, 0.3], [0.0, 1.0, 0.0], [0.3, 0.4, 0.3]], "gamma": 2, "k": 1},
)
def theorem_a_consequence_in_text(p: FloatArray, gamma: int, k: int) -> float:
    """The same for text, where the token that is accepted decides the next context. [beside zhang2025dynaspec,
    consequence of Theorem A, which assumes i.i.d. acceptance rates]

    Beside: dynaspec-theorem-a-consequence
    Instead: Oracle shortlists accept most at each position, and can lead to contexts in which little is accepted. In
    the counterexample the first token is likelier, and the second is followed by itself for sure: 0.7 drafts are
    accepted against 0.8. Shortlists of most tokens per block look ahead.
    Margin: The least gain in tokens per block where the next context is the one that the accepted token makes.
    """

    def accepted(node: int, left: int, shortlist: IntArray | None) -> float:
        """Mean accepted drafts, from the best draft law on the shortlist, or the oracle's: p on it, normalised."""
        if left == 0:
            return 0.0
        kept = likeliest(p[node], k) if shortlist is None else shortlist
        drafted = restricted(p[node], kept)
        passed = drafted * single_draft.accept(p[node], drafted)
        below = [accepted(single_draft.child(node, int(x), p.shape[1]), left - 1, shortlist) for x in kept]
        return float(passed.sum() + passed[kept] @ below)

    return accepted(0, gamma, None) - max(accepted(0, gamma, kept) for kept in _shortlists(p.shape[1], k))


@claim("dynaspec-section-6-strictly", _contexts, tol=0.0, counterexample={"p": [[0.6, 0.4]], "weights": [1.0], "k": 1})
def section_6_strictly(p: FloatArray, weights: FloatArray, k: int) -> float:
    """Context-conditioned supports strictly dominate any fixed subset in expected acceptance. [zhang2025dynaspec,
    section 6]

    Instead: They dominate (dynaspec-theorem-a), and strictly where the likeliest tokens change
    (dynaspec-theorem-a-strict).
    Remark: With one context, or one set that is likeliest in all, both accept equally often.
    Margin: The gain where there is one beyond rounding.
    """
    gain = theorem_a.margin(p=p, weights=weights, k=k)
    return gain if gain > 1e-12 else -1.0


def _fixed_drafter(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(3, 7))
    logits = 2.0 * rng.standard_normal(size)
    p, q = np.exp(logits), np.exp(logits + rng.standard_normal(size))
    return {"p": p / p.sum(), "q": q / q.sum(), "k": int(rng.integers(1, size))}


@claim(
    "dynaspec-theorem-a-given-drafter",
    _fixed_drafter,
    Descent("p q"),
    cost=2,
    counterexample={"p": [0.4, 0.35, 0.25], "q": [0.5, 0.1, 0.4], "k": 2},
)
def theorem_a_given_drafter(p: FloatArray, q: FloatArray, k: int) -> float:
    """Theorem A for a given draft law, restricted to the shortlist and normalised, as the system runs it.
    [zhang2025dynaspec, sections 1 and 6: 'context-conditioned supports dominate any static subset in expected
    acceptance']

    Beside: dynaspec-theorem-a
    Instead: Theorem A speaks of the best draft law on every shortlist. For a given q the k likeliest tokens of p can
    lose to others: here the first two tokens accept 0.57, the first and third 0.65.
    """
    dynamic = overlap(p, restricted(q, likeliest(p, k)))
    return float(np.min([dynamic - overlap(p, restricted(q, kept)) for kept in _shortlists(p.size, k)]))
