"""What `benchmarks.gpu.verification` measures: rules for rows, chains and trees, on the same laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.engines.chains import verify_chains
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


def works(shape: Shape, batch: int, device: torch.device, seed: int = 0) -> Iterator[Work]:
    """All calls of one batch, the laws of one kind at a time; other seeds, other laws and drafts."""
    generator = torch.Generator(device).manual_seed(1000 * seed + batch)
    yield from _rows(shape.vocab, batch, device, generator)
    yield from _chains(shape.vocab, batch, device, generator)
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
    # Times of Triton's interpreter on a CPU mean nothing.
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
    tokens = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(batch, DEPTH)
    uniforms = torch.rand((batch, DEPTH + 1), dtype=torch.float64, device=device, generator=generator)
    yield Work(f"chains, L = {DEPTH}", "block", lambda: verify_chains(p, q, tokens, uniforms), p.nbytes + q.nbytes)


def _trees(vocab: int, batch: int, device: torch.device, generator: torch.Generator) -> Iterator[Work]:
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
        )
