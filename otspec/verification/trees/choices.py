"""Static trees as lists of choices, as Medusa and EAGLE write them, and the best such tree by accuracies."""

from __future__ import annotations

import heapq
from ast import literal_eval
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count
from otspec.verification.trees.shape import MOST_SLOTS, Shape

Choice = tuple[int, ...]
"""A drafted token by its ranks among its siblings from the root on: (0, 1) is the second child of the first child."""


def choices_of(tree: str | Iterable[Sequence[int]]) -> list[Choice]:
    """The choices that a list or its spelling stands for, level by level, siblings in order.

    Parameters
    ----------
    tree : str or sequence of sequences of int
        ``[[0], [1], [0, 0]]``, as Medusa and EAGLE have it, the same as text, or ``"0,1,0.0"``, in any order.

    Raises
    ------
    ProblemError
        If there is no choice, one is no sequence of ranks from 0 on or is there twice, its parent is missing, or a
        sibling before it is.

    Examples
    --------
    >>> from otspec.verification import choices_of
    >>> choices_of("0,1,0.1,0.0")
    [(0,), (1,), (0, 0), (0, 1)]
    """
    read = _read(tree) if isinstance(tree, str) else tree
    choices: list[Any] = list(read) if isinstance(read, Iterable) else [None]
    if not all(map(_is_choice, choices)):
        raise ProblemError(
            f"tree is {tree!r}; pass a list of choices, each of ranks from 0 on, such as [[0], [1], [0, 0]] or "
            "'0,1,0.0'"
        )
    listed = [tuple(map(int, one)) for one in choices]
    known = set(listed)
    if not listed or len(listed) >= MOST_SLOTS:
        raise ProblemError(
            f"tree has {len(listed)} choices; it drafts at least one token, and fewer than {MOST_SLOTS:,}"
        )
    for at, one in enumerate(listed):
        if len(known) < len(listed) and one in listed[:at]:
            raise ProblemError(f"tree has {_words(one)} twice; name each choice once")
        if len(one) > 1 and one[:-1] not in known:
            raise ProblemError(f"tree has {_words(one)} without its parent {_words(one[:-1])}; add that choice")
        if one[-1] and (before := (*one[:-1], one[-1] - 1)) not in known:
            raise ProblemError(
                f"tree has {_words(one)} without the sibling before it, {_words(before)}; ranks begin with 0 and "
                "have no gap, so add that choice"
            )
    return sorted(listed, key=lambda one: (len(one), one))


def shape_of_choices(tree: str | Iterable[Sequence[int]]) -> Shape:
    """The shape of a static tree: each node has as many children as in the choices.

    Where all nodes of a level have as many it is that of a `branching`.

    Raises
    ------
    ProblemError
        As `choices_of`.

    Examples
    --------
    >>> from otspec.verification import shape_of_choices
    >>> shape_of_choices("0,1,0.0,0.1,1.0,1.1").branching
    (2, 2)
    >>> shape_of_choices("0,1,0.0,0.1,0.0.0").slots
    6
    """
    listed, each = choices_of(tree), list[list[int]]()
    above: list[Choice] = [()]
    for depth in range(1, len(listed[-1]) + 1):
        level = [one for one in listed if len(one) == depth]
        parents = [one[:-1] for one in level]
        each.append([parents.count(one) for one in above])
        above = level
    return Shape.of_counts(each)


def tree_text(choices: Iterable[Sequence[int]]) -> str:
    """A list of choices as commands take it.

    Examples
    --------
    >>> from otspec.verification import tree_text
    >>> tree_text([(0,), (1,), (0, 0)])
    '0,1,0.0'
    """
    return ",".join(map(_words, choices))


def best_choices(accuracy: Any, size: int) -> list[Choice]:
    """The static tree of `size` tokens with the largest expected accepted length: Medusa's [cai2024medusa].

    The accuracies of a node and of all before it are multiplied, as if they were independent: that is what the node
    adds to the expected accepted length.  A node never adds more than its parent, so to add the best one again and
    again is optimal among all trees of that size, if accuracies do not rise with the rank.

    Parameters
    ----------
    accuracy : array_like, shape (L, R)
        At depth d and rank i: how often the i-th likeliest token of the drafter is the text's, where all before are.
    size : int

    Raises
    ------
    ProblemError
        If accuracies are no such array of probabilities, or rise with the rank, or there are fewer nodes.

    Examples
    --------
    >>> from otspec.verification import best_choices, tree_text
    >>> tree_text(best_choices([[0.6, 0.2], [0.5, 0.1]], size=3))  # they add .6, .3 and .2
    '0,1,0.0'
    """
    rates: FloatArray = np.asarray(accuracy, dtype=np.float64)
    if rates.ndim != 2 or not rates.size or not ((rates >= 0) & (rates <= 1)).all():
        raise ProblemError(f"accuracy has shape {rates.shape}; pass probabilities, (L, R), by depth and rank")
    if (np.diff(rates, axis=1) > 0).any():
        depth, rank = np.argwhere(np.diff(rates, axis=1) > 0)[0]
        raise ProblemError(
            f"accuracy rises from rank {rank} to {rank + 1} at depth {depth + 1}; order each row from the likeliest on"
        )
    as_count("size", size)
    order, found = count(), list[Choice]()
    waiting: list[tuple[float, int, Choice]] = [(-float(rates[0, 0]), next(order), (0,))]
    while waiting and len(found) < size:
        gain, _, choice = heapq.heappop(waiting)
        found.append(choice)
        depth, rank = len(choice), choice[-1]
        above = -_gain(rates, choice[:-1])
        if rank + 1 < rates.shape[1]:
            heapq.heappush(waiting, (above * float(rates[depth - 1, rank + 1]), next(order), (*choice[:-1], rank + 1)))
        if depth < len(rates):
            heapq.heappush(waiting, (gain * float(rates[depth, 0]), next(order), (*choice, 0)))
    if len(found) < size:
        raise ProblemError(
            f"a tree of {size} tokens, and there are {len(found)} nodes of {len(rates)} levels and {rates.shape[1]} "
            "ranks; take fewer, or measure more"
        )
    return choices_of(found)


def _gain(rates: FloatArray, choice: Choice) -> float:
    """What a node adds to the expected accepted length."""
    return float(np.prod(rates[np.arange(len(choice)), list(choice)]))


def _read(text: str) -> Any:
    """The value of a spelling: a list in Python or JSON, or ranks between dots, parted by commas."""
    try:
        if text.strip().startswith(("[", "(")):
            return literal_eval(text.strip())
        return [[int(rank) for rank in one.split(".")] for one in text.split(",")]
    except (ValueError, SyntaxError):
        return None


def _is_choice(one: Any) -> bool:
    ranks = one if isinstance(one, Sequence) and not isinstance(one, str) else ()
    return bool(ranks) and all(
        isinstance(rank, int | np.integer) and type(rank) is not bool and rank >= 0 for rank in ranks
    )


def _words(choice: Sequence[int]) -> str:
    return ".".join(map(str, choice))
