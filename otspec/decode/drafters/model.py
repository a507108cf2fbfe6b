"""Drafting with a language model, which reads what it drafts: all slots of a level of all texts in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch.nn.functional import pad

from otspec.decode.base.drafts import Reading
from otspec.decode.drafters.levels import GrownLevel, LevelDrafter, Levels
from otspec.decode.drafters.shortlists.selection import History
from otspec.decode.models.context import Context, Pass
from otspec.decode.models.passes.signature import UNCONDITIONED, Conditioning, Outputs
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape


class Unread(NamedTuple):
    """What a draft model has not read of each text, as it comes from the host."""

    packed: torch.Tensor
    """Shape (B, N + 2): tokens padded on the left, how many there are, and how many were read before; or what came out
    of a verification that the host has not seen, from which that is to be made."""
    even: bool
    """Whether there are N of each text."""
    drafts: tuple[Shape, Reading] | None = None
    """Of what was verified: its shape, and what makes slots of what came."""

    @property
    def columns(self) -> int:
        """N."""
        return self.packed.shape[1] - 2 if self.drafts is None else self.drafts[0].depth + 1

    def after(self, tokens: torch.Tensor, read: torch.Tensor, vocab: int) -> tuple[Unread, torch.Tensor]:
        """What verification adds to texts, and the slots after which that comes, shape (B, N).

        Parameters
        ----------
        tokens : Tensor of int, shape (B, S - 1)
            That were drafted.
        read : Tensor of int, shape (B, 1)
            How many were read before.
        vocab : int
            Tokens that the draft model has; others, and `NONE` where the target has no law, it reads as one of them.
        """
        assert self.drafts is not None
        shape, accepted_of = self.drafts
        slots, token = accepted_of(shape, tokens, self.packed)
        count = (slots >= 0).sum(dim=1, keepdim=True)
        which = (torch.arange(-shape.depth, 1, device=tokens.device) + count).clamp(min=0)
        after = pad(slots, (1, 0)).gather(1, which)
        drafted = tokens.gather(1, (after[:, 1:] - 1).clamp(min=0))
        added = torch.cat((drafted, token.unsqueeze(1)), dim=1).clamp(0, vocab - 1)
        return Unread(torch.cat((added, count + 1, read), dim=1), False), after


class UnreadText(NamedTuple):
    """What a draft model has not read of each text, padded on the left."""

    tokens: torch.Tensor
    """Shape (B, N)."""
    position: torch.Tensor
    """Shape (B, N)."""
    root: torch.Tensor
    """Position of each text's last token, shape (B, 1)."""
    own: torch.Tensor | None = None
    """Which of the columns hold text, shape (B, 1, N); None where all do."""

    @classmethod
    def of(cls, unread: Unread) -> UnreadText:
        """The same with its positions, on the device of what is packed."""
        packed = unread.packed
        tokens, size, before = packed[:, :-2], packed[:, -2:-1], packed[:, -1:]
        columns = torch.arange(tokens.shape[1], device=packed.device)
        root = before + size - 1
        position = (root - columns.flip(0)).clamp(min=0)
        return cls(tokens, position, root, None if unread.even else (columns >= len(columns) - size)[:, None])

    @property
    def sees(self) -> torch.Tensor | None:
        """What each token sees of the others, shape (B or 1, N, N); None for a single one, which sees itself."""
        columns = self.tokens.shape[1]
        if columns == 1:
            return None
        before = torch.ones(1, columns, columns, dtype=torch.bool, device=self.tokens.device).tril()
        return before if self.own is None else before & self.own


