"""Several drafted paths of several tokens: lossless joint verification, its bound, and what it reduces to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import model_laws, model_of, path_laws
from otspec.proofs_check.oracles import iid_optimum
from otspec.proofs_check.own.systematic import systematic
from otspec.proofs_check.search import Attempt, Draw, Instance
from otspec.schemes import DraftScheme, Greedy
from otspec.verification import (
    Block,
    GreedyMultiPath,
    Hierarchical,
    LayerVerification,
    Nested,
    PathLaw,
    PathVerifier,
    PickByPlan,
    TokenWise,
    Traversal,
    bound,
    path_law,
)
from otspec.verification.reference.enumeration import branching_trees, law_over, prefixes
from otspec.verification.trees.tree import Prefix

VERIFIERS: Mapping[str, PathVerifier] = {
    "nested": Nested(),
    "nested, sigma = 0": Nested(sigma=0.0),
    "greedy multi-path": GreedyMultiPath(),
    "token-wise": TokenWise("interval", cache_size=1000, exchangeable=True),
    "traversal": Traversal(),
    "layer": LayerVerification(cache_size=1000),
    "block": Block(),
    "hierarchical": Hierarchical(),
}
"""Every verifier of i.i.d. paths."""
JOINT: Mapping[str, tuple[Callable[[FloatArray], DraftScheme], PathVerifier]] = {
    "pick by plan, greedy": (lambda q: Greedy(q, 2), PickByPlan(lambda q: Greedy(q, 2))),
    "pick by plan, systematic": (lambda q: systematic(q, 2), PickByPlan(lambda q: systematic(q, 2))),
}
"""Those of trees whose siblings are drawn jointly, two at every node, with how they are drawn."""
SIZES = ((2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2), (3, 1, 3))
"""Tokens, L and K of small models."""


@dataclass(frozen=True)
class InTurn:
    """Every verifier on as many models as there are trials, the same models for all that take models of all sizes."""

    names: tuple[str, ...]
    draw_for: Callable[[np.random.Generator, str], Instance]

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Attempt every verifier in each round."""
        for seed in rng.integers(2**62, size=trials).tolist():
            for name in self.names:
                attempt(self.draw_for(np.random.default_rng(seed), name))


def _paths(rng: np.random.Generator, verifier: str) -> dict[str, Any]:
    if verifier in JOINT:
        laws = model_laws(rng, 3, 2)
        laws["draft"] = 0.9 * laws["draft"] + 0.1 / 3  # two tokens can be drawn everywhere
        return {**laws, "count": 2, "verifier": verifier}
    vocab, length, count = SIZES[rng.integers(len(SIZES))]
    return {**model_laws(rng, vocab, length), "count": count, "verifier": verifier}


def _law(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str) -> PathLaw:
    model = model_of(target, draft)
    if verifier not in JOINT:
        return path_law(VERIFIERS[verifier], model, count, length)
    scheme, rule = JOINT[verifier]
    trees = branching_trees(model, scheme, length)
    whole = (
        (chance, model.tree([tree.prefix(int(leaf)) for leaf in tree.node[:, -1]], (count,) * length))
        for chance, tree in trees
    )
    return law_over(whole, rule, model, length)


def _accepts_target(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str) -> float:
    """Margin of: what is accepted has the law of target text."""
    accepted = _law(target, draft, length, count, verifier).accepted
    return -max(abs(accepted[token,] - float(target[0, token])) for token in range(target.shape[1]))


@claim(
    "own-paths-lossless",
    lambda rng: _paths(rng, str(rng.choice([*VERIFIERS, *JOINT]))),
    InTurn((*VERIFIERS, *JOINT), _paths),
    cost=20,
    mutants={"So has what is accepted.": _accepts_target},
)
def paths_lossless(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str) -> float:
    """What a verifier of several paths puts out, continued by the target model, has the law of target text: nested
    labels, and the rules that it is compared with. [otspec, docs/paths.md]

    Remark: Over all drafts of models with 2 or 3 tokens, whose laws depend on the whole prefix; every verifier of
    otspec.verification in turn. Drafts are i.i.d. paths, and for pick by plan trees of siblings drawn jointly.
    """
    return -_law(target, draft, length, count, verifier).deviation


@lru_cache(maxsize=2)
def _most(target: bytes, draft: bytes, vocab: int, count: int, length: int) -> float:
    """The program's optimum, once for all verifiers of a model."""
    laws = (np.frombuffer(rows).reshape(-1, vocab) for rows in (target, draft))
    return bound(model_of(*laws), count, length)


