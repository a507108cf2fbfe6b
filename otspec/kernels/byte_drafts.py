"""All levels of a draft on a CPU in one call: laws, draws and passes over one text's tree, by weights of 8 bits.

By torch a level is some sixty operations, which take as long as its products do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit, jit_vectorised
from otspec.kernels.byte_weights import ByteLayer, ByteMatrix, layer, multiply, product
from otspec.kernels.exponentials import exp64, greatest
from otspec.kernels.few_rows import Bits, Gains, narrowed, normalise, widened
from otspec.kernels.truncation import truncate_row
from otspec.laws import FloatArray, IntArray

UNSEEN = np.uint16(0xFF7F)
"""The least number of bfloat16."""
NONE = -1
"""In place of a token, where a law has no more."""
TINY = float(np.finfo(np.float32).tiny)


SamplingParams = tuple[float, int, float, float]
"""Temperature, 0 for point masses, and top_k, top_p and min_p as of `otspec.kernels.truncation.truncate`."""


class ByteDrafter(NamedTuple):
    """A draft model that reads with every token its own output at the token before it."""

    embedding: Bits
    """Shape (V, d): the target's, which is normalised."""
    token: ByteMatrix
    """Of the embedding."""
    own: ByteMatrix
    """Of the output."""
    seen: ByteMatrix
    """Of hidden states of the target, each normalised, which stand in for outputs where the target has read."""
    layers: tuple[ByteLayer, ...]
    norm: Gains
    head: ByteMatrix
    epsilon: float


class Cache(NamedTuple):
    """What is written to, and angles of positions."""

    entries: Bits
    """Shape (2 layers, 1, heads of keys, columns, size)."""
    cosine: Bits
    """Shape (positions, size)."""
    sine: Bits


@jit
def read_text(
    model: ByteDrafter, cache: Cache, tokens: IntArray, features: Bits, start: int, position: int
) -> tuple[Gains, Bits]:
    """Read what is new of a text: the logits after it, shape (1, k), and the output at its last token, (1, d).

    Parameters
    ----------
    model : ByteDrafter
    cache : Cache
    tokens : shape (N,)
    features : shape (N, layers read, width)
        The target's states at the token before each.
    start, position : int
        The first column to write; the position of the first token.
    """
    count, states, width = features.shape
    normed, ones = np.empty((count * states, width), np.uint16), np.ones(width, np.float32)
    normalise(features.reshape((count * states, width)), ones, TINY, normed)
    hidden = _begun(model, tokens, product(normed.reshape((count, states * width)), model.seen), 1)
    mask = np.zeros((1 if count > 1 else 0, count, start + count), np.uint16)
    for row in range(count if count > 1 else 0):
        mask[0, row, start + row + 1 :] = UNSEEN
    logits = np.empty((1, len(model.head.scales)), np.float32)
    _through(model, cache, hidden, np.arange(position, position + count), start, mask)
    last = hidden[count - 1 :]
    multiply(last, model.head, logits)
    return logits, last


