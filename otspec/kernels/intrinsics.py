"""Attributes of a kernel for LLVM that numba has no option for; nothing where functions are not compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

BYTE, ADDRESS, NUMBER = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)


def wide_vectors() -> None:
    """Have loops of the caller take vectors of 512 bits, where the processor has such.

    LLVM takes 256 on processors of Intel's, of which the first slowed down by wider ones; a product of four rows and
    weights of 8 bits, all in the caches, then takes 1.5 times as long.
    """


def prefetch(array: NDArray[Any], byte: int) -> None:
    """Begin to read the line of memory with a byte of an array, counted from its first; behind its end, nothing."""


@overload(wide_vectors, inline="always")
def _wide_vectors() -> Callable[[], None]:
    def call() -> None:
        _prefer_512_bits()  # type: ignore[call-arg]  # numba hands over the first

    return call


@overload(prefetch, inline="always")
def _prefetch(array: Any, byte: Any) -> Callable[[Any, Any], None]:
    def call(array: Any, byte: Any) -> None:
        _read_ahead(array, byte)  # type: ignore[call-arg]

    return call


@intrinsic
def _prefer_512_bits(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` takes those it knows
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _read_ahead(typing: Any, array: Any, byte: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.ptrtoint(context.make_array(array)(context, builder, arguments[0]).data, ADDRESS)
        place = builder.inttoptr(builder.add(first, arguments[1]), BYTE)
        called = ir.FunctionType(ir.VoidType(), [BYTE, NUMBER, NUMBER, NUMBER])
        function = builder.module.declare_intrinsic("llvm.prefetch", [BYTE], called)
        builder.call(function, [place, *(NUMBER(flag) for flag in (0, 3, 1))])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
