"""Chains of tokens on tensors: block verification as on the host, and the contract that engines rely on."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from otspec import ProblemError
from otspec.engines.chains import verify_chains
from otspec.engines.flashinfer import chain_speculative_sampling
from otspec.verification.rules.block.block import block_weights
from tests import laws
from tests.each import each
from tests.oracles import Floats, Ints

KINDS = {
    "model": laws.model,
    "zeros": laws.zeros(laws.model, 0.3),
    "same": laws.same(laws.model),
    "ties": laws.tied_ratios,
}


def chains(name: str, rng: laws.Rng, rows: int, length: int, vocab: int) -> tuple[Floats, Floats, Ints]:
    pairs = [[KINDS[name](rng, vocab) for _ in range(length + 1)] for _ in range(rows)]
    p, q = (np.array([[pair[which] for pair in row] for row in pairs]) for which in (0, 1))
    tokens = np.array([[rng.choice(vocab, p=law / law.sum()) for law in row[:-1]] for row in q], dtype=np.int64)
    return p, q[:, :-1], tokens.reshape(rows, length)


def on_the_host(p: Floats, q: Floats, tokens: Ints, uniforms: Floats) -> tuple[int, int]:
    """Block verification of one chain, by the figures of `otspec.paths`."""
    weight, stop = block_weights(p, q, tokens)
    accepted = max((i for i in range(1, tokens.size + 1) if uniforms[i - 1] < stop[i]), default=0)
    law = p[accepted]
    if accepted < tokens.size:
        rest = np.maximum(weight[accepted] * p[accepted] - q[accepted], 0)
        law = rest if rest.sum() > 0 else law
    return accepted, int(np.searchsorted(np.cumsum(law), uniforms[-1] * law.sum(), side="right"))


def check_logprobs(found: Tensor, p: Floats, put_out: list[int]) -> None:
    """Those of the tokens by the laws before them, rows of p, and then NaN."""
    with np.errstate(divide="ignore"):  # lossy thresholds accept what the target never says
        expected = [np.log(law[token]) for law, token in zip(p, put_out, strict=False)]
    np.testing.assert_allclose(found[: len(put_out)], expected, rtol=1e-6, atol=1e-6)
    assert found[len(put_out) :].isnan().all()


@each(name=list(KINDS), length=(1, 2, 4))
def test_chains_are_verified_as_on_the_host(name: str, length: int) -> None:
    rng = np.random.default_rng(length)
    p, q, tokens = chains(name, rng, 40, length, 7)
    uniforms = rng.random((40, length + 1))
    found = verify_chains(*(torch.from_numpy(array) for array in (p, q, tokens, uniforms)), logprobs=True)
    expected = [on_the_host(*row) for row in zip(p, q, tokens, uniforms, strict=True)]
    assert list(zip(found.accepted.tolist(), found.token.tolist(), strict=True)) == expected
    assert found.logprobs is not None
    for own, row, chain, (accepted, token) in zip(found.logprobs, p, tokens, expected, strict=True):
        check_logprobs(own, row / row.sum(axis=1, keepdims=True), [*chain[:accepted].tolist(), token])


def test_nothing_waits_for_the_device() -> None:
    p, q = torch.empty((2, 4, 9), device="meta"), torch.empty((2, 3, 9), device="meta")
    tokens = torch.empty((2, 3), dtype=torch.int32, device="meta")
    found = verify_chains(p, q, tokens, torch.empty((2, 4), dtype=torch.float64, device="meta"))
    assert found.token.shape == (2,)


def test_rows_that_are_not_sound_and_tokens_that_are_none() -> None:
    rng = np.random.default_rng(3)
    p, q, tokens = (torch.from_numpy(array) for array in chains("model", rng, 4, 3, 7))
    uniforms = torch.from_numpy(rng.random((4, 4)))
    right = verify_chains(p, q, tokens, uniforms)
    p[1, 2, 0], tokens[2, 1] = torch.nan, -1
    found = verify_chains(p, q, tokens, uniforms, logprobs=True)
    assert found.valid.tolist() == [True, False, True, True]
    assert found.logprobs is not None
    assert found.logprobs.isfinite().any(dim=1).tolist() == found.valid.tolist()
    assert (found.accepted[1].item(), found.token[1].item()) == (0, 0)
    assert found.accepted[2] <= 1
    for b in (0, 3):
        assert (found.accepted[b].item(), found.token[b].item()) == (right.accepted[b].item(), right.token[b].item())


DRAFT = torch.tensor([[[0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.1]]])
TARGET = torch.tensor([[[0.0, 0.1, 0.6, 0.3], [1.0, 0.0, 0.0, 0.0], [0.7, 0.1, 0.1, 0.1]]])
IDS = torch.tensor([[2, 1]], dtype=torch.int32)
"""The example of the function's own documentation: the first token is accepted, the second replaced by token 0."""


