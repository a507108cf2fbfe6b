"""Where the slots of drafted trees hang: B trees of one branching, or each with links of its own.

A slot holds one drafted token, and slot 0, the root, the text so far.  Siblings that drew the same token are slots of
their own: independent drafts are identified by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import at

NONE = -1
"""No such slot."""


MOST_CACHED = 32
_CACHED: dict[Hashable, Any] = {}
"""Layouts of branchings, and rows: some sixty small tensors, which are the same at every step of decoding."""
_PINNED: dict[Hashable, Any] = {}
"""Those that graphs have the addresses of, for good: nothing reports when a graph is gone, and they are small."""


class Links(NamedTuple):
    """Trees by first child and next sibling, -1 for none; a slot comes after its parent and its elder siblings.

    Inference engines have their trees in this form.  A `Layout` is made of it.
    """

    first_child: Tensor
    """Shape (B, S), integers."""
    next_sibling: Tensor
    """Shape (B, S), integers."""
    depth: int | None = None
    """A bound on the number of levels below the root, known to the host; by default S - 1."""
    width: int | None = None
    """A bound on the number of slots of one level; by default S - 1."""


class Level(NamedTuple):
    """The slots of one level of a `Layout`: rules go from level to level, and a level of trees is a rectangle."""

    slots: Tensor
    """Shape (B, W), int64: S where a tree has fewer."""
    above: Tensor
    """Shape (B, W), int64: at which place of the level above the parent stands."""
    most: int
    """The most children that any of them has, as far as the host knows."""


class Layout(NamedTuple):
    """Where the slots of B trees hang: what a `TreeBatch` has before its tokens and laws, and graphs keep for good.

    It is to tensors what a `Shape` is on the host, save that trees may differ.
    """

    parent: Tensor
    """Shape (B, S), int64: 0 for the root, and for slots that hang nowhere."""
    depth: Tensor
    """Shape (B, S), int64: 0 for the root, `NONE` for slots that hang nowhere."""
    children: Tensor
    """Shape (B, S), int64: how many there are."""
    first: Tensor
    """Shape (B, S), int64: the first of them, or `NONE`."""
    levels: tuple[Level, ...]
    """From the root, level 0, to the deepest one."""
    stem: int
    """Number of levels, from the root on, without a slot with several children in any tree."""
    leaves: int
    """Slots without children are among the last `leaves`, but for the root and for slots that hang nowhere."""
    valid: Tensor
    """Shape (B,), bool: whether the links are those of a tree."""

    @property
    def length(self) -> int:
        """L, which no path exceeds."""
        return len(self.levels) - 1

    def part(self, trees: slice) -> Layout:
        """The layout of some of the trees."""
        levels = tuple(Level(level.slots[trees], level.above[trees], level.most) for level in self.levels)
        parent, depth, children, first, valid = (
            of_all[trees] for of_all in (self.parent, self.depth, self.children, self.first, self.valid)
        )
        return Layout(parent, depth, children, first, levels, self.stem, self.leaves, valid)


def take(values: Tensor, slots: Tensor) -> Tensor:
    """What some slots have, shape (B, W, ...), of what all have, (B, S, ...); anything for a slot that is not there."""
    slots = slots.clamp(0, values.shape[1] - 1)
    extra = values.shape[2:]
    return values.gather(1, slots.view(*slots.shape, *(1 for _ in extra)).expand(*slots.shape, *extra))


def follow(children: Tensor, length: int) -> Tensor:
    """The slots from the root on to a child, to that one's child, and so on.

    Parameters
    ----------
    children : Tensor of int64, shape (B, S)
        Of each slot one child, or `NONE`.
    length : int
        L.

    Returns
    -------
    Tensor of int64, shape (B, L)
        From level 1 on, `NONE` after the end.
    """
    line, node = [], torch.zeros_like(children[:, :1])
    for _ in range(length):
        node = torch.where(node >= 0, at(children, node.clamp(min=0)), NONE)
        line.append(node)
    return torch.cat(line, dim=1)


def branching_layout(branching: Sequence[int], rows: int, device: torch.device) -> Layout:
    """Slots numbered level by level, the children of one slot side by side."""
    shape = tuple(branching)
    return _cached((shape, rows, device), device, lambda: _branching_layout(shape, rows, device))


def rows_side_by_side(trees: int, slots: int, inner: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The rows of laws of shapes (B, S, V) and (B, I, V), tree after tree; shape (B, S) both, `NONE` for no law."""

    def made() -> tuple[Tensor, Tensor]:
        target, draft = (torch.arange(trees * width, device=device).view(trees, width) for width in (slots, inner))
        return target, torch.nn.functional.pad(draft, (0, slots - inner), value=NONE)

    return _cached((trees, slots, inner, device), device, made)


def _cached(key: Hashable, device: torch.device, make: Callable[[], Any]) -> Any:
    """What is made once for many steps."""
    found = _CACHED.get(key)
    if found is None:
        found = _PINNED.get(key)
    if in_a_graph(device):
        # A graph that is captured reads what it finds here whenever it is replayed; what it makes itself, it keeps.
        if found is None:
            return make()
        _PINNED[key] = found
    elif found is None:
        found = make()
        if len(_CACHED) >= MOST_CACHED:
            _CACHED.clear()
        _CACHED[key] = found
    return found


