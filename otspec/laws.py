"""Probability laws over the vocabulary: how they are checked, and drawn from."""

from __future__ import annotations

from numbers import Real
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from otspec.errors import ProblemError
from otspec.tolerances import MASS_TOL, ROUNDING

MOST = 2**31 - 1
"""Largest number of drafts or tokens: what token ids have room for."""

HALF_PRECISION = 0.01
"""A total that is off by no more than this is likely a softmax of two bytes a number."""

ArrayLike = npt.ArrayLike
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
Seed = np.random.Generator | int | np.integer[Any]
"""Where random numbers come from: `as_generator` has the rules."""


def as_float64(name: str, values: Any) -> FloatArray:
    """A float64 array of the user's numbers.

    Parameters
    ----------
    name : str
        What they are called in error messages.
    values : array_like or torch tensor, any shape
        Real numbers of any type, on any device.

    Returns
    -------
    ndarray
        Of the same shape.

    Raises
    ------
    ProblemError
        If they are not an array of real numbers.
    """
    tensor = hasattr(values, "detach")  # of torch
    try:
        if values.is_complex() if tensor else np.iscomplexobj(values):
            raise TypeError("it is complex")
        if hasattr(values, "filled") and np.ma.is_masked(values):
            raise TypeError("some of them are masked; fill them, as in values.filled(0)")
        if tensor:  # numpy has no bfloat16, hence double() first
            values = values.detach().double().cpu().numpy()
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:  # torch's: a tensor without data
        raise ProblemError(f"{name} is not an array of real numbers: {error}") from error


def as_count(name: str, value: Any) -> int:
    """Check a number of things: drafts, tokens, kept tokens.

    Parameters
    ----------
    name : str
        What it is called in error messages.
    value : int
        From 1 to `MOST`.

    Raises
    ------
    ProblemError
        If it is not an integer >= 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ProblemError(f"{name} is {value!r}; pass an integer >= 1")
    if value > MOST:
        raise ProblemError(f"{name} is more than {MOST:,}, the most that there can be of anything here; pass fewer")
    return int(value)


def as_float(value: Any) -> float:
    """A number as a float, inf beyond float64, NaN for what is no number: one comparison then checks a setting.

    Parameters
    ----------
    value : Any
        What stands where a number is required; a truth value is not one.
    """
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:
        return np.inf


def as_generator(rng: Any, stream: int = 0) -> np.random.Generator:
    """A generator of random numbers, or a new one from a seed.

    Parameters
    ----------
    rng : numpy.random.Generator or int
        A seed gives the same numbers at every call: right for one draw, and not for a loop.
    stream : int
        0 for drafts, 1 for outputs: with one seed for both they would not be independent.

    Raises
    ------
    ProblemError
        If it is neither.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng((int(rng), stream) if stream else int(rng))
    raise ProblemError(f"rng is {rng!r}; pass a generator, numpy.random.default_rng(0), or an integer >= 0 as its seed")


def as_law(name: str, values: Any) -> FloatArray:
    """Check a probability law once, and return it as a read-only float64 array that sums to 1.

    A total within `MASS_TOL` of 1 is rounding of the softmax that made the law, and is divided out: in float64 a law
    is read up to that scale, and every later statement (lossless, optimal) is about the law returned here.

    Parameters
    ----------
    name : str
        What the law is called in error messages.
    values : array_like, shape (V,)
        Probabilities.

    Raises
    ------
    ProblemError
        If the shape is not (V,) with V >= 1, or a value is not finite or negative, or the total is off.
    """
    law = as_float64(name, values)
    if law.ndim != 1 or law.size == 0:
        raise ProblemError(f"{name} has shape {law.shape}; a law over the vocabulary has shape (V,), V >= 1")
    if not np.isfinite(law).all():
        token = int(np.argmin(np.isfinite(law)))
        raise ProblemError(f"{name}[{token}] is {law[token]}; probabilities are finite. Logits? See from_logits.")
    if law.min() < 0:
        token = int(law.argmin())
        raise ProblemError(f"{name}[{token}] is {law[token]:.6g}; probabilities are >= 0. Logits? See from_logits.")
    with np.errstate(over="ignore"):  # to inf, which is refused
        total = float(law.sum())
    if abs(total - 1) > MASS_TOL:
        raise ProblemError(
            f"{name} sums to {total:.6g} (allowed: 1 +/- {MASS_TOL:g}). "
            + (
                "In half precision? Take the softmax in float32, or divide the law by its sum in float64; "
                "Problem.from_logits and otspec.verify_logits take logits of any precision."
                if abs(total - 1) <= HALF_PRECISION
                else "Top-k without renormalising? See Problem.from_logits."
            )
        )
    law = law / total
    law.flags.writeable = False
    return law


