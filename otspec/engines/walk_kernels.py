"""Triton kernels of a walk down a drafted tree, against the target alone."""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.tensors.reading_kernels import units_of


@triton.jit
def walk(
    probs, candidates, index, child_of, sibling_of, coins, threshold_single, threshold_acc,
    predicts, accept_index, accepted_num, last, place_of, refused, refusals, vocab, deepest,
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
        taken = going & ((coin * threshold_acc < passed) | (chance >= threshold_single)) & (chance > 0)
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
def left_at(probs, last, refused, refusals, row, tokens, vocab, NODES: tl.constexpr):
    """What is left at the last node: p without the refused tokens, and p; float64, of some tokens."""
    node = row * NODES + tl.load(last + row)
    whole = tl.load(probs + node * vocab + tokens, mask=tokens < vocab, other=0.0).to(tl.float64)
    left = whole
    for i in range(tl.load(refusals + row)):
        left = tl.where(tokens == tl.load(refused + row * NODES + i), 0.0, left)
    return left, whole


@triton.jit
def sum_left(probs, last, refused, refusals, rest, total, vocab, NODES: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of `left_at` over each chunk of the last node's law, shape (B, chunks), float64."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    left, whole = left_at(probs, last, refused, refusals, row, tokens, vocab, NODES)
    tl.store(rest + row * tl.num_programs(1) + chunk, tl.sum(left))
    tl.store(total + row * tl.num_programs(1) + chunk, tl.sum(whole))


@triton.jit
def count_left(
    probs, last, refused, refusals, scale, spent, sums, vocab, NODES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """What a token is drawn from, over each chunk, in units of its total; shape (B, chunks)."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    left, whole = left_at(probs, last, refused, refusals, row, tokens, vocab, NODES)
    mass = tl.where(tl.load(spent + row) != 0, whole, left) * tl.load(scale + row)
    tl.store(sums + row * tl.num_programs(1) + chunk, tl.sum(units_of(mass)))


@triton.jit
def draw_left(
    probs, last, refused, refusals, scale, spent, sums, uniforms, place_of, predicts, vocab, chunks,
    NODES: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The token after the last node, written at its place."""
    row = tl.program_id(0)
    lanes = tl.arange(0, LANES)
    inside = lanes < chunks
    units = tl.load(sums + row * chunks + lanes, mask=inside, other=0)
    total = tl.sum(units)
    point = tl.minimum((tl.load(uniforms + row).to(tl.float64) * total.to(tl.float64)).to(tl.int64), total - 1)
    chunk = tl.minimum(tl.sum(((tl.cumsum(units, 0) <= point) & inside).to(tl.int64)), chunks - 1)
    point = point - tl.sum(tl.where(lanes < chunk, units, 0))
    start = chunk * BLOCK
    left, whole = left_at(probs, last, refused, refusals, row, start + tl.arange(0, BLOCK), vocab, NODES)
    mass = tl.where(tl.load(spent + row) != 0, whole, left) * tl.load(scale + row)
    drawn = start + tl.sum((tl.cumsum(units_of(mass), 0) <= point).to(tl.int64))
    tl.store(predicts + tl.load(place_of + row), tl.minimum(drawn, vocab - 1))