class ModelDrafter(LevelDrafter):
    """Drafts from a draft model; parameters as for `LevelDrafter`."""

    context: Context
    _on_trial: list[list[int]]
    """Of each text: the columns on trial that hold the text itself; those of the slots come after them."""
    _before_slots: int
    _text: UnreadText
    """What is read before the slots."""
    _features: Sequence[torch.Tensor] = ()
    """Of the target, what the drafts of this step are conditioned on, each of shape (B, ...)."""
    _read: Outputs
    """What the last pass gave."""
    in_one: ClassVar[bool] = True
    """Whether all levels may be one run: they depend on tensors alone."""

    @property
    def passes(self) -> Sequence[Pass]:
        """Of the draft model."""
        return self.context.passes

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens."""
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts])

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as the draft model's positions last: its last level is drawn, not read."""
        return int(min(self.shape.depth, max(self.context.positions - lengths.max() + 1, 0)))

    def _drafted(self, shape: Shape, texts: Sequence[Sequence[int]]) -> Levels:
        return self._after_unread(shape, self._unread_in(texts))

    def _after_unread(self, shape: Shape, unread: Unread) -> Levels:
        """Read what is new of the texts, and draft."""
        return self._in_one(shape, unread) or self._levels(shape, self._after(self._on_device(unread)), self.generator)

    def _in_one(self, shape: Shape, unread: Unread) -> Levels | None:
        """All levels as one CUDA graph, where the host need not wait in between; None where they are launched."""
        if not self.in_one or self.confidence or shape.each or (known := self.head.known_by) is None:
            return None
        if isinstance(self.generator, Sequence):  # a graph draws from one
            return None

        def steps(logits: torch.Tensor, generator: torch.Generator | None) -> tuple[torch.Tensor, ...]:
            assert generator is not None
            found = self._levels(shape, logits, generator)
            return found.tokens, found.laws

        key, columns = (shape.branching, self.law, known), shape.offsets[shape.depth] - 1
        found = self._captured(key, steps, unread, columns, self.generator)
        if found is None:
            return None
        tokens, laws = found
        return Levels(tokens, laws, shape.depth, [])

    def grown(self, texts: Sequence[Sequence[int]], width: int, depth: int) -> list[GrownLevel]:
        """Read the levels of a dynamic tree, in one where they can be."""
        unread = self._unread_in(texts)
        return self._grown_in_one(unread, width, depth) or self._grow(
            self._after(self._on_device(unread)), width, depth
        )

    def _grown_in_one(self, unread: Unread, width: int, depth: int) -> list[GrownLevel] | None:
        """The same as `_in_one`, of a dynamic tree."""
        if not self.in_one or (known := self.head.known_by) is None:
            return None

        def steps(logits: torch.Tensor, generator: torch.Generator | None) -> tuple[torch.Tensor, ...]:
            levels = self._grow(logits, width, depth)
            return tuple(part.contiguous() for level in levels for part in level)

        found = self._captured((width, depth, known), steps, unread, width * (depth - 1))
        if found is None:
            return None
        parts = len(GrownLevel._fields)
        return [GrownLevel(*found[at : at + parts]) for at in range(0, len(found), parts)]

    def _captured(
        self,
        key: object,
        steps: Callable[[torch.Tensor, torch.Generator | None], tuple[torch.Tensor, ...]],
        unread: Unread,
        columns: int,
        generator: torch.Generator | None = None,
    ) -> tuple[torch.Tensor, ...] | None:
        """Read what is new of the texts, and do steps with what the model gives after them, as one graph.

        Parameters are those of `Context.in_one_graph`; columns are the steps' own.
        """
        packed, features = unread.packed, self._features

        def whole(packed: torch.Tensor, *more: Any) -> tuple[torch.Tensor, ...]:
            *self._features, drawn_from = more
            return steps(self._after(self._text_of(unread._replace(packed=packed))), drawn_from)

        columns += unread.columns
        found = self.context.in_one_graph(
            (key, unread.even, unread.drafts), whole, [packed, *features], columns, generator
        )
        self._features = features
        return found

    def after_texts(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """What the model gives after the texts, of which it reads what is new, shape (B, 1, ...)."""
        return self._after(self._on_device(self._unread_in(texts)))

    def _on_device(self, unread: Unread) -> UnreadText:
        packed = unread.packed.to(self.context.device, non_blocking=True)
        return self._text_of(unread._replace(packed=packed))

    def _text_of(self, unread: Unread) -> UnreadText:
        """The same with its positions, on the device."""
        return UnreadText.of(unread)

    def _unread_in(self, texts: Sequence[Sequence[int]]) -> Unread:
        """What is new in each text."""
        unread = self._unread(texts)
        columns = max(map(len, unread))
        self._before_slots = columns
        self._on_trial = [list(range(columns - len(more), columns)) for more in unread]
        packed = [
            [*[0] * (columns - len(more)), *more, len(more), before]
            for more, before in zip(unread, self.context.length.tolist(), strict=True)
        ]
        return Unread(torch.tensor(packed), min(map(len, unread)) == columns)

    def _after(self, text: UnreadText) -> torch.Tensor:
        self._text = text
        self._read = self.context.read(text.tokens, text.position, text.sees, 1, self._of_text())
        return self._read.logits

    def after_level(self, read: torch.Tensor, level: int, parents: torch.Tensor, lineage: torch.Tensor) -> torch.Tensor:
        """Read the tokens, which attend to their text and to what they go on from."""
        conditioning, width = self._of_drafts(parents), read.shape[1]
        places = (self._text.root + level).expand(-1, width)
        lone = self._text.own is None and lineage.shape[2] == level  # a single path, which sees all
        self._read = self.context.read(read, places, None if lone else self._sees(lineage), width, conditioning)
        return self._read.logits

    def _of_text(self) -> Conditioning:
        """The model's conditioning at what is new in the texts."""
        return UNCONDITIONED

    def _of_drafts(self, parents: torch.Tensor) -> Conditioning:
        """Its conditioning at tokens that follow some of those that it has read last, shape (B or 1, W)."""
        return UNCONDITIONED

    def _sees(self, lineage: torch.Tensor) -> torch.Tensor:
        """Which columns on trial the slots of a level attend to: those of their text and of their ancestors."""
        own = self._text.own
        text = lineage.new_ones(1, 1, self._before_slots) if own is None else own
        batch, width = max(len(text), len(lineage)), lineage.shape[1]
        return torch.cat((text.expand(batch, width, -1), lineage.expand(batch, -1, -1)), dim=2)

    def _unread(self, texts: Sequence[Sequence[int]]) -> list[list[int]]:
        """What the model has not read of each text, at least a token."""
        return [self._readable(text[length:]) for text, length in zip(texts, self.context.length, strict=True)]

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read of the text and of its accepted tokens."""
        chosen: list[list[int]] = [[] for _ in self.context.length]
        if self.context.trial:
            chosen = [
                [*text, *(self._before_slots + column for column in self._columns(row, slots))]
                for row, (text, slots) in enumerate(zip(self._on_trial, accepted, strict=True))
            ]
        self.context.commit(chosen, rows)

    def _columns(self, row: int, slots: Sequence[int]) -> list[int]:
        """Which of the tokens read since the text are those of some slots; others have not been read."""
        if self.columns_read is not None:
            return [self.columns_read[row][slot] for slot in slots if slot in self.columns_read[row]]
        return [place - 1 for place in self._places[list(slots)].tolist() if 0 < place < self._drafted_slots]

    def history_of_roots(self) -> History:
        """Of the texts, whose last tokens have just been read: the tokens before these are on trial too, or settled."""
        text, read_before = self._text, self.context.after_texts
        on_trial = self.context.settled + text.tokens.shape[1] - 2
        before = torch.where(text.root > read_before, on_trial, read_before - 1)
        return History(text.tokens[:, -1:], self.context.outputs_at(before))
