"""What the tests of Triton's kernels share: kernels that are interpreted on the CPU, trees, and laws to try them on."""

import os
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from otspec.verification.device import Links
from otspec.verification.rules.buckets import cut
from otspec.verification.tensors.rows import rows_of
from otspec.verification.trees.batch import TreeBatch
from otspec.verification.trees.layout import branching_layout
from tests.verification.tree_batches import Batch, batch, drawn

interpreted = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")


class Case(NamedTuple):
    """Trees that every rule is tried on."""

    family: str
    branching: tuple[int, ...]
    vocab: int
    dtype: torch.dtype = torch.float64

    def batch(self) -> Batch:
        """Their laws, tokens and uniforms: of two trees, of one where a law has many chunks."""
        rows = 2 if self.vocab < 1000 else 1
        target, draft, tokens, uniforms = batch(drawn(self.family, self.vocab, self.branching, rows))
        return target.to(self.dtype), draft.to(self.dtype), tokens, uniforms


CASES = (
    Case("tiny", (3,), 7),
    Case("zeros", (1, 1), 2),  # of two tokens: many slots have one text
    Case("peaked", (3, 1, 1), 2),
    Case("point", (2, 2), 2),
    Case("tied", (2, 2), 2),
    Case("tail", (3, 1), 4),
    Case("zeros", (1, 2, 2), 2),
    Case("tiny", (2, 1), 40, torch.bfloat16),
    Case("tiny", (1, 2), 1100, torch.float32),  # two chunks, and tokens in groups
    Case("tiny", (2, 1), 4200, torch.float32),
)


def cut_into(patch: pytest.MonkeyPatch, size: int) -> None:
    """Problems of the buckets into chunks of that many, a power of two."""
    for constant, value in ((cut.TILE, size), (cut.POINTS, size), (cut.ROUNDS, size.bit_length() - 1)):
        patch.setattr(constant, "value", value)


def scattered_links(rng: np.random.Generator, rows: int, slots: int, absent: float = 0.2) -> Links:
    """Trees that each slot hangs in anywhere, or nowhere."""
    first, sibling = np.full((2, rows, slots), -1)
    for row in range(rows):
        youngest: dict[int, int] = {}
        hanging = [0]
        for slot in range(1, slots):
            if rng.random() < absent:
                continue
            parent = int(rng.choice(hanging))
            hanging.append(slot)
            if parent in youngest:
                sibling[row, youngest[parent]] = slot
            else:
                first[row, parent] = slot
            youngest[parent] = slot
    return Links(torch.from_numpy(first), torch.from_numpy(sibling))


def even_batch(inputs: Any, branching: tuple[int, ...]) -> TreeBatch:
    """Trees whose laws are divided by totals that are the host's, so that kernels read what torch does."""
    target, draft, tokens, _ = inputs
    return batch_over(branching_layout(branching, len(tokens), torch.device("cpu")), target, draft, tokens)


def batch_over(layout: Any, target: Any, draft: Any, tokens: Any, device: str = "cpu") -> TreeBatch:
    """The same for any layout; on another device the totals are still those of the host."""
    rows, slots = tokens.shape
    inner = draft.shape[1]
    found = []
    for law in (target.flatten(0, 1), draft.flatten(0, 1)):
        right = torch.ones(len(law), dtype=torch.bool, device=device)
        found.append(rows_of(law.to(device), law.sum(dim=1, dtype=torch.float64).to(device), right))
    target_row = torch.arange(rows * slots).view(rows, slots)
    draft_row = torch.nn.functional.pad(torch.arange(rows * inner).view(rows, inner), (0, slots - inner))
    valid = torch.ones(rows, dtype=torch.bool)
    made = TreeBatch(layout, found[0], target_row, found[1], draft_row, tokens, valid)
    return on(device, made)


def on(device: str, batch: TreeBatch) -> TreeBatch:
    """The same trees on a device, and all that they hold: laws, layout, groups."""
    found: TreeBatch = _moved(batch, device)
    return found


def _moved(part: Any, device: str) -> Any:
    if isinstance(part, torch.Tensor):
        return part.to(device)
    if not isinstance(part, tuple):
        return part
    each = [_moved(one, device) for one in part]
    return type(part)(*each) if hasattr(part, "_fields") else tuple(each)
