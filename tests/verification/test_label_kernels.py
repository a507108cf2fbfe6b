"""Labels on a grid by Triton's kernels, interpreted on the CPU: every number is that of torch, to the last bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.paths import tree_law  # noqa: E402
from otspec.verification.device import Links, verify_trees  # noqa: E402
from otspec.verification.rules.block.line_launch import lay_first_by_kernels  # noqa: E402
from otspec.verification.rules.block.path_launch import rows_of  # noqa: E402
from otspec.verification.rules.nested import grid  # noqa: E402
from otspec.verification.rules.nested.grid import Grown  # noqa: E402
from otspec.verification.rules.nested.label_launch import pick_by_kernels  # noqa: E402
from otspec.verification.rules.nested.tensors import follow, grow, pick, pick_nested, spread_of  # noqa: E402
from otspec.verification.tensors import majorant  # noqa: E402
from otspec.verification.trees.layout import Layout, Level, branching_layout, linked_layout  # noqa: E402
from otspec.verification.trees.tree_laws import TreeLaws  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.grid_nested import GridNested  # noqa: E402
from tests.verification.models import model  # noqa: E402
from tests.verification.tree_batches import RAGGED, batch, drawn  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")

CASES: list[tuple[str, tuple[int, ...], float]] = [
    ("tiny", (2, 1, 1), 0.5),
    ("tiny", (1, 3), 0.0),
    ("zeros", (1, 3), 0.5),
    ("tied", (2, 2), 0.5),
    ("point", (2, 1), 0.0),
    ("tail", (2, 1, 1), 0.5),
]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bins and rounds: the interpreter takes long."""
    monkeypatch.setattr(grid, "BINS", 12)
    monkeypatch.setattr(majorant, "HALVINGS", 3)


def laws_of(given: Any, device: str = "cpu") -> TreeLaws:
    """The laws of a batch of trees, divided by totals that are the host's."""
    target, draft, tokens, _ = given
    rows, slots = tokens.shape
    inner = draft.shape[1]
    found = []
    for law in (target.flatten(0, 1), draft.flatten(0, 1)):
        right = torch.ones(len(law), dtype=torch.bool, device=device)
        found.append(rows_of(law.to(device), law.sum(dim=1, dtype=torch.float64).to(device), right))
    target_row = torch.arange(rows * slots).view(rows, slots)
    draft_row = torch.nn.functional.pad(torch.arange(rows * inner).view(rows, inner), (0, slots - inner))
    sound = torch.ones(rows, dtype=torch.bool, device=device)
    return TreeLaws(found[0], target_row.to(device), found[1], draft_row.to(device), sound)


def check_labels(layout: Layout, given: Any, sigma: float, device: str = "cpu") -> None:
    """What torch finds on the CPU and kernels on a device: labels, factors, and the paths that are picked."""
    tokens, uniforms = given[2], given[3]
    spread = spread_of(sigma, 3, tokens.device)
    expected = grow(layout, laws_of(given), tokens, spread)
    dealt = torch.nn.functional.pad(uniforms[:, : tokens.shape[1] - 1, :2], (0, 0, 1, 0))
    path = laws_of(given).along(layout, tokens, follow(pick(layout, expected, dealt), layout.length))

    there = layout_on(device, layout)
    laws, spread = laws_of(given, device), None if spread is None else spread.to(device)
    found = grow(there, laws, tokens.to(device), spread, kernels=True)
    assert torch.equal(found.ends.cpu(), expected.ends)
    inner = layout.children > 0
    assert torch.equal(found.factor.cpu()[inner], expected.factor[inner])
    picked, _ = pick_nested(there, laws, tokens.to(device), uniforms.to(device), spread, kernels=True)
    for name, mine, theirs in zip(path._fields, picked, path, strict=True):
        assert torch.equal(mine.cpu(), theirs), name


def layout_on(device: str, layout: Layout) -> Layout:
    levels = tuple(Level(level.slots.to(device), level.above.to(device), level.most) for level in layout.levels)
    tensors = {name: part.to(device) for name, part in layout._asdict().items() if isinstance(part, torch.Tensor)}
    return layout._replace(levels=levels, **tensors)


@pytest.mark.usefixtures("coarse")
@each(case=CASES)
def test_labels_are_those_of_torch(case: tuple[str, tuple[int, ...], float]) -> None:
    family, branching, sigma = case
    given = batch(drawn(family, 5, branching, 1))
    check_labels(branching_layout(branching, 1, given[2].device), given, sigma)


@pytest.mark.usefixtures("coarse")
def test_labels_of_trees_of_their_own() -> None:
    """Paths of several lengths, and a level that no slot is on."""
    target, draft, _, uniforms = batch(drawn("tiny", 6, (2, 1), 2))
    tokens = torch.tensor([[0, 1, 1, 2, 3], [0, 4, 5, 0, 0]])
    links = RAGGED._replace(depth=3, width=3)
    links = links._replace(first_child=links.first_child.expand(2, -1), next_sibling=links.next_sibling.expand(2, -1))
    check_labels(linked_layout(links), (target, draft, tokens, uniforms), 0.5)


def test_labels_on_a_fine_grid_and_of_large_vocabularies() -> None:
    given = batch(drawn("tiny", 700, (2, 1), 1))
    check_labels(branching_layout((2, 1), 1, given[2].device), given, 0.5)


