"""Batches of rows of tensors: laws of many kinds, drafts and uniforms; and rows that are no problems."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from otspec.verification.device import RowVerification
from otspec.verification.rules.buckets.buckets import BITS
from tests import laws
from tests.laws import Kind, Rng
from tests.oracles import Floats, Ints

Batch = tuple[Floats, Floats, Ints, Floats]
"""p, q, drafts and uniforms."""


both_points = laws.point_target(laws.point_draft(laws.model))
KINDS: dict[str, Kind] = {
    "dirichlet": laws.dirichlet(0.05, 0.3, 1.0, 30.0),
    "model": laws.model,
    "long tail": laws.long_tail,
    "zeros": laws.zeros(laws.model, 0.3, 0.8),
    "close": laws.close(laws.model, 1e-2, 1e-5),
    "tiny tails": laws.tail(1e-300),
    "points": laws.one_of(laws.point_target(laws.model), laws.point_draft(laws.model), both_points),
}


def check_places(solution: Any) -> None:
    """The winner has law g: what each token owns of the measures, through its place and its exchanges, is g."""
    assert sum(place.g for place in solution.tokens) == 1
    for place in solution.tokens:
        assert all(contribution > 0 for contribution in place.contributions.values())
        assert sum(place.contributions.values()) <= place.q
        owned = (place.q - sum(place.contributions.values())) * place.density
        for number, contribution in place.contributions.items():
            members = [solution.tokens[rank] for rank in solution.exchanges[number]]
            held = sum(member.contributions[number] for member in members)
            owned += contribution * sum(member.contributions[number] * member.density for member in members) / held
        assert owned == place.g


def batch(kind: Kind, rng: Rng, vocab: int, n: int, rows: int) -> Batch:
    pairs = [kind(rng, vocab) for _ in range(rows)]
    p, q = (np.array(these) for these in zip(*pairs, strict=True))
    q = np.where(q > 0, q * (1 + 1e-3 * rng.random(q.shape)), 0)  # tokens of equal p/q could change places
    p, q = (law / law.sum(axis=1, keepdims=True) for law in (p, q))
    drafts = np.array([rng.choice(vocab, size=n, p=law) for law in q])
    return p, q, drafts, rng.random((rows, n + 1, 3))


def tensors(*arrays: Any) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)


def pairs_of(found: RowVerification) -> list[tuple[int, int]]:
    assert found.valid.all()
    return list(zip(found.tokens.tolist(), found.accepted.tolist(), strict=True))


VALID = batch(laws.model, np.random.default_rng(1), 12, 2, 5)


def spoiled(name: str) -> tuple[Tensor, ...]:
    p, q, drafts, uniforms = (tensor.clone() for tensor in tensors(*VALID))
    if name == "nan":
        p[3, 2] = torch.nan
    elif name == "inf":
        p[3, 2] = torch.inf
    elif name == "negative":
        q[3, 1], q[3, 2] = -q[3, 1], q[3, 2] + 2 * q[3, 1]
    elif name == "total":
        p[3] *= 0.9
    elif name == "undrafted":
        token = drafts[3, 0]
        q[3, token] = 0
        q[3] /= q[3].sum()
    elif name == "token":
        drafts[3, 1] = 12
    return p, q, drafts, uniforms


MESSAGES = {
    "nan": r"p\[3\]\[2\] is nan",
    "inf": r"p\[3\]\[2\] is inf",
    "negative": r"q\[3\]\[1\] is -",
    "total": r"p\[3\] sums to 0.9",
    "undrafted": r"drafts\[3\] is .*, and holds a token whose draft probability is 0",
    "token": r"drafts\[3\] is \[.*12\]; token ids run from 0 to 11",
}


def straddling(n: int, family: str, vocab: int = 20_000) -> tuple[Floats, Floats]:
    """Laws whose p/q lie at both ends of every bucket, half of the tokens at each, with slopes of 1."""
    step = 2.0**-BITS
    at = (np.arange(vocab) + 0.5) / vocab
    ratio = {"everywhere": n * at ** (n - 1), "one bucket": np.ones(vocab), "rare": np.full(vocab, 0.01)}[family]
    steps = step * 2.0 ** np.floor(np.log2(np.maximum(ratio, 1)))
    ratio = (np.floor(ratio / steps) + 0.5 + 0.49 * (-1.0) ** np.arange(vocab)) * steps
    p, q = np.append(ratio / vocab, 0.0), np.append(np.full(vocab, 1 / vocab), 0.0)
    if family == "rare":
        p[-1] = 1 - p.sum()
    return laws.normalised(p), q
