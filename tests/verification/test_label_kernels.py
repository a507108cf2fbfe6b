"""Labels on a grid by Triton's kernels, interpreted on the CPU: every number is that of torch, to the last bit."""

from __future__ import annotations

import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.paths import tree_law  # noqa: E402
from otspec.verification.device import Links, grid, majorant, verify_trees  # noqa: E402
from otspec.verification.device.by_path_kernels import rows_of  # noqa: E402
from otspec.verification.device.layout import Layout, Level, branching_layout, linked_layout  # noqa: E402
from otspec.verification.device.nested import follow, grow, pick, pick_nested, spread_of  # noqa: E402
from otspec.verification.device.tree_laws import TreeLaws  # noqa: E402
from tests.each import each  # noqa: E402
from tests.paths.models import model  # noqa: E402
from tests.verification.grid_nested import GridNested  # noqa: E402
from tests.verification.trees import RAGGED, batch, drawn  # noqa: E402

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
    path = follow(pick(layout, expected, dealt), layout.length)

    levels = tuple(Level(level.slots.to(device), level.above.to(device), level.most) for level in layout.levels)
    tensors = {name: part.to(device) for name, part in layout._asdict().items() if isinstance(part, torch.Tensor)}
    there = layout._replace(levels=levels, **tensors)
    laws, spread = laws_of(given, device), None if spread is None else spread.to(device)
    found = grow(there, laws, tokens.to(device), spread, kernels=True)
    assert torch.equal(found.ends.cpu(), expected.ends)
    inner = layout.children > 0
    assert torch.equal(found.factor.cpu()[inner], expected.factor[inner])
    picked, _ = pick_nested(there, laws, tokens.to(device), uniforms.to(device), spread, kernels=True)
    assert torch.equal(follow(picked.cpu(), layout.length), path)


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
