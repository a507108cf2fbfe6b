"""Dynamic trees: of a draft model's tokens those that it finds likeliest together with all before them [li2024eagle2].

Such drafts are fixed: they follow from the text, and are drawn from no law.  With a shortlist they are those of
DynaSpec [zhang2025dynaspec, Algorithm 1]: probabilities are over the tokens of a prefix's own shortlist.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import draft_law
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.decode.drafters.heads.drafter import HeadsDrafter
from otspec.decode.drafters.levels import LevelDrafter, history_of
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.published.drafter import PublishedEagleDrafter
from otspec.decode.drafters.sd2.drafter import SteeredDrafter
from otspec.decode.drafters.shared.drafter import ParallelDrafter
from otspec.decode.drafters.shortlists.selection import Level, Selection
from otspec.verification.trees.shape import Shape

UNLIKELY = -1e4
"""The logarithm of a probability that is as good as none."""


class Looked(NamedTuple):
    """The tokens that were looked at on a level, n of each text."""

    token: torch.Tensor
    """Shape (B, n)."""
    chance: torch.Tensor
    """Shape (B, n): log of the model's probability of each with all before it."""
    parent: torch.Tensor
    """Shape (B, n): which of the prefixes it follows that the level above went on from."""
    kept: torch.Tensor
    """Shape (B, W): which of the tokens are gone on from; none of the last level."""


