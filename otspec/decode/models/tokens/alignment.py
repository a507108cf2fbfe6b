"""What the target writes where a draft model with another tokenizer writes a token of its own, counted over text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from otspec.decode.models.tokens.matching import Matching
from otspec.laws import IntArray
from otspec.vocab import Estimate


def aligned_counts(matching: Matching, texts: Iterable[str], about: Mapping[str, Any] | None = None) -> Estimate:
    """How often a token of the target begins where a token of the draft model does, for `draft_kernel`.

    The row of a token is, at tau = 1, the law of the target's next token where the draft model's next token is its
    counterpart, over all places of the texts where both begin one: a part of a word stands for the words that begin
    with it.  So M^T q is the target's law wherever a context determines no more than the draft model's next token does.
    Tokens in common that are never seen keep their mass, and so do special ones.

    Parameters
    ----------
    matching : Matching
    texts : iterable of str
    about : mapping, optional
        Where the texts come from, for the file.

    Examples
    --------
    >>> from otspec.decode import aligned_counts, matching_of, shipped
    >>> matching = matching_of(shipped.load().tokenizer, shipped.foreign().tokenizer)
    >>> kernel = aligned_counts(matching, ["with open(path) as file: return file.read()"]).affinity()
    >>> bool((kernel.tokens == matching.tokens).all())  # the rows are those of the tokens in common
    True
    """
    known = np.full(max(matching.draft.bytes_of) + 1, -1)
    text_of_own = matching.own < known.size
    known[matching.own[text_of_own]] = matching.tokens[text_of_own]
    pairs = [np.empty((2, 0), dtype=np.int64)]
    level: IntArray = np.zeros(matching.vocab, dtype=np.int64)
    for text in texts:
        data = text.encode()
        (begins, target), (own_begins, own) = (_placed(one, data) for one in (matching.target, matching.draft))
        _, here, there = np.intersect1d(begins, own_begins, assume_unique=True, return_indices=True)
        token, stands_for = target[here], known[own[there]]
        fine = (stands_for >= 0) & (token < matching.vocab)
        pairs.append(np.stack((stands_for[fine], token[fine])))
        np.add.at(level, target[target < matching.vocab], 1)
    where = np.concatenate(pairs, axis=1)  # once: a sum of matrices costs as much as there are tokens, text by text
    ones = np.ones(where.shape[1], dtype=np.int64)
    counts: Any = sparse.csr_array((ones, tuple(where)), shape=(matching.vocab, matching.vocab))
    unseen = matching.tokens[np.diff(counts.indptr)[matching.tokens] == 0]
    stays = sparse.csr_array((np.ones(unseen.size), (unseen, unseen)), shape=counts.shape)
    matrix = sparse.csr_array((counts + stays)[matching.tokens], dtype=np.float64)
    matrix.sum_duplicates()
    details = {**(about or {}), "seen": int(level.sum()), "aligned": int(counts.sum())}
    return Estimate("counts", matching.tokens, matrix, level.astype(np.float64), 1.0, details)


def _placed(spelling: Any, data: bytes) -> tuple[IntArray, IntArray]:
    """Where each token of a text begins, and the tokens."""
    tokens: IntArray = np.array(spelling.encode(data), dtype=np.int64)
    sizes = [len(spelling.bytes_of[token]) for token in tokens.tolist()]
    return np.cumsum([0, *sizes])[:-1], tokens
