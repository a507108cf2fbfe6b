"""One way to compile: numba, cached on disk, typed for the type checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile `function` with numba at its first call and keep the machine code beside the source."""
    return cast(F, numba.njit(cache=True)(function))


def jit_of_sums(function: F) -> F:
    """`jit` for sums of positive terms, which may be added up in any order and so by vector instructions.

    Compiled into its callers: to hand over arrays token by token costs about as much as a short sum.
    """
    return cast(F, numba.njit(cache=True, fastmath={"reassoc", "contract"}, forceinline=True)(function))


def parallel_jit(function: F) -> F:
    """`jit` for a function whose `numba.prange` loops run on numba's threads."""
    return cast(F, numba.njit(cache=True, parallel=True)(function))
