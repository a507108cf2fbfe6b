"""What the rows of a pass over a cache of fixed size see, by one kernel of Triton, where torch's operations are ten."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024
"""Columns of one program."""


@triton.jit
def show(
    length, end,  # (B,), (1,), int64: tokens read of each text, and columns that are settled
    sees, of_text, of_row, of_column,  # (B or 1, N, stop), and its strides: which columns on trial a row attends to
    mask,  # (B, N, COLUMNS)
    stop,  # columns on trial
    COLUMNS: tl.constexpr, HIDDEN: tl.constexpr, ALL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of columns of a row: 0 for its own text, and for what it sees on trial, or all of that if ALL."""
    text, row = tl.program_id(0), tl.program_id(1)
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    since = column - tl.load(end)
    seen = (since >= 0) & (since < stop)
    if not ALL:
        seen = seen & tl.load(sees + text * of_text + row * of_row + since * of_column, mask=seen, other=0).to(tl.int1)
    shown = tl.where((column < tl.load(length + text)) | seen, 0.0, HIDDEN).to(mask.dtype.element_ty)
    tl.store(mask + (text * tl.num_programs(1) + row) * COLUMNS + column, shown, mask=column < COLUMNS)


def mask_of(
    length: torch.Tensor,
    end: torch.Tensor,
    sees: torch.Tensor | None,
    rows: int,
    stop: int,
    columns: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """What is added to scores, shape (B, 1, rows, columns).

    Parameters are those of `show`; `sees` is None where rows see all of the first `stop` columns on trial.
    """
    mask = torch.empty((len(length), 1, rows, columns), dtype=dtype, device=end.device)
    strides = (0, 0, 0) if sees is None else (sees.stride(0) * (len(sees) > 1), sees.stride(1), sees.stride(2))
    show[(len(length), rows, -(-columns // BLOCK))](
        length, end, end if sees is None else sees, *strides, mask, stop,
        COLUMNS=columns, HIDDEN=torch.finfo(dtype).min, ALL=sees is None, BLOCK=BLOCK,
    )  # fmt: skip
    return mask
