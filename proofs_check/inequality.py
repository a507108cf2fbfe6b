"""An inequality said once: the margin of a claim, how tight it is, and the margins of its mutations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Inequality:
    """left <= right on the instances of a claim.

    Examples
    --------
    >>> from otspec.proofs_check.inequality import Inequality
    >>> means = Inequality(lambda a, b: (2 * a * b, a * a + b * b))
    >>> means.margin(a=1.0, b=2.0), means.tightness(a=1.0, b=2.0), means.with_right(0.9)(a=1.0, b=1.0)
    (1.0, 0.8, -0.19999999999999996)
    """

    sides: Callable[..., tuple[float, float]]
    """The left and the right side, called as ``sides(**instance)``."""
    least: float = 5e-324
    """A right side below it counts as this where the left one is told in it: two sides of 0 are not tight."""

    def margin(self, **instance: object) -> float:
        """Right minus left side."""
        left, right = self.sides(**instance)
        return right - left

    def with_left(self, times: float) -> Callable[..., float]:
        """The margin where the left side counts so many times: a stronger claim, if that is more than one."""

        def margin(**instance: object) -> float:
            left, right = self.sides(**instance)
            return right - times * left

        return margin

    def with_right(self, times: float) -> Callable[..., float]:
        """The margin where the right side counts so many times: a stronger claim, if that is less than one."""

        def margin(**instance: object) -> float:
            left, right = self.sides(**instance)
            return times * right - left

        return margin

    def tightness(self, **instance: object) -> float:
        """Left over right side: 1 where the inequality is attained."""
        left, right = self.sides(**instance)
        return left / max(right, self.least)

    def slack(self, **instance: object) -> float:
        """1 less the tightness: the margin of sides of many orders of magnitude."""
        return self.with_slack(1.0)(**instance)

    def with_slack(self, share: float) -> Callable[..., float]:
        """The slack of a right side that counts so many times."""
        return lambda **instance: share - self.tightness(**instance)
