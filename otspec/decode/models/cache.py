"""Keys and values of a transformers cache: which of them to keep."""

from __future__ import annotations

import numpy as np
import torch
from transformers import DynamicCache

from otspec.laws import IntArray


def retain(cache: DynamicCache, rows: IntArray, columns: IntArray) -> None:
    """Keep these entries of a cache, in this order.

    Parameters
    ----------
    cache : DynamicCache
        Of tensors (batch, heads, columns, size).
    rows : ndarray of int, shape (B,)
        Which sequences of the batch to keep, ascending.
    columns : ndarray of int, shape (B, S)
        Which of its columns each of them keeps.  What comes first and stays where it is is not moved.
    """
    width = columns.shape[1]
    changed = np.flatnonzero((columns != np.arange(width)).any(axis=0))
    start = int(changed[0]) if changed.size else width
    device = cache.layers[0].keys.device
    kept, index = torch.as_tensor(rows, device=device), torch.as_tensor(columns[:, None, start:, None], device=device)

    def change(entries: torch.Tensor) -> torch.Tensor:
        if len(rows) < len(entries):
            entries = entries.index_select(0, kept.to(entries.device))
        if start < width:
            entries[:, :, start:width] = entries.take_along_dim(index.to(entries.device), dim=2)
        return entries[:, :, :width]

    for layer in cache.layers:
        layer.keys, layer.values = change(layer.keys), change(layer.values)
