"""Keys and values of what a model has read: tensors allocated ahead of need, written and settled in place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

SPARE = 64
"""Columns that a cache is first allocated for beyond those that are requested."""


class KVBlock:
    """Keys or values of layers of one shape, (layers, B, heads, capacity, size).

    Columns that nothing was written to are finite: what a mask hides of them is multiplied by zero.

    Parameters
    ----------
    layers : int
    like : Tensor, shape (B, heads, columns, size)
        What one of the layers is about to write first.
    """

    def __init__(self, layers: int, like: torch.Tensor) -> None:
        batch, heads, columns, size = like.shape
        self.entries = like.new_zeros(layers, batch, heads, columns + SPARE, size)

    def reserve(self, columns: int) -> None:
        """Make room for so many columns in all; a cache that grows at least doubles."""
        have = self.entries.shape[3]
        if columns > have:
            layers, batch, heads, _, size = self.entries.shape
            larger = self.entries.new_zeros(layers, batch, heads, max(columns, 2 * have), size)
            larger[:, :, :, :have] = self.entries
            self.entries = larger

    def move(self, rows: torch.Tensor, source: torch.Tensor, to: torch.Tensor) -> None:
        """Copy columns of some texts to others of theirs; three tensors of shape (count,).

        All are read before the first is written.  Layers of a model may be on several devices.
        """
        rows, source, to = (one.to(self.entries.device) for one in (rows, source, to))
        self.entries[:, rows, :, to] = self.entries[:, rows, :, source]

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all texts but these, shape (B,)."""
        self.entries = self.entries.index_select(1, rows.to(self.entries.device))


class InPlaceLayer(DynamicLayer):  # type: ignore[misc]  # transformers is untyped here
    """A layer of a transformers cache whose keys and values are blocks: nothing is copied when it grows."""

    blocks: tuple[KVBlock, ...] = ()
    used = 0
    """Columns that hold something, or are about to: the next pass writes after them."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate."""
        super().lazy_initialization(key_states, value_states)
        self.blocks = KVBlock(1, key_states), KVBlock(1, value_states)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write after the columns in use; views of all columns up to these."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.used = self.used, self.used + key_states.shape[2]
        for block, states in zip(self.blocks, (key_states, value_states), strict=True):
            block.reserve(self.used)
            block.entries[0, :, :, start : self.used] = states
        self.keys, self.values = (block.entries[0, :, :, : self.used] for block in self.blocks)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Columns in use."""
        return self.used


class FixedBlock(KVBlock):
    """A block that never moves, of so many columns and no more: for passes that are captured with their addresses.

    Parameters
    ----------
    layers : int
    columns : int
    like : Tensor, shape (B, heads, any, size)
        What one of the layers has written.
    """

    def __init__(self, layers: int, columns: int, like: torch.Tensor) -> None:
        batch, heads, _, size = like.shape
        with torch.inference_mode(False):  # others write to it later, in whatever mode
            self.entries = like.new_zeros(layers, batch, heads, columns, size)

    def reserve(self, columns: int) -> None:
        """Nothing to do: callers of a block of fixed size check first."""
        assert columns <= self.entries.shape[3]

    def keep(self, rows: torch.Tensor) -> None:
        """Move these texts to the front, and leave what is behind them."""
        self.entries[:, : len(rows)] = self.entries.index_select(1, rows)


class FixedLayer(DynamicLayer):  # type: ignore[misc]  # transformers is untyped here
    """A layer of a transformers cache that writes to given columns, and shows all of them: a mask hides the rest.

    Parameters
    ----------
    keys, values : Tensor, shape (B, heads, columns, size)
        Views of blocks.
    place : Place
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, place: Place) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.keys, self.values, self.place = keys, values, place

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write, of the first texts; all columns of these."""
        keys, values = self.keys[: len(key_states)], self.values[: len(value_states)]
        keys.index_copy_(2, self.place.columns, key_states)
        values.index_copy_(2, self.place.columns, value_states)
        return keys, values


class Place:
    """Where the layers of a cache write next."""

    columns: torch.Tensor
    """Shape (N,), on the device."""


def fixed_layers(
    written: Sequence[tuple[torch.Tensor, torch.Tensor]], columns: int, place: Place
) -> tuple[list[FixedBlock], list[FixedLayer]]:
    """Layers of a fixed size, and their blocks: one for all keys and values of one shape.

    Parameters
    ----------
    written : sequence of pairs of Tensors, shape (B, heads, any, size)
        What layers of these shapes have written as keys and values.
    columns : int
    place : Place
    """
    kinds: dict[torch.Size, list[torch.Tensor]] = {}
    for one in (states for pair in written for states in pair):
        kinds.setdefault(one.shape, []).append(one)
    blocks = {shape: FixedBlock(len(alike), columns, alike[0]) for shape, alike in kinds.items()}
    free = {shape: map(block.entries.__getitem__, count()) for shape, block in blocks.items()}
    layers = [FixedLayer(next(free[keys.shape]), next(free[values.shape]), place) for keys, values in written]
    return list(blocks.values()), layers


def outputs_at(outputs: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """What a model gave at columns of its cache, shape (B, n, d); zero where they are < 0.

    Parameters
    ----------
    outputs : Tensor, shape (B, capacity, d)
    columns : Tensor of int, shape (B, n)
    """
    found = outputs.take_along_dim(columns.clamp(min=0).unsqueeze(-1), dim=1)
    return found.masked_fill((columns < 0).unsqueeze(-1), 0.0)
