"""Random numbers of texts that each have a seed: what a text draws depends on its seed and its length, on nothing else.

A step draws from streams that belong to the text's seed and to the number of its new tokens: each draft model has one,
and verification has another.  So it does not matter how often others draw, nor how much of what was drawn is of use.
Where nothing was drawn for a token but its place in the text, the token comes from the uniform number of that place:
with fixed drafts, whatever they are, and without any, one seed gives one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import Any, Self, TypeAlias

import numpy as np
import torch

from otspec.decode.base.text import Text
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray

PLACES, VERIFICATION, DRAFTS = range(3)
"""What a stream is for; those of further draft models come behind the last."""


class Streams:
    """Random numbers for a batch of texts.

    Parameters
    ----------
    seeds : sequence of int
        One a text.
    device : torch.device
        Of the models.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self.device = device
        self._seeds = list(seeds)
        self._places = [np.random.default_rng(_sequence(seed, PLACES)) for seed in seeds]
        self._uniforms: list[FloatArray] = [np.empty(0) for _ in seeds]
        self._drafting: list[list[torch.Generator]] = []
        self._going: list[tuple[int, int]] = []
        """Of the texts of a step: their rows in the batch, and how many new tokens each has."""

    @classmethod
    def of(cls, seeds: Any, texts: int, device: torch.device) -> Self:
        """The streams of what was passed as a seed, where that is no number.

        Raises
        ------
        ProblemError
            If it does not hold a seed for each text.
        """
        try:
            found = [index(seed) for seed in seeds]
        except TypeError:
            found = [-1]
        if min(found, default=0) < 0:
            raise ProblemError(f"seed is {seeds!r}; pass an integer >= 0, or a list with one for each prompt")
        if len(found) != texts:
            raise ProblemError(f"{len(found)} seeds and {texts} prompts; pass one for each, or a single number for all")
        return cls(found, device)

    def begin(self, going: Sequence[Text]) -> None:
        """Begin a step of these texts."""
        self._going = [(text.row, len(text.tokens) - text.prompt) for text in going]
        for number, own in enumerate(self._drafting):
            own[:] = [self._generator(_sequence(self._seeds[row], DRAFTS + number, new)) for row, new in self._going]

    def drafting(self) -> list[torch.Generator]:
        """One generator for each text of a step, for one more drafter: `begin` fills the list anew."""
        self._drafting.append([])
        return self._drafting[-1]

    def verification(self) -> Iterator[tuple[np.random.Generator, torch.Generator]]:
        """For each text of the step what its drafts are verified by, on the host and on the device."""
        for row, new in self._going:
            own = _sequence(self._seeds[row], VERIFICATION, new)
            yield np.random.default_rng(own), self._generator(own)

    def uniforms(self, depths: Sequence[IntArray]) -> torch.Tensor:
        """Numbers in [0, 1) that tokens are drawn by, one a node; those of a place in a text are the same.

        Parameters
        ----------
        depths : sequence of arrays of int, shape (nodes,)
            Of each text of the step: how many drafted tokens come before the one that is drawn.
        """
        found = [self._of_places(row, new + own) for (row, new), own in zip(self._going, depths, strict=True)]
        return torch.from_numpy(np.concatenate(found)).to(self.device)

    def initial_seed(self) -> int:
        """One number for all of them, for what changes no text."""
        return int(np.random.SeedSequence(self._seeds).generate_state(1, np.uint32)[0])

    def _of_places(self, row: int, places: IntArray) -> FloatArray:
        missing = int(places.max()) + 1 - self._uniforms[row].size
        if missing > 0:
            self._uniforms[row] = np.append(self._uniforms[row], self._places[row].random(missing))
        return self._uniforms[row][places]

    def _generator(self, own: np.random.SeedSequence) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(int(own.generate_state(1, np.uint32)[0]))


Randomness: TypeAlias = torch.Generator | Streams
"""Where a run draws from: one generator for all of its texts, or streams of their own."""


def _sequence(seed: int, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=key)
