"""Layers of a Llama over few rows on a GPU, by five kernels each, where torch's operations are twenty-five.

A pass over a token or a small tree reads weights and does next to nothing with them, so what it takes is the number of
its kernels: each ends before the next begins.  A norm is part of the product behind it, a sum of the product before it,
and attention turns queries and keys, and writes the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch

from otspec.decode.models.passes.cache import FixedLayer
from otspec.decode.models.passes.fused import Layer, Llama, Through
from otspec.decode.models.passes.packed import Dense
from otspec.extras import installed

MOST_ROWS = 64
"""Over all texts; with more a product takes longer than its kernel takes to launch, and others do it better."""
MOST_QUERIES = 1 << 13
"""Queries of a head of keys times their size: what one program has in registers."""
MOST_COLUMNS = 4096
"""Of a cache: one program reads all keys of a head."""
SHARED, MOST_STAGES = 60 << 10, 9
"""Bytes that the steps of a product under way take at most, which every GPU since 2020 has for a program; and steps."""
FUSED = {"enable_fp_fusion": True}
"""Triton requires that it be passed."""
OUT, OUT_OF_TWO, COLUMNS = 16, 32, 64
"""Columns that one program puts out, or two products of it, and that one step of attention reads: the fastest of those
tried on an H200 at d = 576; all are multiples of 16, which the multiplication of matrices takes at least."""
HALF_TYPES = torch.bfloat16, torch.float16
"""What tensor cores multiply as it is."""
LEAST_ROWS = 16
"""What the multiplication of matrices takes."""


class Cache(NamedTuple):
    """Where the layers of a workspace write, and what they see."""

    layers: Sequence[FixedLayer]
    """Whose keys and values have the shape (B, heads, columns, size)."""
    columns: torch.Tensor
    """Shape (N,), ascending."""
    mask: torch.Tensor
    """Added to the scores, shape (B, 1, N, columns)."""


class Weights(NamedTuple):
    """Those of a layer."""

    layer: Layer
    before_attention: torch.Tensor
    """Shape (d,): the weights of the norm."""
    query: Dense
    key: Dense
    value: Dense
    out: Dense
    gate: Dense
    up: Dense
    down: Dense

    @classmethod
    def of(cls, layer: Layer) -> Weights | None:
        """Those of a layer; None if they are held in another way, or multiply what has a bias or is not normed."""
        found = (layer.query, layer.key, layer.value, layer.out, layer.gate, layer.up, layer.down)
        before = None if layer.is_eagle else layer.before_attention
        if before is None or not all(isinstance(one, Dense) for one in found):
            return None
        dense = cast("tuple[Dense, ...]", found)
        weights = cls(layer, before, *dense)
        biased = {one.bias is None for one in dense[:3]}
        alike = len(biased) == 1 and all(one.bias is None for one in dense[3:])
        whole = all(one.weight.is_contiguous() for one in dense)
        sized = all(size % OUT == 0 for one in dense for size in one.weight.shape)
        sized &= len(weights.gate.weight) % OUT_OF_TWO == 0
        return weights if alike and whole and sized else None


class FewRows:
    """The layers of a model, one after the other.

    Parameters
    ----------
    llama : Llama
        Whose layers `Weights.of` takes.
    weights : list of Weights
    """

    def __init__(self, llama: Llama, weights: list[Weights]) -> None:
        self.llama, self.weights = llama, weights

    @classmethod
    def of(cls, llama: Llama) -> FewRows | None:
        """The same layers by kernels; None where there is no Triton, or it does not take their type or sizes."""
        weights = [found for layer in llama.layers if (found := Weights.of(layer)) is not None]
        takes = llama.size >= 2 * LEAST_ROWS and llama.size & (llama.size - 1) == 0
        takes &= llama.embedding.dtype in HALF_TYPES
        return cls(llama, weights) if installed("triton") and takes and len(weights) == llama.count else None

    def takes(self, batch: int, count: int, columns: int) -> bool:
        """Whether so many texts of so many rows, and a cache of so many columns, are few."""
        queries = _queries(self.llama, count) * self.llama.size
        return batch * count <= MOST_ROWS and queries <= MOST_QUERIES and columns <= MOST_COLUMNS

    def through(self, angles: tuple[torch.Tensor, torch.Tensor], shifts: torch.Tensor | None, cache: Cache) -> Through:
        """As `Llama.through`, for columns of a workspace; layers are called in their order."""
        return Pass(self, angles, shifts, cache)


class Pass:
    """One pass through the layers; parameters as for `FewRows.through`."""

    def __init__(
        self, few: FewRows, angles: tuple[torch.Tensor, torch.Tensor], shifts: torch.Tensor | None, cache: Cache
    ) -> None:
        self._weights, self._llama, self._cache = few.weights, few.llama, cache
        self._cosine, self._sine = (angle.contiguous() for angle in angles)
        batch, count = self._cosine.shape[:2]
        self._shape, self._total = (batch, count), batch * count
        self._rows = max(LEAST_ROWS, 1 << (self._total - 1).bit_length())
        self._mask = cache.mask.expand(batch, -1, -1, -1)
        self._shifts = shifts
        if shifts is not None:
            self._shifts = shifts.expand(-1, -1, count, -1).reshape(len(shifts), self._total, -1)
        self._between: tuple[torch.Tensor, torch.Tensor]
        """Of what goes into the next product behind a norm: times the norm's weights, and sums of its squares."""

    def __call__(self, number: int, hidden: torch.Tensor) -> torch.Tensor:
        """What comes out of a layer, shape (B, N, d), from what goes in."""
        from otspec.decode.models.passes.few_rows_kernels import begin, gate_up, project

        layer, before, query, key, value, onward, gate, up, down = self._weights[number]
        after = before if number == len(self._weights) - 1 else self._weights[number + 1].before_attention
        if number == 0:
            hidden = hidden.contiguous()
            scaled, squares, own = self._room_between(hidden)
            begin[(squares.shape[1],)](hidden, before, scaled, squares, self._total, **own, ROWS=self._rows)
        of_three = [len(one.weight) for one in (query, key, value)]
        projected = hidden.new_empty(*self._shape, sum(of_three))
        project[(sum(of_three) // OUT,)](
            *self._between, query.weight, key.weight, value.weight, query.bias, key.bias, value.bias,
            of_three[0], sum(of_three[:2]), projected, self._total,
            OUTPUTS=sum(of_three), BIASED=query.bias is not None, **self._behind_a_norm(hidden.shape[-1], OUT),
        )  # fmt: skip
        hidden = self._back(self._attended(number, projected), onward, hidden, layer.before_mlp)
        gated = hidden.new_empty(*self._shape, len(gate.weight))
        gate_up[(len(gate.weight) // OUT_OF_TWO,)](
            *self._between, gate.weight, up.weight, None if self._shifts is None else self._shifts[number], gated,
            self._total, OUTPUTS=len(gate.weight), SHIFTED=self._shifts is not None,
            **self._behind_a_norm(hidden.shape[-1], 2 * OUT_OF_TWO),
        )  # fmt: skip
        return self._back(gated, down, hidden, after)

    def _room_between(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, int]]:
        programs = hidden.shape[-1] // OUT
        squares = hidden.new_empty(self._total, programs, dtype=torch.float32)
        self._between = torch.empty_like(hidden), squares
        return *self._between, {"OUTPUTS": hidden.shape[-1], "PROGRAMS": programs, "OUT": OUT}

    def _behind_a_norm(self, width: int, lines: int) -> dict[str, Any]:
        programs = width // OUT
        known = {"EPSILON": self._llama.epsilon, "PROGRAMS": programs, "LANES": 1 << (programs - 1).bit_length()}
        steps = _steps(width, self._rows + lines, self._cosine.element_size())
        return {"INPUTS": width, **known, "ROWS": self._rows, "OUT": min(lines, OUT_OF_TWO), **steps, "num_warps": 4}

    def _back(self, rows: torch.Tensor, by: Dense, residual: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        """A product of rows added to what goes around it, shape (B, N, d), and what the next norm wants of it."""
        from otspec.decode.models.passes.few_rows_kernels import project_back

        hidden = torch.empty_like(residual)
        scaled, squares, own = self._room_between(hidden)
        project_back[(squares.shape[1],)](
            rows, by.weight, residual, gain, hidden, scaled, squares, self._total,
            INPUTS=rows.shape[-1], **own, ROWS=self._rows, num_warps=2,
            **_steps(rows.shape[-1], self._rows + OUT, rows.element_size()),
        )  # fmt: skip
        return hidden

    def _attended(self, number: int, projected: torch.Tensor) -> torch.Tensor:
        """What the queries find, shape (B, N, heads * size); keys and values are written."""
        from otspec.decode.models.passes.few_rows_kernels import attend

        llama, layer, (batch, count) = self._llama, self._weights[number].layer, self._shape
        keys, values, mask = self._cache.layers[number].keys, self._cache.layers[number].values, self._mask
        attended = projected.new_empty(batch, count, llama.heads * llama.size)
        queries = _queries(llama, count)
        attend[(batch * llama.key_heads,)](
            projected, layer.of_query, layer.of_key, self._cosine, self._sine, keys, values,
            keys.stride(0), keys.stride(1), self._cache.columns, mask, mask.stride(0), mask.stride(2), attended,
            COUNT=count, HEADS=llama.heads, KEY_HEADS=llama.key_heads, SIZE=llama.size, EPSILON=llama.epsilon,
            NORMED=layer.of_query is not None, NEW=max(LEAST_ROWS, 1 << (count - 1).bit_length()), QUERIES=queries,
            BLOCK=COLUMNS, num_warps=4 if queries <= COLUMNS else 8,
            num_stages=3 if queries * llama.size <= MOST_QUERIES // 2 else 2, **FUSED,
        )  # fmt: skip
        return attended


def _queries(llama: Llama, count: int) -> int:
    """Of one head of keys, filled up."""
    return max(LEAST_ROWS, 1 << (llama.heads // llama.key_heads * count - 1).bit_length())


@lru_cache
def _steps(inputs: int, lines: int, itemsize: int) -> dict[str, Any]:
    """What one step of a product's loop reads of so many rows and columns, and how many are under way."""
    size = next(size for size in (128, 64, 32, 16) if inputs % size == 0)
    stages = min(MOST_STAGES, SHARED // (size * lines * itemsize))
    return {"IN": size, "num_stages": max(stages, 2), **FUSED}
