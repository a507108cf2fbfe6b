"""A batch of drafted trees as tensors: where slots hang, what they hold, and the laws after them.

The laws of all slots together would not fit: they come as rows, which slots share, and are looked up a level at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.groups import SORTED, Groups
from otspec.verification.tensors.rows import Rows, check_kernels
from otspec.verification.trees.checking import (
    check_tokens,
    check_trees,
    checked_laws,
    laws_of_slots,
    layout_of,
    validate,
)
from otspec.verification.trees.layout import NONE, Layout, Links, take


class Line(NamedTuple):
    """One path of each of B trees, L tokens at most, and where its laws are: beyond its end they are the root's.

    It is no tree: it is what a rule picks in one and verifies as a block, and what kernels fill in.
    """

    slots: Tensor
    """Shape (B, L), int64: from level 1 on, `NONE` after the end."""
    tokens: Tensor
    """Shape (B, L), int64: theirs, `NONE` after the end."""
    length: Tensor
    """Shape (B,), int64."""
    target_row: Tensor
    """Shape (B, L + 1), int64: of the target's laws after 0 to L tokens."""
    draft_row: Tensor
    """Shape (B, L), int64: of the laws that the tokens were drawn from."""
    place: Tensor
    """Shape (B, L), int64: the slots that have these laws, their parents, numbered through all trees."""


class TreeVerification(NamedTuple):
    """What comes out of the verification of B trees, as tensors on the device of the laws."""

    slots: Tensor
    """Shape (B, L), int64: the accepted slots from level 1 on; -1 after the last."""
    tokens: Tensor
    """Shape (B, L), int64: their tokens; -1 after the last."""
    accepted: Tensor
    """Shape (B,), int64: how many tokens are accepted."""
    token: Tensor
    """Shape (B,), int64: the token after them; 0 in trees that are not valid."""
    valid: Tensor
    """Shape (B,), bool: whether the tree was a problem.  Reading it waits for the device."""
    logprobs: Tensor | None = None
    """Shape (B, L + 1), float64, where requested: the target's log-probabilities of the accepted tokens and of the one
    after them, then NaN, as in trees that are not valid."""

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """All but the log-probabilities, each with its shape as above, (B, L) or (B,)."""
        return self.slots, self.tokens, self.accepted, self.token, self.valid


