"""The methods of a draft scheme, called one by one: errors in an answer name the method."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count
from otspec.schemes.protocol import DraftScheme
from otspec.tolerances import TIE_TOL


class SchemeProbe:
    """A draft scheme whose answers are checked.

    Parameters
    ----------
    scheme : DraftScheme

    Raises
    ------
    ProblemError
        If it has no `n` or `vocab`, or one that is no count.
    """

    def __init__(self, scheme: DraftScheme) -> None:
        self.scheme, self.name = scheme, type(scheme).__name__
        self.n = as_count(f"{self.name}.n", self._get("n"))
        self.vocab = as_count(f"{self.name}.vocab", self._get("vocab"))

    def _get(self, name: str) -> Any:
        if not hasattr(self.scheme, name):
            raise ProblemError(f"{self.name} has no {name}; set it when the scheme is made")
        return getattr(self.scheme, name)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method answers.

        Raises
        ------
        ProblemError
            If it raises anything.
        """
        try:
            return getattr(self.scheme, method)(*arguments)
        except Exception as error:
            raise ProblemError(f"{self._spelled(method, arguments)} raises {type(error).__name__}: {error}") from error

    def _spelled(self, method: str, arguments: tuple[Any, ...]) -> str:
        spelled = ", ".join(str(one.tolist() if isinstance(one, np.ndarray) else one) for one in arguments)
        return f"{self.name}.{method}({spelled if len(spelled) <= 80 else '...'})"

    def expect(self, right: bool, method: str, arguments: tuple[Any, ...], what: str) -> None:
        """Refuse the scheme unless a method is right.

        Parameters
        ----------
        right : bool
            Whether it is.
        method, arguments : str, tuple
            The call.
        what : str
            The end of a sentence that begins with the call, for the error.

        Raises
        ------
        ProblemError
            Unless `right`.
        """
        if not right:
            raise ProblemError(f"{self._spelled(method, arguments)} {what}")

    def count(self, method: str) -> int:
        """What a method answers, as a number of things.

        Raises
        ------
        ProblemError
            If it is no integer.
        """
        size = self.call(method)
        self.expect(isinstance(size, int | np.integer), method, (), f"is {size!r}, not an integer")
        return int(size)

    def array(self, method: str, arguments: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
        """What a method answers, as an array of a known shape.

        Raises
        ------
        ProblemError
            If it is no array of numbers, or has another shape.
        """
        values = np.asarray(self.call(method, *arguments))
        self.expect(values.dtype.kind in "iuf", method, arguments, f"is an array of {values.dtype}, not of numbers")
        self.expect(values.shape == shape, method, arguments, f"has shape {values.shape}, not {shape}")
        return values

    def close(self, method: str, arguments: tuple[Any, ...], expected: FloatArray) -> None:
        """Compare what a method answers with what the tuples of `support` give, of any shape.

        Raises
        ------
        ProblemError
            If a number is off by more than `TIE_TOL`, or the shape is another.
        """
        values = self.array(method, arguments, expected.shape)
        off = ~(np.abs(values - expected) <= TIE_TOL)  # so that NaN is off
        if off.any():
            at = tuple(int(index) for index in np.argwhere(off)[0])
            self.expect(
                False,
                method,
                arguments,
                f"gives {values[at]:.9g} at {list(at)}, where the tuples of support() give {expected[at]:.9g}",
            )
