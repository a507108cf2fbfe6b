"""Entry for drafted trees of tensors: shapes are checked at once, values on the device, and then a rule is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.laws import as_count, as_law
from otspec.verification.device.rows import DRIFT, KERNELS, WAYS, dealt
from otspec.verification.rules.block.line_launch import lay_first_by_kernels, verify_line_by_kernels
from otspec.verification.rules.block.path_launch import checked_rows, rows_of
from otspec.verification.rules.groups.groups import SORTED
from otspec.verification.rules.groups.launch import check_by_groups
from otspec.verification.rules.nested.tensors import follow, pick_nested, spread_of, verify_line
from otspec.verification.rules.token_wise.launch import Trees, find_sound, walk_by_kernels
from otspec.verification.rules.token_wise.tensors import verify_token_wise
from otspec.verification.tensors.fixed_point import at
from otspec.verification.tensors.reading import Rows, runs_on
from otspec.verification.trees.layout import (
    NONE,
    Layout,
    Links,
    branching_layout,
    linked_layout,
    rows_side_by_side,
    take,
)
from otspec.verification.trees.tree_laws import Groups, TreeLaws

RULES = ("nested", "block", "interval")
GROUP = 64
"""Trees that are worked on together."""
PARTS = 4
"""Of look-ahead: half of what `otspec.paths.Nested` takes, for half the work."""
MOST_SIGMA = 100
"""As there: beyond, the spread of the parts is out of floats."""


class TreeVerification(NamedTuple):
    """What comes out of the verification of B trees, as tensors on the device of the laws."""

    slots: Tensor
    """Shape (B, L), int64: the accepted slots from level 1 on; -1 after the last."""
    tokens: Tensor
    """Shape (B, L), int64: their tokens; -1 after the last."""
    accepted: Tensor
    """Shape (B,), int64: how many tokens are accepted."""
    token: Tensor
    """Shape (B,), int64: the token after them; 0 in trees that are not sound."""
    sound: Tensor
    """Shape (B,): whether the tree was a problem.  To read it is to wait for the device."""


def verify_trees(
    target: Tensor,
    draft: Tensor,
    tokens: Tensor,
    topology: Sequence[int] | Links,
    rng: torch.Generator | Tensor,
    *,
    rows: tuple[Tensor, Tensor] | None = None,
    rule: str = "nested",
    sigma: float = 0.5,
    by: str | None = None,
    kernels: bool | None = None,
    check: bool = False,
) -> TreeVerification:
    """Verify B drafted trees jointly where they are, without waiting for the device.

    A tree has S slots: slot 0, the root, is the text so far, each other slot holds one drafted token.  Siblings are
    independent draws from one law, that of their parent's prefix; equal ones are slots of their own.  Slots of equal
    prefixes have to have equal laws.

    Parameters
    ----------
    target : Tensor, shape (B, S, V)
        The target's law after the prefix of each slot: float64, float32, bfloat16 or float16, as in `verify_rows`.
    draft : Tensor, shape (B, I, V)
        The laws that the children of the first I slots were really drawn from: no other slot has children.
    tokens : Tensor of integers, shape (B, S)
        The token of each slot; that of the root is not read.
    topology : sequence of int, or Links
        How many children each slot of a level has, (K, 1, ..., 1) for K paths of L tokens, slots numbered level by
        level, the children of one slot side by side, as `otspec.paths.Shape` does it.  Or trees of their own: first
        children and next siblings.  The number of a slot's children may depend on its prefix and its place, and
        on no other draft.
    rng : torch.Generator or Tensor of float64, shape (B, S + L, 3)
        A generator on the device of the laws, or uniform numbers in [0, 1), independent of the drafts.  L is the number
        of levels, for links their `depth`.  Row s - 1 is for slot s, row S - 1 + i for the token after i accepted ones;
        docs/device.md says what each is for.
    rows : pair of Tensors of integers, shapes (B, S) and (B, I), optional
        Laws are then rows of tensors of shape (R, V), and these say which: slots may share them.
    rule : str
        ``"nested"``, joint verification by labels on a grid; ``"block"``, block verification of the path of first
        children; or ``"interval"``, token by token.
    sigma : float
        Look-ahead of ``"nested"``, as in `otspec.paths.Nested`; 0 for none.
    by : str, optional
        How ``"interval"`` verifies the drafts of one text, as in `verify_rows`: ``"sorting"``, ``"buckets"``, or
        ``"triton"``.  By default the last with `kernels`, and the first without.
    kernels : bool, optional
        Whether Triton's kernels go over the laws; by default where the laws are on a GPU, and Triton is installed.
    check : bool
        Whether to wait for the device, and to raise an error that names what is wrong with the first tree that is not
        sound.

    Returns
    -------
    TreeVerification

    Raises
    ------
    ProblemError
        If shapes, types or devices do not fit together, or there is no such rule; with `check`, also if a tree is not a
        problem.
    """
    if rule not in RULES:
        raise ProblemError(f"rule is {rule!r}; known: {', '.join(RULES)}")
    if isinstance(sigma, bool) or not isinstance(sigma, int | float) or not 0 <= sigma <= MOST_SIGMA:
        raise ProblemError(f"sigma is {sigma!r}; it is between 0 (no look-ahead) and {MOST_SIGMA}")
    by_kernels, by = _way(rule, by, kernels, tokens)
    _check_tokens(tokens)
    target, draft, target_row, draft_row = _as_rows(target, draft, tokens, rows)
    layout = _layout(topology, tokens)
    uniforms = dealt(rng, (tokens.shape[0], tokens.shape[1] + layout.length, 3), tokens.device, "trees")
    drafted = tokens.long().contiguous()
    groups = None
    if by_kernels and rule == "nested" and target.shape[1] > SORTED and layout.stem < layout.length:
        drifts = DRIFT[target.dtype], DRIFT[draft.dtype]
        p, q, groups = check_by_groups(target, draft, target_row, draft_row, layout, drifts)
    else:
        p, q = (checked_rows(law, DRIFT[law.dtype]) if by_kernels else _rows(law) for law in (target, draft))
    # Trees that are not sound are worked on as well, in place of a branch: as trees that nothing can go wrong with.
    trees = Trees(layout, p, target_row, q, draft_row, drafted)
    sound, safe = find_sound(trees) if by_kernels else _find_sound(trees)
    if check:
        _check_trees(sound, target, draft, target_row, draft_row, drafted, layout)

    def verify(
        layout: Layout, tokens: Tensor, p_row: Tensor, q_row: Tensor, sound: Tensor, dealt: Tensor, *counts: Tensor
    ) -> TreeVerification:
        if by == KERNELS:
            return _walk(Trees(layout, p, p_row, q, q_row, tokens), sound, dealt)
        laws = TreeLaws(p, p_row, q, q_row, sound, Groups(*counts) if counts else None)
        return _verify(laws, layout, tokens, dealt, rule, sigma, by, by_kernels)

    given = (safe.tokens, safe.target_row, safe.draft_row, sound, uniforms)
    slots = tokens.shape[1]
    if tokens.shape[0] <= GROUP:
        return verify(layout, *given, *(groups or ()))
    counts = [part.split(GROUP * slots) for part in groups or ()]
    parts = zip(_split(topology, safe.tokens), *(part.split(GROUP) for part in given), *counts, strict=True)
    found = [verify(*part) for part in parts]
    return TreeVerification(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _way(rule: str, by: str | None, kernels: bool | None, tokens: Tensor) -> tuple[bool, str]:
    """Whether kernels go over the laws, and how the drafts of one text are verified."""
    if by is None:
        by_kernels = isinstance(tokens, Tensor) and runs_on(tokens) if kernels is None else kernels
        return by_kernels, KERNELS if by_kernels and rule == "interval" else "sorting"
    if rule != "interval":
        raise ProblemError(f"by is {by!r}, and the rule {rule!r}; only 'interval' has several ways, so leave it out")
    if by not in WAYS:
        raise ProblemError(f"by is {by!r}; known: {', '.join(WAYS)}")
    if kernels is not None and kernels != (by == KERNELS):
        raise ProblemError(f"by is {by!r}, and kernels is {kernels}; 'triton' alone is by kernels, so pass one of them")
    return by == KERNELS, by


def _walk(trees: Trees, sound: Tensor, uniforms: Tensor) -> TreeVerification:
    found = walk_by_kernels(trees, sound, uniforms)
    return TreeVerification(found.slots, found.tokens, (found.slots >= 0).sum(dim=1), found.token, sound)


def _verify(
    laws: TreeLaws,
    layout: Layout,
    tokens: Tensor,
    uniforms: Tensor,
    rule: str,
    sigma: float,
    by: str,
    kernels: bool,
) -> TreeVerification:
    if rule == "interval":
        slots, token = verify_token_wise(layout, laws, tokens, uniforms, by)
    else:
        factor = None
        if rule == "nested":
            spread = spread_of(float(sigma), PARTS, tokens.device)
            line, factor = pick_nested(layout, laws, tokens, uniforms, spread, kernels)
        elif kernels:
            line = lay_first_by_kernels(layout, laws, tokens)
        else:
            line = laws.along(layout, tokens, follow(layout.first, layout.length))
        if kernels and (factor is None or laws.vocab > SORTED):
            return TreeVerification(*verify_line_by_kernels(laws, factor, line, uniforms), laws.sound)
        accepted, token = verify_line(laws, factor, line, uniforms[:, tokens.shape[1] - 1 :])
        level = torch.arange(layout.length, device=tokens.device)
        slots = torch.where(level < accepted[:, None], line.slots, NONE)
    slots = torch.where(laws.sound[:, None], slots, NONE)
    return TreeVerification(
        slots,
        torch.where(slots >= 0, take(tokens, slots), NONE),
        (slots >= 0).sum(dim=1),
        torch.where(laws.sound, token, 0),
        laws.sound,
    )


def _layout(topology: Sequence[int] | Links, tokens: Tensor) -> Layout:
    """The checked layout of all trees."""
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
    return branching_layout(branching, rows, tokens.device)


def _split(topology: Sequence[int] | Links, tokens: Tensor) -> list[Layout]:
    """Layouts of groups of trees."""
    if isinstance(topology, Links):
        pairs = zip(topology.first_child.split(GROUP), topology.next_sibling.split(GROUP), strict=True)
        return [linked_layout(Links(*pair, topology.depth, topology.width)) for pair in pairs]
    return [branching_layout(topology, len(some), tokens.device) for some in tokens.split(GROUP)]


def _check_tokens(tokens: Any) -> None:
    if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.shape[1] < 2:
        found = tuple(tokens.shape) if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ProblemError(f"tokens are {found}; pass a tensor of shape (B, S), S slots with the root, S >= 2")
    if not _are_integers(tokens):
        raise ProblemError(f"tokens are {tokens.dtype}; token ids are integers")


def _are_integers(values: Tensor) -> bool:
    return not (values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool)


def _as_rows(
    target: Tensor, draft: Tensor, tokens: Tensor, rows: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Laws of shape (R, V), and the row of every slot, (B, S) both, 0 where there is none."""
    for name, laws in (("target", target), ("draft", draft)):
        if not isinstance(laws, Tensor) or laws.dtype not in DRIFT:
            what = laws.dtype if isinstance(laws, Tensor) else type(laws).__name__
            raise ProblemError(f"{name} is {what}; pass a tensor of floats")
        if laws.device != tokens.device:
            raise ProblemError(f"{name} is on {laws.device}, and tokens on {tokens.device}; move them to one")
    trees, slots = tokens.shape
    shapes = f"target has shape {tuple(target.shape)} and draft {tuple(draft.shape)}"
    if rows is None:
        if target.ndim != 3 or draft.ndim != 3 or target.shape[:2] != tokens.shape or draft.shape[0] != trees:
            raise ProblemError(f"{shapes}; for tokens {tuple(tokens.shape)} they need (B, S, V) and (B, I, V)")
        inner = draft.shape[1]
        target, draft = target.flatten(0, 1), draft.flatten(0, 1)
    if target.ndim != 2 or draft.ndim != 2 or target.shape[1] != draft.shape[1] or 0 in (*target.shape, *draft.shape):
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
    # A slot without a draft law has row -1: if it has children, its tree is not sound.
    padded = torch.nn.functional.pad(rows[1].long(), (0, slots - inner), value=NONE)
    return target, draft, rows[0].long().contiguous(), padded.contiguous()


