"""Rival rules: what they are in our words, and which of their claims numbers contradict."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.instances import law, laws, model_of, pair
from otspec.proofs_check.oracles import iid_optimum
from otspec.proofs_check.own.released import ReleasedHierarchical
from otspec.proofs_check.race import Race
from otspec.proofs_check.single_draft import prefixes
from otspec.schemes import IID
from otspec.verification import Block, Hierarchical, PathVerifier, path_law


def _one_path(rng: np.random.Generator) -> dict[str, Any]:
    vocab, length = ((2, 2), (2, 3), (3, 2))[rng.integers(3)]
    inner = prefixes(vocab, length - 1)
    target = np.array([law(rng, vocab) for _ in range(inner + vocab**length)])
    return {"target": target, "draft": np.array([law(rng, vocab) for _ in range(inner)]), "length": length}


def _accepted(rule: PathVerifier, target: FloatArray, draft: FloatArray, length: int) -> float:
    return path_law(rule, model_of(target, draft), 1, length).mean_accepted


def _released_same(target: FloatArray, draft: FloatArray, length: int) -> float:
    """Margin of: the released rule accepts as many tokens as block verification."""
    rules = ReleasedHierarchical(), Block()
    released, block = (_accepted(rule, target, draft, length) for rule in rules)
    return -abs(released - block)


@claim(
    "own-hierarchical-is-block", _one_path, cost=40, mutants={"So is the rule of the authors' code.": _released_same}
)
def hierarchical_is_block(target: FloatArray, draft: FloatArray, length: int) -> float:
    """Hierarchical speculative decoding with capped branch resampling is block verification: the law of where it stops,
    and of the token that it adds, is the same for every drafted path. [otspec, docs/paths.md, on zhou2026hierarchical,
    eqs. (16) to (20); sun2024block]

    Remark: Proved: r over the largest r so far is block verification's weight.
    Margin: Minus the largest difference of the two laws of the verdict, times how likely the path is, over all of them.
    A path of probability 1e-14 has weights that rounding decides on.
    """
    model = model_of(target, draft)
    worst = 0.0
    for path in np.ndindex(*(target.shape[1],) * length):
        chance = float(np.prod([model.draft(path[:level])[token] for level, token in enumerate(path)]))
        if chance > 0:
            tree = model.tree([path])
            gap = float(np.abs(Hierarchical().stop_law(tree) - Block().stop_law(tree)).max())
            worst = max(worst, chance * gap)
    return -worst


UP_AND_DOWN = {"target": np.full((7, 2), 0.5), "draft": np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]), "length": 2}
"""The path (0, 0) is twice too rare at first, and just as frequent as it should be in the end."""


@claim("own-hierarchical-more", _one_path, cost=40, counterexample=UP_AND_DOWN)
def hierarchical_more(target: FloatArray, draft: FloatArray, length: int) -> float:
    """Hierarchical speculative decoding accepts more tokens in expectation than block verification.
    [zhou2026hierarchical, eqs. (16) to (20), and the experiments after them]

    Instead: It accepts just as many (own-hierarchical-is-block): block verification is optimal for one path.
    Margin: What it accepts beyond block verification, less a billionth of a token.
    """
    ours, block = (_accepted(rule, target, draft, length) for rule in (Hierarchical(), Block()))
    return ours - block - 1e-9


@claim("own-hierarchical-released", _one_path, cost=40, counterexample=UP_AND_DOWN)
def hierarchical_released(target: FloatArray, draft: FloatArray, length: int) -> float:
    """The rule of the authors' code is lossless: it accepts the whole path with probability min(1, r), and else goes
    back as the capped rule does. [otspec, proofs_check/own/released.py, on the code that zhou2026hierarchical
    publishes]

    Instead: min(1, r*) in place of min(1, r). On the counterexample the text begins with (0, 0) in 3 of 8 cases, not in
    2.
    """
    return -path_law(ReleasedHierarchical(), model_of(target, draft), 1, length).deviation


def _joint(rng: np.random.Generator) -> dict[str, Any]:
    drawn = pair(rng)
    return {**drawn, "target": rng.uniform(0.0, 1.0), "draft": rng.uniform(0.0, 1.0)}


@claim(
    "own-spectr-gbv-one-draft",
    _joint,
    tol=0.0,
    counterexample={"p": [0.5, 0.5], "q": [1.0, 0.0], "target": 0.5, "draft": 0.4},
)
def spectr_gbv_one_draft(p: FloatArray, q: FloatArray, target: float, draft: float) -> float:
    """The acceptance probability h of SpecTr-GBV is a probability where one sequence is drafted. [lin2026spectrgbv, eq.
    (2) with K = 1, as a review of it on OpenReview writes it out]

    Instead: min(1, h): that of greedy block verification, the sum of [p - q]+ over that of [q - p]+ of joint
    probabilities, which is above 1 exactly if the prefix is too rare.
    Remark: h times its denominator is compared, since the denominator may be 0.
    Margin: 1 - h, where h is made of the joint probabilities of a prefix, and the laws of the token after it.
    """
    short = float(np.maximum(target * p - draft * q, 0.0).sum())
    over, gain = short - (target - draft), max(target - draft, 0.0)
    return over - (short + gain)


def _drafts(rng: np.random.Generator) -> dict[str, Any]:
    return {**laws(rng, 4, p=law, q=law), "n": int(rng.integers(1, 4))}


def _optimal(p: FloatArray, q: FloatArray, n: int) -> float:
    return Race(p, q, n).acceptance - iid_optimum(p, q, n)


@claim("own-list-matching", _drafts, cost=60, mutants={"It accepts alpha*.": _optimal})
def list_matching(p: FloatArray, q: FloatArray, n: int) -> float:
    """List matching is lossless for i.i.d. drafts, and accepts what its integrals say. [otspec, proofs_check/race.py;
    rowan2025list, prop. 1]

    Margin: Minus the error of the output law, and of the acceptance, by enumeration of the drafts.
    """
    race = Race(p, q, n)
    output, hits = np.zeros(p.size), 0.0
    for drafts, chance in zip(*IID(q, n).support(), strict=True):
        conditional = race.conditional(drafts)
        output += chance * conditional
        hits += chance * float(conditional[np.unique(drafts)].sum())
    return -max(float(np.abs(output - p).sum()), abs(hits - race.acceptance))


SMALL = 1e-300
"""In place of an acceptance of 0: laws without a common token, for which the bound is 0 too, are no case of it."""


@inequality("own-list-matching-one-draft", pair, least=SMALL, cost=20, mutants={"1.05 times that.": {"left": 1.05}})
def list_matching_one_draft(p: FloatArray, q: FloatArray) -> tuple[float, float]:
    """With one draft list matching accepts (1 - d)/(1 + d) at least, d being the total variation of p and q.
    [rowan2025list, sec. 1]

    Margin: What is guaranteed, and what list matching accepts.
    """
    distance = float(np.abs(p - q).sum()) / 2
    return (1.0 - distance) / (1.0 + distance), Race(p, q, 1).acceptance
