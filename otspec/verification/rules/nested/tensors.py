"""`nested` on a grid: one label per drafted path, refined level by level; the path of the largest one is picked."""

from __future__ import annotations

import torch
from torch import Tensor

from otspec.verification.rules.block.lines import verify_line
from otspec.verification.rules.nested.grid import Grown, Labels, branch, everything
from otspec.verification.rules.nested.tensor_sharing import GroupsAt, Sharing, owned, share
from otspec.verification.tensors.fixed_point import at, before, first_above
from otspec.verification.tensors.groups import SORTED, group, group_count, group_rows
from otspec.verification.tensors.measures import Counts, power
from otspec.verification.trees.batch import Line, TreeBatch, TreeVerification
from otspec.verification.trees.layout import NONE, Layout, follow, in_a_graph, take

PARTS = 4
"""Of look-ahead: half of what `otspec.verification.Nested` takes, for half the work."""
_SPREADS: dict[tuple[float, int, torch.device], Tensor] = {}
"""Kept for good, as graphs that are captured have their addresses: some numbers for each deviation in use."""


def spread_of(sigma: float, parts: int, device: torch.device) -> Tensor | None:
    """Look-ahead: what p of the parts of a token is multiplied by, lognormal with this deviation; None for none."""
    if sigma == 0:
        return None
    key = sigma, parts, device
    found = _SPREADS.get(key)
    if found is None:
        middle = (torch.arange(parts, dtype=torch.float64, device=device) + 0.5) / parts
        found = (sigma * torch.special.ndtri(middle)).exp()
        found = found / found.mean()
        if not in_a_graph(device):
            _SPREADS[key] = found
    return found


def verify_nested(batch: TreeBatch, uniforms: Tensor, sigma: float, kernels: bool) -> TreeVerification:
    """`nested` on tensors: pick the path of the largest label, and verify it as a block.

    Parameters
    ----------
    batch : TreeBatch
    uniforms : Tensor of float64, shape (B, S + L, 3)
    sigma : float
        Look-ahead, as in `otspec.verification.Nested`; 0 for none.
    kernels : bool
        Whether Triton's kernels do it.
    """
    spread = spread_of(float(sigma), PARTS, batch.tokens.device)
    line, factor = pick_nested(batch, uniforms, spread, kernels)
    return verify_line(batch, line, factor, uniforms, kernels and batch.vocab > SORTED)


def grow(batch: TreeBatch, spread: Tensor | None, kernels: bool = False) -> Grown:
    """Share the labels of every slot among its children, level by level.

    Down to the first slot that has several children nothing competes, and all children own all labels evenly.

    Parameters
    ----------
    batch : TreeBatch
    spread : Tensor, shape (parts,), optional
        Look-ahead.
    kernels : bool
        Whether Triton's kernels do it.
    """
    if kernels:
        from otspec.verification.rules.nested.growing_kernels import grow_by_kernels

        return grow_by_kernels(batch.layout, _groups_of_slots(batch), spread)
    layout, tokens = batch.layout, batch.tokens
    rows, slots = tokens.shape
    device = tokens.device
    count = group_count(batch.vocab)
    whole = everything((rows, slots + 1), device)
    ends, density = whole.ends.clone(), whole.density.clone()
    factor = torch.ones((rows, slots + 1, count + 1), dtype=torch.float64, device=device)
    weight = torch.ones((rows, slots + 1), dtype=torch.float64, device=device)
    competes = torch.zeros((rows, slots + 1), dtype=torch.bool, device=device)
    for level in range(layout.stem, layout.length):
        here, below = layout.levels[level].slots, layout.levels[level + 1].slots
        above = layout.levels[level + 1].above
        width = here.shape[1]
        children = take(layout.children, here)
        competing = take(competes, here) | (children > 1)
        own = Labels(take(ends, here).flatten(0, 1), take(density, here).flatten(0, 1))
        own = branch(own, children.flatten(), layout.levels[level].most)
        # One row for each child from here on, but for what its parent has.
        parent = (torch.arange(rows, device=device)[:, None] * width + above).flatten()
        token = take(tokens, below).flatten()
        groups, p, q, mine = groups_at(batch, here, parent, token)
        last = level + 1 == layout.length
        found = share(groups, own, take(weight, here).flatten(), None if last else spread)
        factors = torch.where(competing.flatten()[:, None], found.factor, 1.0)
        factor = _put(factor, here, factors.view(rows, width, -1))

        labels = owned(Sharing(*(part[parent] for part in found)), mine)
        compete = at(competing, above)
        labels = torch.where(compete.flatten()[:, None], labels, own.ends[parent])
        reached = take(weight, here).flatten()[parent] * p
        proposal = q * factors[parent, mine]
        reached = torch.where(reached < proposal, reached / proposal, 1.0)
        shape = (*below.shape, -1)
        ends = _put(ends, below, labels.view(shape))
        density = _put(density, below, own.density[parent].view(shape))
        weight = _put(weight, below, reached.view(below.shape))
        competes = _put(competes, below, compete)
    return Grown(ends[:, :slots], factor[:, :slots])


