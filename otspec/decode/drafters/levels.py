"""Drafting a tree of tokens per text, level by level, without a synchronisation, whatever gives the logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.drafts import Drafts, Launched
from otspec.decode.base.sampling import Sampling
from otspec.decode.base.transfers import HostCopy, to_device
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.drafters.shortlists.selection import DraftHead, History, Level, Selection, WholeHead
from otspec.decode.models.context import vocabulary
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

MOST_LAUNCHED = 256
"""Slots of a tree that is read before equal prefixes are merged; of more, those that are merged are worth a wait."""


UNLIKELY = -1e4
"""The logarithm of a probability that is practically 0."""


class Levels(NamedTuple):
    """What was drafted."""

    tokens: torch.Tensor
    """Of all slots behind the root, shape (B, slots - 1)."""
    laws: torch.Tensor
    """Of all slots that have children, shape (B, slots, V), or as many as the head's laws are over."""
    depth: int
    """How many levels."""
    going: Sequence[torch.Tensor]
    """After each of the first levels, which texts go on, shape (B, 1); none where all do."""


class Growth(NamedTuple):
    """What is read of a level of a shape: its slots that have children."""

    read: torch.Tensor | None
    """Which of the level's slots these are, shape (W,); None where they are all."""
    parents: torch.Tensor
    """Shape (1, W): which of those that were read on the level above each follows."""
    lineage: torch.Tensor
    """Shape (1, W, slots read so far, the root left out): which of these each goes on from, itself among them."""


@cache
def _growth(shape: Shape, level: int, device: torch.device) -> Growth:
    """Of a level from 1 to L - 1; cached for good: graphs have its addresses."""
    inner = np.flatnonzero(shape.place >= 0)
    ends = np.searchsorted(inner, shape.offsets[level - 1 : level + 2])
    above, here = np.split(inner[ends[0] : ends[2]], [ends[1] - ends[0]])
    parents = np.searchsorted(above, shape.parent[here])
    lineage = shape.lineage[np.ix_(here, inner[1 : ends[2]])]
    start, stop = shape.offsets[level : level + 2]
    read = None if here.size == stop - start else to_device(here - start, device)
    return Growth(read, to_device(parents[None], device), to_device(lineage[None], device))


class GrownLevel(NamedTuple):
    """The candidate tokens of a level, n of each text."""

    token: torch.Tensor
    """Shape (B, n)."""
    chance: torch.Tensor
    """Shape (B, n): log of the model's probability of each with all before it."""
    parent: torch.Tensor
    """Shape (B, n): which of the prefixes it follows that the level above went on from."""
    expanded: torch.Tensor
    """Shape (B, W): which of the tokens are gone on from; none of the last level."""


