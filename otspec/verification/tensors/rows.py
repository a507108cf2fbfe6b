"""How rows of laws are read where they are: values, and what makes probabilities of them; and whether Triton is there.

A kernel is launched with tensors and numbers, never with tuples: Triton takes those, but `torch.compile` refuses them.
So `spread` takes rows apart for a launch, and a kernel puts them together again, as the same `Rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.extras import installed, require
from otspec.laws import HALF_PRECISION
from otspec.tolerances import FLOAT32_MASS_TOL, MASS_TOL

TRITON = installed("triton")
"""Looked up once: graphs are compiled from code that reads it."""
KERNELS = "triton"
"""The way to verify by kernels, as callers spell it."""
BLOCK = 1024
"""Tokens of one program."""
EXACT = {"enable_fp_fusion": False}
"""Every product is rounded before it is added, as in torch: the same tokens come out to the last bit."""
DRIFT = {
    torch.float64: MASS_TOL,
    torch.float32: FLOAT32_MASS_TOL,
    torch.bfloat16: HALF_PRECISION,
    torch.float16: HALF_PRECISION,
}
"""How far the total of a law may be from 1, by its type."""


class Reading(NamedTuple):
    """How R rows of laws over V tokens are read."""

    entries: Tensor
    """Shape (R, V): probabilities, or logits.  (`values` is a name that Triton's own tuples have.)"""
    high: Tensor
    """Shape (R,), float64: the highest logit."""
    first: Tensor
    """Shape (R,), int64: the token that has it."""
    heat: Tensor
    """Shape (R,), float64: the temperature."""
    scale: Tensor
    """Shape (R,), float64: 1 / total."""


class Rows(NamedTuple):
    """Rows of laws, and which of them can be read."""

    read: Reading
    valid: Tensor
    """Shape (R,), bool: rows that are laws.  Kernels take others to be uniform."""

    @property
    def vocab(self) -> int:
        """V."""
        return self.read.entries.shape[1]

    def logprobs_at(self, row: Tensor, token: Tensor, logits: bool = False) -> Tensor:
        """Logarithms of the probabilities that rows give tokens, float64; NaN in rows that are not valid.

        Parameters
        ----------
        row, token : Tensor of int64, of one shape
        logits : bool
            Whether the entries are logits.
        """
        entry, scale = self.read.entries[row, token].double(), self.read.scale[row]
        found = (entry * scale).log()
        if logits:
            heat, first = self.read.heat[row], self.read.first[row]
            greedy = torch.where(token == first, 0.0, -torch.inf)
            found = torch.where(heat == 0, greedy, (entry - self.read.high[row]) / heat + scale.log())
        return torch.where(self.valid[row], found, torch.nan)


def runs_on(values: Tensor) -> bool:
    """Whether Triton's kernels are the way where these values, of any shape, are."""
    return values.device.type == "cuda" and TRITON


def check_strided(name: str, values: Tensor) -> None:
    """Refuse a tensor, of any shape, that has no entry for every place.

    Raises
    ------
    ProblemError
        If it is sparse, or laid out otherwise.
    """
    if values.layout != torch.strided:
        raise ProblemError(f"{name} is {values.layout}; pass {name}.to_dense()")


def check_kernels(values: Tensor) -> None:
    """Make sure that Triton's kernels can go over values of any shape; call it before a module of kernels is imported.

    Raises
    ------
    MissingExtra
        If Triton is not installed.
    ProblemError
        If the tensors are on a device that it does not run on.
    """
    if not TRITON:
        require("triton")
    if values.device.type == "cpu" and not require("triton").knobs.runtime.interpret:
        raise ProblemError(
            "by is 'triton', and the laws are on the CPU; move them to a GPU, pass by='buckets', or set "
            "TRITON_INTERPRET=1 to try the kernels out"
        )


def read_scaled(law: Tensor, scale: Tensor) -> Reading:
    """Rows of probabilities, shape (R, V), given what they are multiplied by, (R,): nothing else is read."""
    return Reading(law, scale, scale, scale, scale)


def rows_of(law: Tensor, total: Tensor, valid: Tensor) -> Rows:
    """Rows of probabilities, shape (R, V), given their totals, (R,); those that are not valid, (R,), have none."""
    return Rows(read_scaled(law.contiguous(), 1.0 / torch.where(valid, total, 1.0)), valid)


def spread(rows: Rows) -> tuple[Tensor, ...]:
    """What a kernel takes to read rows of laws: the five fields of `Reading`, and bytes of shape (R,) for `valid`."""
    return *rows.read, rows.valid.contiguous().view(torch.int8)


def lanes(count: int) -> int:
    """The least power of two, 2 or more, that is no less."""
    return 1 << max(count - 1, 1).bit_length()
