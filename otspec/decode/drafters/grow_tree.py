"""Dynamic trees: the tokens that are likeliest by a draft model together with all before them [li2024eagle2].

Such drafts are fixed: they follow from the text, and are drawn from no law.  With a shortlist they are those of
DynaSpec [zhang2025dynaspec, Algorithm 1]: probabilities are over the tokens of a prefix's own shortlist.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import WrappedDrafter
from otspec.decode.drafters.levels import GrownLevel, LevelDrafter
from otspec.decode.drafters.shortlists.selection import Level
from otspec.verification.trees.shape import Shape


class GrowTree(WrappedDrafter):
    """Trees of the tokens that another drafter's model finds likeliest.

    Every level goes on from the `width` likeliest prefixes of the level above, each by its `width` likeliest tokens; of
    all these, the `size` likeliest are the tree.  Likely is by the model's own probabilities, multiplied
    along the path.

    Where the laws of all levels are there at once, as they do not depend on each other's drafts, no level is cut to a
    width: the tree is of the `size` likeliest prefixes [ringel2026ddtree].  Nor does a shortlist depend on drafts then:
    it is chosen by the text, and on every level by the budget of that.

    Parameters
    ----------
    drafter : LevelDrafter
        One that draws from the same model; its shape sets how deep a tree is at most.
    width : int
    size : int, optional
        Tokens of a tree at most; by default `width` for every level.
    """

    inner: LevelDrafter

    def __init__(self, drafter: LevelDrafter, width: int, size: int | None = None) -> None:
        super().__init__(drafter)
        self.width = width
        self.size = size

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft a tree after each of the texts; the candidates leave the device once."""
        texts = self.inner.begin_step(texts)
        each, size = self.inner.every_level(texts, depth), self.size or self.width * depth
        grown = self.inner.grown(texts, self.width, depth) if each is None else self._at_once(texts, each, size)
        levels = _on_host(grown)
        trees = [_tree([[part[row] for part in level] for level in levels], size) for row in range(len(texts))]
        drafts = Drafts.fixed([paths for paths, _ in trees])
        self.inner.columns_read = [
            _slots(columns, tree.shape) for (_, columns), tree in zip(trees, drafts.trees, strict=True)
        ]
        return drafts

    def _at_once(self, texts: Sequence[Sequence[int]], each: torch.Tensor, size: int) -> list[GrownLevel]:
        """The same from what the model gives for every level, shape (B, depth, ...)."""
        history, depth = self.inner.history_of_roots, each.shape[1]
        chance, levels = torch.zeros(len(texts), 1, device=each.device), list[GrownLevel]()
        for level, logits in enumerate(each.split(1, dim=1), 1):
            likely = self.inner.likely(logits, Level(level - 1, history))
            chances, tokens = likely.topk(min(size, likely.shape[-1]), dim=-1)
            before, options = chance.shape[1], tokens.shape[-1]
            both = (chance.unsqueeze(-1) + chances).flatten(1)
            parent = torch.arange(before, device=both.device).repeat_interleave(options).expand(len(texts), -1)
            expanded = both.topk(min(size, both.shape[1]) if level < depth else 0, dim=1).indices
            levels.append(GrownLevel(tokens.squeeze(1).repeat(1, before), both, parent, expanded))
            chance = both.gather(1, expanded)
        return levels


def _on_host(levels: Sequence[GrownLevel]) -> list[list[Any]]:
    """The same as arrays, by one copy from the device: all are numbers below 2^53."""
    parts = [part for level in levels for part in level]
    if parts[0].device.type != "cpu":
        together = torch.cat([part.double() for part in parts], dim=1).cpu()
        widths = [part.shape[1] for part in parts]
        parts = [one.to(part.dtype) for one, part in zip(together.split(widths, dim=1), parts, strict=True)]
    arrays = [part.numpy() for part in parts]
    return [arrays[at : at + len(GrownLevel._fields)] for at in range(0, len(arrays), len(GrownLevel._fields))]


def _tree(levels: Sequence[Sequence[Any]], size: int) -> tuple[list[list[int]], list[list[int]]]:
    """The paths to the leaves of one text's likeliest tokens, and where each token was read, -1 if it was not.

    A token is less likely than the one before it, or as likely and on a lower level: so that one is in the tree, too.

    Parameters
    ----------
    levels : sequence
        The fields of `GrownLevel` for this text, as arrays.
    size : int
    """
    tokens, chances, parents, expanded = zip(*levels, strict=True)
    token, chance = np.concatenate(tokens), np.concatenate(chances)
    start = [0, *accumulate(map(len, tokens))]
    read = [0, *accumulate(map(len, expanded))]
    parent, column = np.full((2, token.size), -1)
    for number, (own, after) in enumerate(zip(expanded, parents, strict=True)):
        column[start[number] + own] = np.arange(read[number], read[number + 1])
        if number:
            parent[start[number] : start[number + 1]] = start[number - 1] + expanded[number - 1][after]
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
    """The entries of `columns`, by the slots that these paths have in a tree of that shape."""
    return {
        int(slot): column
        for path, own in zip(shape.paths_of_slots, columns, strict=True)
        for slot, column in zip(path[1:], own, strict=False)
        if column >= 0
    }