def groups_at(batch: TreeBatch, here: Tensor, parent: Tensor, token: Tensor) -> GroupsAt:
    """What some slots and their children need to know of the laws.

    Parameters
    ----------
    batch : TreeBatch
    here : Tensor of int64, shape (B, W)
        The slots.
    parent, token : Tensor of int64, shape (C,)
        Of each child: which of these slots is its parent, of all B * W, and its token.
    """
    p, q = (law.flatten(0, 1) for law in batch.as_they_came(here))
    of = group(p, q)
    mine, theirs = (
        law[parent, token].double() * scale.flatten()[parent]
        for law, scale in zip((p, q), batch.scales_at(here), strict=True)
    )
    return GroupsAt(group_rows(p, q, of), mine, theirs, of[parent, token])


def _groups_of_slots(batch: TreeBatch) -> GroupsAt:
    """`groups_at`, of all slots at once, as prefixes and as children: by kernels where vocabularies are large."""
    rows, slots = batch.tokens.shape
    if batch.vocab > SORTED:
        from otspec.verification.trees.group_kernels import group_by_kernels, groups_at_by_kernels

        where = batch.target_row, batch.draft_row, batch.layout
        groups = batch.groups or group_by_kernels(batch.target.read.entries, batch.draft.read.entries, *where)
        return GroupsAt(groups, *groups_at_by_kernels(batch.target, batch.draft, *where, batch.tokens))
    device = batch.tokens.device
    parent = (torch.arange(rows, device=device)[:, None] * slots + batch.layout.parent).flatten()
    return groups_at(batch, torch.arange(slots, device=device).expand(rows, -1), parent, batch.tokens.flatten())


def pick(layout: Layout, grown: Grown, uniforms: Tensor) -> Tensor:
    """The path of the largest label: of each slot the child that has it, `NONE` where no label is; shape (B, S).

    From the leaves up, level by level: the largest label of a slot's children is its own.

    Parameters
    ----------
    layout : Layout
    grown : Grown
    uniforms : Tensor of float64, shape (B, S, 2)
        Of each slot: the label that it draws, if it has no children; the fraction of its bin, if it has several.
    """
    rows, slots = layout.parent.shape
    total = grown.ends[:, :, -1]
    index = torch.arange(slots, device=total.device).expand(rows, -1)
    label = _label(grown.ends, (uniforms[..., 0] * total).to(torch.int64), total)
    argmax_child = torch.full_like(index, NONE)
    for level in range(layout.length, 0, -1):
        there = layout.depth == level
        best = _over_children(layout, torch.where(there, label, -1.0))
        wins = there & (label == at(best, layout.parent))
        argmax_child = torch.maximum(argmax_child, _over_children(layout, torch.where(wins, index, NONE)))
        parents, most = (layout.depth == level - 1) & (layout.children > 0), layout.levels[level - 1].most
        if most == 1:
            label = torch.where(parents, best, label)
            continue
        # The largest of b numbers is below s with probability s**b: that is the parent's own number.
        share = power(best.clamp(min=0) / grown.ends.shape[2], Counts(layout.children.clamp(1, most), most))
        inside = _label(grown.ends, (share * total).to(torch.int64), total)
        fresh = inside.floor() + uniforms[..., 1]
        label = torch.where(parents, torch.where(layout.children > 1, fresh, best), label)
    return argmax_child


def pick_nested(
    batch: TreeBatch, uniforms: Tensor, spread: Tensor | None, kernels: bool = False
) -> tuple[Line, Tensor]:
    """The path that `pick` picks, and the factors of the laws of its tokens, (B, S, k + 1).

    Parameters
    ----------
    batch : TreeBatch
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` uses them.
    spread : Tensor, shape (parts,), optional
        Look-ahead.
    kernels : bool
        Whether Triton's kernels do it.
    """
    grown = grow(batch, spread, kernels)
    if kernels:
        from otspec.verification.rules.nested.picking_kernels import pick_by_kernels

        return pick_by_kernels(batch, grown, uniforms), grown.factor
    of_slots = torch.nn.functional.pad(uniforms[:, : batch.slots - 1, :2], (0, 0, 1, 0))
    picked = pick(batch.layout, grown, of_slots)
    return batch.along(follow(picked, batch.layout.length)), grown.factor


def _label(ends: Tensor, points: Tensor, total: Tensor) -> Tensor:
    """The bin in which a point of each slot's labels lies, and the fraction of it: one number, shape (B, S)."""
    flat, point = ends.flatten(0, 1), torch.minimum(points, total - 1).flatten()[:, None]
    place = first_above(flat, point).clamp(max=flat.shape[1] - 1)
    start = before(flat, place)
    fraction = (point - start).double() / (at(flat, place) - start).clamp(min=1).double()
    return (place + fraction.clamp(max=1 - 2.0**-40)).view(points.shape)


def _over_children(layout: Layout, values: Tensor) -> Tensor:
    """The largest of what the children of each slot have, -1 where it has none."""
    inner = torch.where(layout.depth > 0, values, -1)
    return torch.full_like(values, -1).scatter_reduce(1, layout.parent, inner, "amax")


def _put(values: Tensor, slots: Tensor, found: Tensor) -> Tensor:
    """`values`, shape (B, S + 1, ...), with what was found at some slots, S for none."""
    extra = values.shape[2:]
    return values.scatter(1, slots.view(*slots.shape, *(1 for _ in extra)).expand(*slots.shape, *extra), found)
