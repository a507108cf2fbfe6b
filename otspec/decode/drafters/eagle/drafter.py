"""Drafting with an `Eagle` model: token by token, or all depths in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from otspec.decode.base.drafts import Launched, Outcome
from otspec.decode.drafters.conditioned import ConditionedDrafter
from otspec.decode.drafters.eagle.in_bytes import ByteLevels, model_in_bytes
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.hidden_states import last_layer
from otspec.decode.drafters.levels import GrownLevel, Levels, after_parents
from otspec.decode.drafters.model import ModelDrafter, Unread, UnreadText
from otspec.decode.models.context import Context
from otspec.decode.models.passes.packed import BYTE_ROWS, as_bits
from otspec.decode.models.passes.signature import Conditioning
from otspec.kernels.few_rows import Bits, Gains
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape


class EagleDrafter(ConditionedDrafter, ModelDrafter):
    """Drafts from an `Eagle` model: with every token of the text it reads the target's features at the token before it.

    Accepted drafts are read anew, with the target's features in place of the model's own outputs.  A published layer
    never reads the first token of a text, as there are no features before it: a text of one token gets no drafts.
    """

    model: Eagle
    _first: int
    """Tokens of a text that are never read."""
    _next: Levels | None = None
    """The drafts of the next step, where they are launched: what was read in this one is settled by then."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens."""
        self._first = first = int(self.model.config.published)
        conditioning = Conditioning(added=self.model.conditioning(self._before()[:, first:]))
        read = [self._readable(text[first:-1]) for text in texts]
        self.context = Context(self.model, read, last_layer(self.model), conditioning)
        self._in_bytes = model_in_bytes(self.context, self.model)

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as positions last."""
        read = lengths - self._first
        return super().depth(read) if read.min() else 0

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """What has not been read of a text is read with the target's features of the tokens before."""
        texts = self._without_first(texts)
        unread = [len(text) - length for text, length in zip(texts, self.context.length.tolist(), strict=True)]
        self._features = (self._before_unread(unread),)
        return texts

    def _without_first(self, texts: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        return [text[self._first :] for text in texts]

    def launch(self, texts: Sequence[Sequence[int]], depth: int) -> Launched | None:
        """As others do, where `launch_next` has not done it."""
        found, self._next = self._next, None
        if found is None:
            return super().launch(texts, depth)
        (unread,) = self._unread(self._without_first(texts))
        self._on_trial = [list(range(self._before_slots - len(unread), self._before_slots))]
        return self._launched(found, self.shape.cut(depth))

    def _launched(self, found: Levels, shape: Shape) -> Launched:
        """With laws that the next drafts do not overwrite."""
        return super()._launched(found._replace(laws=found.laws.clone()), shape)

    def launch_next(self, drafts: Launched, outcome: Outcome, states: torch.Tensor | None) -> None:
        """Of a single text: which of the target's states its drafts are conditioned on the device knows."""
        assert states is not None
        if len(states) > 1:
            return
        super().commit([[]], [0])
        unread = Unread(outcome.came, False, (drafts.shape, outcome.read))
        self._before_slots, self._features = unread.columns, (drafts.tokens, states)
        self._next = self._after_unread(drafts.shape, unread)

    def _text_of(self, unread: Unread) -> UnreadText:
        """With what the text's tokens are conditioned on, where the device alone knows them."""
        if unread.drafts is not None:
            tokens, states = self._features
            unread, after = unread.after(tokens, self.context.after_texts, self._own_vocab)
            self._features = (states[:, after[0]],)
        return super()._text_of(unread)

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read of the text, and none of the drafts."""
        self._left = None if self.context.trial else [self._seen[row] for row in rows]
        if self._next is None:
            super().commit([[] for _ in accepted], rows)

    def _of_text(self) -> Conditioning:
        return Conditioning(added=self.model.conditioning(*self._features))

    def _in_one(self, shape: Shape, unread: Unread) -> Levels | None:
        """All levels by one kernel on a CPU, where one has these settings; else as others do."""
        levels = ByteLevels.of(self.context, self._in_bytes, self.head)
        apart = self.confidence or isinstance(self.generator, Sequence)
        if apart or levels is None or not levels.draws(self.law, shape):
            return super()._in_one(shape, unread)
        assert not isinstance(self.generator, Sequence)
        return levels.draft(*self._before_levels(levels, unread), self.law, shape, self.generator)

    def _grown_in_one(self, unread: Unread, width: int, depth: int) -> list[GrownLevel] | None:
        """By one kernel on a CPU, where one does that; else as others do."""
        levels = ByteLevels.of(self.context, self._in_bytes, self.head)
        if levels is None or not levels.grows(width):
            return super()._grown_in_one(unread, width, depth)
        return levels.grow(*self._before_levels(levels, unread), width, depth)

    def _before_levels(self, levels: ByteLevels, unread: Unread) -> tuple[tuple[Gains, Bits], int]:
        """What the model gives after what is new of the text, as `ByteLevels.read`, and the last token's position."""
        packed = unread.packed
        if packed.shape[1] - 2 <= BYTE_ROWS:
            after = levels.read(packed, *self._features)
        else:
            logits = self._after(self._on_device(unread))
            after = logits[0].float().numpy(), as_bits(self._read.states[:, -1, 0])
        return after, int(packed[0, -2:].sum()) - 1

    def _of_drafts(self, parents: torch.Tensor) -> Conditioning:
        """The model's own outputs stand in for features that the target does not have yet."""
        outputs = self._read.states[:, -self._read.logits.shape[1] :, 0]
        return Conditioning(added=self.model.added_of_own(after_parents(outputs, parents)))


class ParallelDrafter(EagleDrafter):
    """Drafts from shared layers with masks: behind the text it reads as many of them as levels are wanted.

    What it gives there are the laws of all levels.  So drawing costs nothing more: a tree is limited by what the target
    reads alone.
    """

    _outputs: torch.Tensor
    """What the head gets, or gives, for every level of this step, shape (B, levels, ...)."""
    _at_most: int = 1
    """Levels that this step reads."""

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as there are masks, or positions."""
        return min(super().depth(lengths), self.model.config.masks + 1)

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Read with the target's features; one level, if no more are requested."""
        self._at_most = 1
        return super().begin_step(texts)

    def every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor:
        """What the model gives for so many levels, shape (B, depth, ...)."""
        return self._at_once(self._on_device(self._unread_in(texts)), depth)

    def _after_unread(self, shape: Shape, unread: Unread) -> Levels:
        self._at_most = shape.depth
        return super()._after_unread(shape, unread)

    def _after(self, text: UnreadText) -> torch.Tensor:
        self._outputs = self._at_once(text, self._at_most)
        return self._outputs[:, :1]

    def _at_once(self, text: UnreadText, levels: int) -> torch.Tensor:
        """What the model gives for so many levels, shape (B, levels, ...)."""
        batch, masks = len(text.tokens), levels - 1
        more = torch.arange(1, levels, device=self.context.device)
        tokens = torch.cat((text.tokens, (self._own_vocab - 1 + more).expand(batch, -1)), dim=1)
        position = torch.cat((text.position, text.root + more), dim=1)
        # Masks see no state of the target's: they follow one.
        added = pad(self.model.conditioning(*self._features), (0, 0, 0, masks))
        self._text = text
        sees = text._replace(
            tokens=tokens, own=None if text.own is None else pad(text.own, (0, masks), value=True)
        ).sees
        self._read = self.context.read(tokens, position, sees, levels, Conditioning(added=added))
        return self._read.logits

    def after_level(self, read: torch.Tensor, level: int, parents: torch.Tensor, lineage: torch.Tensor) -> torch.Tensor:
        """The same for all slots of a level."""
        return self._outputs[:, level : level + 1].expand(-1, read.shape[1], *self._outputs.shape[2:])
