"""How problems of the buckets are cut for Triton's kernels, and where they are worked on; nothing here imports Triton.

A problem has some 12 000 buckets with a dozen numbers each.  They are cut into chunks, a program to each, and the way
to the solution into steps, a launch to each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.buckets.buckets import FINEST, LADDER, LEVEL_STEP, OCTAVES, count

TILE, POINTS = 1024, 128
"""Buckets of one program, and how many of their points it holds against all slopes together."""
WARPS = {"find_heights": 8}
"""Of programs that have more to do than others, which have 4."""
WAVE = 256
"""Problems that are solved together: a megabyte and a half for each."""
PLANES = LONGS, FLOATS, TABLES = 12, 2, 10
"""Of a problem, as `chunk_kernels` names them: of integers, of floats, and tables of its running sums."""
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
    "allocate": (*_CHUNKS, *_SLOPES, "CHUNKS"),
    "contribute": (*_CHUNKS, *_SEARCHES),
    "add_to_buckets": _BUCKETS,
    "pick": (*_BUCKETS, *_CHUNKS, *_SEARCHES),
    "sum_left": _BUCKETS,
}
"""Of `of_buckets`, what kernels take: the steps here, and others that have to do with buckets."""


class Cut(NamedTuple):
    """How the COLUMNS buckets of a problem are cut into chunks: constants of a kernel, as it hands them on."""

    COLUMNS: int
    TILE: int
    """Buckets of a chunk."""
    CHUNKS: int
    CARRIES: int
    """Entries of a table: a power of two that is more than the number of chunks."""
    ROUNDS: int
    """Of a search within a chunk."""
    CHUNK_ROUNDS: int
    """Of a search for the chunk."""


class Planes(NamedTuple):
    """The arrays of one problem, as a kernel hands them on: where they begin."""

    longs: Tensor
    """Shape (LONGS, COLUMNS), int64."""
    floats: Tensor
    """Shape (FLOATS, COLUMNS), float64."""
    tables: Tensor
    """Shape (TABLES, CARRIES), int64."""


class Chunked(NamedTuple):
    """A running sum within chunks, beside a table of what ran up before each chunk."""

    sums: Tensor
    """Shape (COLUMNS,), int64."""
    table: Tensor
    """Shape (CARRIES,), int64."""


class Problems(NamedTuple):
    """A list of M problems at most."""

    fields: Tensor
    """Shape (fields, M), int64: as `token_wise.walk_kernels` numbers them."""
    listed: Tensor
    """Shape (1,), int64: how many there are."""
    most: int
    """A bound on all numbers of drafts."""


class Workspace(NamedTuple):
    """Where a wave of W problems is worked on, and what is left of it: see `chunk_kernels`."""

    longs: Tensor
    """Shape (W, LONGS, COLUMNS), int64."""
    floats: Tensor
    """Shape (W, FLOATS, COLUMNS), float64."""
    tables: Tensor
    """Shape (W, TABLES, CARRIES), int64."""
    heights: Tensor
    """Shape (W, CHUNKS, SLOPE_LANES), float64: how high each chunk reaches above a line of each slope."""
    tops: Tensor
    """Shape (W, CHUNKS, SLOPE_LANES), int64: where."""
    vertices: Tensor
    """Shape (W, CHUNKS, SLOPE_LANES), int64: of the majorant, for each chunk."""


def workspace_for(problems: int, most: int, device: torch.device) -> Workspace:
    """For so many problems at a time, of so many drafts at most."""
    fixed = of_buckets(most)
    columns, carries, chunks = fixed["COLUMNS"], fixed["CARRIES"], fixed["CHUNKS"]
    longs = torch.empty((problems, LONGS, columns), dtype=torch.int64, device=device)
    floats = torch.empty((problems, FLOATS, columns), dtype=torch.float64, device=device)
    tables = torch.empty((problems, TABLES, carries), dtype=torch.int64, device=device)
    heights = torch.empty((problems, chunks, fixed["SLOPE_LANES"]), dtype=torch.float64, device=device)
    tops, vertices = torch.empty((2, *heights.shape), dtype=torch.int64, device=device)
    return Workspace(longs, floats, tables, heights, tops, vertices)


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


def taken_by(step: str, most: int) -> dict[str, Any]:
    """What of it one of the kernels takes."""
    fixed = of_buckets(most)
    return {name: fixed[name] for name in TAKES[step]}