def in_a_graph(device: torch.device) -> bool:
    """Whether what is done now is compiled, or captured."""
    return torch.compiler.is_compiling() or (device.type == "cuda" and torch.cuda.is_current_stream_capturing())


def _branching_layout(branching: tuple[int, ...], rows: int, device: torch.device) -> Layout:
    def everywhere(values: Tensor) -> Tensor:
        return values.expand(rows, -1).contiguous()  # once for all steps, where kernels would do it at each

    levels, parents, depths, firsts, children = [], [], [], [], []
    start, width, above = 0, 1, 0
    for level, each in enumerate((*branching, 0)):
        place = torch.arange(width, device=device)
        step = branching[level - 1] if level else 1
        levels.append(Level(everywhere(start + place), everywhere(place // step), each))
        parents.append(above + place // step)
        depths.append(torch.full_like(place, level))
        children.append(torch.full_like(place, each))
        firsts.append(start + width + place * each if each else torch.full_like(place, NONE))
        above, start, width = start, start + width, width * each
    parent, depth, count, first = (everywhere(torch.cat(parts)) for parts in (parents, depths, children, firsts))
    stem = next((level for level, each in enumerate(branching) if each > 1), len(branching))
    valid = torch.ones(rows, dtype=torch.bool, device=device)
    return Layout(parent, depth, count, first, tuple(levels), stem, levels[-1].slots.shape[1], valid)


def linked_layout(links: Links) -> Layout:
    """Slots wherever their links put them; of links that form no tree, only the root is kept."""
    first, sibling = links.first_child.long(), links.next_sibling.long()
    rows, slots = first.shape
    index = torch.arange(slots, device=first.device).expand(rows, -1)
    valid = _come_later(first, index) & _come_later(sibling, index)
    named = torch.zeros_like(first).scatter_add(1, first.clamp(0, slots - 1), (first >= 0).long())
    named = named.scatter_add(1, sibling.clamp(0, slots - 1), (sibling >= 0).long())
    valid = valid & (named <= 1).all(dim=1) & (sibling[:, 0] < 0)
    first, sibling = (torch.where(valid[:, None], link, NONE) for link in (first, sibling))

    owner = _inverse(first)  # of first children; their siblings have it from the one before, in ever longer jumps
    elder = _inverse(sibling)
    reach = 1
    while reach < slots:
        owner = torch.where((owner < 0) & (elder >= 0), at(owner, elder.clamp(min=0)), owner)
        elder = torch.where(elder >= 0, at(elder, elder.clamp(min=0)), NONE)
        reach *= 2
    steps, ancestor = (owner >= 0).long(), torch.where((owner < 0) & (index > 0), index, owner.clamp(min=0))
    reach = 1
    while reach < slots:
        steps, ancestor = steps + at(steps, ancestor), at(ancestor, ancestor)
        reach *= 2
    parent = owner.clamp(min=0)
    depth = torch.where(ancestor == 0, steps, NONE)
    children = torch.zeros_like(first).scatter_add(1, parent, (depth > 0).long())

    deepest = slots - 1 if links.depth is None else min(links.depth, slots - 1)
    widest = max(slots - 1 if links.width is None else min(links.width, slots - 1), 1)
    key = torch.where(depth >= 0, depth, slots)
    order = key.argsort(dim=1, stable=True)
    sizes = torch.zeros((rows, slots + 1), dtype=torch.int64, device=first.device)
    sizes = sizes.scatter_add(1, key, torch.ones_like(key))
    starts = sizes.cumsum(dim=1) - sizes
    rank = torch.empty_like(order).scatter(1, order, index) - at(starts, key)
    levels = [Level(torch.zeros_like(first[:, :1]), torch.zeros_like(first[:, :1]), widest)]
    place = torch.arange(widest, device=first.device).expand(rows, -1)
    for level in range(1, deepest + 1):
        found = at(order, (starts[:, level : level + 1] + place).clamp(max=slots - 1))
        held = torch.where(place < sizes[:, level : level + 1], found, slots)
        above = take(rank, take(parent, held)).clamp(0, widest - 1 if level > 1 else 0)
        levels.append(Level(held, above, widest))
    fits = (sizes[:, deepest + 1 : slots] == 0).all(dim=1) & (sizes[:, 1:slots] <= widest).all(dim=1)
    return Layout(parent, depth, children, first, tuple(levels), 0, slots, valid & fits)


def _come_later(link: Tensor, index: Tensor) -> Tensor:
    """Whether all links of a row lead to slots that come later, or to none."""
    return ((link == NONE) | ((link > index) & (link < index.shape[1]))).all(dim=1)


def _inverse(link: Tensor) -> Tensor:
    """The slot whose link leads to each, or `NONE`."""
    rows, slots = link.shape
    index = torch.arange(slots, device=link.device).expand(rows, -1)
    found = torch.full((rows, slots + 1), NONE, dtype=torch.int64, device=link.device)
    return found.scatter(1, torch.where(link >= 0, link, slots), index)[:, :slots]
