"""Labels on a grid by Triton's kernels, interpreted on the CPU: every number is that of torch, to the last bit."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.verification.device import Links, verify_trees  # noqa: E402
from otspec.verification.rules.block.line_kernels import lay_first_by_kernels  # noqa: E402
from otspec.verification.rules.nested import grid  # noqa: E402
from otspec.verification.rules.nested.grid import Grown  # noqa: E402
from otspec.verification.rules.nested.picking_kernels import pick_by_kernels  # noqa: E402
from otspec.verification.rules.nested.tensors import grow, pick, pick_nested, spread_of  # noqa: E402
from otspec.verification.tensors.reading import rows_of  # noqa: E402
from otspec.verification.trees.batch import TreeBatch  # noqa: E402
from otspec.verification.trees.layout import Layout, branching_layout, follow, linked_layout  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.kernels.setting import batch_over, even_batch, interpreted, on, scattered_links  # noqa: E402
from tests.verification.tree_batches import RAGGED, batch, drawn  # noqa: E402

pytestmark = interpreted

CASES: list[tuple[str, tuple[int, ...], float]] = [
    ("tiny", (2, 1, 1), 0.5),
    ("tiny", (1, 3), 0.0),
    ("zeros", (1, 3), 0.5),
    ("tied", (2, 2), 0.5),
    ("point", (2, 1), 0.0),
    ("tail", (2, 1, 1), 0.5),
]


def check_labels(made: TreeBatch, uniforms: Any, sigma: float, device: str = "cpu") -> None:
    """What torch finds on the CPU and kernels on a device: labels, factors, and the paths that are picked."""
    layout, spread = made.layout, spread_of(sigma, 3, made.tokens.device)
    expected = grow(made, spread)
    of_slots = torch.nn.functional.pad(uniforms[:, : made.slots - 1, :2], (0, 0, 1, 0))
    path = made.along(follow(pick(layout, expected, of_slots), layout.length))

    there, spread = on(device, made), None if spread is None else spread.to(device)
    found = grow(there, spread, kernels=True)
    assert torch.equal(found.ends.cpu(), expected.ends)
    inner = layout.children > 0
    assert torch.equal(found.factor.cpu()[inner], expected.factor[inner])
    picked, _ = pick_nested(there, uniforms.to(device), spread, kernels=True)
    for name, mine, theirs in zip(path._fields, picked, path, strict=True):
        assert torch.equal(mine.cpu(), theirs), name


@pytest.mark.usefixtures("coarse")
@each(case=CASES)
def test_labels_are_those_of_torch(case: tuple[str, tuple[int, ...], float]) -> None:
    family, branching, sigma = case
    given = batch(drawn(family, 5, branching, 1))
    check_labels(even_batch(given, branching), given[3], sigma)


@pytest.mark.usefixtures("coarse")
def test_labels_of_trees_of_their_own() -> None:
    """Paths of several lengths, and a level that no slot is on."""
    target, draft, _, uniforms = batch(drawn("tiny", 6, (2, 1), 2))
    tokens = torch.tensor([[0, 1, 1, 2, 3], [0, 4, 5, 0, 0]])
    links = RAGGED._replace(depth=3, width=3)
    links = links._replace(first_child=links.first_child.expand(2, -1), next_sibling=links.next_sibling.expand(2, -1))
    check_labels(batch_over(linked_layout(links), target, draft, tokens), uniforms, 0.5)


def test_labels_on_a_fine_grid_and_of_large_vocabularies() -> None:
    given = batch(drawn("tiny", 700, (2, 1), 1))
    check_labels(even_batch(given, (2, 1)), given[3], 0.5)


BRANCHINGS = ((1, 1), (3,), (2, 1, 1), (1, 2, 1, 2), (2, 1, 3), (17, 1), (*(1 for _ in range(64)), 2, 2))
"""The last one with more levels than there are bits to say which of them compete."""


@pytest.mark.usefixtures("coarse")
@each(number=range(len(BRANCHINGS)))
def test_the_line_that_is_picked_is_that_of_torch(number: int) -> None:
    check_picks(branching_layout(BRANCHINGS[number], 3, torch.device("cpu")), ties=number % 2 == 0)


@pytest.mark.usefixtures("coarse")
@each(case=((0, False), (1, True), (2, False)))
def test_the_line_that_is_picked_in_trees_of_their_own_is_that_of_torch(case: tuple[int, bool]) -> None:
    seed, ties = case
    for layout in scattered_layouts(seed):
        check_picks(layout, ties)


def test_the_line_that_is_picked_on_a_fine_grid_is_that_of_torch() -> None:
    check_picks(branching_layout((4, 2), 2, torch.device("cpu")), ties=False)


def scattered_layouts(seed: int) -> list[Layout]:
    """Leaves at all levels, slots that hang nowhere, links that are none, bare roots, and a bound that is too low."""
    links = scattered_links(np.random.default_rng(seed), 6, 5 + 5 * seed, 0.15)
    links.next_sibling[0, 0], links.first_child[1] = 1, -1
    deepest = int(linked_layout(links).depth.max())
    return [linked_layout(links._replace(depth=depth)) for depth in (None, deepest, max(deepest - 1, 1))]


def check_picks(layout: Layout, ties: bool, device: str = "cpu") -> None:
    """What torch on the CPU and kernels on a device pick by the same labels, of which some slots have none."""
    rows, slots = layout.parent.shape
    rng = np.random.default_rng([rows, slots, ties])
    shape = (rows, slots, grid.BINS)
    masses = np.full(shape, 6) if ties else rng.integers(0, 2**50, shape) * (rng.random(shape) < 0.4)
    masses[rng.random((rows, slots)) < 0.1] = 0
    numbers = rng.random((rows, slots + layout.length, 3))
    uniforms = torch.from_numpy(np.floor(2 * numbers) / 2 if ties else numbers)
    target_row, draft_row, tokens = torch.from_numpy(rng.integers(0, 100, (3, rows, slots)))
    read = rows_of(torch.ones((100, 4)), torch.ones(100), torch.ones(100, dtype=torch.bool))
    made = TreeBatch(layout, read, target_row, read, draft_row, tokens, layout.valid)
    grown = Grown(torch.from_numpy(masses.cumsum(axis=2)), torch.empty(0))

    there = on(device, made)
    picked = pick_by_kernels(there, grown._replace(ends=grown.ends.to(device)), uniforms.to(device))
    first = lay_first_by_kernels(there)
    of_slots = torch.nn.functional.pad(uniforms[:, : slots - 1, :2], (0, 0, 1, 0))
    for line, children in ((picked, pick(layout, grown, of_slots)), (first, layout.first)):
        expected = made.along(follow(children, layout.length))
        for name, mine, theirs in zip(line._fields, line, expected, strict=True):
            assert torch.equal(mine.cpu(), theirs), name


@pytest.mark.usefixtures("coarse")
def test_a_slot_whose_parent_is_on_no_level_is_let_be() -> None:
    """Two slots below the root, where one was said to be: the second has two children, one of them on a level."""
    links = Links(torch.tensor([[1, -1, 3, -1, -1]]), torch.tensor([[-1, 2, -1, 4, -1]]), depth=2, width=1)
    even, tokens = torch.full((1, 5, 2), 0.5, dtype=torch.float64), torch.zeros((1, 5), dtype=torch.long)
    found = verify_trees(even, even, tokens, links, torch.Generator(), kernels=True)
    assert (found.valid.item(), found.accepted.item(), found.token.item()) == (False, 0, 0)


@pytest.mark.usefixtures("coarse")
def test_levels_that_are_refined_together_leave_those_of_other_trees_alone() -> None:
    """A program goes down several levels, while others have yet to read what the level above all of them has kept."""
    given = batch(drawn("tiny", 4, (2, 1, 1, 1, 1), 2))
    check_labels(even_batch(given, (2, 1, 1, 1, 1)), given[3], 0.5)
