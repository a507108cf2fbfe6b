"""Laws as Triton's kernels read them, and whether there are kernels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.extras import installed, require

TRITON = installed("triton")
"""Looked up once: graphs are compiled from what asks for it."""
BLOCK = 1024
"""Tokens of one program."""
EXACT = {"enable_fp_fusion": False}
"""Every product is rounded before it is added, as in torch: the same tokens come out to the last bit."""


class Reading(NamedTuple):
    """How rows of one law are read: values, and for each row what makes probabilities of them."""

    values: Tensor
    high: Tensor
    """Highest logit."""
    first: Tensor
    """The token that has it."""
    heat: Tensor
    """Temperature."""
    scale: Tensor
    """1 / total."""


class Rows(NamedTuple):
    """Rows of one law, and which of them can be read."""

    read: Reading
    sound: Tensor
    """Shape (R,): rows that are laws.  Kernels take others to be even."""


def runs_on(values: Tensor) -> bool:
    """Whether Triton's kernels are the way where these values are."""
    return values.device.type == "cuda" and TRITON


def read_law(law: Tensor, total: Tensor) -> Reading:
    """Rows of probabilities, given their totals in float64."""
    return read_scaled(law.contiguous(), 1.0 / total)


def read_scaled(law: Tensor, scale: Tensor) -> Reading:
    """Rows of probabilities, given what they are multiplied by: nothing else is looked at."""
    return Reading(law, scale, scale, scale, scale)


def read_logits(logits: Tensor, temperature: Tensor) -> Reading:
    """Rows of logits at temperatures of shape (B,), in float64."""
    logits = logits.contiguous()
    top = logits.max(dim=1)
    high = top.values.double()
    rows, vocab = logits.shape
    chunks = -(-vocab // BLOCK)
    sums = torch.empty((rows, chunks), dtype=torch.float64, device=logits.device)
    kernels_for(logits).sum_weights[(rows, chunks)](logits, high, temperature, sums, vocab, BLOCK=BLOCK, **EXACT)
    return Reading(logits, high, top.indices, temperature, torch.where(temperature > 0, 1.0 / sums.sum(dim=1), 1.0))


def spread(rows: Rows) -> tuple[Tensor, ...]:
    """What kernels take to read rows of one law."""
    return *rows.read, rows.sound.contiguous().view(torch.int8)


def lanes(count: int) -> int:
    """The least power of two, 2 or more, that is no less."""
    return 1 << max(count - 1, 1).bit_length()


def kernels_for(values: Tensor):  # type: ignore[no-untyped-def]  # a module
    """The module of the kernels.

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
    from otspec.verification.tensors import reading_kernels as kernels

    return kernels
