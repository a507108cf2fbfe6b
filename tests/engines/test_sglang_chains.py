"""SGLang's verification of chains: block verification as on the host, written where SGLang reads it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from otspec import ProblemError
from otspec.engines.sglang import chain_speculative_sampling_triton
from tests.each import each
from tests.engines.test_chains import KINDS, chains, check_logprobs, on_the_host
from tests.oracles import Floats, Ints

ROWS, DRAFTED, VOCAB = 24, 3, 6
UNTOUCHED = -7


def arguments(p: Floats, q: Floats, tokens: Ints, rng: np.random.Generator) -> dict[str, Any]:
    """What SGLang passes: a root before the tokens, float32 laws, and places that are not in order."""
    rows, drafted = tokens.shape
    p, q = p / p.sum(axis=2, keepdims=True), q / q.sum(axis=2, keepdims=True)
    return {
        "candidates": torch.from_numpy(np.concatenate((rng.integers(p.shape[2], size=(rows, 1)), tokens), axis=1)),
        "retrive_index": torch.from_numpy(rng.permutation(rows * (drafted + 1)).reshape(rows, drafted + 1)),
        "retrive_next_token": None,
        "retrive_next_sibling": None,
        "uniform_samples": torch.from_numpy(rng.random((rows, drafted + 1))).float(),  # one more than is used
        "uniform_samples_for_final_sampling": torch.from_numpy(rng.random(rows)).float(),
        "target_probs": torch.from_numpy(p).float(),
        "draft_probs": torch.from_numpy(q).float(),
        "threshold_single": 1.0,
        "threshold_acc": 1.0,
        "deterministic": True,
    }


def outputs(rows: int = ROWS, drafted: int = DRAFTED) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.full((rows * (drafted + 1),), UNTOUCHED, dtype=torch.int32),
        torch.full((rows, drafted + 1), UNTOUCHED, dtype=torch.int32),
        torch.full((rows,), UNTOUCHED, dtype=torch.int32),
    )


def walked(given: dict[str, Any]) -> list[Any]:
    """The three outputs, chain by chain."""
    predicts, index, count = (output.tolist() for output in outputs(*(given["draft_probs"].shape[:2])))
    for b in range(len(count)):
        p, q = (given[name][b].double().numpy() for name in ("target_probs", "draft_probs"))
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        tokens = given["candidates"][b, 1:].numpy()
        coins = torch.cat(
            (given["uniform_samples"][b, : tokens.size], given["uniform_samples_for_final_sampling"][[b]])
        )
        accepted, after = on_the_host(p, q, tokens, coins.double().numpy())
        places = given["retrive_index"][b].tolist()
        count[b] = accepted
        for i, token in enumerate([*tokens[:accepted].tolist(), after]):
            index[b][i], predicts[places[i]] = places[i], token
    return [predicts, index, count]


@each(name=list(KINDS), block=(True, False))
def test_the_path_is_written_and_nothing_else(name: str, block: bool) -> None:
    rng = np.random.default_rng(5)
    given, found = arguments(*chains(name, rng, ROWS, DRAFTED, VOCAB), rng), outputs()
    logprobs = chain_speculative_sampling_triton(*found, **given, block_verification=block, logprobs=True)
    predicts, index, count = expected = walked(given)
    assert [output.tolist() for output in found] == expected
    assert logprobs is not None
    for b in range(ROWS):
        put_out = [predicts[place] for place in index[b][: count[b] + 1]]
        check_logprobs(logprobs[b], given["target_probs"][b].numpy(), put_out)


def test_a_chain_ends_before_a_draft_law_that_is_none() -> None:
    """It is verified as if no more had been drafted, and what is drawn there is the target's."""
    rng = np.random.default_rng(6)
    given = arguments(*chains("model", rng, ROWS, DRAFTED, VOCAB), rng)
    left = {"candidates": 2, "retrive_index": 2, "target_probs": 2, "draft_probs": 1}
    short = given | {name: given[name][:, :length] for name, length in left.items()}
    expected = outputs()[0], *outputs(ROWS, 1)[1:]
    chain_speculative_sampling_triton(*expected, **short)
    assert set(expected[2].tolist()) == {0, 1}
    for bad in (torch.nan, 0.0, torch.inf):
        given["draft_probs"][:, 1], found = bad, outputs()
        chain_speculative_sampling_triton(*found, **given)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1][:, :2], expected[1])
        assert torch.equal(found[2], expected[2])


TRIALS = 20_000


def test_the_output_has_the_law_of_the_target() -> None:
    """Two tokens, the second law depending on the first: summed over all drafts, with many coins for each."""
    rng = np.random.default_rng(4)
    first, second = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    draft_first, draft_second = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    joint = np.zeros((3, 3))
    for x, y in itertools.product(range(3), repeat=2):
        p, q = np.stack((first, second[x], second[y])), np.stack((draft_first, draft_second[x]))
        tokens = np.tile([x, y], (TRIALS, 1))
        given = arguments(np.tile(p, (TRIALS, 1, 1)), np.tile(q, (TRIALS, 1, 1)), tokens, rng)
        predicts, index, count = outputs(TRIALS, 2)
        chain_speculative_sampling_triton(predicts, index, count, **given)
        texts = predicts[given["retrive_index"]][:, :2].numpy()
        went_on = count.numpy() > 0
        counts = np.zeros((3, 3))
        np.add.at(counts, (texts[went_on, 0], texts[went_on, 1]), 1 / TRIALS)
        np.add.at(counts, texts[~went_on, 0], second[texts[~went_on, 0]] / TRIALS)
        joint += draft_first[x] * draft_second[x, y] * counts
    assert np.abs(joint - first[:, None] * second).max() < 0.01


def test_more_is_accepted_than_by_a_test_of_each_token() -> None:
    """p/q = 1/2, then 4: both tokens always, where a test of token after token stops half of the time."""
    rng = np.random.default_rng(0)
    p, q = np.array([[0.4, 0.6], [0.8, 0.2], [0.5, 0.5]]), np.array([[0.8, 0.2], [0.2, 0.8]])
    given = arguments(np.tile(p, (50, 1, 1)), np.tile(q, (50, 1, 1)), np.zeros((50, 2), dtype=np.int64), rng)
    found = outputs(50, 2)
    chain_speculative_sampling_triton(*found, **given)
    assert found[2].tolist() == [2] * 50


def test_nothing_waits_for_the_device() -> None:
    rng = np.random.default_rng(1)
    given = arguments(*chains("model", rng, ROWS, DRAFTED, VOCAB), rng)
    away: dict[str, Any] = {
        name: value.to("meta") if isinstance(value, Tensor) else value for name, value in given.items()
    }
    predicts, index, count = (output.to("meta") for output in outputs())
    chain_speculative_sampling_triton(predicts, index, count, **away)


def test_what_is_wrong_is_named() -> None:
    rng = np.random.default_rng(2)
    given = arguments(*chains("model", rng, ROWS, DRAFTED, VOCAB), rng)
    with pytest.raises(ProblemError, match=r"draft_probs has shape \(24, 2, 6\); .* \(24, 4\) need \(24, 3, 6\)"):
        chain_speculative_sampling_triton(*outputs(), **given | {"draft_probs": given["draft_probs"][:, :2]})
    with pytest.raises(ProblemError, match=r"target_probs has shape \(24, 3, 6\); .* need \(24, 4, 6\)"):
        chain_speculative_sampling_triton(*outputs(), **given | {"target_probs": given["target_probs"][:, :3]})
