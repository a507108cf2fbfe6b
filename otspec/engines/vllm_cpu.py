"""What vLLM's first model runner does wrong on a CPU before it verifies, and what stands in its place there.

Two functions of vllm/v1/sample/rejection_sampler.py, as of vLLM 0.32 and 0.33.  Without the first whatever verifies has
a wrong target law, and without the second the engine may end.
"""

from __future__ import annotations

import functools
import logging
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor

from otspec.engines.loading import replacement

LOGGER = "vllm.otspec"
"""Below vLLM's own logger, so that what is said is shown where vLLM's words are."""


class Constraints(Protocol):
    """What vLLM's `SamplingMetadata` says of temperature, top-k and top-p; nothing is read of it here."""


def mend(module: ModuleType) -> None:
    """Put both functions in the place of those of vLLM's module, for tensors on a CPU.

    Raises
    ------
    ProblemError
        If it has them, and they take other arguments than ours.
    """
    for name, ours, takes in (
        ("expand_batch_to_tokens", expand_batch_to_tokens, _is_on_cpu),
        ("apply_sampling_constraints", apply_sampling_constraints, _is_empty_on_cpu),
    ):
        if hasattr(module, name):
            replacement(module, name, ours, takes)


def expand_batch_to_tokens(
    x: Tensor, cu_num_tokens: Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Tensor:
    """Repeat what each of B requests has, once for each of its drafted tokens.

    vLLM's kernel on a CPU drops what it computes, and hands over memory that nothing was written to
    (vllm-project/vllm#55005): temperature, top-k and top-p of drafted tokens are anything then.

    Parameters
    ----------
    x : Tensor, shape (B,)
        Temperatures, or another setting of requests.
    cu_num_tokens : Tensor of int32, shape (B,)
        Where the tokens of each request end.
    num_tokens : int
        N, of all.
    replace_from, replace_to : int
        What is put in the place of which value.

    Returns
    -------
    Tensor, shape (N,)
    """
    _tell()
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    return torch.where(x == replace_from, replace_to, x).repeat_interleave(counts, output_size=num_tokens)


def apply_sampling_constraints(logits: Tensor, cu_num_draft_tokens: Tensor, sampling_metadata: Constraints) -> Tensor:
    """Nothing to do for logits of no token, shape (0, V): vLLM asks for the largest of no top-k, and ends.

    Parameters
    ----------
    logits : Tensor, shape (0, V)
    cu_num_draft_tokens : Tensor of int32, shape (B,)
        Zeros.
    sampling_metadata : SamplingMetadata

    Returns
    -------
    Tensor, shape (0, V)
    """
    return logits


def _is_on_cpu(*, x: Tensor, **_: object) -> bool:
    return x.device.type == "cpu"


def _is_empty_on_cpu(*, logits: Tensor, **_: object) -> bool:
    return logits.device.type == "cpu" and logits.shape[0] == 0


@functools.cache
def _tell() -> None:
    logging.getLogger(LOGGER).info(
        "otspec repeats the sampling settings of drafted tokens itself: vLLM's kernel on a CPU drops them (#55005)"
    )
