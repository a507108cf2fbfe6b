"""What `benchmarks.gpu.verification` measures: our rules, and the kernels of engines beside them, on the same laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.gpu.engines import own, there
from otspec.engines import flashinfer, sglang, vllm
from otspec.verification.device import verify_logits, verify_rows, verify_trees, verify_truncated
from otspec.verification.device.trees import RULES

PATHS, DEPTH, KEPT = 4, 8, 50
"""Drafts of a row, and paths of a tree; tokens of a chain, and levels of a tree; tokens that few drafts are from."""


class Shape(NamedTuple):
    """How large it all is."""

    vocab: int
    batches: tuple[int, ...]
    copied: int
    """Bytes of the copy that the bandwidth is measured by."""


class Work(NamedTuple):
    """One call, on laws that are there."""

    what: str
    by: str
    call: Callable[[], object]
    bytes: int
    """Of the laws that have to be read."""
    accepted: Callable[[Any], Tensor] | None = None
    """What it returned, to how many drafted tokens each row accepted, shape (rows,); None for single positions."""


def works(shape: Shape, batch: int, device: torch.device, seed: int = 0) -> Iterator[Work]:
    """All calls of one batch, the laws of one kind at a time; other seeds, other laws and drafts."""
    generator = torch.Generator(device).manual_seed(1000 * seed + batch)
    yield from _rows(shape.vocab, batch, device, generator)
    yield from _chains(shape.vocab, batch, device, generator)
    yield from _sampled_trees(shape.vocab, batch, device, generator)
    yield from _trees(shape.vocab, batch, device, generator)


def _laws(count: int, vocab: int, device: torch.device, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Logits of a target and of a draft model that errs, float32, shape (count, V)."""
    target = 4 * torch.randn((count, vocab), device=device, generator=generator)
    return target, target + torch.randn((count, vocab), device=device, generator=generator)


def _rows(vocab: int, batch: int, device: torch.device, generator: torch.Generator) -> Iterator[Work]:
    """One position in each row, n = K drafts."""
    logits = _laws(batch, vocab, device, generator)
    p, q = (one.softmax(dim=1) for one in logits)
    drafts = torch.multinomial(q, PATHS, replacement=True, generator=generator)
    uniforms = torch.rand((batch, PATHS + 1, 3), dtype=torch.float64, device=device, generator=generator)
    top = q.topk(min(KEPT, vocab), dim=1)
    kept = top.values / top.values.sum(dim=1, keepdim=True)
    few = top.indices.gather(1, torch.multinomial(kept, PATHS, replacement=True, generator=generator))
    size = p.nbytes + q.nbytes
    what = f"rows, n = {PATHS}"
    # Triton's interpreter on a CPU would say nothing.
    ways = ("sorting", "buckets", *(("triton",) if device.type == "cuda" else ()))
    for by in ways:
        yield Work(what, by, lambda by=by: verify_rows(p, q, drafts, uniforms, by=by), size)  # type: ignore[misc]
    yield Work("logits" + what[4:], ways[-1], lambda: verify_logits(*logits, drafts, uniforms, by=ways[-1]), size)
    yield Work(
        f"truncated to {kept.shape[1]}",
        "sorting",
        lambda: verify_truncated(p, top.indices, kept, few, uniforms),
        p.nbytes + kept.nbytes,
    )


def _chains(vocab: int, batch: int, device: torch.device, generator: torch.Generator) -> Iterator[Work]:
    """L tokens one after the other in each row."""
    target, draft = _laws(batch * (DEPTH + 1), vocab, device, generator)
    p = target.softmax(dim=1).view(batch, DEPTH + 1, vocab)
    q = draft.softmax(dim=1).view(batch, DEPTH + 1, vocab)[:, :DEPTH].contiguous()
    ids = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(batch, DEPTH).to(torch.int32)
    size = p.nbytes + q.nbytes
    what = f"chains, L = {DEPTH}"

    yield Work(what, "otspec, as flashinfer", lambda: flashinfer.chain_speculative_sampling(q, ids, p), size, _emitted)
    if there("flashinfer", device):
        yield Work(what, "flashinfer", lambda: own("flashinfer")(q, ids, p), size, _emitted)

    scores = target.view(batch, DEPTH + 1, vocab)[:, :DEPTH].reshape(-1, vocab)
    given = (
        ids.flatten(),
        [DEPTH] * batch,
        DEPTH,
        torch.arange(DEPTH, DEPTH * batch + 1, DEPTH, dtype=torch.int32, device=device),
        q.flatten(0, 1),
        scores,
        torch.zeros((batch, 1), dtype=torch.int64, device=device),
        SimpleNamespace(temperature=torch.ones(batch, device=device), all_greedy=False, all_random=True, generators={}),
    )
    size = scores.nbytes + q.nbytes
    yield Work(what, "otspec, as vLLM", lambda: vllm.rejection_sample(*given), size, _before_the_last)
    if there("vllm", device):
        yield Work(what, "vLLM", lambda: own("vllm")(*given), size, _before_the_last)


