"""vLLM's rejection sampling: its flattened arguments and its outputs, by a plain walk of block verification."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.engines import vllm
from otspec.engines.vllm import PLACEHOLDER, rejection_sample
from tests import laws
from tests.each import each
from tests.engines.test_chains import check_logprobs
from tests.oracles import Floats

VOCAB = 7
LENGTHS = (3, 0, 1, 4, 2, 0, 4)
KINDS = {"model": laws.model, "zeros": laws.zeros(laws.model, 0.3), "same": laws.same(laws.model)}


@dataclass
class Metadata:
    temperature: torch.Tensor | None
    all_greedy: bool
    all_random: bool
    generators: dict[int, torch.Generator]


class Batch(NamedTuple):
    """Requests as vLLM flattens them."""

    tokens: torch.Tensor
    counts: list[int]
    ends: torch.Tensor
    draft: torch.Tensor | None
    logits: torch.Tensor
    bonus: torch.Tensor
    metadata: Metadata

    def call(self, **named: Any) -> Any:
        return rejection_sample(
            self.tokens,
            self.counts,
            max(self.counts),
            self.ends,
            self.draft,
            self.logits,
            self.bonus,
            self.metadata,
            **named,
        )


def seeds(counts: tuple[int, ...], seed: int) -> dict[int, torch.Generator]:
    return {request: torch.Generator().manual_seed(100 * seed + request) for request in range(len(counts))}


def requests(kind: str, seed: int, counts: tuple[int, ...] = LENGTHS, drawn: bool = True) -> Batch:
    """Random requests, all random, each with a seed of its own; some tokens were refused by a grammar."""
    rng = np.random.default_rng(seed)
    total = sum(counts)
    pairs = [KINDS[kind](rng, VOCAB) for _ in range(total)]
    p, q = (np.array([pair[which] for pair in pairs]).reshape(total, VOCAB) for which in (0, 1))
    tokens = np.array([rng.choice(VOCAB, p=law / law.sum()) for law in (q if drawn else p)], dtype=np.int32)
    refused = rng.random(total) < 0.1
    with np.errstate(divide="ignore"):
        logits = np.log(p) + rng.normal(size=(total, 1))
    return Batch(
        torch.from_numpy(np.where(refused, PLACEHOLDER, tokens).astype(np.int32)),
        list(counts),
        torch.tensor(np.cumsum(counts), dtype=torch.int32),
        torch.from_numpy(q).float() if drawn else None,
        torch.from_numpy(logits).float(),
        torch.from_numpy(rng.integers(100, 200, size=(len(counts), 1))),
        Metadata(torch.ones(len(counts)), False, True, seeds(counts, seed)),
    )


def walk(batch: Batch, request: int, uniforms: list[float], greedy: bool) -> list[int]:
    """The tokens of one request, in plain Python.

    -1 ends a chain, but where the target excludes a token that the draft law has: then one such was drawn.
    """
    end = int(batch.ends[request])
    rows = range(end - batch.counts[request], end)
    tokens = [int(batch.tokens[row]) for row in rows]
    bonus = int(batch.bonus[request, 0])
    if greedy:
        for i, row in enumerate(rows):
            best = int(batch.logits[row].argmax())
            if tokens[i] != best:
                return [*tokens[:i], best]
        return [*tokens, bonus]
    p = [batch.logits[row].double().softmax(0).tolist() for row in rows]
    n = len(tokens)
    first = next((i for i, token in enumerate(tokens) if token < 0), n)
    if batch.draft is None:
        n = first
        q = [[float(token == other) for other in range(VOCAB)] for token in tokens]
    else:
        q = [(batch.draft[row].double() / batch.draft[row].double().sum()).tolist() for row in rows]
        if first < n and not any(a == 0 < b for a, b in zip(p[first], q[first], strict=True)):
            n = first
    weight, weights, accepted = 1.0, [1.0], 0
    for i in range(n):
        token = tokens[i]
        weight = min(1.0, weight * p[i][token] / q[i][token]) if token >= 0 and q[i][token] > 0 else 0.0
        weights.append(weight)
        stop = weight
        if i + 1 < n:
            missing = sum(max(weight * a - b, 0.0) for a, b in zip(p[i + 1], q[i + 1], strict=True))
            stop = missing / (missing + 1 - weight) if weight < 1 else 1.0
        if uniforms[i] < stop:
            accepted = i + 1
    if accepted == len(tokens):
        return [*tokens, bonus]
    law = p[accepted]
    if accepted < n:
        rest = [max(weights[accepted] * a - b, 0.0) for a, b in zip(law, q[accepted], strict=True)]
        law = rest if sum(rest) > 0 else law
    sums = np.cumsum(law)
    return [*tokens[:accepted], int(np.searchsorted(sums, uniforms[-1] * sums[-1], side="right"))]


def expected(batch: Batch, seed: int, greedy: list[bool]) -> list[list[int]]:
    rows = []
    for request, generator in seeds(tuple(batch.counts), seed).items():
        n = batch.counts[request]
        uniforms = torch.rand(n + 1, dtype=torch.float64, generator=generator).tolist()
        out = walk(batch, request, uniforms, greedy[request])
        rows.append(out + [PLACEHOLDER] * (max(batch.counts) + 1 - len(out)))
    return rows


@each(kind=list(KINDS), seed=range(20), drawn=(True, False))
def test_random_and_greedy_requests_of_all_lengths_are_walked(kind: str, seed: int, drawn: bool) -> None:
    batch = requests(kind, seed, drawn=drawn)
    assert batch.call().tolist() == expected(batch, seed, [False] * 7)
    greedy = [request % 2 == 1 for request in range(7)]
    heat = torch.tensor([0.0 if cold else 0.7 for cold in greedy])
    mixed = batch._replace(metadata=Metadata(heat, False, False, seeds(LENGTHS, seed)))
    assert mixed.call().tolist() == expected(batch, seed, greedy)
    mixed.metadata.generators = seeds(LENGTHS, seed)
    out, logprobs = mixed.call(logprobs=True)
    assert out.tolist() == expected(batch, seed, greedy)
    laws = batch.logits.double().softmax(dim=1).numpy()
    for tokens, found, certain, end, count in zip(out, logprobs, greedy, batch.ends, LENGTHS, strict=True):
        put_out = [token for token in tokens.tolist() if token != PLACEHOLDER][:count]  # the one after all is vLLM's
        rows = laws[end - count : end]
        check_logprobs(found, np.ones_like(rows) if certain else rows, put_out)
    cold = batch._replace(metadata=Metadata(None, True, False, {}))
    assert cold.call().tolist() == expected(batch, seed, [True] * 7)


def test_greedy_requests_accept_what_the_target_says() -> None:
    batch = requests("model", 0)
    agreed = batch._replace(
        tokens=batch.logits.argmax(dim=1).to(torch.int32), metadata=Metadata(torch.zeros(7), True, False, {})
    )
    found = agreed.call()
    assert found.dtype == torch.int32
    for row, count in enumerate(batch.counts):
        assert found[row, count] == batch.bonus[row, 0]
        assert (found[row, count + 1 :] == PLACEHOLDER).all()


def test_the_numbers_of_a_seeded_request_do_not_depend_on_the_batch() -> None:
    batch = requests("model", 5)
    alone = Batch(
        batch.tokens[:3],
        [3],
        batch.ends[:1],
        batch.draft[:3] if batch.draft is not None else None,
        batch.logits[:3],
        batch.bonus[:1],
        Metadata(torch.ones(1), False, True, seeds((3,), 5)),
    )
    assert alone.call().tolist() == [batch.call()[0, :4].tolist()]


def test_a_batch_of_which_nothing_is_drafted() -> None:
    nothing = Batch(
        torch.empty(0, dtype=torch.int32),
        [0, 0],
        torch.zeros(2, dtype=torch.int32),
        None,
        torch.empty((0, VOCAB)),
        torch.tensor([[3], [4]]),
        Metadata(torch.ones(2), False, True, {}),
    )
    assert nothing.call().tolist() == [[3], [4]]


def test_a_request_whose_laws_are_none_gets_a_token_and_leaves_others_alone() -> None:
    batch = requests("model", 2)
    right = batch.call().tolist()
    batch.logits[4, 0] = torch.nan  # of the request of four tokens
    again = batch._replace(metadata=replace(batch.metadata, generators=seeds(LENGTHS, 2)))
    found = again.call().tolist()
    assert found[3] == [0] + [PLACEHOLDER] * 4
    assert found[:3] + found[4:] == right[:3] + right[4:]


TRIALS = 6000


@each(how=("drawn", "n-gram", "grammar"))
def test_the_output_has_the_law_of_the_target(how: str) -> None:
    """Two tokens, the second law depending on the first: summed over all drafts, drawn many times for each."""
    rng = np.random.default_rng(4)
    first, second = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    if how == "grammar":
        first = np.array([first[0], 0.0, 1 - first[0]])
    draft_first, draft_second = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    joint = np.zeros((3, 3))
    torch.manual_seed(0)
    for x, y in itertools.product(range(3), repeat=2):
        chance = draft_first[x] * draft_second[x, y] if how != "n-gram" else float((x, y) == (0, 2))
        drafted = [x, y]
        if first[x] == 0:  # the grammar refuses it, and all after it
            drafted = [PLACEHOLDER] * 2
        p, q = np.stack((first, second[x])), np.stack((draft_first, draft_second[x]))
        bonus = rng.integers(3, size=(TRIALS, 1))
        with np.errstate(divide="ignore"):
            logits = torch.from_numpy(np.log(p)).repeat(TRIALS, 1)
        found: Any = rejection_sample(
            torch.tensor(drafted, dtype=torch.int32).repeat(TRIALS),
            [2] * TRIALS,
            2,
            torch.arange(2, 2 * TRIALS + 1, 2, dtype=torch.int32),
            None if how == "n-gram" else torch.from_numpy(q).repeat(TRIALS, 1),
            logits,
            torch.from_numpy(bonus),
            Metadata(torch.ones(TRIALS), False, True, {}),
        )
        out = found.numpy()
        assert (out[:, 0] >= 0).all()
        short = out[:, 1] < 0
        joint += chance * completed(out, short, second)
    assert np.abs(joint - first[:, None] * second).max() < 0.025
    assert np.abs(joint.sum(axis=1) - first).max() < 0.02


def completed(out: Any, short: Any, second: Floats) -> Floats:
    """The law of two tokens, where those that stopped after one go on as the target does."""
    counts = np.zeros((3, 3))
    np.add.at(counts, (out[~short, 0], out[~short, 1]), 1 / TRIALS)
    np.add.at(counts, out[short, 0], second[out[short, 0]] / TRIALS)
    return counts


STEPS = 34
"""Of a bisection: a probability is found to 1e-10."""
LAST = 1 - 2.0**-53
Q = np.array([0.1, 0.2, 0.3, 0.4])
P = np.array([[0.4, 0.3, 0.2, 0.1], [0.12, 0.2, 0.3, 0.38]])


@each(ends=(True, False), masks=(True, False))
def test_a_token_that_was_refused_beforehand_leaves_the_law_as_it_is(ends: bool, masks: bool) -> None:
    """A drafted token 3 ends the text, so that -1 fills up the chain; or a grammar excludes tokens, and refuses them.

    The law of two tokens, exactly: over all chains, and of each over the uniforms, whose thresholds are bisected.
    """
    drafted, chances, rows = [], [], []
    for x, y in itertools.product(range(4), repeat=2):
        law = P[1] if (ends and x == 3) or not masks else np.where(np.arange(4) % 2 == 0, 0, P[1])
        padded = (ends and x == 3) or law[y] == 0
        drafted.append((x, PLACEHOLDER if padded else y))
        chances.append(Q[x] * Q[y])
        rows.append(np.stack((P[0], law / law.sum())))
    targets, tokens = np.array(rows), np.array(drafted)

    def outputs(*uniforms: Floats) -> Any:
        return verified(targets, tokens, np.stack(uniforms, axis=1))

    none, some, last = np.zeros(16), np.full(16, 0.5), np.full(16, LAST)
    both = bisected(lambda u: outputs(last, u, some)[:, 2] >= 0)
    one = bisected(lambda u: outputs(u, last, some)[:, 1] >= 0)
    kept = both + (1 - both) * one
    after_one = drawn(lambda u: outputs(none, last, u)[:, 1])
    after_none = drawn(lambda u: outputs(last, last, u)[:, 0])
    joint, after = np.zeros((4, 4)), targets[::4, 1]
    for chain, (x, y) in enumerate(tokens):
        joint += chances[chain] * (1 - kept[chain]) * after_none[:, chain, None] * after
        joint[x] += chances[chain] * (1 - both[chain]) * one[chain] * after_one[:, chain]
        joint[x, y] += chances[chain] * both[chain]
    np.testing.assert_allclose(joint, P[0][:, None] * after, atol=1e-9)


def verified(targets: Floats, tokens: Any, uniforms: Floats) -> Any:
    """What comes out for chains of two tokens, given the numbers that they are verified by."""
    count = len(tokens)
    with pytest.MonkeyPatch.context() as patched, np.errstate(divide="ignore"):
        patched.setattr(vllm, "_uniforms", lambda *_: torch.from_numpy(uniforms))
        found: Any = rejection_sample(
            torch.from_numpy(tokens.reshape(-1)).int(),
            [2] * count,
            2,
            torch.arange(2, 2 * count + 1, 2, dtype=torch.int32),
            torch.from_numpy(np.tile(Q, (2 * count, 1))),
            torch.from_numpy(np.log(targets).reshape(2 * count, 4)),
            torch.zeros(count, 1, dtype=torch.int64),
            Metadata(torch.ones(count), False, True, {}),
        )
        return found.numpy()


def drawn(token: Callable[[Floats], Any]) -> Floats:
    """The law of a token, shape (4, 16), given which one each chain has by the number that it is drawn with."""

    def up_to(bound: int) -> Floats:
        return bisected(lambda uniforms: token(uniforms) <= bound)

    return np.diff([np.zeros(16), *map(up_to, range(3)), np.ones(16)], axis=0)


def bisected(holds: Callable[[Floats], Any]) -> Floats:
    """Up to which number something holds of each of the 16 chains, shape (16,), if it does up to some number."""
    low, high = np.zeros(16), np.ones(16)
    low, high = np.where(holds(low), low, 0), np.where(holds(low), high, 0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        held = holds(np.minimum(middle, LAST))
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return (low + high) / 2


def test_nothing_waits_for_the_device() -> None:
    batch = requests("model", 1)
    for draft in (batch.draft, None):
        away = batch._replace(
            tokens=batch.tokens.to("meta"),
            ends=batch.ends.to("meta"),
            draft=None if draft is None else draft.to("meta"),
            logits=batch.logits.to("meta"),
            bonus=batch.bonus.to("meta"),
            metadata=Metadata(torch.ones(7, device="meta"), False, False, {}),
        )
        out = away.call()
        assert out.shape == (7, 5)
        assert out.device.type == "meta"


def test_what_is_wrong_is_named() -> None:
    batch = requests("model", 0)
    for named, message in (
        ({"synthetic_mode": True}, "synthetic acceptance is not lossless"),
        ({"fly_window_size": 4}, "fly_window_size = 4 is not lossless"),
    ):
        with pytest.raises(ProblemError, match=message):
            batch.call(**named)
    assert batch.draft is not None
    with pytest.raises(ProblemError, match=r"draft_probs has shape \(13, 7\); 7 requests with 14 drafted tokens need"):
        batch._replace(draft=batch.draft[1:]).call()
    with pytest.raises(ProblemError, match=r"bonus_token_ids has shape \(6,\); .* need \(7,\)"):
        batch._replace(bonus=batch.bonus[1:, 0]).call()
    with pytest.raises(ProblemError, match=r"bonus_token_ids has shape \(7, 2\); .* need \(7, 1\)"):
        batch._replace(bonus=batch.bonus.expand(7, 2)).call()


def test_the_token_after_a_whole_chain_comes_in_either_shape() -> None:
    batch = requests("model", 0)
    flat = batch._replace(bonus=batch.bonus[:, 0], metadata=Metadata(torch.ones(7), False, True, seeds(LENGTHS, 0)))
    assert flat.call().tolist() == batch.call().tolist()