class DynamicDrafter(LevelDrafter):
    """Trees of a draft model's likeliest tokens.

    Every level goes on from the `width` likeliest prefixes of the level above, each by its `width` likeliest tokens; of
    all that were looked at, the `size` likeliest are the tree.  Likely is by the model's own probabilities, multiplied
    along the path.

    Parameters
    ----------
    model : PreTrainedModel
    width : int
    depth : int
        L, tokens of a path at most.
    size : int
        Tokens of a tree at most.
    sampling : Sampling
    vocab : int
        Of the target.
    generator : torch.Generator
        Nothing is drawn.
    selection : Selection, optional
        The tokens that are computed.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        width: int,
        depth: int,
        size: int,
        sampling: Sampling,
        vocab: int,
        generator: torch.Generator,
        selection: Selection | None = None,
    ) -> None:
        super().__init__(model, Shape.paths(width, depth), draft_law("iid"), sampling, vocab, generator, selection)
        self.width = width
        self.size = size
        self._read_at: list[dict[int, int]] = []
        """Of each text, for slots of its tree: which column on trial holds the token, if the model has read it."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft a tree after each of the texts; what was looked at leaves the device once."""
        self._begin_step(texts)
        levels = [[part.cpu().numpy() for part in level] for level in self._looked_at(texts, depth)]
        trees = [_tree([[part[row] for part in level] for level in levels], self.size) for row in range(len(texts))]
        drafts = Drafts.fixed([paths for paths, _ in trees])
        self._read_at = [_slots(columns, tree.shape) for (_, columns), tree in zip(trees, drafts.trees, strict=True)]
        return drafts

    def _looked_at(self, texts: Sequence[Sequence[int]], depth: int) -> list[Looked]:
        output = self._after_texts(texts)
        rows, device = len(texts), self.model.device
        chance = torch.zeros(rows, 1, device=device)
        sees = torch.zeros(rows, 1, 0, dtype=torch.bool, device=device)  # of all that was read of the tree
        levels, slots = list[Looked](), Level(0, partial(self._history_of_roots, texts))
        for level in range(1, depth + 1):
            likely = self._likely(output, slots)
            children = min(self.width, likely.shape[-1])
            best = (chance.unsqueeze(-1) + likely).topk(children, dim=-1)
            token, chances = best.indices.flatten(1), best.values.flatten(1)
            parent = torch.arange(chance.shape[1], device=device).repeat_interleave(children).expand(rows, -1)
            kept = chances.topk(min(self.width, chances.shape[1]) if level < depth else 0, dim=1).indices
            levels.append(Looked(token, chances, parent, kept))
            if level < depth:
                chance, above = chances.gather(1, kept), parent.gather(1, kept)
                before = sees.gather(1, above.unsqueeze(-1).expand(-1, -1, sees.shape[-1]))
                itself = torch.eye(kept.shape[1], dtype=torch.bool, device=device).expand(rows, -1, -1)
                sees = torch.cat((before, itself), dim=2)
                read = self._as_read(token.gather(1, kept))
                slots = Level(level, partial(history_of, read, output, above))
                output = self._after_level(read, level, above, sees)
        return levels

    def _likely(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """Logarithms of the model's own probabilities, shape (..., V), from what it gave, (..., ...).

        Where logits are no numbers all tokens are unlikely, and each still less likely than its parent.
        """
        logits = self.head.logits(output, level).float()
        return logits.log_softmax(dim=-1).nan_to_num(nan=UNLIKELY, neginf=-torch.inf)


class AtOnceDynamic(DynamicDrafter):
    """The same of laws that do not depend on each other's drafts [ringel2026ddtree]: the `size` likeliest prefixes.

    Nothing has to be read to go on from a prefix, so no level is cut to a width.  Nor does a shortlist depend on
    drafts: it is chosen by the text, and on every level by the budget of that.
    """

    def _looked_at(self, texts: Sequence[Sequence[int]], depth: int) -> list[Looked]:
        each = self._every_level(texts, depth)
        history = partial(self._history_of_roots, texts)
        chance, levels = torch.zeros(len(texts), 1, device=self.model.device), list[Looked]()
        for level, given in enumerate(each.split(1, dim=1), 1):
            likely = self._likely(given, Level(level - 1, history))
            chances, tokens = likely.topk(min(self.size, likely.shape[-1]), dim=-1)
            before, options = chance.shape[1], tokens.shape[-1]
            both = (chance.unsqueeze(-1) + chances).flatten(1)
            parent = torch.arange(before, device=both.device).repeat_interleave(options).expand(len(texts), -1)
            kept = both.topk(min(self.size, both.shape[1]) if level < depth else 0, dim=1).indices
            levels.append(Looked(tokens.squeeze(1).repeat(1, before), both, parent, kept))
            chance = both.gather(1, kept)
        return levels

    @abstractmethod
    def _every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor:
        """What the model gives for each of so many levels, shape (B, depth, ...)."""


class ModelDynamic(DynamicDrafter, ModelDrafter):
    """Dynamic trees of a language model, which reads what it drafts."""

    def _columns(self, row: int, slots: Sequence[int]) -> list[int]:
        return [self._read_at[row][slot] for slot in slots if slot in self._read_at[row]]


class SteeredDynamic(ModelDynamic, SteeredDrafter):
    """The same of a model that the target steers."""


class EagleDynamic(ModelDynamic, EagleDrafter):
    """The same of an EAGLE-style model: each token is read with the model's own output at the token before it."""


class PublishedEagleDynamic(PublishedEagleDrafter, EagleDynamic):
    """The same of EAGLE's layers as they are published: what EAGLE-2 and EAGLE-3 draft."""


class ParallelDynamic(AtOnceDynamic, ParallelDrafter):
    """The same of a model that drafts all depths at once."""

    def _every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor:
        return self._at_once(self._new_in(texts), depth)


class HeadsDynamic(DynamicDrafter, HeadsDrafter):
    """The same of heads that see the drafts before their own."""


class MedusaDynamic(AtOnceDynamic, HeadsDrafter):
    """The same of heads of which each sees the target's hidden state alone [cai2024medusa]."""

    def _every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor:
        logits = [self._after_texts(texts)]
        last = torch.zeros(len(texts), 1, dtype=torch.int64, device=self.model.device)  # is not looked at
        logits += [self._step(last, number) for number in range(1, depth)]
        return torch.cat(logits, dim=1)


def _tree(levels: Sequence[Sequence[Any]], size: int) -> tuple[list[list[int]], list[list[int]]]:
    """The paths to the leaves of one text's likeliest tokens, and where each token was read, -1 if it was not.

    A token is less likely than the one before it, or as likely and on a lower level: so that one is in the tree, too.

    Parameters
    ----------
    levels : sequence
        What `Looked` has, of this text, as arrays.
    size : int
    """
    tokens, chances, parents, kept = zip(*levels, strict=True)
    token, chance = np.concatenate(tokens), np.concatenate(chances)
    start = [0, *accumulate(map(len, tokens))]
    read = [0, *accumulate(map(len, kept))]
    parent, column = np.full((2, token.size), -1)
    for number, (own, after) in enumerate(zip(kept, parents, strict=True)):
        column[start[number] + own] = np.arange(read[number], read[number + 1])
        if number:
            parent[start[number] : start[number + 1]] = start[number - 1] + kept[number - 1][after]
    order = np.argsort(-chance, kind="stable")[:size]
    chosen = order[np.isfinite(chance[order])]
    lines: list[list[int]] = []
    for leaf in np.setdiff1d(chosen, parent[chosen]).tolist():
        line = [leaf]
        while parent[line[0]] >= 0:
            line.insert(0, int(parent[line[0]]))
        lines.append(line)
    return [token[line].tolist() for line in lines], [column[line].tolist() for line in lines]


def _slots(columns: Sequence[Sequence[int]], shape: Shape) -> dict[int, int]:
    """What `columns` says, by the slots that these paths have in a tree of that shape."""
    return {
        int(slot): column
        for path, own in zip(shape.paths_of_slots, columns, strict=True)
        for slot, column in zip(path[1:], own, strict=False)
        if column >= 0
    }
