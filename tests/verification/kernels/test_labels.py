"""Labels on a grid and chains by Triton's kernels, interpreted on the CPU: what torch finds, to the last bit."""

from typing import Any

import numpy as np
import pytest
import torch

from otspec.engines.chains import ChainLaws, Chains, verify_chains, verify_chains_in_rows
from otspec.verification.device import Links, verify_trees
from otspec.verification.rules.block.line_kernels import lay_first_by_kernels
from otspec.verification.rules.nested import grid
from otspec.verification.rules.nested.grid import Grown
from otspec.verification.rules.nested.picking_kernels import pick_by_kernels
from otspec.verification.rules.nested.tensors import grow, pick, pick_nested, spread_of
from otspec.verification.tensors.rows import rows_of
from otspec.verification.trees.batch import TreeBatch
from otspec.verification.trees.layout import Layout, branching_layout, follow, linked_layout
from tests.each import each
from tests.engines import vllm_requests
from tests.verification.kernels.setting import batch_over, even_batch, interpreted, on, scattered_links
from tests.verification.row_batches import KINDS as ROW_KINDS
from tests.verification.row_batches import tensors
from tests.verification.tree_batches import RAGGED, batch, drawn

pytestmark = interpreted
coarse = pytest.mark.usefixtures("coarse")

OF_LABELS: list[tuple[str, int, tuple[int, ...], int, float]] = [
    ("tiny", 5, (1, 3), 1, 0.0),
    ("zeros", 5, (1, 3), 1, 0.5),
    ("tied", 5, (2, 2), 1, 0.5),
    ("point", 5, (2, 1), 1, 0.0),
    ("tail", 5, (2, 1, 1), 1, 0.5),
    # A program goes down several levels, while others have yet to read what the level above all of them has kept.
    ("tiny", 4, (2, 1, 1, 1, 1), 2, 0.5),
]
"""Family, vocabulary, branching, trees, and sigma."""


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


@coarse
@each(case=OF_LABELS)
def test_labels_are_those_of_torch(case: tuple[str, int, tuple[int, ...], int, float]) -> None:
    family, vocab, branching, rows, sigma = case
    inputs = batch(drawn(family, vocab, branching, rows))
    check_labels(even_batch(inputs, branching), inputs[3], sigma)


@coarse
def test_labels_of_trees_of_their_own() -> None:
    """Paths of several lengths, and a level that no slot is on."""
    target, draft, _, uniforms = batch(drawn("tiny", 6, (2, 1), 2))
    tokens = torch.tensor([[0, 1, 1, 2, 3], [0, 4, 5, 0, 0]])
    links = RAGGED._replace(depth=3, width=3)
    links = links._replace(first_child=links.first_child.expand(2, -1), next_sibling=links.next_sibling.expand(2, -1))
    check_labels(batch_over(linked_layout(links), target, draft, tokens), uniforms, 0.5)


def test_labels_and_lines_on_a_fine_grid() -> None:
    inputs = batch(drawn("tiny", 300, (2, 1), 1))
    check_labels(even_batch(inputs, (2, 1)), inputs[3], 0.5)
    check_picks(branching_layout((4, 2), 2, torch.device("cpu")), ties=False)


BRANCHINGS = ((1, 1), (3,), (2, 1, 1), (1, 2, 1, 2), (2, 1, 3), (17, 1), (*(1 for _ in range(64)), 2, 2))
"""The last one with more levels than there are bits to say which of them compete."""


@coarse
@each(number=range(10))
def test_the_line_that_is_picked_is_that_of_torch(number: int) -> None:
    if number < len(BRANCHINGS):
        check_picks(branching_layout(BRANCHINGS[number], 3, torch.device("cpu")), ties=number % 2 == 0)
        return
    for layout in scattered_layouts(number - len(BRANCHINGS)):
        check_picks(layout, ties=number % 2 == 0)


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


@coarse
def test_a_slot_whose_parent_is_on_no_level_is_let_be() -> None:
    """Two slots below the root, where one was said to be: the second has two children, one of them on a level."""
    links = Links(torch.tensor([[1, -1, 3, -1, -1]]), torch.tensor([[-1, 2, -1, 4, -1]]), depth=2, width=1)
    even, tokens = torch.full((1, 5, 2), 0.5, dtype=torch.float64), torch.zeros((1, 5), dtype=torch.long)
    found = verify_trees(even, even, tokens, links, torch.Generator(), kernels=True)
    assert (found.valid.item(), found.accepted.item(), found.token.item()) == (False, 0, 0)


