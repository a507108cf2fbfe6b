"""A target's logits and hidden states at every token of some texts, batch after batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import count
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from otspec.decode.models.context import vocabulary
from otspec.laws import IntArray

MEMORY = 4 << 30
"""Bytes of logits and hidden states that are kept rather than computed anew in every epoch, on a CPU; of a GPU's own
memory it is a share of what is free."""
SHARE = 0.4


class Lesson(NamedTuple):
    """A batch of texts of N + 1 tokens."""

    tokens: torch.Tensor
    """Shape (B, N + 1)."""
    logits: torch.Tensor
    """The target's after each token but the last, shape (B, N, V), float32."""
    features: torch.Tensor
    """Its hidden states at each token but the last, shape (B, N, layers, width), float32."""


class Lessons:
    """Texts with the target's logits and hidden states, in an order of its own for every epoch.

    Parameters
    ----------
    target : PreTrainedModel
    texts : ndarray of int, shape (texts, N + 1)
    layers : sequence of int
        After how many of the target's layers hidden states are wanted.
    batch : int
        Texts of a lesson; a rest is left to the next epoch.
    seed : int
    memory : int, optional
        Bytes to keep the target's answers, in half precision and where the target is; beyond, it is asked in
        every epoch.  By default `MEMORY`, or `SHARE` of what is free on a GPU.
    """

    def __init__(
        self,
        target: PreTrainedModel,
        texts: IntArray,
        layers: Sequence[int],
        batch: int,
        seed: int = 0,
        memory: int | None = None,
    ) -> None:
        self.target = target
        self.texts = torch.from_numpy(texts)
        self.layers = list(layers)
        self.batch = batch
        self.seed = seed
        width = vocabulary(target) + len(self.layers) * target.config.get_text_config().hidden_size
        most = _free(target.device) if memory is None else memory
        self._keeps = 2 * texts.shape[0] * (texts.shape[1] - 1) * width <= most
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def again(self, seed: int) -> Lessons:
        """The same texts in another order; the target's answers are kept once for both."""
        other = copy(self)
        other.seed = seed
        return other

    def order(self) -> Iterator[list[int]]:
        """The texts of each lesson, without end."""
        for epoch in count():
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            shuffled = torch.randperm(len(self.texts), generator=generator).tolist()
            whole = max(len(shuffled) // self.batch, 1) * self.batch
            for start in range(0, whole, self.batch):
                yield shuffled[start : start + self.batch]

    def lesson(self, rows: Sequence[int]) -> Lesson:
        """The lesson of some texts."""
        tokens = self.texts[list(rows)].to(self.target.device)
        if missing := [row for row in rows if row not in self._kept]:
            answers = self._asked(self.texts[missing].to(self.target.device))
            if len(missing) == len(rows) and not self._keeps:
                return Lesson(tokens, *(one.float() for one in answers))
            self._kept.update(zip(missing, zip(*(one.half() for one in answers), strict=True), strict=True))
        kept = zip(*(self._kept[row] for row in rows), strict=True)
        logits, features = (torch.stack(one).float() for one in kept)
        return Lesson(tokens, logits, features)

    @torch.no_grad()
    def _asked(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.target(input_ids=tokens[:, :-1], use_cache=False, output_hidden_states=bool(self.layers))
        states = [found.hidden_states[layer] for layer in self.layers]
        none = found.logits.new_empty((*found.logits.shape[:2], 0, 0))
        return found.logits, torch.stack(states, dim=2) if states else none


def _free(device: torch.device) -> float:
    return SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else MEMORY
