"""What a worker of vLLM can be asked for besides its own work (``worker_extension_cls``).

Workers load this module when they start, and those on CPUs die of numba then (docs/vllm.md), so that all else is
imported where it is used.
"""

from __future__ import annotations

import importlib

SAMPLER = "vllm.v1.sample.rejection_sampler"


class WorkerExtension:
    """Becomes a base of vLLM's worker; its methods are called by name (``collective_rpc``)."""

    def otspec_mend(self) -> None:
        """Mend what vLLM gets wrong on a CPU before it verifies (vllm-project/vllm#55005)."""
        from otspec.engines import vllm_cpu

        vllm_cpu.mend(importlib.import_module(SAMPLER))

    def otspec_verifies(self) -> bool:
        """Whether otspec's rule has the place of vLLM's."""
        return hasattr(importlib.import_module(SAMPLER).rejection_sample, "__otspec__")