@jit
def draft(
    model: ByteDrafter, cache: Cache, branching: IntArray, columns: IntArray, params: SamplingParams,
    uniform: FloatArray, logits: Gains, output: Bits, start: int, position: int, laws: FloatArray, tokens: IntArray,
) -> None:  # fmt: skip
    """Draft all levels of a tree from the model's laws, and read them but for the last.

    Parameters
    ----------
    model : ByteDrafter
    cache : Cache
    branching : shape (L,)
        Of each level: how many children a slot has.
    columns : shape (k,)
        The token of each row of the head.
    params : SamplingParams
    uniform : shape (slots - 1,) or (0,)
        In [0, 1): what each slot behind the root is drawn by, independently; or siblings are the likeliest tokens.
    logits : shape (1, k)
        After the text.
    output : shape (1, d)
        The model's at the last token of the text.
    start, position : int
        The first column to write; the position of that token.
    laws : shape (slots with children, k)
        Written: the law that each of them was drawn from; slots of one prefix have one.
    tokens : shape (slots - 1,)
        Written; `NONE` where fewer tokens are possible than likeliest ones are wanted.
    """
    width, law, slot = 1, 0, 0
    first, above = np.zeros(1, np.int64), start  # of each slot of a level, the first with its prefix
    for level in range(len(branching)):
        children = branching[level]
        wider = width * children
        drawn = np.empty(wider, np.int64)
        for place in range(width):
            if first[place] == place:
                _softmax(_cut(logits[place], params), params[0], laws[law + place])
            else:
                laws[law + place] = laws[law + first[place]]
            own = drawn[place * children : (place + 1) * children]
            if len(uniform):
                _draw(laws[law + place], uniform[slot + place * children : slot + (place + 1) * children], own)
            else:
                _greatest(laws[law + place], own)
                for child in range(children):
                    own[child] = own[child] if laws[law + place, own[child]] > 0 else NONE
        for place in range(wider):
            drawn[place] = columns[drawn[place]] if drawn[place] != NONE else NONE
        tokens[slot : slot + wider] = drawn
        if level == len(branching) - 1:
            return
        before, first = first, np.empty(wider, np.int64)
        for place in range(wider):
            first[place] = 0
            while drawn[first[place]] != drawn[place] or before[first[place] // children] != before[place // children]:
                first[place] += 1
        output = _begun(model, np.maximum(drawn, 0), product(output, model.own), children)
        mask, places = _mask(branching[: level + 1], start, wider), np.full(wider, position + level + 1)
        _through(model, cache, output, places, above, mask)
        logits = np.empty((wider, len(model.head.scales)), np.float32)
        multiply(output, model.head, logits)
        law, slot, above, width = law + width, slot + wider, above + wider, wider


@jit
def grow(
    model: ByteDrafter, cache: Cache, columns: IntArray, logits: Gains, output: Bits, start: int, position: int,
    tokens: IntArray, chances: FloatArray, parents: IntArray, expanded: IntArray,
) -> None:  # fmt: skip
    """Draft the levels of a dynamic tree, each of the W likeliest tokens after the W likeliest prefixes.

    Likely is by the model's own probabilities, those along a path multiplied; all prefixes but the last are read.

    Parameters
    ----------
    model, cache, columns, logits, output, start, position
        As in `draft`; k is at least W.
    tokens : shape (L, W * W)
        Written: W tokens after every prefix, the root alone on the first level.
    chances : shape (L, W * W)
        Written: logarithms of the probabilities of each with all before it.
    parents : shape (L, W * W)
        Written: which of the prefixes of the level above each follows.
    expanded : shape (L, W)
        Written: which tokens are gone on from, but for the last level.
    """
    depth, width = expanded.shape
    law, chance = np.empty(len(columns)), np.zeros(1)
    sees, above = np.zeros((1, 0), np.bool_), start
    for level in range(depth):
        states = len(chance) * width
        for place in range(len(chance)):
            own = tokens[level, place * width : (place + 1) * width]
            _softmax(logits[place], 1.0, law)
            _greatest(law, own)
            for child in range(width):
                chances[level, place * width + child] = chance[place] + np.log(law[own[child]])
                parents[level, place * width + child] = place
                own[child] = columns[own[child]]
        if level == depth - 1:
            return
        _greatest(chances[level, :states], expanded[level])
        chance, before = chances[level][expanded[level]], parents[level][expanded[level]]
        added = product(output, model.own)
        output = _begun(model, tokens[level][expanded[level]], added[before], 1)
        sees = np.concatenate((sees[before], np.eye(width) > 0), axis=1)
        mask = np.where(sees, np.uint16(0), UNSEEN)
        whole = np.zeros((1 if width > 1 else 0, width, above + width), np.uint16)
        whole[:, :, start:] = mask
        _through(model, cache, output, np.full(width, position + level + 1), above, whole)
        logits = np.empty((width, len(columns)), np.float32)
        multiply(output, model.head, logits)
        above += width


@jit
def _begun(model: ByteDrafter, tokens: IntArray, added: Bits, children: int) -> Bits:
    """What goes into the first layer, shape (W, d), of tokens and what is added to so many each."""
    vectors = np.empty((len(tokens), added.shape[1]), np.uint16)
    normalise(model.embedding[tokens], np.ones(added.shape[1], np.float32), TINY, vectors)
    begun = product(vectors, model.token)
    for row in range(len(tokens)):
        for column in range(added.shape[1]):
            begun[row, column] = narrowed(widened(begun[row, column]) + widened(added[row // children, column]))
    return begun


@jit
def _through(model: ByteDrafter, cache: Cache, hidden: Bits, places: IntArray, start: int, mask: Bits) -> None:
    """All layers and the last norm, in place; shapes (W, d) and (W,), others as in `layer`."""
    cosine, sine = cache.cosine[places], cache.sine[places]
    for number in range(len(model.layers)):
        keys, values = cache.entries[2 * number], cache.entries[2 * number + 1]
        layer(hidden, model.layers[number], cosine, sine, model.epsilon, start, mask, keys, values)
    normalise(hidden, model.norm, model.epsilon, hidden)


@jit
def _mask(branching: IntArray, start: int, width: int) -> Bits:
    """What slots of a level see, shape (1, width, columns): the text, and what they go on from; none for one path."""
    if branching.max() == 1:
        return np.empty((0, 0, 0), np.uint16)
    sizes = np.cumprod(branching)
    mask = np.full((1, width, start + sizes.sum()), UNSEEN)
    mask[:, :, :start] = 0
    for place in range(width):
        at, stop = place, start + sizes.sum()
        for level in range(len(branching) - 1, -1, -1):
            stop -= sizes[level]
            mask[0, place, stop + at] = 0
            at //= branching[level]
    return mask


@jit
def _cut(logits: Gains, params: SamplingParams) -> Gains:
    """Logits with -inf for what truncations cut."""
    temperature, top_k, top_p, min_p = params
    if temperature == 0 or (top_k == 0 and top_p == 1 and min_p == 0):
        return logits
    left = logits.copy()
    truncate_row(left, temperature, top_k, top_p, min_p)
    return left


@jit_vectorised
def _softmax(logits: Gains, temperature: float, into: FloatArray) -> None:
    """The law of logits, shape (k,) both; where these are no numbers, the first token's."""
    most = greatest(logits)
    if not most > -np.inf or temperature == 0:
        into[:] = 0
        best = 0
        while logits[best] < most:
            best += 1
        into[best] = 1
        return
    total = 0.0
    for token in range(len(logits)):
        into[token] = exp64((np.float64(logits[token]) - most) / temperature)
        total += into[token]
    for token in range(len(logits)):
        into[token] /= total


@jit
def _draw(law: FloatArray, uniform: FloatArray, into: IntArray) -> None:
    """Draw by the inverse of the distribution function: a token of a probability for each uniform number."""
    total = 0.0
    for probability in law:
        total += probability
    for draw in range(len(uniform)):
        reached, token, wanted = law[0], 0, uniform[draw] * total
        while reached <= wanted:
            token += 1
            reached += law[token]
        into[draw] = token


@jit
def _greatest(values: FloatArray, into: IntArray) -> None:
    """Where the greatest values are, the greatest first, of equal ones the first; there are enough."""
    into[:] = NONE
    for place in range(len(values)):
        at = len(into)
        while at and (into[at - 1] == NONE or values[place] > values[into[at - 1]]):
            at -= 1
            if at + 1 < len(into):
                into[at + 1] = into[at]
        if at < len(into):
            into[at] = place
