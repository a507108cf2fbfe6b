"""Least concave majorants: where one order of the tokens decides, the optimal proposal follows one."""

from __future__ import annotations

from otspec.jit import jit
from otspec.laws import FloatArray, IndexArray


@jit
def concave_blocks(
    target: FloatArray, size: FloatArray, density: FloatArray, end: IndexArray, rise: FloatArray, run: FloatArray
) -> int:
    """Segments of the least concave majorant of the measures against `target`; returns their number.

    Pool adjacent violators: a block joins the one below it while it is steeper.

    Parameters
    ----------
    target, size, density : ndarray, shape (k,)
    end, rise, run : ndarray, shape (k + 1,)
        Filled: where each block ends, its measure and its p, from index 1; end[0] = 0.
    """
    end[0] = 0
    top = 0
    for j in range(target.size):
        measure = size[j] * density[j]
        width = target[j]
        while top > 0 and steeper(measure, width, rise[top], run[top]):
            measure += rise[top]
            width += run[top]
            top -= 1
        top += 1
        rise[top] = measure
        run[top] = width
        end[top] = j + 1
    return top


@jit
def steeper(measure: float, width: float, rise: float, run: float) -> bool:
    """Whether measure / width > rise / run.

    Products are faster than quotients; but among tokens of 1e-200 they underflow, and a block that fails to join a
    weightless neighbour is cut off from all that lies beyond.
    """
    left = measure * run
    right = rise * width
    if left + right > 1e-290:
        return left > right
    if run == 0.0 or width == 0.0:
        return run > 0.0 and measure > 0.0
    return measure / width > rise / run
