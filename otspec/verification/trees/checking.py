"""Whether tensors are drafted trees: shapes, types and devices on the host, values where they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.laws import as_count, as_law
from otspec.verification.tensors.fixed_point import at
from otspec.verification.tensors.rows import DRIFT, Rows, check_strided, rows_of
from otspec.verification.trees.layout import NONE, Layout, Links, branching_layout, linked_layout, rows_side_by_side


def check_tokens(tokens: Any) -> None:
    """Refuse tokens that are no tensor of integers of shape (B, S)."""
    if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.shape[1] < 2:
        found = tuple(tokens.shape) if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ProblemError(f"tokens are {found}; pass a tensor of shape (B, S), S slots with the root, S >= 2")
    if not _are_integers(tokens):
        raise ProblemError(f"tokens are {tokens.dtype}; token ids are integers")
    check_strided("tokens", tokens)


def laws_of_slots(
    target: Tensor, draft: Tensor, tokens: Tensor, rows: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Laws as rows, and the row of every slot.

    Parameters
    ----------
    target, draft : Tensor, shape (B, S, V), (B, I, V); with `rows` (R, V), (R', V)
    tokens : Tensor of integers, shape (B, S)
    rows : pair of Tensors of integers, shape (B, S), (B, I), optional

    Returns
    -------
    target, draft : Tensor, shape (R, V), (R', V)
    target_row, draft_row : Tensor of int64, shape (B, S)
        `NONE` where a slot has no draft law.

    Raises
    ------
    ProblemError
        If shapes, types or devices do not fit together.
    """
    for name, laws in (("target", target), ("draft", draft)):
        if not isinstance(laws, Tensor) or laws.dtype not in DRIFT:
            what = laws.dtype if isinstance(laws, Tensor) else type(laws).__name__
            raise ProblemError(f"{name} is {what}; pass a tensor of floats")
        check_strided(name, laws)
        if laws.device != tokens.device:
            raise ProblemError(f"{name} is on {laws.device}, and tokens on {tokens.device}; move them to one")
    trees, slots = tokens.shape
    shapes = f"target has shape {tuple(target.shape)} and draft {tuple(draft.shape)}"
    if rows is None:
        if target.ndim != 3 or draft.ndim != 3 or target.shape[:2] != tokens.shape or draft.shape[0] != trees:
            raise ProblemError(f"{shapes}; for tokens {tuple(tokens.shape)} they need (B, S, V) and (B, I, V)")
        inner = draft.shape[1]
        target, draft = target.flatten(0, 1), draft.flatten(0, 1)
    some = trees == 0 or (len(target) > 0 and len(draft) > 0)  # a batch of no trees needs no laws
    if target.ndim != 2 or draft.ndim != 2 or not 0 < target.shape[1] == draft.shape[1] or not some:
        raise ProblemError(f"{shapes}; they need laws over the same tokens")
    if rows is None:
        if not 1 <= inner <= slots:
            raise ProblemError(
                f"{shapes}; the draft has a law for each of the first I slots, at least 1, at most {slots}"
            )
        return target, draft, *rows_side_by_side(trees, slots, inner, tokens.device)
    inner = rows[1].shape[-1]
    for name, row, width in (("target", rows[0], slots), ("draft", rows[1], inner)):
        if row.shape != (trees, width) or not 1 <= width <= slots or not _are_integers(row):
            raise ProblemError(
                f"the rows of {name} are {row.dtype} of shape {tuple(row.shape)}; pass integers of shape "
                f"({trees}, {slots}) for the target, and for the draft as many or fewer for each tree"
            )
    # A slot without a draft law has row -1: if it has children, its tree is not valid.
    padded = torch.nn.functional.pad(rows[1].long(), (0, slots - inner), value=NONE)
    return target, draft, rows[0].long().contiguous(), padded.contiguous()


def layout_of(topology: Sequence[int] | Links, tokens: Tensor, inner: int | None = None) -> Layout:
    """The layout of trees whose tokens have shape (B, S), and whose first `inner` slots have draft laws.

    Raises
    ------
    ProblemError
        If the topology is neither that of S slots nor links of that shape.
    """
    rows, slots = tokens.shape
    if isinstance(topology, Links):
        for name, link in zip(Links._fields, topology[:2], strict=False):
            if not isinstance(link, Tensor) or link.shape != tokens.shape or not _are_integers(link):
                what = f"{link.dtype} of shape {tuple(link.shape)}" if isinstance(link, Tensor) else type(link).__name__
                raise ProblemError(f"{name} is {what}; pass integers of the shape of tokens, {tuple(tokens.shape)}")
            if link.device != tokens.device:
                raise ProblemError(f"{name} is on {link.device}, and tokens on {tokens.device}; move them to one")
        for name, bound in zip(Links._fields[2:], topology[2:], strict=True):
            if bound is not None:
                as_count(name, bound)
        return linked_layout(topology)
    if isinstance(topology, str | bytes) or not isinstance(topology, Sequence) or not len(topology):
        raise ProblemError(
            f"the topology is {topology!r}; pass the number of children on each level, such as (4, 1, 1), or Links"
        )
    branching = tuple(as_count("branching", each) for each in topology)
    expected = 1 + sum(math.prod(branching[: level + 1]) for level in range(len(branching)))
    if expected != slots:
        raise ProblemError(
            f"tokens are for {slots} slots, and branching {branching} has {expected}, the root among them"
        )
    if inner is not None and inner < (parents := slots - math.prod(branching)):
        raise ProblemError(f"draft has laws for {inner} slots, and {parents} of branching {branching} have children")
    return branching_layout(branching, rows, tokens.device)


