"""Laws in float64 of few rows of logits, and draws from them, by Triton, in two kernels of many programs each.

torch gives a row one program, which takes 37 us of a GPU at V = 49 152; the two of a softmax take 6.  Its draws are
running sums and a search, twelve kernels and more where there are four rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024
"""Tokens of one program."""


@triton.jit
def sum_block(
    logits,  # (R, VOCAB)
    high, total,  # (R, BLOCKS), float64: of each block the highest logit, and the sum of exponentials relative to it
    VOCAB: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of a row; NaN and plus infinity make the sum NaN."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    scores = tl.load(logits + row * VOCAB + token, mask=token < VOCAB, other=-float("inf")).to(tl.float64)
    most = tl.max(scores, axis=0)
    summed = tl.sum(tl.exp(scores - tl.where(most == -float("inf"), 0.0, most)), axis=0)
    tl.store(high + row * BLOCKS + block, most)
    tl.store(total + row * BLOCKS + block, summed)


@triton.jit
def divide_block(
    logits, high, total,  # as above
    laws,  # (R, VOCAB), float64
    VOCAB: tl.constexpr, BLOCKS: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Probabilities of a block of a row; NaN if a sum is, or every logit of the row is minus infinity."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, LANES)
    there = lane < BLOCKS
    highs = tl.load(high + row * BLOCKS + lane, mask=there, other=-float("inf"))
    totals = tl.load(total + row * BLOCKS + lane, mask=there, other=0.0)
    most = tl.max(highs, axis=0)
    summed = tl.sum(totals * tl.exp(highs - most), axis=0)
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    scores = tl.load(logits + row * VOCAB + token, mask=token < VOCAB, other=0.0).to(tl.float64)
    tl.store(laws + row * VOCAB + token, tl.exp(scores - most) / summed, mask=token < VOCAB)


def softmax(logits: torch.Tensor) -> torch.Tensor:
    """Laws of rows of logits, shape (R, V), float64; NaN where a row has NaN or infinity, or minus infinity alone."""
    logits = logits.contiguous()
    rows, vocab = logits.shape
    blocks = -(-vocab // BLOCK)
    high, total = torch.empty((2, rows, blocks), dtype=torch.float64, device=logits.device)
    laws = torch.empty((rows, vocab), dtype=torch.float64, device=logits.device)
    fixed = {"VOCAB": vocab, "BLOCKS": blocks, "BLOCK": BLOCK, "enable_fp_fusion": False}
    sum_block[(rows, blocks)](logits, high, total, **fixed)
    divide_block[(rows, blocks)](logits, high, total, laws, LANES=1 << (blocks - 1).bit_length(), **fixed)
    return laws


@triton.jit
def add_block(
    laws,  # (R, VOCAB), float64
    total,  # (R, BLOCKS), float64: the sum of each block
    VOCAB: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of a row."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    mass = tl.load(laws + row * VOCAB + token, mask=token < VOCAB, other=0.0)
    tl.store(total + row * BLOCKS + block, tl.sum(mass, axis=0))


@triton.jit
def draw_one(
    laws, total,  # as above
    uniforms,  # (R, N), float64, below 1
    tokens,  # (R, N), int64
    VOCAB: tl.constexpr, BLOCKS: tl.constexpr, N: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One draw: the first block that reaches a share of the row's sum, and in it the first token that does."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, LANES)
    sums = tl.load(total + row * BLOCKS + lane, mask=lane < BLOCKS, other=0.0)
    reached = tl.cumsum(sums, axis=0)
    wanted = tl.load(uniforms + row * N + tl.program_id(1)) * tl.sum(sums, axis=0)
    # Sums round apart: what nothing reaches is of the last block that has some.
    last = tl.max(tl.where(sums > 0, lane, 0), axis=0)
    block = tl.min(tl.where((reached > wanted) & (sums > 0), lane, last), axis=0)
    before = tl.sum(tl.where(lane < block, sums, 0.0), axis=0)
    place = tl.arange(0, BLOCK)
    token = block * BLOCK + place
    mass = tl.load(laws + row * VOCAB + token, mask=token < VOCAB, other=0.0)
    last = tl.max(tl.where(mass > 0, place, 0), axis=0)
    found = tl.min(tl.where((tl.cumsum(mass, axis=0) > wanted - before) & (mass > 0), place, last), axis=0)
    tl.store(tokens + row * N + tl.program_id(1), block * BLOCK + found)


def draw(laws: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Tokens of positive probability, shape (R, n), drawn from laws, (R, V), by numbers in [0, 1), (R, n), float64.

    Where a law is NaN, or has no token, that is token 0.
    """
    laws, (rows, vocab) = laws.contiguous(), laws.shape
    blocks = -(-vocab // BLOCK)
    total = torch.empty((rows, blocks), dtype=torch.float64, device=laws.device)
    tokens = torch.empty(uniforms.shape, dtype=torch.int64, device=laws.device)
    fixed = {"VOCAB": vocab, "BLOCKS": blocks, "BLOCK": BLOCK}
    add_block[(rows, blocks)](laws, total, **fixed)
    lanes = 1 << (blocks - 1).bit_length()
    draw_one[tuple(uniforms.shape)](laws, total, uniforms, tokens, N=uniforms.shape[1], LANES=lanes, **fixed)
    return tokens


@triton.jit
def best_of_block(
    laws,  # (R, VOCAB), float64
    mass, token,  # (R, BLOCKS, N): of each block its largest probabilities, and their tokens
    VOCAB: tl.constexpr, BLOCKS: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of a row; of equal ones the lowest token first."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    mine = block * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(laws + row * VOCAB + mine, mask=mine < VOCAB, other=-1.0)
    for rank in tl.static_range(N):
        most = tl.max(left, axis=0)
        first = tl.min(tl.where(left == most, mine, VOCAB), axis=0)
        tl.store(mass + (row * BLOCKS + block) * N + rank, most)
        tl.store(token + (row * BLOCKS + block) * N + rank, first)
        left = tl.where(mine == first, -1.0, left)


@triton.jit
def best_of_row(
    mass, token,  # as above
    tokens,  # (R, N), int64
    VOCAB: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The best of all blocks; -1 where nothing is left that has a probability."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, LANES)
    left = tl.load(mass + row * COUNT + lane, mask=lane < COUNT, other=-1.0)
    mine = tl.load(token + row * COUNT + lane, mask=lane < COUNT, other=VOCAB)
    for rank in tl.static_range(N):
        most = tl.max(left, axis=0)
        first = tl.min(tl.where(left == most, mine, VOCAB), axis=0)
        tl.store(tokens + row * N + rank, tl.where(most > 0, first, -1))
        left = tl.where(mine == first, -1.0, left)


def likeliest(laws: torch.Tensor, n: int) -> torch.Tensor:
    """The n likeliest tokens of laws, (R, V), the first ones first, shape (R, n); -1 for those of probability 0."""
    laws, (rows, vocab) = laws.contiguous(), laws.shape
    blocks = -(-vocab // BLOCK)
    mass = torch.empty((rows, blocks, n), dtype=torch.float64, device=laws.device)
    token, tokens = (torch.empty(shape, dtype=torch.int64, device=laws.device) for shape in (mass.shape, (rows, n)))
    best_of_block[(rows, blocks)](laws, mass, token, VOCAB=vocab, BLOCKS=blocks, N=n, BLOCK=BLOCK)
    lanes = 1 << (blocks * n - 1).bit_length()
    best_of_row[(rows,)](mass, token, tokens, VOCAB=vocab, COUNT=blocks * n, N=n, LANES=lanes)
    return tokens
