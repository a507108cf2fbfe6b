"""The problems of the buckets by Triton's kernels: many of them, of numbers of drafts that differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.buckets.buckets import FINEST, LADDER, LEVEL_STEP, OCTAVES, count
from otspec.verification.tensors.reading import BLOCK, EXACT, Rows, kernels_for, spread

TILE, POINTS = 1024, 128
"""Buckets of one program, and how many of their points it holds against all slopes together."""
WARPS = {"find_heights": 8}
"""Of programs that have more to do than others, which have 4."""
_BUCKETS = ("COUNT", "BITS")
_CHUNKS = ("COLUMNS", "TILE", "CARRIES")
_SEARCHES = ("ROUNDS", "CHUNKS", "CHUNK_ROUNDS")
_SLOPES = ("SLOPES", "SLOPE_LANES", "SLOPE_ROUNDS")
_LADDER = ("OCTAVES", "FINEST")
TAKES = {
    "clear": _CHUNKS,
    "add_up": _CHUNKS,
    "find_heights": (*_CHUNKS, *_LADDER, "BITS_OF_N", "CHUNKS", "SLOPE_LANES", "POINTS"),
    "find_excess": (*_CHUNKS, *_LADDER, *_SLOPES, "BITS_OF_N", "CHUNKS"),
    "find_offers": (*_CHUNKS, "STEPS", "CHUNKS", "LEVEL", "SLOPE_LANES"),
    "grant": (*_CHUNKS, *_SLOPES, "CHUNKS"),
    "stake": (*_CHUNKS, *_SEARCHES),
    "add_to_buckets": _BUCKETS,
    "pick": (*_BUCKETS, *_CHUNKS, *_SEARCHES),
    "sum_left": _BUCKETS,
}
"""Of `of_buckets`, what kernels take: the steps here, and others that have to do with buckets."""
WAVE = 256
"""Problems that are solved together: a megabyte and a half for each."""


class Problems(NamedTuple):
    """A list of problems."""

    fields: Tensor
    """Shape (fields, M), int64: as `token_kernels` numbers them."""
    listed: Tensor
    """Shape (1,), int64: how many there are, M at most."""
    most: int
    """What no number of drafts exceeds."""


class Room(NamedTuple):
    """Where a wave of problems is worked on, and what is left of it: see `bucket_kernels`."""

    longs: Tensor
    floats: Tensor
    tables: Tensor
    heights: Tensor
    tops: Tensor
    vertices: Tensor


def room_for(problems: int, most: int, device: torch.device) -> Room:
    """For so many problems at a time, of so many drafts at most."""
    kernels, fixed = _kernels(), of_buckets(most)
    columns, carries, chunks = fixed["COLUMNS"], fixed["CARRIES"], fixed["CHUNKS"]
    longs = torch.empty((problems, kernels.LONGS.value, columns), dtype=torch.int64, device=device)
    floats = torch.empty((problems, kernels.FLOATS.value, columns), dtype=torch.float64, device=device)
    tables = torch.empty((problems, kernels.TABLES.value, carries), dtype=torch.int64, device=device)
    heights = torch.empty((problems, chunks, fixed["SLOPE_LANES"]), dtype=torch.float64, device=device)
    tops, vertices = torch.empty((2, *heights.shape), dtype=torch.int64, device=device)
    return Room(longs, floats, tables, heights, tops, vertices)


def fill(
    room: Room, problems: Problems, start: int, rows: tuple[Tensor, Tensor], target: Rows, draft: Rows, logits: bool
) -> None:
    """Put the laws of a wave into buckets.

    Parameters
    ----------
    room : Room
    problems : Problems
    start : int
        The first problem of the wave.
    rows : pair of Tensor of int64, shape (M,)
        Of the target and the draft, of each problem.
    target, draft : Rows
    logits : bool
        Whether values are logits.
    """
    kernels = _kernels()
    held, stride = room.longs.shape[0], room.longs.stride(0)
    vocab = target.read.values.shape[1]
    _run("clear", room, problems.most, problems.listed, start, room.longs, room.tables)
    kernels_for(target.read.values).add_to_buckets[(held, -(-vocab // BLOCK))](
        *spread(target), *spread(draft), *rows, problems.listed, start,
        room.longs[:, kernels.TARGET.value], room.longs[:, kernels.SIZE.value], stride, vocab,
        LOGITS=logits, **taken_by("add_to_buckets", problems.most), BLOCK=BLOCK, **EXACT,
    )  # fmt: skip


def solve(room: Room, problems: Problems, drafts: Tensor, start: int, factor: Tensor) -> None:
    """`otspec.verification.rules.buckets.buckets.solve_buckets` for the buckets of a wave, to the last bit.

    Parameters
    ----------
    room : Room
        As `fill` leaves it.
    problems : Problems
    drafts : Tensor of int64, shape (M,)
        How many there are of each problem.
    start : int
        The first problem of the wave.
    factor : Tensor of float64, shape (M, buckets + 1)
        Where g/q of the buckets goes.
    """
    sums = (problems.listed, start, room.longs, room.tables)
    numbers = (problems.listed, start, room.longs, room.floats, room.tables)
    marks = room.heights, room.tops
    _run("add_up", room, problems.most, *sums)
    _run("find_heights", room, problems.most, drafts, *sums, *marks)
    _run("find_excess", room, problems.most, drafts, *numbers, *marks, room.vertices)
    _run("find_offers", room, problems.most, *sums, room.vertices)
    _run("grant", room, problems.most, *numbers, room.vertices, factor)
    _run("stake", room, problems.most, *numbers)


def of_buckets(most: int) -> dict[str, int]:
    """What is fixed when kernels are compiled for problems of so many drafts at most."""
    columns = count(most) + 1
    chunks = -(-columns // TILE)
    lanes = 1 << len(LADDER).bit_length()
    slopes = {"OCTAVES": OCTAVES, "FINEST": FINEST, "SLOPES": len(LADDER), "SLOPE_LANES": lanes, "LEVEL": LEVEL_STEP}
    slopes["SLOPE_ROUNDS"] = lanes.bit_length() - 1
    tiles = {"TILE": TILE, "STEPS": TILE.bit_length() - 1, "POINTS": POINTS, "CHUNKS": chunks}
    tiles["CARRIES"] = 1 << chunks.bit_length()
    digits = {"BITS": buckets.BITS, "BITS_OF_N": most.bit_length()}
    tiles |= {"ROUNDS": (TILE - 1).bit_length(), "CHUNK_ROUNDS": chunks.bit_length()}
    return {**digits, "COUNT": columns - 1, "COLUMNS": columns, **slopes, **tiles}


def taken_by(step: str, most: int) -> dict[str, int]:
    """What of it one of the kernels takes."""
    fixed = of_buckets(most)
    return {name: fixed[name] for name in TAKES[step]}


def _run(step: str, room: Room, most: int, *given: Any) -> None:
    """A program to each chunk of each problem."""
    from otspec.verification.rules.buckets import lottery_kernels

    kernels = lottery_kernels if step == "stake" else _kernels()
    getattr(kernels, step)[(room.longs.shape[0], of_buckets(most)["CHUNKS"])](
        *given, **taken_by(step, most), num_warps=WARPS.get(step, 4), **EXACT
    )


def _kernels() -> Any:
    from otspec.verification.rules.buckets import bucket_kernels

    return bucket_kernels
