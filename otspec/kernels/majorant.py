"""Least concave majorants: where one order of the tokens decides, the optimal proposal follows one.

This is the majorant of everything that runs on the host, compiled, in one pass over the tokens.  There are others
because none of them can be this one: `otspec.verification.reference` has it in rational numbers, as the oracle that
this one is tested against; `otspec.verification.tensors.majorant` for all rows of tensors at once, where a pass from
token to token would wait for each; and the kernels of that package within a block of threads, where rows are held in
parts.
"""

from __future__ import annotations

from otspec.jit import jit
from otspec.laws import FloatArray, IndexArray


@jit
def concave_blocks(
    target: FloatArray, size: FloatArray, density: FloatArray, end: IndexArray, rise: FloatArray, run: FloatArray
) -> int:
    """Segments of the least concave majorant of the cumulative measures against p.

    Pool adjacent violators [ayer1955empirical]: a block joins the one below it while it is steeper.

    Parameters
    ----------
    target : ndarray, shape (k,)
        p of each token, in the order that decides.
    size, density : ndarray, shape (k,) or longer
        Factors of each token's measure.
    end : ndarray of int, shape (k + 1,)
        Filled up to the number of blocks: end[0] = 0, and block b ends before token end[b].
    rise, run : ndarray, shape (k + 1,)
        Filled likewise: the measure and the p of block b, from b = 1.

    Returns
    -------
    int
        The number of blocks; their slopes rise / run fall.
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

    Parameters
    ----------
    measure, width, rise, run : float
        All >= 0.
    """
    left = measure * run
    right = rise * width
    if left + right > 1e-290:
        return left > right
    if run == 0.0 or width == 0.0:
        return run > 0.0 and measure > 0.0
    return measure / width > rise / run
