"""A plug-in of vLLM's for tests: what it does wrong on a CPU is mended, and its own rule verifies."""

from __future__ import annotations

from otspec.engines import vllm_cpu
from otspec.engines.vllm import MODULE
from otspec.extras import require


def mend() -> None:
    """Put our functions for a CPU in place."""
    vllm_cpu.mend(require(MODULE))
