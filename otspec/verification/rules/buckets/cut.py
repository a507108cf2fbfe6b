"""How problems of the buckets are cut for Triton's kernels, and where they are worked on.

A problem has some 12 000 buckets with a dozen numbers each.  They are cut into chunks, a program to each, and the way
to the solution into steps, a launch to each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.buckets.buckets import LADDER, count

TILE, POINTS = tl.constexpr(1024), tl.constexpr(128)
"""Buckets of one program, and how many of their points it holds against all slopes together."""
ROUNDS = tl.constexpr(10)
"""Of a search within these buckets: they are 2 to this power."""
SLOPES, SLOPE_LANES = tl.constexpr(len(LADDER)), tl.constexpr(1 << len(LADDER).bit_length())
WAVE = 256
"""Problems that are solved together: a megabyte and a half for each."""
PLANES = LONGS, FLOATS, TABLES = 12, 2, 10
"""Of a problem, as `chunk_kernels` names them: of integers, of floats, and tables of its running sums."""


class Cut(NamedTuple):
    """How the COLUMNS buckets of a problem are cut into chunks: constants of a kernel, as it hands them on."""

    COLUMNS: int
    CHUNKS: int
    CARRIES: int
    """Entries of a table: a power of two that is more than the number of chunks."""
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


def cut_for(most: int) -> Cut:
    """How problems of so many drafts at most are cut."""
    columns = count(most) + 1
    chunks = -(-columns // TILE.value)
    return Cut(columns, chunks, 1 << chunks.bit_length(), chunks.bit_length())


def workspace_for(problems: int, most: int, device: torch.device) -> Workspace:
    """For so many problems at a time, of so many drafts at most."""
    columns, chunks, carries, _ = cut_for(most)
    longs = torch.empty((problems, LONGS, columns), dtype=torch.int64, device=device)
    floats = torch.empty((problems, FLOATS, columns), dtype=torch.float64, device=device)
    tables = torch.empty((problems, TABLES, carries), dtype=torch.int64, device=device)
    heights = torch.empty((problems, chunks, SLOPE_LANES.value), dtype=torch.float64, device=device)
    tops, vertices = torch.empty((2, *heights.shape), dtype=torch.int64, device=device)
    return Workspace(longs, floats, tables, heights, tops, vertices)
