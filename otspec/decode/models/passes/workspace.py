"""A cache of fixed size, the passes over it, and the runs of several: what graphs have the addresses of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from transformers import Cache

from otspec.decode.base.graphs import GraphedCallable
from otspec.decode.models.passes.cache import FixedBlock, Place, fixed_layers
from otspec.decode.models.passes.signature import UNCONDITIONED, Conditioning, Inputs, Outputs
from otspec.decode.models.passes.single_graph import GraphedSequence

MOST_PASSES = 32
"""Captured for one cache at a time: the last ones used; a pace has a dozen shapes, each after one new token or two."""

MOST_DOUBLED = 64
"""Rows up to which the next power of two is read: what it costs are the rows of the head."""


class Written(NamedTuple):
    """What a model has written of so many columns, from the first one on."""

    layers: Sequence[tuple[torch.Tensor, torch.Tensor]]
    """Keys and values of each layer, shape (B, heads, columns, size)."""
    outputs: torch.Tensor | None = None
    """The outputs of the model itself, shape (B, columns, d), where they are cached."""


class FixedPass:
    """A pass over so many rows of so many texts, where it finds its inputs, and the graph once there is one.

    Parameters
    ----------
    batch, rows : int
    columns : int
        Of the cache.
    masked : bool
        Whether it has a mask of what each row sees; if not, all that was read, and all of the pass.
    like : Tensor
        Of the type of the mask, and on the device.
    """

    def __init__(self, batch: int, rows: int, columns: int, masked: bool, like: torch.Tensor) -> None:
        with torch.inference_mode(False):
            self.tokens = torch.zeros(batch, rows, dtype=torch.long, device=like.device)
            self.position = torch.zeros_like(self.tokens)
            self._start = torch.zeros(2, dtype=torch.long, device=like.device)
            self._sees = like.new_zeros(batch, 1, rows, columns) if masked else like.new_zeros(1, 1, 1, columns)
        self._masked = masked
        self._conditioning = UNCONDITIONED
        """Of all rows, where there is some: of the size of what came first."""
        self.replayed: GraphedCallable[Outputs] = GraphedCallable()

    def fill(self, inputs: Inputs) -> None:
        """Set what it reads; rows and texts that fill it up read whatever was there, and see all of it.

        Who sees nothing becomes NaN in some implementations, and what is NaN in a cache no mask hides.
        """
        batch, rows = inputs.tokens.shape
        self.tokens[:batch, :rows] = inputs.tokens
        self.position[:batch, :rows] = inputs.position
        self._start[:1].fill_(inputs.start)
        self._start[1:].fill_(inputs.start + rows)
        if inputs.mask is not None:
            self._sees.zero_()
            self._sees[:batch, :, :rows, : inputs.start + rows] = inputs.mask
        if inputs.conditioning == UNCONDITIONED:
            return
        if self._conditioning == UNCONDITIONED:
            with torch.inference_mode(False):
                self._conditioning = Conditioning(*map(self._room, inputs.conditioning))
        for mine, theirs in zip(self._conditioning, inputs.conditioning, strict=True):
            if mine is not None and theirs is not None:
                mine[..., :batch, :rows, :] = theirs

    def _room(self, one: torch.Tensor | None) -> torch.Tensor | None:
        """For what has the shape (..., B, N, d), of all rows."""
        return None if one is None else one.new_zeros(*one.shape[:-3], *self.tokens.shape, one.shape[-1])

    @property
    def columns(self) -> torch.Tensor:
        """Where it writes, shape (rows,), computed where it is read."""
        return self._start[:1] + torch.arange(self.tokens.shape[1], device=self.tokens.device)

    @property
    def inputs(self) -> Inputs:
        """What it reads; the mask, shape (B, 1, rows, columns), is computed at each access."""
        rows = self.tokens.shape[1]
        unwritten = torch.arange(self._sees.shape[-1], device=self._sees.device) >= self._start[1:]
        mask = self._sees.masked_fill(unwritten, torch.finfo(self._sees.dtype).min)
        mask = mask if self._masked else mask.expand(len(self.tokens), -1, rows, -1)
        return Inputs(self.tokens, self.position, mask, keep=rows, conditioning=self._conditioning)


class Workspace:
    """A cache of fixed size for a batch, and the passes over it.

    Parameters
    ----------
    key : object
        What passes depend on beside the batch and the columns.
    written : Written
        What has these shapes but for the columns.
    columns : int
    """

    angles: tuple[torch.Tensor, torch.Tensor]
    """Of all positions, shape (columns, size), where the pass is a `Llama`'s."""
    pool: Any
    """Where graphs put what they need in between; None where nothing is captured."""

    outputs: torch.Tensor | None = None
    """What the model gave at each column, shape (B, columns, d), a view of a block."""

    def __init__(self, key: object, written: Written, columns: int) -> None:
        self.key, self.batch, self.columns = key, len(written.layers[0][0]), columns
        self.place = Place()
        self.blocks: list[FixedBlock]
        self.blocks, layers = fixed_layers(written.layers, columns, self.place)
        self.cache = Cache(layers=layers)
        if written.outputs is not None:
            self.blocks.append(remembered := FixedBlock(1, columns, written.outputs.unsqueeze(1)))
            self.outputs = remembered.entries[0, :, 0]
        like = self.blocks[0].entries
        with torch.inference_mode(False):
            self.column = torch.arange(columns, device=like.device)
            self.shown, self.hidden = like.new_tensor((0.0, torch.finfo(like.dtype).min)).unbind()
            """What a mask adds to scores."""
        self.passes: dict[tuple[int, int, bool, tuple[bool, ...]], FixedPass] = {}
        self.runs: dict[object, GraphedSequence] = {}
        self.refused: set[object] = set()
        """Runs that cannot be captured."""
        # What a graph leaves there is copied before the next is replayed, so they share it.
        self.pool = torch.cuda.graph_pool_handle() if self.blocks[0].entries.device.type == "cuda" else None

    def take(self, written: Written, columns: int) -> None:
        """Copy the first columns of what is written, and forget all else: it might not be finite."""
        for block in self.blocks:
            block.entries.zero_()
        for layer, (keys, values) in zip(self.cache.layers, written.layers, strict=True):
            layer.keys[:, :, :columns] = keys[:, :, :columns]
            layer.values[:, :, :columns] = values[:, :, :columns]
        if written.outputs is not None and self.outputs is not None:
            self.outputs[:, :columns] = written.outputs[:, :columns]

    def cache_outputs(self, outputs: torch.Tensor) -> None:
        """Store the outputs of a pass, shape (B, N, d), where its keys and values are, if they are cached."""
        if self.outputs is not None:
            self.outputs[: len(outputs)].index_copy_(1, self.place.columns, outputs)

    def a_pass(self, inputs: Inputs) -> FixedPass:
        """The pass over as many rows of as many texts, or more, with these inputs set."""
        batch, rows = inputs.tokens.shape
        batch, rows, masked = min(1 << (batch - 1).bit_length(), self.batch), filled_up(rows), inputs.mask is not None
        like, conditioned = self.blocks[0].entries, tuple(one is not None for one in inputs.conditioning)
        key = batch, rows, masked, conditioned
        return _used(self.passes, key, lambda: FixedPass(batch, rows, self.columns, masked, like))

    def a_run(self, key: object, inputs: Sequence[torch.Tensor], batch: int) -> GraphedSequence:
        """The steps that are known by this."""
        return _used(self.runs, key, lambda: GraphedSequence(inputs, batch, self.blocks[0].entries.device))

    def refuse(self, key: object) -> None:
        """Capture no run of this key any more; what its passes do can still be captured.

        Into another pool: that of a capture which broke off may be left as if it were recorded to, and takes no other.
        """
        self.refused.add(key)
        self.pool = torch.cuda.graph_pool_handle()

    def launch(self) -> None:
        """Capture nothing from now on: the model does what no graph takes."""
        self.pool = None
        self.passes.clear()
        self.runs.clear()


def _used(cached: dict[Any, Any], key: object, make: Callable[[], Any]) -> Any:
    """One of those kept, or a new one; it is the last used, and the first goes if there are too many."""
    found = cached.pop(key, None) or make()
    while len(cached) >= MOST_PASSES:
        cached.pop(next(iter(cached)))
    cached[key] = found
    return found


def filled_up(rows: int) -> int:
    """Rows of the pass that reads so many: few counts, so that few passes are captured."""
    return 1 << (rows - 1).bit_length() if rows <= MOST_DOUBLED else -(-rows // MOST_DOUBLED) * MOST_DOUBLED
