"""Code of the notes, as printed: EAGLE's fused input, and prompt lookup."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from otspec.laws import IntArray
from otspec.proofs_check.claims import claim


def _shapes(rng: np.random.Generator) -> dict[str, Any]:
    return dict(zip(("batch", "length", "hidden"), rng.integers(1, 9, 3).tolist(), strict=True))


@claim("notes-eagle-fused-width", _shapes, counterexample={"batch": 1, "length": 1, "hidden": 1})
def eagle_fused_width(batch: int, length: int, hidden: int) -> float:
    """The fused sequence of features and token embeddings is twice as wide as either. [aarnphm2025speculative,
    'EAGLE-1', architecture: 'fused_seq = feature_seq * token_emb']

    Instead: A product is as wide as its factors; what the comment on it describes is their concatenation.
    """
    feature_seq, token_emb = np.ones((2, batch, length, hidden))
    return -float(abs((feature_seq * token_emb).shape[-1] - 2 * hidden))


def find_candidate_pred_tokens(input_ids: IntArray, max_ngram_size: int, num_pred_tokens: int) -> IntArray:
    """The printed function, line by line, for a batch of one; a window longer than the text raises, as in torch."""
    input_length = input_ids.size
    for ngram_size in range(max_ngram_size, 0, -1):
        ngram = input_ids[-ngram_size:]
        matches = (sliding_window_view(input_ids, ngram_size) == ngram).all(axis=1)
        for idx in np.flatnonzero(matches):
            start_idx = idx + ngram_size
            end_idx = start_idx + num_pred_tokens
            if end_idx <= input_length and start_idx < input_length - ngram_size:
                return input_ids[start_idx:end_idx]
    return np.empty(0, dtype=np.int64)


def _prompt(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "input_ids": rng.integers(0, 3, rng.integers(1, 25)),
        "max_ngram_size": 3,
        "num_pred_tokens": int(rng.integers(1, 11)),
    }


@claim("notes-lookup-short", _prompt, counterexample={"input_ids": [0, 1], "max_ngram_size": 3, "num_pred_tokens": 10})
def lookup_short(**call: Any) -> float:
    """Prompt lookup returns candidate tokens, or none, for every prompt. [aarnphm2025speculative, 'ngrams']

    Instead: unfold raises for a prompt shorter than max_ngram_size: begin with min(max_ngram_size, input_length).
    """
    try:
        find_candidate_pred_tokens(**call)
    except ValueError:
        return -1.0
    return 0.0


def _long_prompt(rng: np.random.Generator) -> dict[str, Any]:
    return {**_prompt(rng), "input_ids": rng.integers(0, 3, rng.integers(3, 25))}


def _follows(found: IntArray, input_ids: IntArray, max_ngram_size: int, num_pred_tokens: int, least: int = 1) -> bool:
    """Whether tokens follow an earlier occurrence of the last n, for some n up to the largest."""
    text = input_ids.tolist()
    return found.size <= num_pred_tokens and any(
        text[i : i + n] == text[-n:] and text[i + n : i + n + found.size] == found.tolist()
        for n in range(least, max_ngram_size + 1)
        for i in range(len(text) - n)
    )


@claim(
    "notes-lookup-continues", _long_prompt, tol=0.0, mutants={"Of the last max_ngram_size tokens.": {"longest": True}}
)
def lookup_continues(longest: bool = False, **call: Any) -> float:
    """What prompt lookup returns follows an earlier occurrence of the last n tokens, n <= max_ngram_size.
    [aarnphm2025speculative, 'ngrams']

    Hypotheses: The prompt has at least max_ngram_size tokens.
    """
    found = find_candidate_pred_tokens(**call)
    least = {"least": call["max_ngram_size"]} if longest else {}
    return 0.0 if found.size == 0 or _follows(found, **call, **least) else -1.0


@claim(
    "notes-lookup-empty",
    _long_prompt,
    counterexample={"input_ids": [0, 1, 0], "max_ngram_size": 3, "num_pred_tokens": 10},
)
def lookup_empty(input_ids: IntArray, max_ngram_size: int, num_pred_tokens: int) -> float:
    """Prompt lookup returns no tokens only if no n-gram matches. [aarnphm2025speculative, 'ngrams': 'if no match is
    found, return an empty tensor']

    Hypotheses: The prompt has at least max_ngram_size tokens.
    Instead: A match is passed over unless num_pred_tokens follow it: take those that there are. A match that ends
    within the last n tokens is passed over as well, though only one that ends at the last is the n-gram itself.
    Margin: Whether nothing was returned though some n-gram matches by the code's own test against self-matches.
    """
    text = input_ids.tolist()
    matched = any(
        text[i : i + n] == text[-n:] and i + n < len(text) - n
        for n in range(1, max_ngram_size + 1)
        for i in range(len(text))
    )
    found = find_candidate_pred_tokens(input_ids, max_ngram_size, num_pred_tokens)
    return -1.0 if matched and found.size == 0 else 0.0


def _mended(input_ids: IntArray, max_ngram_size: int, num_pred_tokens: int) -> IntArray:
    length = input_ids.size
    for n in range(min(max_ngram_size, length), 0, -1):
        starts = n + np.flatnonzero((sliding_window_view(input_ids, n) == input_ids[-n:]).all(axis=1))
        if starts[0] < length:
            return input_ids[starts[0] : starts[0] + num_pred_tokens]
    return np.empty(0, dtype=np.int64)


def _complete_for_pairs(**call: Any) -> float:
    """Whether something is returned exactly if the last two tokens occurred before."""
    text = call["input_ids"].tolist()
    before = any(text[i : i + 2] == text[-2:] for i in range(len(text) - 2))
    return 0.0 if before == (_mended(**call).size > 0) else -1.0


@claim(
    "notes-lookup-mended", _prompt, tol=0.0, mutants={"If the last two tokens occurred before.": _complete_for_pairs}
)
def lookup_mended(input_ids: IntArray, max_ngram_size: int, num_pred_tokens: int) -> float:
    """Mended, prompt lookup returns a continuation of an earlier n-gram exactly if the last token occurred before.
    [aarnphm2025speculative, 'ngrams', mended]

    Beside: notes-lookup-empty
    """
    call: dict[str, Any] = {
        "input_ids": input_ids,
        "max_ngram_size": max_ngram_size,
        "num_pred_tokens": num_pred_tokens,
    }
    found = _mended(**call)
    if input_ids[-1] not in input_ids[:-1]:
        return -float(found.size)
    return 0.0 if found.size and _follows(found, **call) else -1.0