def as_laws(name: str, values: Any) -> FloatArray:
    """`as_law` for an array of laws, each along the last axis.

    Parameters
    ----------
    name : str
        What the laws are called in error messages.
    values : array_like, shape (..., V)
        Probabilities.

    Raises
    ------
    ProblemError
        If there is no last axis of V >= 1 tokens, or a row is not a law; the message says which.
    """
    laws = as_float64(name, values)
    if laws.ndim == 0 or laws.shape[-1] == 0:
        raise ProblemError(f"{name} has shape {laws.shape}; laws over the vocabulary have shape (..., V), V >= 1")
    return laws / _totals(name, laws)


def scale_laws(name: str, laws: FloatArray) -> FloatArray:
    """`as_laws` of an array of the caller's, which is returned: it is divided in place where its totals are not 1."""
    totals = _totals(name, laws)
    if np.abs(totals - 1).max(initial=0.0) > ROUNDING:
        laws /= totals
    return laws


def _totals(name: str, laws: FloatArray) -> FloatArray:
    """Of laws, shape (..., V), with that axis; refuses what is none."""
    with np.errstate(over="ignore", invalid="ignore"):  # in what is not a law: beyond float64, or inf - inf
        totals = laws.sum(axis=-1, keepdims=True)
        right = np.abs(totals[..., 0] - 1) <= MASS_TOL
    if not (right.all() and laws.min(initial=0.0) >= 0):
        right &= (laws >= 0).all(axis=-1)
        place = tuple(int(index) for index in np.argwhere(~right)[0])
        as_law(f"{name}[{', '.join(map(str, place))}]" if place else name, laws[place])
    return cast(FloatArray, totals)


def as_tokens(tokens: Any) -> npt.NDArray[Any]:
    """Token ids as an array, unchecked.

    Parameters
    ----------
    tokens : array_like or torch tensor, any shape
        On any device.

    Raises
    ------
    ProblemError
        If it is no array.
    """
    try:
        return np.asarray(tokens.detach().cpu().numpy() if hasattr(tokens, "detach") else tokens)
    except (TypeError, ValueError, NotImplementedError) as error:  # torch's: a tensor without data
        raise ProblemError(f"drafts are not an array of token ids: {error}") from error


def as_tuple(drafts: Any, n: int, vocab: int) -> IntArray:
    """`as_drafts` for one tuple.

    Parameters
    ----------
    drafts : array_like of int, shape (n,)
    n, vocab : int
        Number of drafts, and of tokens.

    Raises
    ------
    ProblemError
        If there are several, or for the reasons of `as_drafts`.
    """
    tuples = as_drafts(drafts, n, vocab)
    if tuples.ndim != 1:
        raise ProblemError(f"drafts have shape {tuples.shape}; pass one tuple at a time, of shape ({n},)")
    return tuples


def as_drafts(drafts: Any, n: int, vocab: int) -> IntArray:
    """Check tuples of drafts against the scheme that they should come from.

    Parameters
    ----------
    drafts : array_like of int, shape (..., n)
        Token ids.
    n, vocab : int
        Number of drafts, and of tokens, of the scheme.

    Returns
    -------
    ndarray of int64, shape (..., n)

    Raises
    ------
    ProblemError
        If the last axis is not n, the values are not integers, or one is not a token.
    """
    tuples = as_tokens(drafts)
    if tuples.ndim == 0 or tuples.shape[-1] != n:
        raise ProblemError(f"drafts have shape {tuples.shape}; the scheme draws n = {n} tokens, so (..., {n})")
    if not np.issubdtype(tuples.dtype, np.integer):
        raise ProblemError(f"drafts are {tuples.dtype}; token ids are integers")
    if tuples.size and (tuples.min() < 0 or tuples.max() >= vocab):
        wrong = int(tuples.min() if tuples.min() < 0 else tuples.max())
        raise ProblemError(f"drafts hold {wrong}; token ids run from 0 to {vocab - 1}")
    return tuples.astype(np.int64)


