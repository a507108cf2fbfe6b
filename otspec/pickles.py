"""Files of arrays may hold pickled objects, which can run code when they are loaded: they are refused here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

REFUSED = "it holds pickled Python objects, which are not loaded; save arrays of numbers"
_NUMPY_SAYS = ("pickle", "Python objects")
"""Words of errors of ``numpy.load(allow_pickle=False)``, which go on to explain how to load them all the same."""


@contextmanager
def refused() -> Iterator[None]:
    """Make numpy's errors on pickled objects say that they are refused, and no more.

    Raises
    ------
    ValueError
        In place of numpy's.
    """
    try:
        yield
    except ValueError as error:
        if any(words in str(error) for words in _NUMPY_SAYS):
            raise ValueError(REFUSED) from error
        raise
