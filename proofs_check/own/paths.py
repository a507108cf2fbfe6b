"""Several drafted paths of several tokens: lossless joint verification, its bound, and what it reduces to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.paths import (
    Block,
    GreedyMultiPath,
    Model,
    Nested,
    PathLaw,
    PathVerifier,
    PickThenBlock,
    TokenWise,
    Traversal,
    bound,
    path_law,
)
from otspec.paths.enumeration import prefixes
from otspec.paths.tree import Prefix
from otspec.proofs_check.claim import Claim, Mutation
from otspec.proofs_check.instances import law
from otspec.proofs_check.oracles import iid_optimum

VERIFIERS: Mapping[str, PathVerifier] = {
    "nested": Nested(),
    "nested, sigma = 0": Nested(sigma=0.0),
    "greedy multi-path": GreedyMultiPath(),
    "pick then block": PickThenBlock(),
    "token-wise": TokenWise("interval", remember=1000),
    "traversal": Traversal(),
    "block": Block(),
}


def _model(target: FloatArray, draft: FloatArray) -> Model:
    """A pair of models from laws by prefix, in rows: shorter prefixes first, then in lexicographic order."""
    return Model(_rows(target), _rows(draft))


def _rows(laws: FloatArray) -> Callable[[Prefix], FloatArray]:
    vocab = laws.shape[1]

    def after(prefix: Prefix) -> FloatArray:
        row = 0
        for token in prefix:
            row = row * vocab + 1 + token
        return laws[row]

    return after


def _laws(rng: np.random.Generator, vocab: int, length: int) -> dict[str, Any]:
    inner = sum(vocab**i for i in range(length))
    target = np.array([law(rng, vocab) for _ in range(inner + vocab**length)])
    draft = np.array([law(rng, vocab) for _ in range(inner)])
    if rng.random() < 0.5:  # a draft model that resembles the target
        draft = 0.6 * target[:inner] + 0.4 * draft
    return {"target": target, "draft": draft, "length": length}


def _paths(rng: np.random.Generator) -> dict[str, Any]:
    vocab, length, count = ((2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2), (3, 1, 3))[rng.integers(5)]
    return {**_laws(rng, vocab, length), "count": count, "verifier": str(rng.choice(list(VERIFIERS)))}


def _law(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str) -> PathLaw:
    return path_law(VERIFIERS[verifier], _model(target, draft), count, length)


def _lossless(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str) -> float:
    return -_law(target, draft, length, count, verifier).deviation


def _accepts_target(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str) -> float:
    """Margin of: what is accepted has the law of target text."""
    accepted = _law(target, draft, length, count, verifier).accepted
    return -max(abs(accepted[token,] - float(target[0, token])) for token in range(target.shape[1]))


def _within(target: FloatArray, draft: FloatArray, length: int, count: int, verifier: str, fewer: int = 0) -> float:
    """Conditions (a) and (b) of Theorem 1 on what the verifier accepts, and the bound that follows."""
    accepted = _law(target, draft, length, count, verifier).accepted
    model = _model(target, draft)
    margins = [bound(model, count, length) - sum(chance for prefix, chance in accepted.items() if prefix)]
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


def _one_path_by_tokens(target: FloatArray, draft: FloatArray, length: int, sigma: float) -> float:
    """Margin of: nested labels accept what token-wise verification does."""
    model = _model(target, draft)
    verifiers: tuple[PathVerifier, ...] = Nested(sigma=sigma), VERIFIERS["token-wise"]
    nested, by_tokens = (path_law(verifier, model, 1, length).accepted for verifier in verifiers)
    return -max(abs(nested[prefix] - by_tokens[prefix]) for prefix in nested)


def _one_path(target: FloatArray, draft: FloatArray, length: int, sigma: float) -> float:
    model = _model(target, draft)
    nested, block = (path_law(verifier, model, 1, length).accepted for verifier in (Nested(sigma=sigma), Block()))
    return -max(abs(nested[prefix] - block[prefix]) for prefix in block)


def _single(rng: np.random.Generator) -> dict[str, Any]:
    return {**_laws(rng, *((2, 2), (2, 3), (3, 2))[rng.integers(3)]), "sigma": float(rng.choice([0.0, 0.5]))}


def _block_law(target: FloatArray, draft: FloatArray, length: int, by_tokens: bool = False) -> float:
    """A(vx) = min(A(v) p(x | v), g(vx)), g being the law of the one path; or A(v) q(x | v) in place of that."""
    model = _model(target, draft)
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


def _block_laws(rng: np.random.Generator) -> dict[str, Any]:
    return _laws(rng, *((2, 2), (2, 3), (3, 2))[rng.integers(3)])


def _one_step(target: FloatArray, draft: FloatArray, length: int, count: int, sigma: float, more: int = 0) -> float:
    """Against alpha* of so many drafts more."""
    accepted = path_law(Nested(sigma=sigma), _model(target, draft), count, length).mean_accepted
    return -abs(accepted - iid_optimum(target[0], draft[0], count + more))


def _step(rng: np.random.Generator) -> dict[str, Any]:
    laws = _laws(rng, int(rng.integers(2, 5)), 1)
    return {**laws, "count": int(rng.integers(1, 4)), "sigma": float(rng.choice([0.0, 0.5]))}


SOURCE = "otspec, docs/paths.md"

CLAIMS = (
    Claim(
        "own-paths-lossless",
        "What a verifier of several paths puts out, continued by the target model, has the law of target text: nested "
        "labels, and the rules that it is compared with.",
        SOURCE,
        _paths,
        _lossless,
        cost=200,
        remark="Over all drafts of models with 2 or 3 tokens, whose laws depend on the whole prefix.",
        mutations=(Mutation("So has what is accepted.", _accepts_target),),
    ),
    Claim(
        "own-paths-bound",
        "What a lossless verifier accepts satisfies (a) and (b) of Theorem 1, and stays below the program's optimum.",
        f"{SOURCE}, Theorem 1",
        _paths,
        _within,
        tol=1e-7,
        cost=400,
        remark="(b) on the prefixes of one length, those first that gain most; HiGHS solves the program, to 1e-7.",
        mutations=(Mutation("(b) with K - 1 in place of K.", lambda **instance: _within(**instance, fewer=1)),),
    ),
    Claim(
        "own-paths-block",
        "Block verification of a path of law g accepts A(vx) = min(A(v) p(x|v), g(vx)).",
        f"{SOURCE}, Theorem 2; sun2024block",
        _block_laws,
        _block_law,
        cost=60,
        mutations=(
            Mutation("min(A(v) p(x|v), A(v) q(x|v)).", lambda **instance: _block_law(**instance, by_tokens=True)),
        ),
    ),
    Claim(
        "own-nested-one-path",
        "With K = 1, nested labels are block verification.",
        SOURCE,
        _single,
        _one_path,
        cost=100,
        mutations=(Mutation("They are token-wise verification.", _one_path_by_tokens),),
    ),
    Claim(
        "own-nested-one-step",
        "With L = 1, nested labels accept alpha* of K i.i.d. drafts.",
        SOURCE,
        _step,
        _one_step,
        tol=1e-11,
        cost=60,
        remark="Against all token sets.",
        mutations=(Mutation("Of K + 1.", lambda **instance: _one_step(**instance, more=1)),),
    ),
)
