"""Passes whose logits do not depend on how many rows they have, nor on how many texts: one shape for everything.

Kernels are chosen by shapes, and each adds up in an order of its own.  On a CPU a product of one row, of two or three,
and of more differ in their last bits; so does attention of one query and of many, over a cache that ends here or there,
and in another thread.  Here a pass goes in blocks of `ROWS` rows, of whichever texts, the last one filled up, and each
row attends for itself, to what it sees in the order of its text: the same sums, whatever else is read with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from otspec.decode.models.passes.fused import Llama, LlamaReader

ROWS = 16
"""Of a block, which takes as long with fewer rows: about what a pass of so many takes anyway."""


class InvariantReader(LlamaReader):
    """A reader of Llamas and what is made like them, on a CPU, each row of which has the same bits in any pass.

    Parameters
    ----------
    model : PreTrainedModel
        One that `takes` says yes to.
    layers : sequence of int
        After how many layers hidden states are to be kept.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        super().__init__(model, layers)
        self._layers = layers
        self._features = torch.empty(0)

    @staticmethod
    def takes(model: PreTrainedModel) -> bool:
        """Whether the model can be read so: on a CPU, without hooks, adapters or quantised layers."""
        return model.device.type == "cpu" and Llama.takes(model)

    @property
    def features(self) -> torch.Tensor:
        """As `Reader.features`, shape (B, N, layers, width)."""
        return self._features

    def _read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        keep: int,
        causal: bool = False,
    ) -> torch.Tensor:
        batch, count = tokens.shape
        entries = self._room(batch, start + count)
        sees = torch.ones(count, start + count, dtype=torch.bool)
        if causal:
            sees.tril_()
        sees = (sees if mask is None else mask[:, 0] == 0).expand(batch, -1, -1)
        logits, features = [], []
        for rows in torch.arange(batch * count).split(ROWS):
            kept = rows % count >= count - keep
            found = self._block_of(rows, tokens, position, sees, entries, bool(kept.any()))
            if kept.any():
                logits.append(found[: len(rows)][kept])
            if self._layers:
                features.append(self._llama.features[: len(rows), 0])
        if self._layers:
            self._features = torch.cat(features).unflatten(0, (batch, count))
        return torch.cat(logits).view(batch, keep, -1)

    def _block_of(
        self,
        rows: torch.Tensor,
        tokens: torch.Tensor,
        position: torch.Tensor,
        sees: torch.Tensor,
        entries: torch.Tensor,
        asked: bool,
    ) -> torch.Tensor:
        """Logits after some of a pass's rows, shape (ROWS, 1, V), or (ROWS, 0, V) where nobody asked for them.

        Parameters
        ----------
        rows : Tensor of int, shape (R,)
            Numbers of rows, counted from text to text.
        tokens, position : Tensor of int, shape (B, N)
            Of all rows of the pass.
        sees : Tensor of bool, shape (B, N, columns)
            What each of them attends to.
        entries : Tensor, shape (2 layers, B, key heads, capacity, size)
        asked : bool
        """
        llama, (_, count, columns), real = self._llama, sees.shape, len(rows)
        text, column = rows // count, columns - count + rows % count
        seen = [_seen(one) for one in sees[text, rows % count]]

        def attend(number: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = entries[2 * number], entries[2 * number + 1]
            keys[text, :, column] = key[:real, :, 0]
            values[text, :, column] = value[:real, :, 0]
            query = query.reshape(ROWS, 1, llama.key_heads, -1, llama.size)  # heads of one key as so many queries
            attended = torch.zeros_like(query)
            for row, (own, among) in enumerate(zip(text.tolist(), seen, strict=True)):
                attended[row] = scaled_dot_product_attention(
                    query[row], keys[own, :, among][None], values[own, :, among][None]
                )
            return attended.view(ROWS, llama.heads, 1, llama.size)

        filled = torch.cat((rows, rows[-1:].expand(ROWS - real)))
        places = position.flatten()[filled]
        angles = self._cosine[places][:, None], self._sine[places][:, None]
        return llama.read(tokens.flatten()[filled][:, None], angles, int(asked), attend)


def _seen(sees: torch.Tensor) -> torch.Tensor | slice:
    """The columns that a row attends to, in order; a slice where they are the first ones, which are then not copied."""
    columns = sees.nonzero()[:, 0]
    first = sees[: len(columns)].all()
    return slice(len(columns)) if first else columns
