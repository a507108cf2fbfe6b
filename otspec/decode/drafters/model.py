"""Drafting with a language model: a tree of tokens per text, level by level, without a look at them in between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.drafters.draft_laws import DraftLaw
from otspec.decode.drafters.protocol import Drafts
from otspec.decode.drafters.selection import DraftHead, History, Level, Selection, WholeHead
from otspec.decode.models.context import Context, Pass, positions, vocabulary
from otspec.decode.sampling import Sampling
from otspec.decode.sending import send
from otspec.laws import IntArray
from otspec.paths.shape import Shape
from otspec.paths.topology import Topology


class Text(NamedTuple):
    """What a draft model has not read of each text, padded on the left."""

    tokens: torch.Tensor
    """Shape (B, N)."""
    position: torch.Tensor
    """Shape (B, N)."""
    root: torch.Tensor
    """Position of each text's last token, shape (B, 1)."""
    own: torch.Tensor | None = None
    """Which of the columns hold text, shape (B, 1, N); None where all do."""

    @property
    def sees(self) -> torch.Tensor | None:
        """What each token sees of the others, shape (B or 1, N, N); None for a single one, which sees itself."""
        columns = self.tokens.shape[1]
        if columns == 1:
            return None
        before = torch.ones(1, columns, columns, dtype=torch.bool, device=self.tokens.device).tril()
        return before if self.own is None else before & self.own


class Levels(NamedTuple):
    """What was drafted."""

    tokens: torch.Tensor
    """Of all slots behind the root, shape (B, slots - 1)."""
    laws: torch.Tensor
    """Of all inner slots, shape (B, inner slots, V)."""
    depth: int
    """How many levels."""
    going: Sequence[torch.Tensor]
    """After each of the first levels, which texts go on, shape (B, 1); none where all do."""