@claim(
    "own-paths-bound",
    lambda rng: _paths(rng, str(rng.choice(list(VERIFIERS)))),
    InTurn(tuple(VERIFIERS), _paths),
    tol=1e-7,
    cost=20,
    mutants={"(b) with K - 1 in place of K.": {"fewer": 1}},
)
def paths_bound(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str, fewer: int = 0) -> float:
    """What a lossless verifier accepts satisfies (a) and (b) of Theorem 1, and stays below the program's optimum.
    [otspec, docs/paths.md, Theorem 1]

    Remark: (b) is checked on prefixes of one length, by falling gain; HiGHS solves the program, to 1e-7.
    Margin: Conditions (a) and (b) of Theorem 1 on what the verifier accepts, and the bound that follows.
    """
    accepted = _law(target, draft, length, count, verifier).accepted
    model = model_of(target, draft)
    most = _most(target.tobytes(), draft.tobytes(), target.shape[1], count, length)
    margins = [most - sum(chance for prefix, chance in accepted.items() if prefix)]
    drawn: dict[Prefix, float] = {(): 1.0}
    for prefix in prefixes(target.shape[1], length - 1):
        for token in range(target.shape[1]):
            child = (*prefix, token)
            drawn[child] = drawn[prefix] * model.draft(prefix)[token]
            margins.append(accepted[prefix] * model.target(prefix)[token] - accepted[child])
    for depth in range(1, length + 1):
        level = [prefix for prefix in drawn if len(prefix) == depth]
        order = sorted(level, key=lambda prefix: accepted[prefix] - drawn[prefix], reverse=True)
        for size in range(1, len(order) + 1):
            missed = max(1 - sum(drawn[prefix] for prefix in order[:size]), 0.0)
            margins.append(1 - missed ** (count - fewer) - sum(accepted[prefix] for prefix in order[:size]))
    return float(min(margins))


@claim("own-paths-block", path_laws, cost=20, mutants={"min(A(v) p(x|v), A(v) q(x|v)).": {"by_tokens": True}})
def paths_block(target: FloatArray, draft: FloatArray, length: int, by_tokens: bool = False) -> float:
    """Block verification of a path of law g accepts A(vx) = min(A(v) p(x|v), g(vx)). [otspec, docs/paths.md, Theorem 2;
    sun2024block]

    Margin: A(vx) = min(A(v) p(x | v), g(vx)), g being the law of the one path; or A(v) q(x | v) in place of that.
    """
    model = model_of(target, draft)
    accepted = path_law(Block(), model, 1, length).accepted
    expected: dict[Prefix, float] = {(): 1.0}
    drawn: dict[Prefix, float] = {(): 1.0}
    for prefix in prefixes(target.shape[1], length - 1):
        for token in range(target.shape[1]):
            child = (*prefix, token)
            drawn[child] = drawn[prefix] * model.draft(prefix)[token]
            room = expected[prefix] * model.draft(prefix)[token] if by_tokens else drawn[child]
            expected[child] = min(expected[prefix] * model.target(prefix)[token], room)
    return -max(abs(accepted[prefix] - expected[prefix]) for prefix in expected)


def _single(rng: np.random.Generator) -> dict[str, Any]:
    return {**path_laws(rng), "sigma": float(rng.choice([0.0, 0.5]))}


@claim(
    "own-nested-one-path",
    _single,
    cost=20,
    mutants={"They are token-wise verification.": {"verifier": VERIFIERS["token-wise"]}},
)
def nested_one_path(
    target: FloatArray, draft: FloatArray, length: int, sigma: float, verifier: PathVerifier = VERIFIERS["block"]
) -> float:
    """With K = 1, nested labels are block verification. [otspec, docs/paths.md]"""
    model = model_of(target, draft)
    nested, block = (path_law(rule, model, 1, length).accepted for rule in (Nested(sigma=sigma), verifier))
    return -max(abs(nested[prefix] - block[prefix]) for prefix in block)


def _step(rng: np.random.Generator) -> dict[str, Any]:
    laws = model_laws(rng, int(rng.integers(2, 5)), 1)
    return {**laws, "count": int(rng.integers(1, 4)), "sigma": float(rng.choice([0.0, 0.5])), "grain": 0.0}


@claim(
    "own-nested-one-step",
    _step,
    tol=1e-11,
    cost=20,
    counterexample={
        "target": [[0.25, 0.25, 0.5], *[[1.0, 0.0, 0.0]] * 3],
        "draft": [[0.301, 0.3, 0.399]],
        "length": 1,
        "count": 2,
        "sigma": 0.5,
        "grain": 0.02,
    },
    mutants={"Of K + 1.": {"more": 1}},
)
def nested_one_step(
    target: FloatArray, draft: FloatArray, length: int, count: int, sigma: float, grain: float, more: int = 0
) -> float:
    """With L = 1, nested labels accept alpha* of K i.i.d. drafts. [otspec, docs/paths.md]

    Assumption: grain = 0, or sigma = 0. By default look-ahead joins tokens whose p/q differ by less than 2^-8 on the
    last level.
    Remark: Against all token sets. The grain saves time; up to 5e-4 were seen to be lost to it.
    Margin: Against alpha* of so many drafts more.
    """
    accepted = path_law(Nested(sigma=sigma, grain=grain), model_of(target, draft), count, length).mean_accepted
    return -abs(accepted - iid_optimum(target[0], draft[0], count + more))
