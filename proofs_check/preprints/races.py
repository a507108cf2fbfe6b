"""Speculative sampling via exponential races [kobus2025speculative]: drafts and output from the same exponentials.

Token i has an exponential variable S_i.  It comes in at S_i / q_i in the drafter's race, of which the first n are the
drafts, and at S_i / p_i in the target's, whose winner is put out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr, rel_entr

from otspec.certificate import optimum
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.proofs_check.claims import Unchecked, claim, inequality
from otspec.proofs_check.instances import laws, positive_law
from otspec.proofs_check.preprints.trees import best
from otspec.proofs_check.race import Race
from otspec.proofs_check.search import Descent
from otspec.schemes import WithoutReplacement

KEY = "kobus2025speculative"
ABSTRACT = f"{KEY} (arXiv:2504.15475), abstract"


def matched(p: FloatArray, q: FloatArray) -> float:
    """P(both races have the same winner): the sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i)."""
    return float((1 / np.maximum(p[None] / p[:, None], q[None] / q[:, None]).sum(axis=1)).sum())


def _pair(rng: np.random.Generator) -> dict[str, Any]:
    return laws(rng, 4, p=positive_law, q=positive_law)


@claim("races-match", _pair, cost=4, mutants={"The sum of min(p, q).": {"least": True}})
def match(p: FloatArray, q: FloatArray, least: bool = False) -> float:
    """One draft is accepted with probability sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i).
    [kobus2025speculative (arXiv:2504.15475); rowan2025list]

    Remark: By proofs_check/race.py, which sums over who comes in when. Of the paper the abstract was at hand, which
    names the method and no formula: it is the known one of a shared race.
    """
    return -abs(matched(p, q) - (float(np.minimum(p, q).sum()) if least else Race(p, q, 1).acceptance))


LAWS = Descent("p q")


@claim(
    "races-between",
    _pair,
    LAWS,
    mutants={"At least 1.05 times that.": {"least": 1.05}, "At most 0.95 times that.": {"most": 0.95}},
)
def between(p: FloatArray, q: FloatArray, least: float = 1.0, most: float = 1.0) -> float:
    """That is (1 - d) / (1 + d) at least and 1 - d at most, d being the total variation of p and q.
    [kobus2025speculative (arXiv:2504.15475); rowan2025list]

    Remark: Both are attained: where p and q have one ratio on what either over-drafts, and where one token is all that
    is common. So a race gives up acceptance for not needing q to verify.
    Margin: How far the chance of a match is within its bounds, or within parts of them.
    """
    common = float(np.minimum(p, q).sum())
    chance = matched(p, q)
    return min(chance - least * common / (2 - common), most * common - chance)


def among_first(p: FloatArray, q: FloatArray, n: int) -> float:
    """P(the target's winner is among the drafter's first n), by inclusion and exclusion of who is before it.

    Token i wins the target's race and has exactly the tokens of a set before it in the drafter's: given S_i = s, token
    j has S_j > s p_j / p_i, and S_j < s q_j / q_i if it is in the set, else S_j > s max(p_j / p_i, q_j / q_i).
    """
    total, size = 0.0, p.size
    for i in np.flatnonzero(p):
        others = np.delete(np.arange(size), i)
        late, both = p[others] / p[i], np.maximum(p[others] / p[i], q[others] / q[i])
        for mask in np.ndindex(*(2,) * (size - 1)):  # 1: before i in the drafter's race
            if sum(mask) < n:
                terms = {0.0: 1.0}  # coefficients of exp(-s rate)
                for before, low, high in zip(mask, late, both, strict=True):
                    grown: dict[float, float] = {}
                    for rate, sign in terms.items():
                        if before:
                            grown[rate + low] = grown.get(rate + low, 0.0) + sign
                        grown[rate + high] = grown.get(rate + high, 0.0) + (-sign if before else sign)
                    terms = grown
                total += sum(sign / (1 + rate) for rate, sign in terms.items())
    return total


def _numbered(rng: np.random.Generator) -> dict[str, Any]:
    drawn = _pair(rng)
    return {**drawn, "n": int(rng.integers(1, drawn["p"].size + 1))}


@inequality("races-drafts", _numbered, cost=4, mutants={"Exactly as often.": {"exactly": True}})
def drafts(p: FloatArray, q: FloatArray, n: int, exactly: bool = False) -> tuple[float, float]:
    """The drafter's first n hold the target's winner as often as alpha* of n drafts without replacement, at most.
    [kobus2025speculative (arXiv:2504.15475), abstract]

    Beside: races-match
    Remark: The first n of a race are drafts without replacement. By inclusion and exclusion of who is before.
    """
    held, best = among_first(p, q, n), optimum(Problem(p, WithoutReplacement(q, n))).acceptance
    return (abs(held - best), 0.0) if exactly else (held, best)


def _tree(rng: np.random.Generator) -> dict[str, Any]:
    return {"outcomes": positive_law(rng, int(rng.integers(2, 6))), "nodes": int(np.exp(rng.uniform(0, 5)))}


@inequality("races-generated", _tree, Descent("outcomes"), cost=5, mutants={"log(k + 1) / H[R].": {"vocabulary": 0}})
def generated(outcomes: FloatArray, nodes: int, sharp: bool = False, vocabulary: int = 1) -> tuple[float, float]:
    """The best tree of k drafts has (log V + log(k + 1)) / H[R] tokens generated at most, the added one included, where
    R, which of V outcomes comes next, is independent of those before. [kobus2025speculative (arXiv:2504.15475),
    abstract; docs/speed_limits.md, Theorem 2]

    Remark: The abstract promises an upper bound for all k; the formula is that of summaries of the paper. It is
    Tunstall's: the entropy of the leaf that is reached is at most the logarithm of the number of leaves.
    Margin: Tokens generated with the best tree of so many nodes, and (log V + log(k + 1)) / H, or `sharp`, by its
    leaves.
    """
    entropy, size = float(entr(outcomes).sum()), outcomes.size
    if entropy < 1e-9:
        return 0.0, 0.0
    leaves = 1 + (size - 1) * (nodes + 1) if sharp else size**vocabulary * (nodes + 1)
    return 1 + best(outcomes, nodes), float(np.log(leaves)) / entropy


@inequality(
    "races-leaves", _tree, Descent("outcomes"), tol=1e-9, cost=5, mutants={"1.02 times as many.": {"left": 1.02}}
)
def leaves(outcomes: FloatArray, nodes: int) -> tuple[float, float]:
    """It is log(1 + (V - 1)(k + 1)) / H[R] at most. [otspec; on kobus2025speculative (arXiv:2504.15475);
    docs/speed_limits.md, Theorem 2]

    Beside: races-generated
    Remark: Attained by full trees of uniform laws.
    """
    return generated(outcomes, nodes, sharp=True)


@claim("races-ranks", _pair, counterexample={"p": [0.01, 0.99], "q": [0.99, 0.01]})
def ranks(p: FloatArray, q: FloatArray) -> float:
    """H[R] is KL(p || q) at least, where R is the rank of the target's winner in the drafter's race. [otspec; on
    kobus2025speculative (arXiv:2504.15475); docs/speed_limits.md, Theorem 2]

    Beside: races-generated
    Instead: It is where drafts are i.i.d. and R is the number of the first that is put out: R has what information the
    output has on the drafts beyond q. Ranks of V tokens have H[R] <= log V, and KL has no bound.
    Remark: Summaries say that H[R] is bounded below by KL; drafts without replacement do better than that.
    Margin: H of the rank of the target's winner in the drafter's race, less KL(p || q).
    """
    if (q == 0).any():
        return 1.0
    ranks = np.diff([0.0, *(among_first(p, q, n) for n in range(1, p.size + 1))])
    return float(entr(np.maximum(ranks, 0.0)).sum() - rel_entr(p, q).sum())


UNCHECKED = (
    Unchecked(
        "The relation of speed-up and k for large k; the method matches the state of the art.",
        ABSTRACT,
        "Of the paper no more than its beginning was at hand; the second is a measurement of models.",
    ),
)