def _sampled_trees(vocab: int, batch: int, device: torch.device, generator: torch.Generator) -> Iterator[Work]:
    """K paths of L levels, drafted from a model, by every rule for trees."""
    slots, inner = PATHS * DEPTH + 1, PATHS * (DEPTH - 1) + 1
    target, draft = _laws(batch * slots, vocab, device, generator)
    p = target.softmax(dim=1).view(batch, slots, vocab)
    q = draft.softmax(dim=1).view(batch, slots, vocab)[:, :inner].contiguous()
    # Level after level: the children of the root come first, and every other slot hangs K slots after its parent.
    root = torch.multinomial(q[:, 0], PATHS, replacement=True, generator=generator)
    below = torch.multinomial(q[:, 1:].flatten(0, 1), 1, generator=generator).view(batch, inner - 1)
    tokens = torch.cat((torch.zeros_like(root[:, :1]), root, below), dim=1)
    uniforms = torch.rand((batch, slots + DEPTH, 3), dtype=torch.float64, device=device, generator=generator)
    branching = (PATHS, *(1,) * (DEPTH - 1))
    what = f"trees, K = {PATHS}, L = {DEPTH}"
    for rule in RULES:
        yield Work(
            what,
            rule,
            lambda rule=rule: verify_trees(p, q, tokens, branching, uniforms, rule=rule),  # type: ignore[misc]
            p.nbytes + q.nbytes,
            lambda found: found.accepted,
        )


def _trees(vocab: int, batch: int, device: torch.device, generator: torch.Generator) -> Iterator[Work]:
    """K paths of L levels from one root, the draft model's likeliest tokens, against the target alone."""
    nodes = PATHS * DEPTH + 1
    target, draft = _laws(batch * nodes, vocab, device, generator)
    laws = target.softmax(dim=1).view(batch, nodes, vocab)
    node = torch.arange(nodes, device=device)
    # Path after path: node 1 + k L + l is the token of level l on path k.
    level = (node - 1) % DEPTH
    child = torch.where(level < DEPTH - 1, node + 1, -1)
    child[0] = 1
    sibling = torch.where((level == 0) & (node > 0) & (node + DEPTH < nodes), node + DEPTH, -1)
    flat = torch.arange(batch * nodes, device=device).view(batch, nodes)
    # The likeliest K after the root, and the likeliest after each node.
    tokens = draft.argmax(dim=1).view(batch, nodes).roll(1, dims=1)
    tokens[:, 1::DEPTH] = draft.view(batch, nodes, vocab)[:, 0].topk(PATHS, dim=1).indices
    given: dict[str, Any] = {
        "predicts": torch.full((batch * nodes,), -1, dtype=torch.int32, device=device),
        "accept_index": torch.full((batch, DEPTH + 1), -1, dtype=torch.int32, device=device),
        "accept_token_num": torch.zeros(batch, dtype=torch.int32, device=device),
        "candidates": tokens,
        "retrive_index": flat,
        "retrive_next_token": child.expand(batch, -1).contiguous(),
        "retrive_next_sibling": sibling.expand(batch, -1).contiguous(),
        "uniform_samples": torch.rand((batch, nodes), device=device, generator=generator),
        "uniform_samples_for_final_sampling": torch.rand(batch, device=device, generator=generator),
        "target_probs": laws,
        "draft_probs": torch.zeros_like(laws),
    }
    what = f"trees, K = {PATHS}, L = {DEPTH}, target only"
    # Read whole: the law where the walk ends; of the others, the drafted tokens alone.
    size = batch * vocab * laws.element_size()

    def number(_: object) -> Tensor:
        return given["accept_token_num"]

    ours = sglang.tree_speculative_sampling_target_only
    yield Work(what, "otspec, as SGLang", lambda: ours(**given), size, number)
    if there("sglang", device):
        # Theirs marks in draft_probs what it refuses.  The engine hands it new zeros each time.
        yield Work(what, "SGLang, zeros at hand", lambda: own("sglang")(**given), size)
        zeros = given["draft_probs"]
        yield Work(
            what,
            "SGLang",
            lambda: own("sglang")(**given | {"draft_probs": torch.zeros_like(zeros)}),
            size,
            number,
        )


def _emitted(found: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The drafted tokens that flashinfer's function puts out; the second count is of tokens tested by themselves."""
    return found[2]


def _before_the_last(tokens: Tensor) -> Tensor:
    """How many of the tokens that vLLM's function puts out were drafted."""
    return (tokens != vllm.PLACEHOLDER).sum(dim=1) - 1
