"""What speculative sampling gains in time, from three numbers: `speed_up`."""

from __future__ import annotations

import math
from typing import NamedTuple

from otspec.errors import ProblemError
from otspec.laws import as_count


class SpeedUp(NamedTuple):
    """What a block of gamma drafts gains."""

    gamma: int
    """Drafted tokens a block; 0 where none pays."""
    tokens: float
    """Expected tokens for each call of the target, from 1 to gamma + 1."""
    factor: float
    """How many times as fast as token by token."""
    operations: float
    """How many times as many arithmetic operations."""


def speed_up(alpha: float, c: float, gamma: int | None = None, operations: float | None = None) -> SpeedUp:
    r"""The speed-up in wall time by a drafted path [leviathan2023fast, Theorems 3.8 and 3.11; aarnphm2025speculative].

    A block of gamma drafts, each accepted with probability alpha if all before it are, costs gamma c + 1 calls of the
    target.  Its tokens on average, eq. (1), its speed over that of plain decoding, and its operations likewise, are

    .. math::

        \tau = \frac{1 - \alpha^{\gamma + 1}}{1 - \alpha}, \qquad
        \frac{\tau}{\gamma c + 1}, \qquad
        \frac{\gamma \hat c + \gamma + 1}{\tau} .

    This holds for long texts, if drafts are accepted independently and a call over gamma + 1 tokens is as fast as one
    over a single token.  A gain takes alpha > c, and is at least (1 + alpha) / (1 + c) then (Corollary 3.9).

    Parameters
    ----------
    alpha : float
        In [0, 1]: the acceptance of a single draft, the mean of sum min(p, q) over texts.
    c : float
        At least 0: seconds of a call of the draft model over those of the target.
    gamma : int, optional
        At least 1; by default the fastest, which is 0 where drafts gain nothing.
    operations : float, optional
        The same in arithmetic operations; by default c.

    Raises
    ------
    ProblemError
        If a number is out of its range, or no gamma is the fastest, as with c = 0 or alpha = 1 > c.

    Examples
    --------
    >>> from otspec import speed_up
    >>> found = speed_up(alpha=0.8, c=0.05)
    >>> print(f"{found.gamma} drafts: {found.tokens:.2f} tokens a call, {found.factor:.2f} times as fast")
    8 drafts: 4.33 tokens a call, 3.09 times as fast
    """
    if not 0 <= alpha <= 1:
        raise ProblemError(f"alpha is {alpha!r}; it is a probability, from 0 to 1")
    for name, cost in (("c", c), ("operations", c if operations is None else operations)):
        if not 0 <= cost < math.inf:
            raise ProblemError(f"{name} is {cost!r}; it is a ratio of costs, finite and at least 0")
    if gamma is not None:
        return _of(alpha, c, as_count("gamma", gamma), operations)
    if alpha > c and (alpha == 1 or c == 0):
        raise ProblemError(f"with alpha = {alpha:g} and c = {c:g} the more drafts the faster; pass gamma")
    best = _of(alpha, c, 0, operations)
    while (
        longer := _of(alpha, c, best.gamma + 1, operations)
    ).factor > best.factor:  # rises up to the best, then falls
        best = longer
    return best


def _of(alpha: float, c: float, gamma: int, operations: float | None) -> SpeedUp:
    """One row; the quotient of eq. (1) is 0/0 at alpha = 1, and loses digits near it."""
    tokens = gamma + 1.0 if alpha == 1 else math.expm1((gamma + 1) * math.log(alpha)) / (alpha - 1) if alpha else 1.0
    cost = c if operations is None else operations
    return SpeedUp(gamma, tokens, tokens / (gamma * c + 1), (gamma * cost + gamma + 1) / tokens)
