"""A walk down a drafted tree against the target alone, by Triton: SGLang's function, with its arguments.

There are two walks because they are not one rule.  `rules.token_wise` knows the law that drafts were drawn from, and
judges the drafts of a text by their own uniforms, all together.  Here there is no such law: one coin of a node decides
among its children, in their order, by sums of p, with SGLang's thresholds; and the places that it writes to are those
of SGLang.  What both do where a walk has ended is shared: the chunk that a draw falls into, and the token in it
(`reading_kernels.chunk_of`, `drawn_from`).  What is left of p is not: here p less the refused tokens, over a total that
has to be known before units are made; there (p - g)+ in units.

Shapes: B trees of N = NODES nodes, deepest D; laws of V tokens in chunks of BLOCK.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.engines.walk import Coins, Filled
from otspec.verification.tensors.reading import BLOCK, EXACT, lanes
from otspec.verification.tensors.reading_kernels import chunk_of, drawn_from, units_of
from otspec.verification.trees.layout import Links


class Ended(NamedTuple):
    """Where walks have ended, as kernels hand it on."""

    probs: Tensor
    """Shape (B, N, V): all target laws."""
    last: Tensor
    """Shape (B,), int64: the last node that is accepted."""
    refused: Tensor
    """Shape (B, N), int64: the tokens of its children that were refused."""
    refusals: Tensor
    """Shape (B,), int64: how many they are."""


@triton.jit
def walk(
    probs,  # (B, N, V)
    candidates, index, child_of, sibling_of, coins,  # (B, N)
    threshold_single, threshold_acc,  # scalars
    predicts,  # (B * N,)
    accept_index,  # (B, D + 1)
    accepted_num, last, place_of,  # (B,)
    refused,  # (B, N)
    refusals,  # (B,)
    vocab, deepest,  # scalars: V, D
    NODES: tl.constexpr,
):  # fmt: skip
    """Which nodes of a tree are accepted; the last one, where it stands, and its children that were refused."""
    row = tl.program_id(0)
    start = row * NODES
    parent = tl.zeros((), dtype=tl.int64)
    accepted = tl.zeros((), dtype=tl.int64)
    count = tl.zeros((), dtype=tl.int64)
    passed = tl.zeros((), dtype=tl.float64)
    child = tl.load(child_of + start).to(tl.int64)
    place = tl.load(index + start).to(tl.int64)
    tl.store(accept_index + row * (deepest + 1), place)
    for _ in range(NODES - 1):  # no node is looked at twice
        going = (child >= 0) & (accepted < deepest)
        node = tl.maximum(child, 0)
        token = tl.load(candidates + start + node)
        chance = tl.load(probs + (start + parent) * vocab + token).to(tl.float64)
        passed = tl.where(going, passed + chance, passed)
        coin = tl.load(coins + start + parent).to(tl.float64)
        # Strictly below, so that no coin accepts a token of probability 0; `threshold_single` = 0 does.
        taken = going & ((coin * threshold_acc < passed) | (chance >= threshold_single))
        passed_by = going & (taken == 0)
        tl.store(refused + start + count, token, mask=passed_by)
        tl.store(predicts + place, token, mask=taken)
        accepted = tl.where(taken, accepted + 1, accepted)
        place = tl.where(taken, tl.load(index + start + node).to(tl.int64), place)
        tl.store(accept_index + row * (deepest + 1) + accepted, place, mask=taken)
        below, beside = tl.load(child_of + start + node).to(tl.int64), tl.load(sibling_of + start + node).to(tl.int64)
        count = tl.where(taken, 0, tl.where(passed_by, count + 1, count))
        passed = tl.where(taken, 0.0, passed)
        parent = tl.where(taken, node, parent)
        child = tl.where(taken, below, tl.where(passed_by, beside, child))
    tl.store(accepted_num + row, accepted)
    tl.store(last + row, parent)
    tl.store(place_of + row, place)
    tl.store(refusals + row, count)


@triton.jit
def left_at(
    ended,  # `Ended`
    row,  # scalar
    tokens,  # (BLOCK,)
    vocab,  # scalar
    NODES: tl.constexpr,
):  # fmt: skip
    """What is left at the last node: p without the refused tokens, and p; float64, of some tokens."""
    node = row * NODES + tl.load(ended.last + row)
    whole = tl.load(ended.probs + node * vocab + tokens, mask=tokens < vocab, other=0.0).to(tl.float64)
    left = whole
    for i in range(tl.load(ended.refusals + row)):
        left = tl.where(tokens == tl.load(ended.refused + row * NODES + i), 0.0, left)
    return left, whole


@triton.jit
def sum_left(
    probs,  # (B, N, V)
    last,  # (B,)
    refused,  # (B, N)
    refusals,  # (B,)
    rest, total,  # (B, chunks)
    vocab,  # scalar
    NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of `left_at` over each chunk of the last node's law, float64."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    left, whole = left_at(Ended(probs, last, refused, refusals), row, tokens, vocab, NODES)
    tl.store(rest + row * tl.num_programs(1) + chunk, tl.sum(left))
    tl.store(total + row * tl.num_programs(1) + chunk, tl.sum(whole))


@triton.jit
def mass_left(
    ended,  # `Ended`
    scale, spent,  # (B,)
    row,  # scalar
    tokens,  # (BLOCK,)
    vocab,  # scalar
    NODES: tl.constexpr,
):  # fmt: skip
    """What a token is drawn from, over its total: p itself where nothing is left."""
    left, whole = left_at(ended, row, tokens, vocab, NODES)
    return tl.where(tl.load(spent + row) != 0, whole, left) * tl.load(scale + row)


@triton.jit
def count_left(
    probs,  # (B, N, V)
    last,  # (B,)
    refused,  # (B, N)
    refusals, scale, spent,  # (B,)
    sums,  # (B, chunks)
    vocab,  # scalar
    NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of `mass_left` over each chunk, in units."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    mass = mass_left(Ended(probs, last, refused, refusals), scale, spent, row, tokens, vocab, NODES)
    tl.store(sums + row * tl.num_programs(1) + chunk, tl.sum(units_of(mass)))


@triton.jit
def draw_left(
    probs,  # (B, N, V)
    last,  # (B,)
    refused,  # (B, N)
    refusals, scale, spent,  # (B,)
    sums,  # (B, chunks)
    uniforms, place_of,  # (B,)
    predicts,  # (B * N,)
    vocab, chunks,  # scalars
    NODES: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The token after the last node, written at its place."""
    row = tl.program_id(0)
    lanes = tl.arange(0, LANES)
    units = tl.load(sums + row * chunks + lanes, mask=lanes < chunks, other=0)
    total = tl.sum(units)
    chunk, point = chunk_of(units, lanes, total, tl.load(uniforms + row).to(tl.float64), chunks)
    start = chunk * BLOCK
    tokens = start + tl.arange(0, BLOCK)
    mass = mass_left(Ended(probs, last, refused, refusals), scale, spent, row, tokens, vocab, NODES)
    drawn = drawn_from(units_of(mass), start, point)
    tl.store(predicts + tl.load(place_of + row), tl.minimum(drawn, vocab - 1))