def _find_sound(trees: Trees) -> tuple[Tensor, Trees]:
    """`find_sound`, without kernels."""
    layout, target, draft = trees.layout, trees.target, trees.draft
    there, inner = layout.depth >= 0, layout.children > 0
    right = (_have(target.sound, trees.target_row) | ~there) & (_have(draft.sound, trees.draft_row) | ~inner)
    drawn = _could_be_drawn(draft.read.values, trees.draft_row, trees.tokens, layout)
    sound = layout.sound & (right & drawn).all(dim=1)
    return sound, trees._replace(
        target_row=trees.target_row.clamp(0, len(target.sound) - 1),
        draft_row=trees.draft_row.clamp(0, len(draft.sound) - 1),
        tokens=torch.where(sound[:, None] & (layout.depth > 0), trees.tokens, 0),
    )


def _have(right: Tensor, row: Tensor) -> Tensor:
    """Whether slots have a row, and one that is right."""
    return (row >= 0) & (row < right.shape[0]) & right[row.clamp(0, right.shape[0] - 1)]


def _totals_of(laws: Tensor) -> Tensor:
    """Sums of rows, float64, shape (R,); NaN where a row holds NaN or a negative number."""
    return torch.where(laws.amin(dim=1) >= 0, laws.sum(dim=1, dtype=torch.float64), torch.nan)


