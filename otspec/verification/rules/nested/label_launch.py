"""Labels on a grid by Triton's kernels: all prefixes are laid out, refined level by level, and the path is picked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from otspec.verification.rules.block.line_launch import room_for
from otspec.verification.rules.nested import grid
from otspec.verification.rules.nested.grid import Grown
from otspec.verification.rules.nested.tensor_sharing import FIRST, Looked
from otspec.verification.tensors import majorant
from otspec.verification.tensors.reading import EXACT, lanes
from otspec.verification.trees.layout import Layout
from otspec.verification.trees.tree_laws import Line, TreeLaws

WARPS, LAY_WARPS = 8, 4
"""Of the programs that share labels, and of those that lay out groups, which are fewer than places."""
MOST_PARTS = 8
"""The bin of a label is searched for in so many parts of the grid at once: the numbers between more fill registers."""


def grow_by_kernels(layout: Layout, looked: Looked, spread: Tensor | None) -> Grown:
    """`otspec.verification.rules.nested.tensors.grow`, from what it needs to know of the laws, to the last bit.

    Parameters
    ----------
    layout : Layout
    looked : Looked
        Of all slots, B * S: as prefixes, whose groups are read if they have children, and as children of their parents.
    spread : Tensor, shape (parts,), optional
    """
    kernels = _label_kernels()
    rows, slots = layout.parent.shape
    target, size = looked.groups
    device, groups = target.device, target.shape[1]
    parts = 1 if spread is None else spread.shape[0]
    given = target if spread is None else spread  # in place of what is not read
    children = layout.children.contiguous()

    sums = torch.empty((rows * slots, kernels.SUMS.value, groups), dtype=torch.int64, device=device)
    order = torch.empty((rows * slots, parts * groups), dtype=torch.int32, device=device)
    parted = torch.empty((rows * slots, kernels.PARTED.value, parts * groups), dtype=torch.int64, device=device)
    longs = torch.empty((rows, slots, kernels.GRIDS.value, grid.BINS), dtype=torch.int64, device=device)
    floats = torch.empty((rows, slots, grid.BINS), dtype=torch.float64, device=device)
    factor = torch.empty((rows, slots, groups + 1), dtype=torch.float64, device=device)
    competes = torch.empty((rows, slots), dtype=torch.int64, device=device)
    kernels.lay_out[(rows * slots,)](
        target, size, target.stride(0), children, sums, order, parted, longs, factor, competes, given,
        **of_layout(groups, parts, device), LOOK=spread is not None, num_warps=LAY_WARPS, **EXACT,
    )  # fmt: skip

    # Of a tree that is wider than its links say some slots are on no level: nothing is read of what they would keep.
    weights = torch.empty((rows, slots), dtype=torch.float64, device=device)
    fixed = of_level(groups, parts, device)
    widest = max(level.slots.shape[1] for level in layout.levels)
    kept = torch.empty((3, rows * widest, kernels.KEPT.value, fixed["LANES"]), dtype=torch.int64, device=device)
    worked = torch.empty((rows * widest, kernels.WORKED.value, fixed["LANES"]), dtype=torch.int64, device=device)
    parent = layout.parent.contiguous()
    number, source = layout.stem if layout.stem < layout.length else layout.length + 1, 0
    while number <= layout.length:
        level, first, last = layout.levels[number], number == layout.stem, number == layout.length
        width, deep = level.slots.shape[1], 1 if first or last else _alike(layout, number, spread)
        looked_ahead, looks_ahead = _looks(layout, number - 1, spread), _looks(layout, number, spread)
        kernels.refine[(rows * width,)](
            level.slots.contiguous(), level.above.contiguous(), layout.first.contiguous(), parent, children,
            looked.p, looked.q, looked.group, sums, order, parted, kept, worked, longs, floats, weights, competes,
            factor, slots, width, width if first else layout.levels[number - 1].slots.shape[1], source, rows * widest,
            **fixed, **of_points(groups * (parts if looks_ahead else 1)), LOOKED=looked_ahead, LOOK=looks_ahead,
            FIRST=first, LAST=last, DEEP=deep, BITS=level.most.bit_length(), num_warps=WARPS, **EXACT,
        )  # fmt: skip
        number, source = number + deep, (source + 1 + (deep - 1) % 2) % 3
    return Grown(longs[:, :, kernels.LABELS.value], factor)


def pick_by_kernels(layout: Layout, laws: TreeLaws, grown: Grown, tokens: Tensor, uniforms: Tensor) -> Line:
    """The line that `otspec.verification.rules.nested.tensors.pick` picks.

    Parameters
    ----------
    layout : Layout
    laws : TreeLaws
    grown : Grown
        As kernels have it.
    tokens : Tensor of int64, shape (B, S)
    uniforms : Tensor of float64, shape (B, n, 3), n at least S - 1
        Row s - 1 is for slot s.
    """
    line, (rows, slots) = room_for(layout), tokens.shape
    lowest = 1 + max([-1, *_several(layout)])
    best, heirs, owners = torch.empty((3, rows, slots), dtype=torch.int64, device=tokens.device)
    _label_kernels().pick_path[(rows,)](
        *(part.contiguous() for part in (layout.parent, layout.depth, layout.children)), grown.ends,
        *(part.contiguous() for part in (uniforms, tokens, laws.target_row, laws.draft_row)), best, heirs, owners,
        *line, slots, layout.leaves, uniforms.shape[1], grown.ends.stride(1), lowest, **of_climbing(layout, slots),
        num_warps=climbing_warps(layout, slots), **EXACT,
    )  # fmt: skip
    return line


def of_climbing(layout: Layout, slots: int) -> dict[str, Any]:
    """What is fixed when `label_kernels.pick_path` is compiled."""
    compete, strides = 0, [grid.BINS]
    for level in _several(layout):
        compete |= 1 << min(level, 62)
    while strides[-1] > 1:
        parts = next((each for each in range(MOST_PARTS, 1, -1) if strides[-1] % each == 0), strides[-1])
        strides.append(strides[-1] // parts)
    return {
        "LENGTH": layout.length, "COMPETE": compete, "BITS": max(level.most for level in layout.levels).bit_length(),
        "BINS": grid.BINS, "STRIDES": tuple(strides), "LANES": lanes(layout.leaves), "SLOT_LANES": lanes(slots),
        "LEVELS": lanes(layout.length + 1),
    }  # fmt: skip


def of_layout(groups: int, parts: int, device: torch.device) -> dict[str, int]:
    """What is fixed when `label_kernels.lay_out` is compiled, but for whether it looks ahead."""
    return {
        "GROUPS": groups, "PARTS": parts, "PART_LANES": lanes(parts), "GROUP_LANES": lanes(groups + 1),
        "STEPS": steps_of(lanes(groups + 1), device), "ROUNDS": groups.bit_length(), "BINS": grid.BINS,
        "BIN_LANES": lanes(grid.BINS),
    }  # fmt: skip


def of_level(groups: int, parts: int, device: torch.device) -> dict[str, Any]:
    """What is fixed when `label_kernels.refine` is compiled, but for what differs from level to level."""
    points = groups * parts + 1
    return {
        "GROUPS": groups, "GROUP_LANES": lanes(groups + 1), "FIRST_GROUPS": FIRST, "PARTS": parts,
        "PART_LANES": lanes(parts), "LANES": lanes(points), "STEPS": steps_of(lanes(points), device),
        "ROUNDS": points.bit_length(), "BIN_LANES": lanes(grid.BINS), "FAINT": grid.FAINT, **of_grid(),
    }  # fmt: skip


def of_points(places: int) -> dict[str, Any]:
    """Of the majorant over so many places."""
    keys = lanes(places + 1)
    shift, number = majorant.key_shifts(keys)
    return {
        "HALVINGS": majorant.HALVINGS, "NOISE": majorant.NOISE, "LEAST": majorant.LEAST, "LOWEST": majorant.LOWEST,
        "KEYS": keys, "SHIFT": shift, "NUMBER": number,
    }  # fmt: skip


def steps_of(count: int, device: torch.device) -> int:
    """Of a running maximum of so many lanes: on a GPU Triton has a scan, which its interpreter does lane by lane."""
    return 0 if device.type == "cuda" else count.bit_length() - 1


def of_grid() -> dict[str, int]:
    """Of grids."""
    return {"BINS": grid.BINS, "BIN_ROUNDS": grid.BINS.bit_length()}


def _alike(layout: Layout, number: int, spread: Tensor | None) -> int:
    """How many levels from one on have a child for each slot at most, and look ahead as those above them do."""
    looks, end = _looks(layout, number - 1, spread), number
    while end < layout.length and layout.levels[end].most == 1 and _looks(layout, end, spread) == looks:
        end += 1
    return max(end - number, 1)


def climbing_warps(layout: Layout, slots: int) -> int:
    """One for 32 leaves, and 64 slots: within one warp nobody waits at barriers."""
    return min(max(lanes(layout.leaves) // 32, lanes(slots) // 64, 1), WARPS)


def _several(layout: Layout) -> list[int]:
    """Levels with slots that have several children, as far as the host knows."""
    return [number for number, level in enumerate(layout.levels[:-1]) if level.most > 1]


def _looks(layout: Layout, level: int, spread: Tensor | None) -> bool:
    """Whether the slots of a level look ahead: those of the last one that has children do not."""
    return spread is not None and level + 1 < layout.length


def _label_kernels() -> Any:
    from otspec.verification.rules.nested import label_kernels

    return label_kernels