def sum_by(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Sums of the values that share an index.

    Parameters
    ----------
    index : ndarray of int, shape (m,)
        From 0 to size - 1.
    values : ndarray, shape (m,)
    size : int
        Number of sums.

    Returns
    -------
    ndarray, shape (size,)
    """
    return cast(FloatArray, np.bincount(index, weights=values, minlength=size))


def distinct(values: IntArray) -> IntArray:
    """The distinct ones of some integers, ascending: np.unique, whose hash table takes as long as 7 to 80 sorts."""
    ascending = np.sort(values, axis=None)
    return ascending[np.diff(ascending, prepend=ascending[:1] - 1) != 0]


def draw(law: FloatArray, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> IntArray:
    """Draw tokens from a law by inverting its cumulative sum; a token of probability 0 is never drawn.

    Parameters
    ----------
    law : ndarray, shape (V,)
        Probabilities, or other weights >= 0 with a positive sum.
    rng : numpy.random.Generator
    size : int or tuple of int, optional
        Shape of what is drawn; by default one token, shape ().

    Returns
    -------
    ndarray of int, of shape `size`
    """
    return draw_from_cumulative(np.cumsum(law), rng, size)


def draw_from_cumulative(
    cumulative: FloatArray, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
) -> IntArray:
    """`draw`, for callers that keep the cumulative sum of their law.

    Parameters
    ----------
    cumulative : ndarray, shape (V,)
        Ascending; the last entry is above 0.
    rng, size
        As in `draw`.

    Returns
    -------
    ndarray of int, of shape `size`
    """
    position = np.asarray(rng.random(size)) * cumulative[-1]
    # Where rounding carries a position up to the total itself, the last token with mass takes it.
    last = np.searchsorted(cumulative, cumulative[-1], side="left")
    return np.minimum(np.searchsorted(cumulative, position, side="right"), last).astype(np.int64)


def likeliest(weights: FloatArray, k: int) -> IntArray:
    """The k tokens of largest weight, in decreasing order, at ties those of lowest id.

    Parameters
    ----------
    weights : ndarray, shape (V,)
    k : int
        From 0 to V.

    Returns
    -------
    ndarray of int, shape (k,)
    """
    if k == 0:
        return np.empty(0, dtype=np.int64)
    threshold = np.partition(weights, -k)[-k]
    above = np.flatnonzero(weights > threshold)
    tied = np.flatnonzero(weights == threshold)[: k - above.size]
    return np.concatenate((above[np.argsort(-weights[above], kind="stable")], tied))


def falling_ratio(p: FloatArray, q: FloatArray) -> IntArray:
    """All tokens by decreasing p/q, those with q = 0 first.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.

    Returns
    -------
    ndarray of int, shape (V,)
    """
    drafted = np.flatnonzero(q)
    with np.errstate(over="ignore"):
        ratio = p[drafted] / q[drafted]
    return np.concatenate((np.flatnonzero(q == 0), drafted[np.argsort(-ratio)]))


def as_distinct_law(name: str, values: Any, n: int) -> FloatArray:
    """`as_law`, for drafts that are to be n different tokens.

    Parameters
    ----------
    name : str
        What the law is called in error messages.
    values : array_like, shape (V,)
        Probabilities.
    n : int
        Number of drafts.

    Raises
    ------
    ProblemError
        If it is not a law, or fewer than n tokens have a probability above 0.
    """
    law = as_law(name, values)
    drafted = int(np.count_nonzero(law))
    if drafted < n:
        raise ProblemError(
            f"n is {n}, and {name} has only {drafted} tokens of probability above 0; distinct drafts need n of them. "
            f"Draft n = {drafted}, or truncate {name} less."
        )
    return law
