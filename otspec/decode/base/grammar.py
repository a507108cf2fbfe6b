"""A grammar that texts keep to, followed along the paths of drafted trees: its matchers go back and forth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from otspec.decode.base.matchers import WORD, BitMasks, Make, Matcher
from otspec.decode.base.sending import send
from otspec.errors import ProblemError


class Grammar:
    """What tokens a compiled grammar allows after given texts, whichever was asked about before.

    The logits processors of grammars advance their matchers by the last token of every call, which on a tree is another
    path's.  Here a matcher goes back to what two paths have in common and on from there: one bit mask a node.

    Parameters
    ----------
    make : sequence of callables
        What makes a matcher: one for each of the B texts, or one for all.
    batch : int
        B.
    prompt : int
        Length of the prompts with their padding; the grammar begins after them.
    vocab : int
        The target's number of tokens.

    Raises
    ------
    ProblemError
        If there are not as many grammars as texts.
    """

    def __init__(self, make: Sequence[Make], batch: int, prompt: int, vocab: int) -> None:
        if len(make) not in (1, batch):
            raise ProblemError(
                f"there are {len(make)} grammars and {batch} prompts; pass one grammar for all, or one for each"
            )
        self.prompt = prompt
        self.vocab = vocab
        self._make = make
        self._along: dict[int, _Along] = {}
        self._drafted_for: list[tuple[int, int]] = []
        """Of each text that a drafter goes on with: its row of the batch, and the length of its prompt."""

    def cut(self, scores: torch.Tensor, rows: Sequence[int], texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Scores with -inf for what is not allowed; those after texts that the grammar has left, or ended, stay.

        Parameters
        ----------
        scores : Tensor, shape (N, V)
        rows : sequence of int
            Of which text of the batch each of the N texts is a continuation.
        texts : sequence of lists of int
            With padding, prompt and new tokens.
        """
        allowed = self._allowed(rows, [text[self.prompt :] for text in texts])
        return scores.masked_fill(~self._on(scores.device, allowed), -torch.inf)

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Note the prompts that drafting begins with, without padding."""
        self._drafted_for = [(row, len(text)) for row, text in enumerate(texts)]

    def keep(self, rows: Sequence[int]) -> None:
        """Note which texts go on."""
        self._drafted_for = [self._drafted_for[row] for row in rows]

    def allowed(
        self, texts: Sequence[Sequence[int]], paths: Sequence[Sequence[Sequence[int]]], device: torch.device
    ) -> torch.Tensor:
        """What may be drafted, shape (B, W, V), bool.

        Parameters
        ----------
        texts : sequence of lists of int
            The B texts that go on, without padding.
        paths : sequence of lists of lists of int
            Of each, what was drafted after it in each of W slots.
        device : torch.device
        """
        given = [
            (row, [*text[prompt:], *path])
            for (row, prompt), text, own in zip(self._drafted_for, texts, paths, strict=True)
            for path in own
        ]
        allowed = self._allowed([row for row, _ in given], [new for _, new in given])
        return self._on(device, allowed).view(len(texts), -1, self.vocab)

    def _allowed(self, rows: Sequence[int], new: Sequence[Sequence[int]]) -> BitMasks:
        """Bit masks after new tokens, shape (N, words); all bits are set where the grammar has nothing to say."""
        masks = np.full((len(rows), -(-self.vocab // WORD)), -1, dtype=np.int32)
        for mask, row, tokens in zip(masks, rows, new, strict=True):
            if row not in self._along:
                self._along[row] = _Along(self._make[row if len(self._make) > 1 else 0](), self.vocab)
            self._along[row].write(mask, tokens)
        return masks

    def _on(self, device: torch.device, masks: BitMasks) -> torch.Tensor:
        """Bit masks as bool, shape (N, V), on a device."""
        bits = torch.arange(WORD, dtype=torch.int32, device=device)
        return (send(masks, device).unsqueeze(-1) >> bits & 1).bool().flatten(1)[:, : self.vocab]


class _Along:
    """A matcher, and the tokens that it has followed."""

    def __init__(self, matcher: Matcher, vocab: int) -> None:
        self._matcher = matcher
        self._words = -(-vocab // WORD)
        self._at: list[int] = []

    def write(self, mask: BitMasks, tokens: Sequence[int]) -> None:
        """Write which tokens may come after these, shape (words,); nothing if they are not of the grammar, or end it.

        Raises
        ------
        ProblemError
            If none may.
        """
        if not self._go_to(tokens):
            return
        words = self._matcher.allowed()[: self._words]
        mask[:] = 0  # tokens that the grammar was not compiled for
        mask[: len(words)] = words
        if not mask.any():
            raise ProblemError(
                f"the grammar allows no token of the model after {len(tokens)} new tokens, the last of which are "
                f"{list(tokens[-4:])}; was it compiled for the target's tokenizer?"
            )

    def _go_to(self, tokens: Sequence[int]) -> bool:
        """Stand after these tokens, and say whether the grammar goes on from there."""
        common = len(self._at)
        while self._at[:common] != list(tokens[:common]):
            common -= 1
        if common < len(self._at):
            self._matcher.back(len(self._at) - common)
            del self._at[common:]
        for token in tokens[common:]:
            if token < 0 or not self._matcher.accept(token):
                return False
            self._at.append(token)
        return True