class LevelDrafter(Drafter):
    """Drafts all slots of a level of all texts at once.

    The abstract methods give the logits: in `otspec.decode.drafters.model` a model reads the drafts.

    Parameters
    ----------
    model : PreTrainedModel
    shape : Shape
    law : DraftLaw
        How the children of a node are drawn.
    sampling : Sampling
        Makes laws of the draft model's logits.
    vocab : int
        The target's number of tokens: draft logits are cut, or filled up with -inf, to it.  Tokens that the draft model
        does not have it reads as its last one.
    generator : torch.Generator
        On the model's device.
    selection : Selection, optional
        The tokens that the model's head is computed for, where not all.
    confidence : float
        A path goes on for as long as the model's probabilities of its tokens, temperature and truncations left out,
        have this product or more; above 0 the shape has one slot a level, or begins with such levels, and those behind
        them are not cut.

    Raises
    ------
    ProblemError
        If the head cannot be computed for these alone, or sampling suppresses all of them.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        shape: Shape,
        law: DraftLaw,
        sampling: Sampling,
        vocab: int,
        generator: torch.Generator,
        selection: Selection | None = None,
        confidence: float = 0.0,
    ) -> None:
        self.head: DraftHead = (
            WholeHead(model, sampling, vocab) if selection is None else selection.head(model, sampling, vocab)
        )
        self.model = self.head.model
        self.vocab = vocab
        self.shape = shape
        self.law = law
        self.generator = generator
        self.confidence = confidence
        self._own_vocab = vocabulary(model)
        self._drafted_slots = 1
        """Of the last tree: the slots that something was drafted after, the root the first of them."""
        self._places: IntArray = np.zeros(1, dtype=np.int64)
        """Of its slots, as `Shape.place`."""
        self.columns_read: Sequence[Mapping[int, int]] | None = None
        """Where a tree has no shape that was drafted: of each text, which of the tokens read since it each slot is."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft the first levels of the shape; the tokens leave the device once, unless drafts may end early."""
        texts = self.begin_step(texts)
        shape = self.shape.cut(depth)
        found = self._drafted(shape, texts)
        return self._as_drafts(found, found.tokens.cpu().numpy(), shape)

    def launch(self, texts: Sequence[Sequence[int]], depth: int) -> Launched | None:
        """The same on the device, where no path ends early and all slots of a level have as many children."""
        shape = self.shape.cut(depth)
        if self.confidence or shape.each or shape.slots > MOST_LAUNCHED:
            return None
        return self._launched(self._drafted(shape, self.begin_step(texts)), shape)

    def _launched(self, found: Levels, shape: Shape) -> Launched:
        """What was drafted of a shape, whose tokens are on their way to the host."""
        tokens = HostCopy(found.tokens)

        def see() -> Drafts:
            return self._as_drafts(found, tokens.numpy(), shape)

        return Launched(shape, found.tokens, found.laws, self.head.columns, see)

    def logits(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """The model's logits after each of the B texts, shape (B, V), -inf of what it never drafts; drafts nothing."""
        texts = self.begin_step(texts)
        output = self.after_texts(texts)
        return self.head.logits(output, Level(0, self.history_of_roots))[:, 0]

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Set the model's conditioning on the texts before it reads on; returns what it reads of each."""
        return texts

    def every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor | None:
        """What the model gives for so many levels, shape (B, depth, ...); None where it depends on what is drafted."""
        return None

    def grown(self, texts: Sequence[Sequence[int]], width: int, depth: int) -> list[GrownLevel]:
        """The levels of a dynamic tree, for `otspec.decode.drafters.grow_tree.GrowTree`."""
        return self._grow(self.after_texts(texts), width, depth)

    def _grow(self, output: torch.Tensor, width: int, depth: int) -> list[GrownLevel]:
        """Grow a dynamic tree level by level, from what the model gives after the texts."""
        rows, device = len(output), output.device
        chance = torch.zeros(rows, 1, device=device)
        sees = torch.zeros(rows, 1, 0, dtype=torch.bool, device=device)  # of all that was read of the tree
        levels, slots = list[GrownLevel](), Level(0, self.history_of_roots)
        for level in range(1, depth + 1):
            likely = self.likely(output, slots)
            children = min(width, likely.shape[-1])
            best = (chance.unsqueeze(-1) + likely).topk(children, dim=-1)
            token, chances = best.indices.flatten(1), best.values.flatten(1)
            parent = torch.arange(chance.shape[1], device=device).repeat_interleave(children).expand(rows, -1)
            expanded = chances.topk(min(width, chances.shape[1]) if level < depth else 0, dim=1).indices
            levels.append(GrownLevel(token, chances, parent, expanded))
            if level < depth:
                chance, above = chances.gather(1, expanded), parent.gather(1, expanded)
                before = sees.gather(1, above.unsqueeze(-1).expand(-1, -1, sees.shape[-1]))
                itself = torch.eye(expanded.shape[1], dtype=torch.bool, device=device).expand(rows, -1, -1)
                sees = torch.cat((before, itself), dim=2)
                read = self.as_read(token.gather(1, expanded))
                slots = Level(level, partial(history_of, read, output, above))
                output = self.after_level(read, level, above, sees)
        return levels

    def likely(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """Logarithms of the model's own probabilities, shape (..., V), from its output, (..., ...).

        Where logits are no numbers all tokens are unlikely, and each still less likely than its parent.
        """
        logits = self.head.logits(output, level).float()
        return logits.log_softmax(dim=-1).nan_to_num(nan=UNLIKELY, neginf=-torch.inf)

    def _as_drafts(self, found: Levels, tokens: IntArray, shape: Shape) -> Drafts:
        """Trees of what was drafted, whose tokens are on the host, with the laws of their inner nodes."""
        self._drafted_slots, self._places = found.laws.shape[1], shape.place
        # A token that makes a path unlikely ends it, but stays: without it the others had another law.
        shapes = [shape.cut(end) for end in _ends(found.going, len(tokens), found.depth)]
        trees = [Topology.merge(own, row[: own.slots - 1]) for own, row in zip(shapes, tokens, strict=True)]
        inner = found.laws.flatten(0, 1)
        after = [shape.place[tree.slot[tree.drafted_after]] for tree in trees]
        if len(inner) > sum(map(len, after)):  # slots of equal prefixes, of which one is left
            slots = [row * self._drafted_slots + places for row, places in enumerate(after)]
            inner = inner[to_device(np.concatenate(slots), self.model.device)]
        return Drafts(trees, inner, self.head.support, columns=self.head.columns)

    def _drafted(self, shape: Shape, texts: Sequence[Sequence[int]]) -> Levels:
        return self._levels(shape, self.after_texts(texts), self.generator)

    def _levels(self, shape: Shape, logits: torch.Tensor, generator: torch.Generator) -> Levels:
        """Draft level by level, from what the model gives after the texts."""
        drawn: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        sure, going = torch.ones(len(logits), 1, device=self.model.device), list[torch.Tensor]()
        first: torch.Tensor | None = None  # of each slot, the first that has its prefix; None: all have one prefix
        slots = Level(0, self.history_of_roots)
        for level in range(1, shape.depth + 1):
            law = self.head.laws(logits, slots)
            # Columns of a batch round differently, and the law that is verified must be the one that was drawn from.
            laws.append(law if first is None else law.gather(1, first.unsqueeze(-1).expand(law.shape)))
            drawn.append(self._drawn(laws[-1], shape.children_at(level - 1), generator))
            if level < shape.depth:
                if self.confidence and drawn[-1].shape[1] == 1:
                    sure = sure * self._own_chances(logits, slots, drawn[-1])
                    going.append(sure >= self.confidence)
                    if not bool(going[-1].any()):
                        break
                growth = _growth(shape, level, self.model.device)
                gone_on = drawn[-1] if growth.read is None else drawn[-1].index_select(1, growth.read)
                if gone_on.shape[1] > 1:
                    above = torch.zeros_like(gone_on) if first is None else first.index_select(1, growth.parents[0])
                    first = _first_of_prefix(gone_on, above)
                else:
                    first = None
                read = self.as_read(gone_on.clamp(min=0))
                slots = Level(level, partial(history_of, read, logits, growth.parents))
                logits = self.after_level(read, level, growth.parents, growth.lineage)
        return Levels(torch.cat(drawn, dim=1), torch.cat(laws, dim=1), len(drawn), going)

    def _drawn(self, laws: torch.Tensor, counts: IntArray, generator: torch.Generator) -> torch.Tensor:
        """The tokens of a level's children, one slot's after another's, shape (B, counts.sum()).

        Slots of as many children draw together.

        Parameters
        ----------
        laws : Tensor, shape (B, W, ...)
            Of the slots that have children.
        counts : array of int, shape (width,)
            How many each slot of the level has.
        generator : torch.Generator
        """
        counts = counts[counts > 0]
        if (counts == counts[0]).all():
            return self._drawn_alike(laws, int(counts[0]), generator)
        owner = np.repeat(counts, counts)
        drawn = torch.empty(len(laws), owner.size, dtype=torch.int64, device=laws.device)
        for children in np.unique(counts).tolist():
            mine, places = (to_device(np.flatnonzero(each == children), laws.device) for each in (counts, owner))
            drawn[:, places] = self._drawn_alike(laws.index_select(1, mine), children, generator)
        return drawn

    def _drawn_alike(self, laws: torch.Tensor, children: int, generator: torch.Generator) -> torch.Tensor:
        """The tokens of so many children of each slot, whose laws have the shape (B, W, ...): (B, W * children)."""
        columns = self.head.columns
        if columns is None:
            return self.law.draw(laws, children, generator).flatten(1)
        wide = pad(laws, (0, max(children - len(columns), 0)))  # so that there are as many to draw from
        drawn = self.law.draw(wide, children, generator).flatten(1)
        return torch.where(drawn < 0, drawn, columns[drawn.clamp(min=0, max=len(columns) - 1)])

    @abstractmethod
    def after_texts(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """What the model gives after the texts, shape (B, 1, ...): logits, or what the head of a selection takes."""

    @abstractmethod
    def after_level(self, read: torch.Tensor, level: int, parents: torch.Tensor, lineage: torch.Tensor) -> torch.Tensor:
        """What the model gives after tokens of a level, shape (B, W, ...).

        Parameters
        ----------
        read : Tensor of int, shape (B, W)
            As the model reads them.
        level : int
            From 1 on.
        parents : Tensor of int, shape (B or 1, W)
            Which of the tokens of the level above each follows.
        lineage : Tensor of bool, shape (B or 1, W, tokens of all levels so far)
            Which of these each goes on from, itself among them.
        """

    def history_of_roots(self) -> History:
        """What the roots go on from, once their texts have been read.

        It is called by selections, which are for models whose head can be taken off.
        """
        raise NotImplementedError

    def as_read(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens that the model reads for drafted ones, shape as given."""
        return tokens

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        return [min(token, self._own_vocab - 1) for token in tokens]

    def _own_chances(self, output: torch.Tensor, level: Level, tokens: torch.Tensor) -> torch.Tensor:
        """The model's own probabilities of tokens, shape (B, 1), from its output, (B, 1, ...)."""
        logits = self.head.logits(output, level).float()
        return logits.softmax(dim=-1).gather(-1, tokens.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def history_of(tokens: torch.Tensor, above: torch.Tensor, parents: torch.Tensor) -> History:
    """Of tokens that follow slots, shape (B or 1, W), after which the model gave `above`."""
    return History(tokens, after_parents(above, parents))


def after_parents(above: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """What belongs to the parents of each of some tokens, shape (B, W, d), of (B, W', d) and (B or 1, W)."""
    return above.take_along_dim(parents.unsqueeze(-1), dim=1)


def _first_of_prefix(tokens: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
    """The first slot of a level that has the prefix of each, shape (B, width), without a synchronisation.

    Parameters
    ----------
    tokens : Tensor of int, shape (B, width)
        What was drawn.
    above : Tensor of int, shape (B, width)
        The first slot that has the prefix before it.
    """
    same = (tokens.unsqueeze(-1) == tokens.unsqueeze(-2)) & (above.unsqueeze(-1) == above.unsqueeze(-2))
    return same.int().argmax(dim=-1)  # of several ones, the first


def _ends(going: Sequence[torch.Tensor], texts: int, levels: int) -> list[int]:
    """How deep each text was drafted: to the first level after which it did not go on, or to the last.

    Parameters
    ----------
    going : sequence of Tensor of bool, shape (texts, 1)
        After each of the first levels, which texts go on; one that does not never does again.
    """
    if not going:
        return [levels] * texts
    gone = torch.cat(list(going), dim=1).sum(dim=1).tolist()
    return [levels if count == len(going) else count + 1 for count in gone]
