"""`nested` on a grid: one label per drafted path, refined level by level; the path of the largest one is picked."""

from __future__ import annotations

import torch
from torch import Tensor

from otspec.verification.rules.block.tensors import Accepted, verify_path
from otspec.verification.rules.groups.groups import SORTED, group, group_count, grouped
from otspec.verification.rules.groups.launch import group_by_kernels, look_up_by_kernels
from otspec.verification.rules.nested.grid import Grown, Labels, branch, everything
from otspec.verification.rules.nested.label_launch import grow_by_kernels, pick_by_kernels
from otspec.verification.rules.nested.tensor_sharing import Looked, Sharing, owned, share
from otspec.verification.tensors.fixed_point import at, before, first_above
from otspec.verification.tensors.measures import Counts, power
from otspec.verification.trees.layout import NONE, Layout, in_a_graph, take
from otspec.verification.trees.tree_laws import Line, TreeLaws

_SPREADS: dict[tuple[float, int, torch.device], Tensor] = {}
"""Kept for good, as graphs that are captured have their addresses: some numbers for each deviation asked for."""


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


def grow(layout: Layout, laws: TreeLaws, tokens: Tensor, spread: Tensor | None, kernels: bool = False) -> Grown:
    """Share the labels of every slot among its children, level by level.

    Down to the first slot that has several children nothing competes, and all children own all labels evenly.
    """
    if kernels:
        return grow_by_kernels(layout, _look_everywhere(layout, laws, tokens), spread)
    rows, slots = tokens.shape
    device = tokens.device
    count = group_count(laws.vocab)
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
        rivals = take(competes, here) | (children > 1)
        own = Labels(take(ends, here).flatten(0, 1), take(density, here).flatten(0, 1))
        own = branch(own, children.flatten(), layout.levels[level].most)
        # One row for each child from here on, but for what its parent has.
        parent = (torch.arange(rows, device=device)[:, None] * width + above).flatten()
        token = take(tokens, below).flatten()
        groups, p, q, mine = look(laws, here, parent, token)
        last = level + 1 == layout.length
        found = share(groups, own, take(weight, here).flatten(), None if last else spread)
        factors = torch.where(rivals.flatten()[:, None], found.factor, 1.0)
        factor = _put(factor, here, factors.view(rows, width, -1))

        labels = owned(Sharing(*(part[parent] for part in found)), mine)
        compete = at(rivals, above)
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


def look(laws: TreeLaws, here: Tensor, parent: Tensor, token: Tensor) -> Looked:
    """What some slots, shape (B, W), and their children, shape (C,), need to know of the laws."""
    p, q = (law.flatten(0, 1) for law in laws.as_they_came(here))
    of = group(p, q)
    mine, theirs = (
        law[parent, token].double() * scale.flatten()[parent]
        for law, scale in zip((p, q), laws.scales_at(here), strict=True)
    )
    return Looked(grouped(p, q, of), mine, theirs, of[parent, token])


def _look_everywhere(layout: Layout, laws: TreeLaws, tokens: Tensor) -> Looked:
    """`look`, of all slots at once, as prefixes and as children: by kernels where vocabularies are large."""
    rows, slots = tokens.shape
    if laws.vocab > SORTED:
        where = laws.target_row, laws.draft_row, layout
        groups = laws.groups or group_by_kernels(laws.target.read.values, laws.draft.read.values, *where)
        return Looked(groups, *look_up_by_kernels(laws.target, laws.draft, *where, tokens))
    parent = (torch.arange(rows, device=tokens.device)[:, None] * slots + layout.parent).flatten()
    return look(laws, torch.arange(slots, device=tokens.device).expand(rows, -1), parent, tokens.flatten())


def pick(layout: Layout, grown: Grown, uniforms: Tensor) -> Tensor:
    """The path of the largest label: of each slot the child that has it, `NONE` where no label is; shape (B, S).

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
    heir = torch.full_like(index, NONE)
    for level in range(layout.length, 0, -1):
        there = layout.depth == level
        best = _over_children(layout, torch.where(there, label, -1.0))
        wins = there & (label == at(best, layout.parent))
        heir = torch.maximum(heir, _over_children(layout, torch.where(wins, index, NONE)))
        parents, most = (layout.depth == level - 1) & (layout.children > 0), layout.levels[level - 1].most
        if most == 1:
            label = torch.where(parents, best, label)
            continue
        # The largest of b numbers is below s with probability s**b: that is the parent's own number.
        share = power(best.clamp(min=0) / grown.ends.shape[2], Counts(layout.children.clamp(1, most), most))
        inside = _label(grown.ends, (share * total).to(torch.int64), total)
        fresh = inside.floor() + uniforms[..., 1]
        label = torch.where(parents, torch.where(layout.children > 1, fresh, best), label)
    return heir


def pick_nested(
    layout: Layout, laws: TreeLaws, tokens: Tensor, uniforms: Tensor, spread: Tensor | None, kernels: bool = False
) -> tuple[Line, Tensor]:
    """The path that `pick` picks, and the factors of the laws of its tokens, (B, S, k + 1).

    Parameters
    ----------
    layout : Layout
    laws : TreeLaws
    tokens : Tensor of int64, shape (B, S)
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` deals them.
    spread : Tensor, shape (parts,), optional
        Look-ahead.
    kernels : bool
        Whether Triton's kernels do it.
    """
    grown = grow(layout, laws, tokens, spread, kernels)
    if kernels:
        return pick_by_kernels(layout, laws, grown, tokens, uniforms), grown.factor
    dealt = torch.nn.functional.pad(uniforms[:, : tokens.shape[1] - 1, :2], (0, 0, 1, 0))
    return laws.along(layout, tokens, follow(pick(layout, grown, dealt), layout.length)), grown.factor


def verify_line(laws: TreeLaws, factor: Tensor | None, line: Line, uniforms: Tensor) -> Accepted:
    """Block-verify one path of each tree.

    Parameters
    ----------
    laws : TreeLaws
    factor : Tensor, shape (B, S, k + 1), optional
        Of the law of the path's tokens; by default they have the draft laws.
    line : Line
    uniforms : Tensor of float64, shape (B, L + 1, 3)
        Of each level.
    """
    path = torch.nn.functional.pad(line.slots, (1, 0))
    dealt = torch.cat((uniforms[:, :-1, 0], uniforms[:, -1:, 1]), dim=1)

    def along(level: Tensor) -> tuple[Tensor, Tensor]:
        there = at(path, level[:, None])
        slot = there.clamp(min=0)
        p, q = laws.target_at(there)[:, 0], laws.draft_at(slot)[:, 0]
        if factor is None:
            return p, q
        return p, q * take(factor, slot)[:, 0].gather(1, group(*(law[:, 0] for law in laws.as_they_came(slot))))

    return verify_path(along, line.tokens, line.length, dealt)


def follow(heir: Tensor, length: int) -> Tensor:
    """The slots from the root on to the heir of the heir, from level 1 on, `NONE` after the end; shape (B, length)."""
    line, node = [], torch.zeros_like(heir[:, :1])
    for _ in range(length):
        node = torch.where(node >= 0, at(heir, node.clamp(min=0)), NONE)
        line.append(node)
    return torch.cat(line, dim=1)


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
