"""The rule by buckets in Triton: two passes over the vocabulary for probabilities, and one more for logits.

The problem of the buckets, whose size does not depend on the vocabulary, is a kernel between them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.extras import installed, require
from otspec.verification.device.buckets import BITS, FINEST, GROUP, LADDER, OCTAVES, count
from otspec.verification.device.fixed_point import at, before, first_above, running

TRITON = installed("triton")
"""Looked up once: graphs are compiled from what asks for it."""
BLOCK = 1024
"""Tokens of one program."""
TILE, POINTS, WARPS = 2048, 128, 32
"""Buckets that a program looks at together, points that it holds against all slopes together, and its warps."""
EXACT = {"enable_fp_fusion": False}
"""Every product is rounded before it is added, as in torch: the same tokens come out to the last bit."""


class Reading(NamedTuple):
    """How rows of one law are read: values, and for each row what makes probabilities of them."""

    values: Tensor
    high: Tensor
    """Highest logit."""
    first: Tensor
    """The token that has it."""
    heat: Tensor
    """Temperature."""
    scale: Tensor
    """1 / total."""


class Rows(NamedTuple):
    """Rows of one law, and which of them can be read."""

    read: Reading
    sound: Tensor
    """Shape (R,): rows that are laws.  Kernels take others to be even."""


def runs_on(values: Tensor) -> bool:
    """Whether Triton's kernels are the way where these values are."""
    return values.device.type == "cuda" and TRITON


def read_law(law: Tensor, total: Tensor) -> Reading:
    """Rows of probabilities, given their totals in float64."""
    nothing = torch.zeros_like(total)
    return Reading(law.contiguous(), nothing, nothing.long(), nothing, 1.0 / total)


