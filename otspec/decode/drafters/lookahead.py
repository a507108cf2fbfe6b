"""Fixed drafts that the target itself makes beside its text: lookahead decoding [fu2024break].

A window of guesses goes on behind the text, and is read in the passes that verify drafts.  Row 0 guesses the next W
tokens; row r guesses, for each column c, the token r places after that of row 0.  The guess at (r, c) is read after
row 0 up to column c and the rows above it in its column, and what the target puts after the last row makes a new one:
a step of a Jacobi iteration.  So the window is a path with a chain below each of its nodes, a tree like that of any
drafts; the n-grams that stand in a column are stored by their first tokens, and drafted after these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import Drafter
from otspec.laws import IntArray
from otspec.verification.trees.topology import Topology


class LookaheadDrafter(Drafter):
    """Fixed drafts from n-grams that the target wrote, and the window that finds them.

    Parameters
    ----------
    count : int
        G, n-grams that are drafted at once, the latest of those that begin with the last token.
    width : int
        W, columns of the window.
    ngram : int
        N >= 2, tokens of an n-gram; the window has N - 1 rows.
    seed : int
        Of the guesses that the window begins with, tokens of the prompt.
    """

    def __init__(self, count: int, width: int, ngram: int, seed: int) -> None:
        self.count = count
        self.width = width
        self.ngram = ngram
        self._rng = np.random.default_rng(seed)
        self._windows: list[_Window] = []
        self._drafted = False
        """Whether the trees that the target reads next hold the windows."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Store the n-grams of the prompts, and guess."""
        self._windows = [_Window(self.count, self.width, self.ngram, text, self._rng) for text in texts]

    def depth(self, lengths: IntArray) -> int:
        """As deep as the last column of the window."""
        return self.width + self.ngram - 2

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """The n-grams that may go on, and the window if there is room for all of it."""
        self._drafted = depth >= self.width + self.ngram - 2
        paths = []
        for window, text in zip(self._windows, texts, strict=True):
            window.follow(text)
            found = [list(path[:depth]) for path in window.continuations(text[-1])]
            paths.append([*found, *window.columns] if self._drafted else found)
        return Drafts.fixed(paths)

    def learn(self, trees: Sequence[Topology], tokens: Sequence[int]) -> None:
        """What the target put after every node of all trees: the next row of each window."""
        if not self._drafted:
            return
        self._drafted, start = False, 0  # at the end of a text the target reads no drafts
        for window, tree in zip(self._windows, trees, strict=True):
            window.advance(tree, tokens[start : start + tree.size])
            start += tree.size

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Drop the texts that have ended."""
        self._windows = [self._windows[row] for row in rows]


class _Window:
    """Guesses behind one text, and the n-grams seen so far."""

    def __init__(self, count: int, width: int, ngram: int, text: Sequence[int], rng: np.random.Generator) -> None:
        self._count = count
        self._ngram = ngram
        self._text = np.array(text)
        self._rng = rng
        self._rows = [self._guesses(width) for _ in range(ngram - 1)]
        self._known = 0
        """Tokens of the text whose n-grams are stored."""
        self._after: dict[int, dict[tuple[int, ...], None]] = {}
        """By first token, the tokens that followed it, the latest last."""

    @property
    def columns(self) -> list[list[int]]:
        """The path to the last row of each column."""
        first = self._rows[0]
        return [first[: at + 1] + [row[at] for row in self._rows[1:]] for at in range(len(first))]

    def continuations(self, token: int) -> list[tuple[int, ...]]:
        """What followed a token, the latest first."""
        return list(self._after.get(token, ()))[::-1]

    def follow(self, text: Sequence[int]) -> None:
        """Store the n-grams of the text's new tokens, and move the window on with them."""
        if self._known:  # `advance` moved it on by the one token that every step adds
            gone = min(len(text) - self._known - 1, len(self._rows[0]))
            self._rows = [row[gone:] + self._guesses(gone) for row in self._rows]
        for end in range(max(self._known + 1, self._ngram), len(text) + 1):
            self._remember(text[end - self._ngram : end])
        self._known = len(text)

    def advance(self, tree: Topology, after: Sequence[int]) -> None:
        """Take what the target puts after each node as guesses one place further."""
        edges = zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True)
        below = {edge: node for node, edge in enumerate(edges, start=1)}
        row = []
        for at, column in enumerate(self.columns):
            node = 0
            for token in column:
                node = below[node, token]
            row.append(after[node])
            self._remember([*(above[at] for above in self._rows), row[-1]])
        self._rows = [*self._rows[1:], row]

    def _remember(self, ngram: Sequence[int]) -> None:
        after = self._after.setdefault(int(ngram[0]), {})
        key = tuple(map(int, ngram[1:]))
        after.pop(key, None)
        after[key] = None
        if len(after) > self._count:
            del after[next(iter(after))]

    def _guesses(self, count: int) -> list[int]:
        guesses: list[int] = self._rng.choice(self._text, count).tolist()
        return guesses