class ModelDrafter:
    """Drafts from a draft model, all slots of a level of all texts in one pass.

    Parameters
    ----------
    model : PreTrainedModel
    shape : Shape
    law : DraftLaw
        How the children of a node are drawn.
    sampling : Sampling
        What is done to the draft model's logits.
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
        self._positions, self._own_vocab = positions(model), vocabulary(model)
        self._on_trial: list[list[int]] = []
        """Of each text: the columns on trial that hold the text itself; those of the slots come after them."""
        self._before_slots = 0
        self._read_slots = 1

    @property
    def passes(self) -> Sequence[Pass]:
        """Of the draft model."""
        return self.context.passes

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens."""
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts])

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as the draft model's positions last: its last level is drawn, not read."""
        return int(min(self.shape.depth, max(self._positions - lengths.max() + 1, 0)))

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft; the tokens leave the device once, at the end, unless drafts may end early."""
        shape = self.shape.cut(depth)
        text = self._text(texts)
        found = self._in_one(shape, text) or self._levels(shape, text, texts, self.generator)
        self._read_slots = shape.offsets[found.depth]
        # A token that makes a path unlikely ends it, but stays: without it the others had another law.
        ends = _ends(found.going, len(texts), found.depth)
        shapes = [shape.cut(end) for end in ends]
        tokens = found.tokens.cpu().numpy()
        trees = [Topology.merge(own, row[: own.slots - 1]) for own, row in zip(shapes, tokens, strict=True)]
        inner = found.laws.flatten(0, 1)
        if len(inner) > sum(tree.inner for tree in trees):  # slots of equal prefixes, of which one is left
            kept = [row * self._read_slots + tree.slot[: tree.inner] for row, tree in enumerate(trees)]
            inner = inner[send(np.concatenate(kept), self.context.device)]
        return Drafts(trees, inner, self.head.support)

    def _in_one(self, shape: Shape, text: Text) -> Levels | None:
        """All levels as one CUDA graph, where nothing has to be asked for in between; None where they are launched."""
        if type(self) is not ModelDrafter or not isinstance(self.head, WholeHead) or self.confidence:
            return None
        known = self.head.sampling.known_by
        if known is None:
            return None

        def steps(*given: Any) -> tuple[torch.Tensor, ...]:
            *inputs, generator = given
            found = self._levels(shape, Text(*inputs), (), generator)
            return found.tokens, found.laws

        columns = text.tokens.shape[1] + shape.offsets[shape.depth] - 1
        key = shape.branching, self.law, known, self.vocab
        inputs = [one for one in text if one is not None]
        found = self.context.in_one(key, steps, inputs, columns, self.generator)
        if found is None:
            return None
        tokens, laws = found
        return Levels(tokens, laws, shape.depth, [])

    def _levels(self, shape: Shape, text: Text, texts: Sequence[Sequence[int]], generator: torch.Generator) -> Levels:
        """Draft level by level; the tokens leave the device once, at the end, unless drafts may end early."""
        depth, root = shape.depth, text.root
        logits = self.context.read(text.tokens, text.position, text.sees, keep=1)
        drawn: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        sure, going = torch.ones(len(text.tokens), 1, device=self.context.device), list[torch.Tensor]()
        first: torch.Tensor | None = None  # of each slot, the first that has its prefix; None: all have one prefix
        slots = Level(0, partial(self._history_of_roots, texts))
        for level, children in enumerate(shape.branching, start=1):
            law = self.head.laws(logits, slots)
            # Columns of a batch round differently, and the law that is verified must be the one that was drawn from.
            laws.append(law if first is None else law.take_along_dim(first.unsqueeze(-1), dim=1))
            drawn.append(self.law.draw(laws[-1], children, generator).flatten(1))
            if level < depth:
                width = drawn[-1].shape[1]
                if self.confidence and width == 1:
                    sure = sure * self._own_chances(logits, slots, drawn[-1])
                    going.append(sure >= self.confidence)
                    if not bool(going[-1].any()):
                        break
                if width > 1:
                    above = torch.zeros_like(drawn[-1]) if first is None else first.repeat_interleave(children, dim=1)
                    first = _first_of_prefix(drawn[-1], above)
                read = self._as_read(drawn[-1].clamp(min=0))
                slots = Level(level, partial(_history, read, logits, children))
                self._feed(children)
                logits = self.context.read(
                    read,
                    (root + level).expand(-1, width),
                    self._sees(shape, level, text.own),
                    keep=width,
                )
        return Levels(torch.cat(drawn, dim=1), torch.cat(laws, dim=1), len(drawn), going)

    def _feed(self, children: int) -> None:
        """Tell the model more of the children, so many each, of the slots that it has read last."""

    def _sees(self, shape: Shape, level: int, sees_text: torch.Tensor | None) -> torch.Tensor | None:
        """Which columns on trial the slots of a level attend to: those of their text and of their ancestors."""
        if sees_text is None and shape.slots == shape.depth + 1:
            return None  # a single path, which sees all
        slots = _lineage(shape, level, self.context.device)
        if sees_text is None:
            text = slots.new_ones(1, slots.shape[1], self._before_slots)
        else:
            text = sees_text.expand(-1, slots.shape[1], -1)
        return torch.cat((text, slots.expand(len(text), -1, -1)), dim=2)

    def _text(self, texts: Sequence[Sequence[int]]) -> Text:
        """What is new in each text, on the device."""
        device = self.context.device
        unread = self._unread(texts)
        size = np.array([len(more) for more in unread])
        columns = np.arange(size.max())
        own = columns >= size.max() - size[:, None]
        tokens = np.zeros(own.shape, dtype=np.int64)
        tokens[own] = np.concatenate(unread)
        last = self.context.length + size - 1
        position = np.maximum(last[:, None] - columns[::-1], 0)
        self._on_trial = [np.flatnonzero(row).tolist() for row in own]
        self._before_slots = columns.size
        read, place, root = (send(array, device) for array in (tokens, position, last[:, None]))
        return Text(read, place, root, None if own.all() else send(own, device)[:, None])

    def _unread(self, texts: Sequence[Sequence[int]]) -> list[list[int]]:
        """What the model has not read of each text, at least a token."""
        return [self._readable(text[length:]) for text, length in zip(texts, self.context.length, strict=True)]

    def _as_read(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens that the model reads for drafted ones, shape as given."""
        return tokens

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
        return [min(token, self._own_vocab - 1) for token in tokens]

    def _history_of_roots(self, texts: Sequence[Sequence[int]]) -> History:
        """Of the texts, whose last tokens have just been read: the tokens before these are on trial too, or settled."""
        context = self.context
        before = [
            context.end + own[-2] if len(own) > 1 else length - 1
            for own, length in zip(self._on_trial, context.length.tolist(), strict=True)
        ]
        tokens = [self._readable(text[-1:]) for text in texts]
        given = context.given(torch.tensor(before, device=context.device)[:, None])
        return History(torch.tensor(tokens, device=context.device), given)

    def _own_chances(self, output: torch.Tensor, level: Level, tokens: torch.Tensor) -> torch.Tensor:
        """The model's own probabilities of tokens, shape (B, 1), after what it gave, (B, 1, ...)."""
        logits = self.head.logits(output, level).float()
        return logits.softmax(dim=-1).gather(-1, tokens.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def _history(tokens: torch.Tensor, above: torch.Tensor, children: int) -> History:
    """Of the children, `children` each, of slots after which the model gave `above`."""
    return History(tokens, above.repeat_interleave(children, dim=1))


def _first_of_prefix(tokens: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
    """The first slot of a level that has the prefix of each, shape (B, width), without a look from the host.

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


@cache
def _lineage(shape: Shape, level: int, device: torch.device) -> torch.Tensor:
    """Which slots each slot of a level attends to, itself and its ancestors, shape (1, width, slots so far - 1).

    Kept for good: graphs have its address.
    """
    start, stop = shape.offsets[level : level + 2]
    return send(shape.lineage[start:stop, 1:stop], device).unsqueeze(0)