BRANCHINGS = ((1, 1), (3,), (2, 1, 1), (1, 2, 1, 2), (2, 1, 3), (17, 1), (*(1 for _ in range(64)), 2, 2))
"""The last one with more levels than there are bits to say which of them compete."""


@pytest.mark.usefixtures("coarse")
@each(branching=BRANCHINGS, ties=(False, True))
def test_the_line_that_is_picked_is_that_of_torch(branching: tuple[int, ...], ties: bool) -> None:
    check_picks(branching_layout(branching, 3, torch.device("cpu")), ties)


@pytest.mark.usefixtures("coarse")
@each(seed=range(3), ties=(False, True))
def test_the_line_that_is_picked_in_trees_of_their_own_is_that_of_torch(seed: int, ties: bool) -> None:
    for layout in scattered_layouts(seed):
        check_picks(layout, ties)


def test_the_line_that_is_picked_on_a_fine_grid_is_that_of_torch() -> None:
    check_picks(branching_layout((4, 2), 2, torch.device("cpu")), ties=False)


def scattered_layouts(seed: int) -> list[Layout]:
    """Leaves at all levels, slots that hang nowhere, links that are none, bare roots, and a bound that is too low."""
    links = scattered(np.random.default_rng(seed), 6, 5 + 5 * seed)
    links.next_sibling[0, 0], links.first_child[1] = 1, -1
    deepest = int(linked_layout(links).depth.max())
    return [linked_layout(links._replace(depth=depth)) for depth in (None, deepest, max(deepest - 1, 1))]


def scattered(rng: np.random.Generator, rows: int, slots: int) -> Links:
    """Trees that each slot hangs in anywhere, or nowhere."""
    first, sibling = np.full((2, rows, slots), -1)
    for row in range(rows):
        last: dict[int, int] = {}
        for slot in range(1, slots):
            parent = int(rng.integers(max(0, slot - int(rng.integers(1, slots))), slot))
            if rng.random() < 0.15:
                continue
            if parent in last:
                sibling[row, last[parent]] = slot
            else:
                first[row, parent] = slot
            last[parent] = slot
    return Links(torch.from_numpy(first), torch.from_numpy(sibling))


def check_picks(layout: Layout, ties: bool, device: str = "cpu") -> None:
    """What torch on the CPU and kernels on a device pick by the same labels, of which some slots have none."""
    rows, slots = layout.parent.shape
    rng = np.random.default_rng([rows, slots, ties])
    shape = (rows, slots, grid.BINS)
    masses = np.full(shape, 6) if ties else rng.integers(0, 2**50, shape) * (rng.random(shape) < 0.4)
    masses[rng.random((rows, slots)) < 0.1] = 0
    uniforms = rng.random((rows, slots + layout.length, 3))
    uniforms = np.floor(2 * uniforms) / 2 if ties else uniforms
    target_row, draft_row, tokens = torch.from_numpy(rng.integers(0, 100, (3, rows, slots)))
    read = rows_of(torch.ones((100, 4)), torch.ones(100), torch.ones(100, dtype=torch.bool))
    laws = TreeLaws(read, target_row, read, draft_row, layout.sound)
    grown, dealt = Grown(torch.from_numpy(masses.cumsum(axis=2)), torch.empty(0)), torch.from_numpy(uniforms)

    given = torch.nn.functional.pad(dealt[:, : slots - 1, :2], (0, 0, 1, 0))
    there, rows_there = layout_on(device, layout), (target_row.to(device), draft_row.to(device))
    laws_there = laws._replace(target_row=rows_there[0], draft_row=rows_there[1])
    grown_there = grown._replace(ends=grown.ends.to(device))
    picked = pick_by_kernels(there, laws_there, grown_there, tokens.to(device), dealt.to(device))
    first = lay_first_by_kernels(there, laws_there, tokens.to(device))
    for line, heirs in ((picked, pick(layout, grown, given)), (first, layout.first)):
        expected = laws.along(layout, tokens, follow(heirs, layout.length))
        for name, mine, theirs in zip(line._fields, line, expected, strict=True):
            assert torch.equal(mine.cpu(), theirs), name


@pytest.mark.usefixtures("coarse")
def test_labels_by_kernels_put_out_the_law_of_the_target() -> None:
    assert tree_law(GridNested(0.5, 2, kernels=True), model("tiny", 2, 3), (2, 1)).deviation <= 1e-13


@pytest.mark.usefixtures("coarse")
def test_a_slot_whose_parent_is_on_no_level_is_let_be() -> None:
    """Two slots below the root, where one was said to be: the second has two children, one of them on a level."""
    links = Links(torch.tensor([[1, -1, 3, -1, -1]]), torch.tensor([[-1, 2, -1, 4, -1]]), depth=2, width=1)
    even, tokens = torch.full((1, 5, 2), 0.5, dtype=torch.float64), torch.zeros((1, 5), dtype=torch.long)
    found = verify_trees(even, even, tokens, links, torch.Generator(), kernels=True)
    assert (found.sound.item(), found.accepted.item(), found.token.item()) == (False, 0, 0)


@pytest.mark.usefixtures("coarse")
def test_levels_that_are_refined_together_leave_those_of_other_trees_alone() -> None:
    """A program goes down several levels, while others have yet to read what the level above all of them has kept."""
    given = batch(drawn("tiny", 5, (2, 1, 1, 1, 1), 3))
    check_labels(branching_layout((2, 1, 1, 1, 1), 3, given[2].device), given, 0.5)