class TreeBatch(NamedTuple):
    """B drafted trees of S slots, and both models' laws: the one type of trees as tensors, checked once by `of`.

    Trees that are not valid stay among the others, in place of a branch, as trees that nothing can go wrong with:
    their rows and tokens exist, and their laws are uniform.
    """

    layout: Layout
    target: Rows
    """Laws of the target, R of them."""
    target_row: Tensor
    """Shape (B, S), int64: which of them each slot has; a row that exists."""
    draft: Rows
    """Laws that tokens were drawn from, R' of them."""
    draft_row: Tensor
    """Shape (B, S), int64: which of them the children of each slot have; any row where a slot has no children."""
    tokens: Tensor
    """Shape (B, S), int64: the token of each slot; 0 for the root."""
    valid: Tensor
    """Shape (B,), bool: trees whose links, laws and tokens are those of a drafted tree."""
    groups: Groups | None = None
    """Of all slots, B * S, where kernels have put their tokens into groups already."""
    logits: bool = False
    """Whether the entries of the rows are logits.  Kernels that walk token by token read those, nothing else does."""
    leaves: bool = True
    """Whether there is a target law after a slot without children."""

    @classmethod
    def of(
        cls,
        target: Tensor,
        draft: Tensor,
        tokens: Tensor,
        topology: Sequence[int] | Links,
        *,
        rows: tuple[Tensor, Tensor] | None = None,
        kernels: bool = False,
        grouped: bool = False,
        check: bool = False,
    ) -> TreeBatch:
        """Check trees: shapes at once, values where they are.

        Parameters
        ----------
        target, draft, tokens, topology, rows
            As `otspec.verification.device.verify_trees` takes them.
        kernels : bool
            Whether Triton's kernels go over the laws.
        grouped : bool
            Whether kernels put the tokens of large vocabularies into groups by the way, for labels to be shared among
            them.
        check : bool
            Whether to wait for the device, and to name what is wrong with the first tree that is not valid.

        Returns
        -------
        TreeBatch

        Raises
        ------
        MissingExtra
            If kernels are requested, and Triton is not installed.
        ProblemError
            If shapes, types or devices do not fit together; with `check`, also if a tree is not a problem.
        """
        check_tokens(tokens)
        laws = laws_of_slots(target, draft, tokens, rows)
        layout = layout_of(topology, tokens, draft.shape[1] if rows is None else rows[1].shape[1])
        target, draft, target_row, draft_row = laws
        drafted, groups = tokens.long().contiguous(), None
        if kernels:
            check_kernels(target)
            from otspec.verification.tensors.row_kernels import checked_rows
            from otspec.verification.trees.group_kernels import check_by_groups
            from otspec.verification.trees.validity_kernels import validate_by_kernels

            if grouped and target.shape[1] > SORTED and layout.stem < layout.length:
                p, q, groups = check_by_groups(target, draft, target_row, draft_row, layout)
            else:
                p, q = checked_rows(target), checked_rows(draft)
            found = validate_by_kernels(layout, p, target_row, q, draft_row, drafted)
        else:
            p, q = checked_laws(target), checked_laws(draft)
            found = validate(layout, p, target_row, q, draft_row, drafted)
        valid, safe_target, safe_draft, safe_tokens = found
        if check:
            check_trees(valid, target, draft, target_row, draft_row, drafted, layout)
        return cls(layout, p, safe_target, q, safe_draft, safe_tokens, valid, groups)

    @property
    def vocab(self) -> int:
        """V."""
        return self.target.vocab

    @property
    def slots(self) -> int:
        """S."""
        return self.tokens.shape[1]

    def split(self, size: int) -> list[TreeBatch]:
        """The trees in batches of `size`."""
        if len(self.tokens) <= size:
            return [self]
        found = []
        for first in range(0, len(self.tokens), size):
            part, places = slice(first, first + size), slice(first * self.slots, (first + size) * self.slots)
            found.append(
                self._replace(
                    layout=self.layout.part(part),
                    target_row=self.target_row[part],
                    draft_row=self.draft_row[part],
                    tokens=self.tokens[part],
                    valid=self.valid[part],
                    groups=None if self.groups is None else Groups(*(counts[places] for counts in self.groups)),
                )
            )
        return found

    def along(self, slots: Tensor) -> Line:
        """The line of some slots, shape (B, L)."""
        there, parent = slots >= 0, take(self.layout.parent, slots)
        first = torch.arange(len(slots), device=slots.device)[:, None] * self.slots
        return Line(
            slots,
            torch.where(there, take(self.tokens, slots), NONE),
            there.sum(dim=1),
            take(self.target_row, torch.nn.functional.pad(slots, (1, 0))),
            take(self.draft_row, parent),
            first + parent,
        )

    def target_at(self, slots: Tensor) -> Tensor:
        """Target laws, shape (B, W, V), float64, over their totals, after the prefixes of some slots, (B, W)."""
        return self._scaled(self.target, take(self.target_row, slots))

    def draft_at(self, slots: Tensor) -> Tensor:
        """The laws of their children, shape (B, W, V), likewise."""
        return self._scaled(self.draft, take(self.draft_row, slots))

    def as_they_came(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Both laws at some slots, (B, W), in their own types, not divided by anything; shape (B, W, V)."""
        target, draft = take(self.target_row, slots), take(self.draft_row, slots)
        return self._read(self.target.read.entries[target]), self._read(self.draft.read.entries[draft])

    def scales_at(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """What both are multiplied by to add up to 1, shape (B, W)."""
        target, draft = take(self.target_row, slots), take(self.draft_row, slots)
        valid = self.valid[:, None]
        mine, theirs = self.target.read.scale[target], self.draft.read.scale[draft]
        return torch.where(valid, mine, 1.0), torch.where(valid, theirs, 1.0)

    def put_out(self, slots: Tensor, token: Tensor) -> TreeVerification:
        """What is put out where slots are accepted and a token follows: no slots, and 0, of trees that are not valid.

        Parameters
        ----------
        slots : Tensor of int64, shape (B, L)
            From level 1 on, `NONE` after the last.
        token : Tensor of int64, shape (B,)
        """
        slots = torch.where(self.valid[:, None], slots, NONE)
        return TreeVerification(
            slots,
            torch.where(slots >= 0, take(self.tokens, slots), NONE),
            (slots >= 0).sum(dim=1),
            torch.where(self.valid, token, 0),
            self.valid,
        )

    def logprobs_of(self, found: TreeVerification) -> Tensor:
        """The target's log-probabilities of what was put out, shape (B, L + 1); NaN behind it and where not valid."""
        place = torch.arange(found.slots.shape[1] + 1, device=found.slots.device)
        tokens = torch.nn.functional.pad(found.tokens, (0, 1), value=NONE)
        tokens = torch.where(place == found.accepted[:, None], found.token[:, None], tokens)
        row = take(self.target_row, torch.nn.functional.pad(found.slots, (1, 0)))
        known = (place <= found.accepted[:, None]) & self.valid[:, None]
        return torch.where(known, self.target.logprobs_at(row, tokens.clamp(min=0), self.logits), torch.nan)

    def _scaled(self, laws: Rows, row: Tensor) -> Tensor:
        return self._read(laws.read.entries[row].double() * laws.read.scale[row][:, :, None])

    def _read(self, found: Tensor) -> Tensor:
        return torch.where(self.valid[:, None, None], found, 1.0 / self.vocab)