def checked_laws(laws: Tensor) -> Rows:
    """Laws of shape (R, V) and their totals: valid where that is 1, up to what laws of their type may be off.

    `row_kernels.checked_rows` checks it by kernels, whose sums of floats have another order.
    """
    total = torch.where(laws.amin(dim=1) >= 0, laws.sum(dim=1, dtype=torch.float64), torch.nan)
    return rows_of(laws, total, (total - 1).abs() <= DRIFT[laws.dtype])


def validate(
    layout: Layout, target: Rows, target_row: Tensor, draft: Rows, draft_row: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Which trees are valid: their links, laws and tokens; and rows and tokens that exist.

    Rows and tokens are the same where a tree is valid.

    Parameters
    ----------
    layout : Layout
    target, draft : Rows
    target_row, draft_row, tokens : Tensor of int64, shape (B, S)

    Returns
    -------
    valid : Tensor of bool, shape (B,)
    target_row, draft_row, tokens : Tensor of int64, shape (B, S)
    """
    there, inner = layout.depth >= 0, layout.children > 0
    right = (_have(target.valid, target_row) | ~there) & (_have(draft.valid, draft_row) | ~inner)
    drawn = could_be_drawn(draft.read.entries, draft_row, tokens, layout)
    valid = layout.valid & (right & drawn).all(dim=1)
    return (
        valid,
        target_row.clamp(0, len(target.valid) - 1),
        draft_row.clamp(0, len(draft.valid) - 1),
        torch.where(valid[:, None] & (layout.depth > 0), tokens, 0),
    )


def could_be_drawn(draft: Tensor, draft_row: Tensor, tokens: Tensor, layout: Layout) -> Tensor:
    """Of each slot that holds a token, shape (B, S): whether its parent's law can draw it; True elsewhere.

    Laws are the rows of `draft`, shape (R', V), that `draft_row`, shape (B, S), names.
    """
    row = at(draft_row, layout.parent).clamp(0, draft.shape[0] - 1)
    inside = (tokens >= 0) & (tokens < draft.shape[1])
    chance = draft[row, tokens.clamp(0, draft.shape[1] - 1)]
    return (inside & (chance > 0)) | (layout.depth <= 0)


def check_trees(
    valid: Tensor, target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, tokens: Tensor, layout: Layout
) -> None:
    """Name what is wrong with the first tree that is not valid; waits for the device.

    Parameters
    ----------
    valid : Tensor of bool, shape (B,)
    target, draft : Tensor, shape (R, V), (R', V)
    target_row, draft_row, tokens : Tensor of int64, shape (B, S)
        As they came.
    layout : Layout

    Raises
    ------
    ProblemError
        If there is one.
    """
    if valid.all():
        return
    tree = int((~valid).int().argmax())
    if not layout.valid[tree]:
        raise ProblemError(
            f"the links of tree {tree} are none of a tree: each slot is the first child or the next sibling of one "
            "earlier slot at most, the root of none; or the tree is deeper or wider than `depth` and `width`"
        )
    for slot in range(tokens.shape[1]):
        for name, laws, row, wanted in (
            ("target", target, target_row, layout.depth[tree, slot] >= 0),
            ("draft", draft, draft_row, layout.children[tree, slot] > 0),
        ):
            if not wanted:
                continue
            number = int(row[tree, slot])
            if not 0 <= number < len(laws):
                raise ProblemError(f"slot {slot} of tree {tree} has row {number} of {len(laws)} of {name}")
            if not checked_laws(laws[number : number + 1]).valid.item():
                as_law(f"{name} at slot {slot} of tree {tree}", laws[number])
    drawn = could_be_drawn(draft, draft_row, tokens, layout)[tree]
    slot = int((~drawn).int().argmax())
    raise ProblemError(
        f"tree {tree} has token {int(tokens[tree, slot])} at slot {slot}, which the draft law of its parent, over "
        f"{draft.shape[1]} tokens, cannot draw"
    )


def _have(right: Tensor, row: Tensor) -> Tensor:
    """Whether slots have a row, shape (B, S), and one that is right, (R,)."""
    return (row >= 0) & (row < right.shape[0]) & right[row.clamp(0, right.shape[0] - 1)]


def _are_integers(values: Tensor) -> bool:
    return not (values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool)
