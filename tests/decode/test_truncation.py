"""Truncations leave what transformers' warpers leave."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList, MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from otspec.kernels.truncation import truncate
from tests.each import each

RNG = np.random.default_rng(0)
VOCAB = 500
SCORES = {
    "normal": RNG.normal(scale=3.0, size=(9, VOCAB)),
    "steep": RNG.normal(scale=300.0, size=(9, VOCAB)),
    "flat": RNG.normal(scale=1e-3, size=(9, VOCAB)),
    "of few tokens": np.where(RNG.random((9, VOCAB)) < 0.02, RNG.normal(size=(9, VOCAB)), -np.inf),
    "one token": np.full((1, VOCAB), -np.inf),
}
SCORES["one token"][0, 7] = -50.0


def left(scores: Any, top_k: int, top_p: float, min_p: float) -> torch.Tensor:
    """The tokens that are not cut, by transformers."""
    warpers = LogitsProcessorList([TopKLogitsWarper(top_k)] if top_k else [])
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    warpers += [MinPLogitsWarper(min_p)] if min_p else []
    return warpers(None, scores) > -torch.inf


@pytest.mark.parametrize("kind", SCORES)
@each(top_k=(0, 1, 3, 40, VOCAB, VOCAB + 1), top_p=(1.0, 0.999, 0.9, 0.5, 1e-9), min_p=(0.0, 0.05, 1.0))
def test_what_is_left_is_what_transformers_leaves(kind: str, top_k: int, top_p: float, min_p: float) -> None:
    scores = torch.tensor(SCORES[kind]).float()
    found = scores.clone()
    truncate(found.numpy(), top_k, top_p, min_p)
    possible = scores.softmax(dim=-1, dtype=torch.float64) > 0
    assert torch.equal((found > -torch.inf) & possible, left(scores, top_k, top_p, min_p) & possible)
    assert torch.equal(found[found > -torch.inf], scores[found > -torch.inf])


@each(top_k=(0, 2, 7), top_p=(1.0, 0.6))
def test_of_equally_likely_tokens_as_many_are_left(top_k: int, top_p: float) -> None:
    """The first ones of a nucleus; transformers leaves it to a sort which these are."""
    scores = torch.tensor(RNG.integers(5, size=(20, 30))).float()
    found = scores.clone()
    truncate(found.numpy(), top_k, top_p, 0.0)
    for own, row, wanted in zip(found, scores, left(scores, top_k, top_p, 0.0), strict=True):
        assert sorted(row[own > -torch.inf].tolist()) == sorted(row[wanted].tolist())
        equal = torch.nonzero(row == own[own > -torch.inf].min()).flatten()
        mine = own[equal] > -torch.inf
        assert torch.equal(equal[mine], equal[: mine.sum()])


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_where_there_is_no_law_nothing_is_cut(score: float) -> None:
    scores = np.full((1, 4), score if score < 0 else 1.0, np.float32)
    scores[0, 2] = score
    found = scores.copy()
    truncate(found, 1, 0.5, 0.5)
    np.testing.assert_array_equal(found, scores)