def walk_down_by_kernels(tokens: Tensor, links: Links, target: Tensor, coins: Coins, filled: Filled) -> None:
    """`walk.walk_down`, to the last bit but for sums of floats.

    Parameters
    ----------
    tokens : Tensor of int64, shape (B, N)
    links : Links
    target : Tensor, shape (B, N, V)
        Target laws at the nodes.
    coins : Coins
    filled : Filled
        `predicts` and `accept_index` have to be contiguous.
    """
    (rows, nodes), vocab, device = tokens.shape, target.shape[2], tokens.device
    chunks = -(-vocab // BLOCK)
    probs = target.contiguous()
    last, place, refusals, accepted = torch.empty((4, rows), dtype=torch.int64, device=device)
    refused = torch.empty((rows, nodes), dtype=torch.int64, device=device)
    walk[(rows,)](
        probs, *(part.contiguous() for part in (tokens, filled.places, *links[:2], coins.each)), coins.threshold_single,
        coins.threshold_acc, filled.predicts, filled.accept_index, accepted, last, place, refused, refusals, vocab,
        filled.accept_index.shape[1] - 1, NODES=nodes, **EXACT,
    )  # fmt: skip
    filled.accepted.copy_(accepted)
    ended = Ended(probs, last, refused, refusals)
    rest, whole = torch.empty((2, rows, chunks), dtype=torch.float64, device=device)
    sum_left[(rows, chunks)](*ended, rest, whole, vocab, NODES=nodes, BLOCK=BLOCK, **EXACT)
    left, total = rest.sum(dim=1), whole.sum(dim=1)
    spent = ~(left > 0)  # every token was refused, by rounding
    scale = 1.0 / torch.where(spent, total, left)
    sums = torch.empty((rows, chunks), dtype=torch.int64, device=device)
    given = (*ended, scale, spent.view(torch.int8))
    count_left[(rows, chunks)](*given, sums, vocab, NODES=nodes, BLOCK=BLOCK, **EXACT)
    draw_left[(rows,)](
        *given, sums, coins.last.contiguous(), place, filled.predicts, vocab, chunks,
        NODES=nodes, BLOCK=BLOCK, LANES=lanes(chunks), **EXACT,
    )  # fmt: skip
