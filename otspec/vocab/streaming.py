"""Estimates over a stream that may be killed at any moment, and go on where they stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from otspec.errors import DataError
from otspec.laws import as_count
from otspec.vocab.counting import PairCounts
from otspec.vocab.moments import Moments
from otspec.vocab.tensors import read_tensors, write_tensors

STATE = "an unfinished affinity of otspec"


def gather(
    into: PairCounts | Moments,
    chunks: Callable[[int], Iterable[Any]],
    state: Path,
    about: Mapping[str, Any],
    *,
    every: int = 32,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Add the chunks of a stream, from where an earlier run stopped.

    What has been added is saved in a file, which is replaced after every few chunks and is always whole.  A run that
    found it adds the same chunks in the same order, so that its result is that of one run.  The caller deletes the file
    once the result is safe.

    Parameters
    ----------
    into : PairCounts or Moments
        What to add to; empty.
    chunks : callable
        ``chunks(first)`` yields the chunks from that number on: texts for `PairCounts`, samples for `Moments`.
    state : Path
        The file.
    about : mapping
        What distinguishes this stream and these settings from others, fit for JSON.
    every : int
        Chunks from one writing of the file to the next.
    progress : callable, optional
        Called with the number of chunks that have been added.

    Raises
    ------
    DataError
        If the file is damaged, or is of another stream or other settings.
    ProblemError
        If a chunk is not what it has to be.
    MissingExtra
        If safetensors is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from otspec.vocab import PairCounts, gather
    >>> texts, pairs = [[0, 1], [1, 2]], PairCounts(vocab=3, window=1)
    >>> with tempfile.TemporaryDirectory() as folder:  # killed and called again, it goes on where it was
    ...     gather(pairs, lambda first: texts[first:], Path(folder) / "state.safetensors", {"source": "two texts"})
    >>> print(pairs.matrix().toarray())
    [[1 1 0]
     [1 2 1]
     [0 1 1]]
    """
    every = as_count("every", every)
    done = _resume(into, state, about) if state.exists() else 0
    for number, chunk in enumerate(chunks(done), start=done + 1):
        into.add(chunk)
        if number % every == 0:
            write_tensors(state, into.arrays(), {"format": STATE, "of": dict(about), "done": number})
        if progress is not None:
            progress(number)


def _resume(into: PairCounts | Moments, state: Path, about: Mapping[str, Any]) -> int:
    """Take up the state; the number of chunks that it has."""
    arrays, held = read_tensors(state, STATE)
    about, other = json.loads(json.dumps(dict(about))), held.get("of", {})
    if differing := sorted(name for name in {*about, *other} if about.get(name) != other.get(name)):
        name = differing[0]
        raise DataError(
            f"{state} is of another run: its {name} is {other.get(name)!r}, and not {about.get(name)!r}; delete it to "
            "start anew, or name another file for the result"
        )
    try:
        into.restore(arrays)
        return int(held["done"])
    except (KeyError, IndexError) as error:
        raise DataError(f"{state} lacks {error}; delete it to start anew") from error
