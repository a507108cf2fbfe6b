"""Keys and values of a transformers cache: which of them to keep."""

from __future__ import annotations

import numpy as np
import torch
from transformers import DynamicCache

from otspec.laws import IntArray


def retain(cache: DynamicCache, rows: IntArray | None, columns: IntArray) -> None:
    """Keep these entries of a cache, in this order.

    Parameters
    ----------
    cache : DynamicCache
        Of tensors (batch, heads, columns, size).
    rows : ndarray of int, shape (B,), optional
        Which sequences of the batch to keep; None keeps all.
    columns : ndarray of int, shape (B, S)
        Which of its columns each of them keeps.  What comes first and stays where it is is not moved.
    """
    width = columns.shape[1]
    changed = np.flatnonzero((columns != np.arange(width)).any(axis=0))
    start = int(changed[0]) if changed.size else width

    def change(entries: torch.Tensor) -> torch.Tensor:
        if rows is not None:
            entries = entries.index_select(0, torch.as_tensor(rows, device=entries.device))
        if start < width:
            index = torch.as_tensor(columns[:, start:], device=entries.device)[:, None, :, None]
            entries[:, :, start:width] = entries.take_along_dim(index, dim=2)
        return entries[:, :, :width]

    for layer in cache.layers:
        layer.keys, layer.values = change(layer.keys), change(layer.values)