def _rows(laws: Tensor) -> Rows:
    """Laws and their totals, shape (R,): sound where that is 1, up to what laws of their type may be off."""
    total = _totals_of(laws)
    return rows_of(laws, total, (total - 1).abs() <= DRIFT[laws.dtype])


def _could_be_drawn(draft: Tensor, draft_row: Tensor, tokens: Tensor, layout: Layout) -> Tensor:
    """Of each slot that holds a token: whether its parent's law can draw it; True elsewhere."""
    row = at(draft_row, layout.parent).clamp(0, draft.shape[0] - 1)
    inside = (tokens >= 0) & (tokens < draft.shape[1])
    chance = draft[row, tokens.clamp(0, draft.shape[1] - 1)]
    return (inside & (chance > 0)) | (layout.depth <= 0)


def _check_trees(
    sound: Tensor, target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, tokens: Tensor, layout: Layout
) -> None:
    """Name what is wrong with the first tree that is not sound; waits for the device."""
    if sound.all():
        return
    tree = int((~sound).int().argmax())
    if not layout.sound[tree]:
        raise ProblemError(
            f"the links of tree {tree} are none of a tree: each slot is the first child or the next sibling of one "
            "earlier slot at most, the root of none; or the tree is deeper or wider than `depth` and `width` say"
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
            if not _rows(laws[number : number + 1]).sound.item():
                as_law(f"{name} at slot {slot} of tree {tree}", laws[number])
    drawn = _could_be_drawn(draft, draft_row, tokens, layout)[tree]
    slot = int((~drawn).int().argmax())
    raise ProblemError(
        f"tree {tree} has token {int(tokens[tree, slot])} at slot {slot}, which the draft law of its parent, over "
        f"{draft.shape[1]} tokens, cannot draw"
    )
