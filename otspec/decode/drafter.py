"""Drafting with a language model: a tree of tokens per text, level by level, without a look at them in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from otspec.decode.context import Context, positions, vocabulary
from otspec.decode.draft_laws import DraftLaw
from otspec.decode.sampling import Sampling
from otspec.decode.shape import Shape
from otspec.decode.tree import DraftTree
from otspec.laws import IntArray


@dataclass(frozen=True, eq=False)
class Drafts:
    """What was drafted for a batch of texts."""

    trees: Sequence[DraftTree]
    laws: torch.Tensor
    """Shape (R, V), on the device: draft laws at the inner nodes of all trees, one tree after the other."""


class Drafter(Protocol):
    """Something that proposes how texts go on."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft at most `depth` >= 1 tokens a path, after each of the texts."""

    def depth(self, lengths: IntArray) -> int:
        """How many tokens a path may have after texts of these lengths; 0 if no draft is to be made."""

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """What became of the drafts: the slots of each text's accepted tokens, and which texts go on."""


class ModelDrafter:
    """Drafts from a draft model, all slots of a level of all texts in one pass.

    Parameters
    ----------
    model : PreTrainedModel
    shape : Shape
    law : DraftLaw
        How the children of a node are drawn.
    sampling : Sampling
        What is done to the logits.
    vocab : int
        The target's number of tokens: draft logits are cut, or filled up with -inf, to it.  Tokens that the draft model
        does not have it reads as its last one.
    generator : torch.Generator
        On the model's device.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        shape: Shape,
        law: DraftLaw,
        sampling: Sampling,
        vocab: int,
        generator: torch.Generator,
    ) -> None:
        self.model = model
        self.shape = shape
        self.law = law
        self.sampling = sampling
        self.vocab = vocab
        self.generator = generator
        self._on_trial: list[list[int]] = []
        """Of each text: the columns on trial that hold the text itself; those of the slots come after them."""
        self._before_slots = 0
        self._read_slots = 1

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens."""
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts])

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as the draft model's positions last: its last level is drawn, not read."""
        return int(min(self.shape.depth, max(positions(self.model) - lengths.max() + 1, 0)))

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft; the tokens leave the device once, at the end."""
        shape, device = self.shape.cut(depth), self.context.device
        unread = [self._readable(text[length:]) for text, length in zip(texts, self.context.length, strict=True)]
        chain = max(map(len, unread))
        tokens, position = np.zeros((len(texts), chain), dtype=np.int64), np.zeros((len(texts), chain), dtype=np.int64)
        for row, (more, length) in enumerate(zip(unread, self.context.length, strict=True)):
            tokens[row, chain - len(more) :] = more
            position[row, chain - len(more) :] = np.arange(length, length + len(more))
        own = np.arange(chain) >= chain - np.array([[len(more)] for more in unread])
        self._on_trial = [np.flatnonzero(row).tolist() for row in own]
        self._before_slots, self._read_slots = chain, shape.offsets[depth]

        sees_text = torch.from_numpy(own).to(device)[:, None]
        causal = torch.ones(chain, chain, dtype=torch.bool, device=device).tril()
        root = torch.from_numpy(position[:, -1:]).to(device)
        logits = self.context.read(
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(position).to(device),
            sees_text & causal,
            keep=1,
        )
        drawn: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        for level, children in enumerate(shape.branching):
            laws.append(self.sampling.draft_laws(self._aligned(logits)))
            drawn.append(self.law.draw(laws[-1], children, self.generator).flatten(1))
            if level + 1 < depth:
                logits = self.context.read(
                    drawn[-1].clamp(min=0),
                    (root + level + 1).expand_as(drawn[-1]),
                    torch.cat(
                        (
                            sees_text.expand(-1, drawn[-1].shape[1], -1),
                            _sees(shape, level + 1, device).expand(len(texts), -1, -1),
                        ),
                        dim=2,
                    ),
                    keep=drawn[-1].shape[1],
                )
        trees = [DraftTree.merge(shape, row) for row in torch.cat(drawn, dim=1).cpu().numpy()]
        slots = np.concatenate([row * self._read_slots + tree.slot[: tree.inner] for row, tree in enumerate(trees)])
        return Drafts(trees, torch.cat(laws, dim=1).flatten(0, 1)[torch.from_numpy(slots).to(device)])

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read of the text and of its accepted tokens."""
        chosen: list[list[int]] = [[] for _ in self.context.length]
        if self.context.trial:
            chosen = [
                [*text, *(self._before_slots + slot - 1 for slot in slots if slot < self._read_slots)]
                for text, slots in zip(self._on_trial, accepted, strict=True)
            ]
        self.context.settle(chosen, rows)

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        return [min(token, vocabulary(self.model) - 1) for token in tokens]

    def _aligned(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits over the target's vocabulary."""
        surplus = self.vocab - logits.shape[-1]
        return pad(logits, (0, surplus), value=-torch.inf) if surplus > 0 else logits[..., : self.vocab]


@lru_cache(maxsize=64)
def _sees(shape: Shape, level: int, device: torch.device) -> torch.Tensor:
    """Which slots each slot of a level attends to, itself and its ancestors, shape (1, width, slots so far - 1)."""
    start, stop = shape.offsets[level : level + 2]
    return torch.from_numpy(shape.lineage[start:stop, 1:stop]).to(device).unsqueeze(0)
