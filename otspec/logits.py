"""From the logits of models to the laws that decoders sample from."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count, as_float, as_float64, likeliest


def law_from_logits(
    name: str, logits: Any, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> FloatArray:
    """The law a decoder samples from: softmax at a temperature, then top-k, then top-p, renormalised.

    Parameters
    ----------
    name : str
        What the logits are called in error messages.
    logits : array_like, shape (V,)
        Unnormalised log-probabilities; -inf masks a token.
    temperature : float
        Divides the logits.  0 means greedy: all mass on the largest logit, the first one at a tie.
    top_k : int, optional
        Keep the k likeliest tokens, at ties those of lowest id.
    top_p : float, optional
        Keep the shortest list of likeliest tokens whose mass reaches top_p, at ties those of lowest id.

    Raises
    ------
    ProblemError
        If the logits are not (V,) or hold NaN or +inf or nothing but -inf, or a setting is out of its range.
    """
    z = as_float64(name, logits)
    if z.ndim != 1 or z.size == 0:
        raise ProblemError(f"{name} has shape {z.shape}; the logits of one position have shape (V,), V >= 1")
    if np.isnan(z).any() or np.isposinf(z).any():
        token = int(np.argmax(np.isnan(z) | np.isposinf(z)))
        raise ProblemError(f"{name}[{token}] is {z[token]}; logits are finite, or -inf for a masked token")
    if np.isneginf(z).all():
        raise ProblemError(f"{name} masks every token; at least one logit must be finite")
    if not 0 <= (scale := as_float(temperature)) < np.inf:
        raise ProblemError(f"temperature is {temperature!r}; it must be finite and >= 0 (0 means greedy)")
    if top_k is not None:
        top_k = as_count("top_k", top_k)
    if top_p is not None and not 0 < as_float(top_p) <= 1:
        raise ProblemError(f"top_p is {top_p!r}; it is a probability in (0, 1], or None to keep all")
    if scale == 0:
        law = np.zeros_like(z)
        law[z.argmax()] = 1.0
        return law
    with np.errstate(over="ignore"):  # to -inf, whose exponential is the 0 it should be
        law = np.exp((z - z.max()) / scale)
    if top_k is not None and top_k < law.size:
        law = _keep_top_k(law, top_k)
    law /= law.sum()
    if top_p is not None and top_p < 1:
        from otspec.kernels.truncation import least_left  # numba is wanted here alone

        least, last = least_left(law, 0, float(top_p))
        law[law < least] = 0.0
        law[last + 1 :][law[last + 1 :] == least] = 0.0
        law /= law.sum()
    return law


def laws_from_logits(
    target_logits: Any,
    draft_logits: Any,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    draft_temperature: float | None = None,
    target_top_k: int | None = None,
    target_top_p: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """p and q from the logits of both models.

    Parameters
    ----------
    target_logits, draft_logits : array_like, shape (V,)
    temperature, top_k, top_p, draft_temperature, target_top_k, target_top_p
        As in `otspec.Problem.from_logits`.

    Returns
    -------
    p, q : ndarray, shape (V,)

    Raises
    ------
    ProblemError
        As in `law_from_logits`.
    """
    p = law_from_logits("target_logits", target_logits, temperature, target_top_k, target_top_p)
    if draft_temperature is None:
        draft_temperature = temperature
    return p, law_from_logits("draft_logits", draft_logits, draft_temperature, top_k, top_p)


def _keep_top_k(weights: FloatArray, k: int) -> FloatArray:
    top = np.zeros_like(weights)
    tokens = likeliest(weights, k)
    top[tokens] = weights[tokens]
    return top