# --- block verification of chains


KINDS = vllm_requests.KINDS | {name: ROW_KINDS[name] for name in ("tiny tails", "points")}


def chains(name: str, rows: int, length: int, vocab: int) -> tuple[Any, ...]:
    """Laws of chains, tokens drawn from them, and uniforms."""
    rng = np.random.default_rng([rows, length, vocab])
    pairs = [[KINDS[name](rng, vocab) for _ in range(length + 1)] for _ in range(rows)]
    p, q = (np.array([[pair[which] for pair in row] for row in pairs]) for which in (0, 1))
    tokens = np.array([[rng.choice(vocab, p=law / law.sum()) for law in row[:-1]] for row in q], dtype=np.int64)
    return tensors(p, q[:, :-1], tokens, rng.random((rows, length + 1)))


def check_chains(*inputs: Any) -> Chains:
    """By kernels and by torch."""
    found, expected = (verify_chains(*inputs, kernels=way) for way in (True, False))
    assert all(map(torch.equal, found, expected))
    return found


CASES: list[tuple[str, tuple[int, int, int], Any]] = [
    *((name, (6, 3, 5), torch.float64) for name in KINDS),
    ("model", (6, 1, 5), torch.float32),
    ("tiny tails", (2, 2, 1500), torch.float32),
    ("points", (2, 2, 1500), torch.float64),
    ("model", (3, 2, 9000), torch.float64),  # more chunks than are added up at once
]


@each(case=CASES)
def test_chains_are_verified_as_by_torch(case: tuple[str, tuple[int, int, int], Any]) -> None:
    name, shape, dtype = case
    p, q, tokens, uniforms = chains(name, *shape)
    found = check_chains(p.to(dtype), q.to(dtype), tokens, uniforms)
    if shape[2] == 9000:
        assert set(found.accepted.tolist()) == {0, 2}


@each(length=(15, 18))
def test_long_chains_are_verified_as_by_torch(length: int) -> None:
    """More levels than are finished at once, or as many; after a token that is none nothing is left of equal laws."""
    p, q, tokens, uniforms = chains("same", 4, length, 5)
    for row, end in enumerate((length - 1, 3, 0)):
        tokens[row, end] = -1
    assert check_chains(p, q, tokens, uniforms).accepted.tolist() == [length - 1, 3, 0, length]


def test_rows_that_are_not_valid_and_tokens_that_are_none() -> None:
    p, q, tokens, uniforms = chains("model", 6, 3, 7)
    p[1, 2, 0], tokens[2, 1], q[3, 0, 0], p[4, 0] = torch.nan, -1, -0.1, 0.0
    found = check_chains(p, q, tokens, uniforms)
    assert found.valid.tolist() == [True, False, True, False, False, True]


@each(drawn=(True, False), vocab=(6, 1100))
def test_logits_in_rows_and_chains_of_several_lengths(drawn: bool, vocab: int) -> None:
    """As vLLM has them: rows of all chains one after the other, and tokens that nobody drew."""
    rng = np.random.default_rng(vocab)
    lengths = torch.tensor([3, 0, 1, 2, 3])
    starts = torch.tensor([0, 3, 3, 4, 6])
    logits = torch.from_numpy(8 * rng.standard_normal((9, vocab)))
    logits[:, 1] = -torch.inf
    draft = (logits + 0.3 * torch.from_numpy(rng.standard_normal((9, vocab)))).softmax(dim=1)
    places = torch.arange(4)
    rows = (starts[:, None] + places).clamp(max=8)
    likely = logits.argmax(dim=1) if not drawn else torch.multinomial(draft, 1)[:, 0]
    tokens = torch.where(places[:3] < lengths[:, None], likely[rows[:, :3]], -1)
    uniforms = torch.from_numpy(rng.random((5, 4)))
    inputs = ChainLaws(logits, rows, draft if drawn else None, rows[:, :3], logits=True)
    found, expected = (verify_chains_in_rows(inputs, tokens, lengths, uniforms, kernels=way) for way in (True, False))
    assert all(map(torch.equal, found, expected))
    assert found.accepted.sum() > 1
