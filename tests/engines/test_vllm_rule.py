"""The rule that vLLM is offered, on requests as vLLM flattens them."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.engines import vllm
from otspec.engines.vllm import PLACEHOLDER
from tests.each import each
from tests.engines.vllm_requests import KINDS, VOCAB, Batch, Metadata, requests, seeds
from tests.oracles import Floats
from tests.verification.tree_batches import by_block


def walk(batch: Batch, request: int, uniforms: list[float], greedy: bool) -> list[int]:
    """The tokens of one request, by the figures of `otspec.verification`.

    -1 ends a chain, but where the target excludes a token that the draft law has: then one such was drawn.
    """
    end = int(batch.ends[request])
    rows = slice(end - batch.counts[request], end)
    tokens, logits, bonus = batch.tokens[rows].numpy(), batch.logits[rows].double(), int(batch.bonus[request, 0])
    if greedy:
        best = logits.argmax(1).tolist()
        agreed = next((i for i, token in enumerate(tokens) if token != best[i]), len(tokens))
        return [*best, bonus][: agreed + 1]
    p = logits.softmax(1).numpy()
    chain = next((i for i, token in enumerate(tokens) if token < 0), len(tokens))
    if batch.draft is None:
        q = np.eye(VOCAB)[tokens]
    else:
        q = batch.draft[rows].double().numpy()
        q = q / q.sum(axis=1, keepdims=True)
        if chain < len(tokens) and (excluded := (p[chain] == 0) & (q[chain] > 0)).any():
            tokens = np.where(tokens < 0, q.argmax(axis=1), tokens)
            tokens[chain], chain = excluded.argmax(), len(tokens)
    p = np.append(p, np.full((1, VOCAB), 1 / VOCAB), axis=0)  # after a whole chain vLLM has drawn the token
    accepted, token = by_block(p[: chain + 1], q[:chain], tokens[:chain], np.array(uniforms), uniforms[-1])
    return [*tokens[:accepted].tolist(), bonus if accepted == len(tokens) else token]


def expected(batch: Batch, seed: int, greedy: list[bool]) -> list[list[int]]:
    rows = []
    for request, generator in seeds(seed).items():
        n = batch.counts[request]
        uniforms = torch.rand(n + 1, dtype=torch.float64, generator=generator).tolist()
        out = walk(batch, request, uniforms, greedy[request])
        rows.append(out + [PLACEHOLDER] * (max(batch.counts) + 1 - len(out)))
    return rows


@each(kind=list(KINDS), seed=range(10), drawn=(True, False))
def test_random_and_greedy_requests_of_all_lengths_are_walked(kind: str, seed: int, drawn: bool) -> None:
    batch = requests(kind, seed, drawn=drawn)
    assert batch.call().tolist() == expected(batch, seed, [False] * 7)
    greedy = [request % 2 == 1 for request in range(7)]
    heat = torch.tensor([0.0 if cold else 0.7 for cold in greedy])
    mixed = batch._replace(metadata=Metadata(heat, False, False, seeds(seed)))
    assert mixed.call().tolist() == expected(batch, seed, greedy)
    cold = batch._replace(metadata=Metadata(None, True, False, {}))
    assert cold.call().tolist() == expected(batch, seed, [True] * 7)
    likeliest = cold._replace(tokens=batch.logits.argmax(dim=1).int())
    assert likeliest.call().dtype == torch.int32
    assert likeliest.call().tolist() == expected(likeliest, seed, [True] * 7)


def test_a_batch_of_which_nothing_is_drafted() -> None:
    none, ends = torch.empty(0, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    follow, metadata = torch.tensor([[3], [4]]), Metadata(torch.ones(2), False, True, {})
    nothing = Batch(none, [0, 0], ends, None, torch.empty((0, VOCAB)), follow, metadata)
    assert nothing.call().tolist() == [[3], [4]]


def test_a_request_whose_laws_are_none_gets_a_token_and_leaves_others_alone() -> None:
    batch = requests("model", 2)
    right = batch.call().tolist()
    batch.logits[4, 0] = torch.nan  # of the request of four tokens
    again = batch._replace(metadata=replace(batch.metadata, generators=seeds(2)))
    found = again.call().tolist()
    assert found[3] == [0] + [PLACEHOLDER] * 4
    assert found[:3] + found[4:] == right[:3] + right[4:]


STEPS = 34
"""Of a bisection: a probability is found to 1e-10."""
LAST = 1 - 2.0**-53
Q = np.array([0.1, 0.2, 0.3, 0.4])
P = np.array([[0.4, 0.3, 0.2, 0.1], [0.12, 0.2, 0.3, 0.38]])


@each(how=("plain", "ends", "masks", "ends and masks", "n-gram"))
def test_the_output_has_the_law_of_the_target(how: str) -> None:
    """A drafted token 3 ends the text, so that -1 fills up the chain; or a grammar excludes tokens, and refuses them.

    The law of two tokens, exactly: over all chains, and of each over the uniforms, whose thresholds are bisected.  What
    n-grams draft is drawn from no law: each chain has it by itself.
    """
    ends, masks, ngram = "ends" in how, "masks" in how, how == "n-gram"
    drafted, chances, rows = [], [], []
    for x, y in itertools.product(range(4), repeat=2):
        law = P[1] if (ends and x == 3) or not masks else np.where(np.arange(4) % 2 == 0, 0, P[1])
        padded = (ends and x == 3) or law[y] == 0
        drafted.append((x, PLACEHOLDER if padded else y))
        chances.append(1.0 if ngram else Q[x] * Q[y])
        rows.append(np.stack((P[0], law / law.sum())))
    targets, tokens = np.array(rows), np.array(drafted)

    def outputs(*uniforms: Floats | float) -> Any:
        each = np.stack(np.broadcast_arrays(*uniforms), axis=1)
        times = len(each) // 16
        return verified(np.tile(targets, (times, 1, 1)), np.tile(tokens, (times, 1)), each, None if ngram else Q)

    both = bisected(lambda u: outputs(LAST, u, 0.5)[:, 2] >= 0)
    one = bisected(lambda u: outputs(u, LAST, 0.5)[:, 1] >= 0)
    kept = both + (1 - both) * one
    after_one = drawn(lambda u: outputs(0.0, LAST, u)[:, 1])
    after_none = drawn(lambda u: outputs(LAST, LAST, u)[:, 0])
    joint, after = np.zeros((16, 4, 4)), targets[::4, 1]
    for chain, (x, y) in enumerate(tokens):
        joint[chain] = chances[chain] * (1 - kept[chain]) * after_none[:, chain, None] * after
        joint[chain, x] += chances[chain] * (1 - both[chain]) * one[chain] * after_one[:, chain]
        joint[chain, x, y] += chances[chain] * both[chain]
    found = joint if ngram else joint.sum(axis=0)
    assert np.abs(found - P[0][:, None] * after).max() < 1e-9


def verified(targets: Floats, tokens: Any, uniforms: Floats, draft: Floats | None) -> Any:
    """What comes out for chains of two tokens, given the numbers that they are verified by."""
    flat, rows = tokens.reshape(-1), targets.reshape(-1, 4)
    with pytest.MonkeyPatch.context() as patched, np.errstate(divide="ignore"):
        patched.setattr(vllm, "_uniforms", lambda *_: torch.from_numpy(uniforms))
        return Batch(
            torch.from_numpy(flat).int(),
            [2] * len(tokens),
            torch.arange(2, len(flat) + 1, 2, dtype=torch.int32),
            None if draft is None else torch.from_numpy(np.tile(draft, (len(flat), 1))),
            torch.from_numpy(np.log(rows)),
            torch.zeros(len(tokens), 1, dtype=torch.int64),
            Metadata(torch.ones(len(tokens)), False, True, {}),
        ).call().numpy()  # fmt: skip


def drawn(token: Callable[[Floats], Any]) -> Floats:
    """The law of a token, shape (4, 16), given which one each chain has by the number that it is drawn with."""
    bounds = np.repeat(np.arange(3), 16)
    up_to = bisected(lambda uniforms: token(uniforms) <= bounds, 3).reshape(3, 16)
    return np.diff([np.zeros(16), *up_to, np.ones(16)], axis=0)


def bisected(holds: Callable[[Floats], Any], times: int = 1) -> Floats:
    """Up to which number something holds of each of 16 chains, in turn so often, if it does up to some number."""
    low = np.zeros(16 * times)
    high = np.where(holds(low), 1.0, 0.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        held = holds(np.minimum(middle, LAST))
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return (low + high) / 2


def test_nothing_waits_for_the_device() -> None:
    batch = requests("model", 1)
    for draft in (batch.draft, None):
        here: dict[str, Any] = {**batch._asdict(), "draft": draft}
        moved = {name: one.to("meta") for name, one in here.items() if isinstance(one, torch.Tensor)}
        metadata = Metadata(torch.ones(7, device="meta"), False, False, {})
        out = batch._replace(**{**here, **moved, "metadata": metadata}).call()
        assert out.shape == (7, 5)
        assert out.device.type == "meta"


def test_what_is_wrong_is_named() -> None:
    batch = requests("model", 0)
    assert batch.draft is not None
    changed: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {"synthetic_mode": True}, "synthetic acceptance is not lossless"),
        ({}, {"fly_window_size": 4}, "fly_window_size = 4 is not lossless"),
        ({"draft": batch.draft[1:]}, {}, r"draft_probs has shape \(13, 7\); 7 requests with 14 drafted tokens need"),
        ({"bonus": batch.bonus.expand(7, 2)}, {}, r"bonus_token_ids has shape \(7, 2\); .* need \(7, 1\)"),
    ]
    for fields, named, message in changed:
        with pytest.raises(ProblemError, match=message):
            batch._replace(**fields).call(**named)
    # The token after a whole chain comes in either shape.
    flat = batch._replace(bonus=batch.bonus[:, 0], metadata=Metadata(torch.ones(7), False, True, seeds(0)))
    assert flat.call().tolist() == batch.call().tolist()
