"""Draft laws brought onto the target's tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import BoolArray, FloatArray, IntArray, as_count, as_laws


def tli(q: Any, target: Any) -> FloatArray:
    """Token-Level Intersection: q cut down to the target's tokens, renormalised [timor2025out, eq. (1)].

    The algorithm is that of [timor2025accelerating].  What remains is the conditional law of a draft from q given that
    it is a token of the target: drawing from q until that is so samples it as well.  No acceptance falls:
    on the tokens of the target q only grows.

    Parameters
    ----------
    q : array_like, shape (..., V)
        Draft laws, checked and scaled as in `otspec.laws.as_law`.
    target : array_like of bool, shape (..., V), or of int, shape (k,)
        Which tokens the target has, as a mask or as ids.  The support of a law p is ``p > 0``.

    Returns
    -------
    ndarray, shape (..., V)

    Raises
    ------
    ProblemError
        If q is not a law or has no mass on the target's tokens, or `target` is not a set of tokens.

    Examples
    --------
    >>> from otspec.vocab import tli
    >>> print(tli([0.5, 0.25, 0.25], [0, 2]).round(3))  # the target has tokens 0 and 2
    [0.667 0.    0.333]
    """
    laws = as_laws("q", q)
    mask = as_mask("target", target, laws.shape[-1])
    check_leading_axes(q=laws.shape, target=mask.shape)
    return cut_down(laws, mask)


def cut_down(laws: FloatArray, mask: BoolArray) -> FloatArray:
    """`tli` of checked laws.

    Parameters
    ----------
    laws : ndarray, shape (..., V)
    mask : ndarray of bool, shape (V,) or (..., V)
        The tokens to keep.

    Returns
    -------
    ndarray, shape (..., V)

    Raises
    ------
    ProblemError
        If one has no mass there.
    """
    inside = np.where(mask, laws, 0.0)
    mass = inside.sum(axis=-1, keepdims=True)
    if not (mass > 0).all():
        place = tuple(int(index) for index in np.argwhere(mass[..., 0] == 0)[0])
        name = f"q[{', '.join(map(str, place))}]" if place else "q"
        raise ProblemError(
            f"{name} has no mass on the tokens to keep, so there is nothing to renormalise; "
            "draw the output from p without a draft there"
        )
    return inside / mass


def embed(q: Any, ids: Any, vocab: int) -> FloatArray:
    """Laws over the drafter's own m tokens as laws over the target's V.

    Parameters
    ----------
    q : array_like, shape (..., m)
        Draft laws, checked and scaled as in `otspec.laws.as_law`.
    ids : array_like of int, shape (m,)
        For each token of the drafter its id in the target's vocabulary, or -1 where it has none; such tokens have to
        have probability 0, which ``tli(q, ids >= 0)`` sees to.
    vocab : int
        Number V of the target's tokens.

    Returns
    -------
    ndarray, shape (..., V)

    Raises
    ------
    ProblemError
        If q is not a law or has mass on a token without an id, or the ids are not m different ids below V.

    Examples
    --------
    >>> from otspec.vocab import embed
    >>> print(embed([0.25, 0.75], [3, 1], 5))  # the drafter's two tokens are 3 and 1 of the target's five
    [0.   0.75 0.   0.25 0.  ]
    """
    laws, vocab = as_laws("q", q), as_count("vocab", vocab)
    target_ids = as_array("ids", ids)
    if target_ids.shape != laws.shape[-1:]:
        raise ProblemError(f"ids have shape {target_ids.shape}; q has {laws.shape[-1]} tokens, and each needs one id")
    has_id = target_ids != -1
    as_ids("ids", target_ids[has_id], vocab)
    if laws[..., ~has_id].any():
        lost = laws[..., ~has_id].sum(axis=-1).max()
        raise ProblemError(f"q has mass {lost:.6g} on tokens with id -1; drop it first: otspec.vocab.tli(q, ids >= 0)")
    embedded = np.zeros((*laws.shape[:-1], vocab))
    embedded[..., target_ids[has_id]] = laws[..., has_id]
    return embedded


def check_leading_axes(**shapes: tuple[int, ...]) -> None:
    """Check that arrays broadcast.

    Parameters
    ----------
    **shapes : tuple of int
        By the name that the array has in error messages.

    Raises
    ------
    ProblemError
        If they do not.
    """
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ProblemError(f"shapes {listed}: the axes before the last have to broadcast") from None


def as_array(name: str, values: Any) -> Any:
    """A numpy array of whatever type and shape.

    Parameters
    ----------
    name : str
        What it is called in error messages.
    values : array_like

    Raises
    ------
    ProblemError
        If it is none.
    """
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ProblemError(f"{name} is not an array: {error}") from error


def as_mask(name: str, tokens: Any, vocab: int) -> BoolArray:
    """A set of tokens as a mask.

    Parameters
    ----------
    name : str
        What it is called in error messages.
    tokens : array_like of bool, shape (V,) or (..., V), or of int, shape (k,)
        The mask itself, or ids.
    vocab : int
        Number of tokens V.

    Returns
    -------
    ndarray of bool, shape (V,) or (..., V)

    Raises
    ------
    ProblemError
        If it is neither a mask over the vocabulary nor a list of ids.
    """
    array = as_array(name, tokens)
    if array.dtype == np.bool_:
        if array.ndim == 0 or array.shape[-1] != vocab:
            raise ProblemError(f"{name} is a mask of shape {array.shape}; over {vocab} tokens it has (..., {vocab})")
        return array
    mask = np.zeros(vocab, dtype=np.bool_)
    mask[as_ids(name, array, vocab)] = True
    return mask


def as_ids(name: str, tokens: Any, vocab: int) -> IntArray:
    """Different token ids, or a `ProblemError`."""
    ids = as_array(name, tokens)
    if not np.issubdtype(ids.dtype, np.integer) and ids.size:
        raise ProblemError(f"{name} is {ids.dtype}; pass token ids, or a mask of booleans such as p > 0")
    if ids.ndim != 1:
        raise ProblemError(f"{name} has shape {ids.shape}; token ids have shape (k,)")
    if ids.size and (ids.min() < 0 or ids.max() >= vocab):
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise ProblemError(f"{name} holds {wrong}; token ids run from 0 to {vocab - 1}")
    ids = ids.astype(np.int64)
    counts = np.bincount(ids, minlength=vocab)
    if ids.size and counts.max() > 1:
        raise ProblemError(f"{name} holds token {int(counts.argmax())} {int(counts.max())} times; pass every id once")
    return ids


def as_row_tokens(tokens: Any, vocab: int) -> IntArray:
    """Ids of the tokens that get a row of an affinity, None for all, or a `ProblemError`."""
    if tokens is None:
        return np.arange(vocab)
    ids = as_ids("tokens", tokens, vocab)
    if not ids.size:
        raise ProblemError("tokens are none; name at least one that gets a row")
    return ids