def test_the_documented_example() -> None:
    ids, accepted, emitted, logprobs = chain_speculative_sampling(DRAFT, IDS, TARGET, logprobs=True)
    check_logprobs(logprobs[0], TARGET[0].numpy(), [2, 0])
    assert ids.tolist() == [[2, 0, -1]]
    assert accepted.tolist() == emitted.tolist() == [1]
    assert ids.dtype == accepted.dtype == emitted.dtype == torch.int32


def test_counts_are_added_to_in_place() -> None:
    counts = torch.tensor([10], dtype=torch.int32), torch.tensor([20], dtype=torch.int32)
    _, accepted, emitted = chain_speculative_sampling(DRAFT, IDS, TARGET, *counts)
    assert accepted is counts[0]
    assert emitted is counts[1]
    assert (counts[0].item(), counts[1].item()) == (11, 21)


def test_everything_is_accepted_where_the_laws_agree() -> None:
    target = torch.cat((DRAFT, DRAFT[:, :1]), dim=1)
    ids, accepted, emitted = chain_speculative_sampling(DRAFT, IDS, target, generator=torch.Generator().manual_seed(0))
    assert ids[0, :2].tolist() == [2, 1]
    assert ids[0, 2] >= 0
    assert accepted.tolist() == emitted.tolist() == [2]


def test_arguments_are_those_of_flashinfer() -> None:
    assert list(inspect.signature(chain_speculative_sampling).parameters) == [
        "draft_probs",
        "draft_token_ids",
        "target_probs",
        "maybe_output_accepted_token_num",
        "maybe_output_emitted_draft_token_num",
        "deterministic",
        "generator",
        "seed",
        "offset",
        "logprobs",  # ours
    ]


def test_the_output_has_the_law_of_the_target() -> None:
    """All that depends on chance but the uniforms is summed over; the uniforms are drawn, many to a chain."""
    rng = np.random.default_rng(0)
    p, q, _ = chains("model", rng, 1, 1, 3)
    generator, counts, trials = torch.Generator().manual_seed(0), torch.zeros(3, dtype=torch.float64), 40_000
    for token in range(3):
        many: list[Tensor] = [torch.from_numpy(law).expand(trials, -1, -1) for law in (q, p)]
        ids = torch.full((trials, 1), token, dtype=torch.int32)
        out, _, _ = chain_speculative_sampling(many[0], ids, many[1], generator=generator)
        counts += q[0, 0, token] / q[0, 0].sum() * torch.bincount(out[:, 0], minlength=3) / trials
    np.testing.assert_allclose(counts, p[0, 0] / p[0, 0].sum(), atol=0.015)


def test_what_is_put_out_counts_as_accepted() -> None:
    """p/q = 1/2, then 4: block verification always accepts both; by itself the first passes half of the time."""
    draft = torch.tensor([[0.8, 0.2], [0.2, 0.8]]).expand(500, -1, -1)
    target = torch.tensor([[0.4, 0.6], [0.8, 0.2], [0.5, 0.5]]).expand(500, -1, -1)
    ids = torch.zeros((500, 2), dtype=torch.int32)
    _, accepted, emitted = chain_speculative_sampling(draft, ids, target, generator=torch.Generator().manual_seed(0))
    assert emitted.tolist() == accepted.tolist() == [2] * 500


@each(name=list(KINDS), length=(1, 3))
def test_tokens_count_that_are_put_out_or_pass_by_themselves(name: str, length: int) -> None:
    p, q, tokens = chains(name, np.random.default_rng(length), 60, length, 4)
    p, q = p / p.sum(axis=2, keepdims=True), q / q.sum(axis=2, keepdims=True)
    draft, ids, target = (torch.from_numpy(array) for array in (q, tokens.astype(np.int32), p))
    _, accepted, emitted = chain_speculative_sampling(draft, ids, target, generator=torch.Generator().manual_seed(7))
    coins = torch.rand((60, length + 1), generator=torch.Generator().manual_seed(7), dtype=torch.float64).numpy()
    for b in range(60):
        found, _ = on_the_host(p[b], q[b], tokens[b], coins[b])
        passing = [coins[b, i] * q[b, i, token] < p[b, i, token] for i, token in enumerate(tokens[b])]
        assert emitted[b] == found
        assert accepted[b] == sum(i < found or passes for i, passes in enumerate(passing))
        assert found == 0 or passing[found - 1]  # so that a chain of one token counts as flashinfer does


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ProblemError, match=r"drafts of shape \(1, 2\) need \(1, 2, V\) and \(1, 3, V\)"):
        chain_speculative_sampling(DRAFT, IDS, TARGET[:, :2])
    with pytest.raises(ProblemError, match="pass a torch Generator in their place"):
        chain_speculative_sampling(DRAFT, IDS, TARGET, seed=3, offset=0)