def read_logits(logits: Tensor, temperature: Tensor) -> Reading:
    """Rows of logits at temperatures of shape (B,), in float64."""
    logits = logits.contiguous()
    top = logits.max(dim=1)
    high = top.values.double()
    rows, vocab = logits.shape
    chunks = -(-vocab // BLOCK)
    sums = torch.empty((rows, chunks), dtype=torch.float64, device=logits.device)
    kernels_for(logits).sum_weights[(rows, chunks)](logits, high, temperature, sums, vocab, BLOCK=BLOCK, **EXACT)
    return Reading(logits, high, top.indices, temperature, torch.where(temperature > 0, 1.0 / sums.sum(dim=1), 1.0))


def verify_by_kernels(
    target: Reading, draft: Reading, sound: Tensor, drafts: Tensor, uniforms: Tensor, logits: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Output token of each row, which draft it is, or -1, and whether q can draw all drafts; shapes (B,).

    Parameters
    ----------
    target, draft : Reading
    sound : Tensor of bool, shape (B,)
        Rows that can be read.
    drafts : Tensor of int64, shape (B, n)
        Tokens.
    uniforms : Tensor of float64, shape (B, n + 1, 3)
        As `otspec.verification.device.buckets.verify_by_buckets` uses them.
    logits : bool
        Whether values are logits.
    """
    kernels = kernels_for(target.values)
    if drafts.shape[0] > GROUP:
        columns = (*target, *draft, sound, drafts, uniforms)
        groups = zip(*(tensor.split(GROUP) for tensor in columns), strict=True)
        found = [
            verify_by_kernels(Reading(*row[:5]), Reading(*row[5:10]), row[10], row[11], row[12], logits)
            for row in groups
        ]
        tokens, accepted, drawable = (torch.cat(parts) for parts in zip(*found, strict=True))
        return tokens, accepted, drawable
    (rows, n), vocab = drafts.shape, target.values.shape[1]
    chunks = -(-vocab // BLOCK)
    device = drafts.device
    shared = (*target, *draft, sound.to(torch.int8))
    fixed = {"LOGITS": logits, "COUNT": count(n), "BITS": BITS, **EXACT}

    p_at, q_at = (torch.empty((rows, n), dtype=torch.float64, device=device) for _ in range(2))
    ranks = torch.empty((rows, n), dtype=torch.int64, device=device)
    lanes = 1 << (n - 1).bit_length()
    kernels.look_up[(rows,)](*shared, drafts.contiguous(), p_at, q_at, ranks, n, vocab, **fixed, BLOCK=lanes)
    masses, sizes = (torch.zeros((rows, count(n) + 1), dtype=torch.int64, device=device) for _ in range(2))
    kernels.add_to_buckets[(rows, chunks)](*shared, masses, sizes, vocab, **fixed, BLOCK=BLOCK)

    solved = solve_by_kernel(masses, sizes, n)
    picked, accepted = (torch.empty((rows, 1), dtype=type_, device=device) for type_ in (torch.int64, torch.int8))
    _bucket_kernels().pick[(rows,)](
        ranks, p_at, q_at, uniforms.contiguous(), *solved, picked, accepted, n, **to_search(count(n) + 1),
        LANES=lanes, **EXACT,
    )  # fmt: skip
    accepted = accepted != 0

    rest, whole = (torch.empty((rows, chunks), dtype=torch.int64, device=device) for _ in range(2))
    kernels.sum_rest[(rows, chunks)](*shared, solved.factor, rest, whole, vocab, **fixed, BLOCK=BLOCK)
    left = running(rest)
    spent = left[:, -1:] == 0  # rejected, and nothing is left of p, by rounding: a draw from p itself
    sums = torch.where(spent, running(whole), left)
    total = sums[:, -1:]
    position = torch.minimum((uniforms[:, -1, 1:2] * total).to(torch.int64), total - 1)
    chunk = first_above(sums, position).clamp(max=chunks - 1)
    drawn = torch.empty_like(chunk)
    kernels.draw_rest[(rows,)](
        *shared, solved.factor, chunk, position - before(sums, chunk), spent.to(torch.int8), drawn, vocab,
        **fixed, BLOCK=BLOCK,
    )  # fmt: skip
    tokens = torch.where(accepted, at(drafts, picked), drawn)
    return tokens[:, 0], torch.where(accepted, picked, -1)[:, 0], (q_at > 0).all(dim=1)


class Solved(NamedTuple):
    """The solved problem of each row's buckets, as `bucket_kernels.pick` takes it; shapes (B, buckets + 1).

    The last eight are those of `otspec.verification.device.lotteries.Lotteries`, for one giver to a lottery.
    """

    factor: Tensor
    density: Tensor
    pivot: Tensor
    units: Tensor
    wanted: Tensor
    served: Tensor
    given: Tensor
    alone: Tensor
    heads: Tensor


def solve_by_kernel(target: Tensor, size: Tensor, n: int) -> Solved:
    """`otspec.verification.device.buckets.solve_buckets` in one kernel, to the last bit."""
    rows, columns = target.shape
    factor, density, pivot = torch.empty((3, rows, columns), dtype=torch.float64, device=target.device)
    room = torch.empty((11, rows, columns), dtype=torch.int64, device=target.device)
    units, wanted, served, given, alone, heads, *between = room
    vertices = torch.empty((rows, len(LADDER)), dtype=torch.int64, device=target.device)
    _bucket_kernels().solve[(rows,)](
        target, size, vertices, factor, density, pivot, units, *between, wanted, served, given, alone, heads,
        **of_buckets(n, columns), num_warps=WARPS, **EXACT,
    )  # fmt: skip
    return Solved(factor, density, pivot, units, wanted, served, given, alone, heads)


def to_search(columns: int) -> dict[str, int]:
    """What is fixed when `bucket_kernels.pick` is compiled, but for the lanes."""
    return {"COLUMNS": columns, "ROUNDS": columns.bit_length()}


def of_buckets(n: int, columns: int) -> dict[str, int]:
    """What is fixed when `bucket_kernels.solve` is compiled."""
    lanes = 1 << len(LADDER).bit_length()
    slopes = {"OCTAVES": OCTAVES, "FINEST": FINEST, "SLOPES": len(LADDER), "SLOPE_LANES": lanes}
    slopes["SLOPE_ROUNDS"] = lanes.bit_length() - 1
    tiles = {"TILE": TILE, "STEPS": TILE.bit_length() - 1, "POINTS": POINTS}
    return {"N": n, "BITS_OF_N": n.bit_length(), **to_search(columns), **slopes, **tiles}


def _bucket_kernels() -> Any:
    from otspec.verification.device import bucket_kernels

    return bucket_kernels


def kernels_for(values: Tensor):  # type: ignore[no-untyped-def]  # a module
    """The module of the kernels.

    Raises
    ------
    MissingExtra
        If Triton is not installed.
    ProblemError
        If the tensors are on a device that it does not run on.
    """
    if not TRITON:
        require("triton")
    if values.device.type == "cpu" and not require("triton").knobs.runtime.interpret:
        raise ProblemError(
            "by is 'triton', and the laws are on the CPU; move them to a GPU, pass by='buckets', or set "
            "TRITON_INTERPRET=1 to try the kernels out"
        )
    from otspec.verification.device import kernels

    return kernels
