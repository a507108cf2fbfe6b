"""What a worker of vLLM can be asked for besides its own work (``worker_extension_cls``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SAMPLER = "vllm.v1.sample.rejection_sampler"


def expand_batch_to_tokens(
    x: torch.Tensor, cu_num_tokens: torch.Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> torch.Tensor:
    """Repeat what belongs to a request for each of its drafted tokens.

    vLLM's function of this name calls a kernel, whose form for the CPU forgets what it computed
    (vllm-project/vllm#55005), so that temperature, top-k and top-p of drafted tokens are whatever the memory held.

    Parameters
    ----------
    x : Tensor, shape (B,)
        A value for each request.
    cu_num_tokens : Tensor of int, shape (B,)
        Where each request's drafted tokens end.
    num_tokens : int
        How many there are in all, N.
    replace_from, replace_to : int
        A value that is replaced, and by what.

    Returns
    -------
    Tensor, shape (N,)
    """
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    return x.masked_fill(x == replace_from, replace_to).repeat_interleave(counts, output_size=num_tokens)


class WorkerExtension:
    """Becomes a base of vLLM's worker; its methods are called by name (``collective_rpc``)."""

    def otspec_mend(self) -> None:
        """Put `expand_batch_to_tokens` in the place of vLLM's."""
        importlib.import_module(SAMPLER).expand_batch_to_tokens = expand_batch_to_tokens  # type: ignore[attr-defined]

    def otspec_verifies(self) -> bool:
        """Whether otspec's rule has the place of vLLM's."""
        return hasattr(importlib.import_module(SAMPLER).rejection_sample, "__otspec__")
