"""Trees of tensors: the outputs of the rules on the host, the exact law of the labels on a grid, topologies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec.errors import ProblemError
from otspec.verification import Nested, Tree, tree_law
from otspec.verification.device import Links, trees, verify_trees
from otspec.verification.rules.block.tensors import verify_path
from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.nested import grid
from otspec.verification.rules.nested.tensor_sharing import share
from otspec.verification.rules.nested.tensors import spread_of
from otspec.verification.tensors import groups, majorant
from otspec.verification.tensors.groups import group, group_rows
from otspec.verification.trees import layout
from otspec.verification.trees.layout import branching_layout
from otspec.verification.trees.shape import Shape
from tests.each import each
from tests.oracles import Floats
from tests.verification.catalogue import follows
from tests.verification.grid_nested import GridNested, slots_of
from tests.verification.models import FAMILIES, model
from tests.verification.tree_batches import (
    DISTINCT,
    RAGGED,
    SEVERAL,
    SHAPES,
    WAYS,
    Output,
    batch,
    by_buckets,
    drawn,
    first_path,
    links_of,
    outputs,
    token_by_token,
)

ON_THE_HOST: dict[str, Callable[[Tree, Floats], Output]] = {
    "interval": token_by_token,
    "block": first_path,
    "by buckets": by_buckets,
}
SAME = 1e-13
"""The deviation that sums of a thousand bins leave."""


@each(rule=trees.RULES, rows=(False, True))
def test_no_trees_are_verified_to_none(rule: str, rows: bool) -> None:
    tokens, laws = torch.zeros((0, 4), dtype=torch.int64), torch.zeros((0, 4, 5))
    inputs = (torch.zeros((0, 5)), torch.zeros((0, 5))) if rows else (laws, laws)
    found = verify_trees(
        *inputs, tokens, (3,), torch.Generator(), rule=rule, rows=(tokens, tokens) if rows else None, check=True
    )
    assert [part.shape for part in found.outputs] == [(0, 1), (0, 1), (0,), (0,), (0,)]
    assert found.valid.dtype == torch.bool
    with pytest.raises(ProblemError, match="they need laws over the same tokens"):
        verify_trees(torch.zeros((0, 4, 6)), laws, tokens, (3,), torch.Generator(), rule=rule)
    with pytest.raises(ProblemError, match=r"branching \(2,\) has 3"):
        verify_trees(laws, laws, tokens, (2,), torch.Generator(), rule=rule)


@pytest.mark.parametrize("way", ON_THE_HOST)
@each(branching=SHAPES, law=tuple(zip(DISTINCT, (7, 2, 7, 2), strict=True)))
def test_trees_are_verified_as_on_the_host(way: str, branching: tuple[int, ...], law: tuple[str, int]) -> None:
    family, vocab = law
    found = drawn(family, vocab, branching, SEVERAL)
    inputs = batch(found)
    expected = [ON_THE_HOST[way](*row) for row in zip(found, inputs[3].numpy(), strict=True)]
    assert outputs(verify_trees(*inputs[:3], branching, inputs[3], **WAYS[way])) == expected


GRID = [
    *((0.0, 2, (2, 1), family) for family in FAMILIES),
    (0.0, 2, (2, 2), "tiny"),
    *((0.7, 3, (2, 1), family) for family in ("tiny", "zeros", "tail", "tied")),
    *((0.5, 2, shape, "tiny") for shape in ((2, 2), (1, 2, 1), (2, 1, 2), (3, 1), (1, 3))),
    *((0.5, 2, shape, family) for shape, family in (((1, 3), "tied"), ((3, 1), "tail"), ((2, 2), "tied"))),
]


@each(case=GRID)
def test_labels_on_a_grid_put_out_the_law_of_the_target(case: tuple[float, int, tuple[int, ...], str]) -> None:
    sigma, vocab, branching, family = case
    law = tree_law(GridNested(sigma), model(family, vocab, vocab), branching)
    assert law.deviation <= SAME
    assert law.target.sum() == pytest.approx(1.0, abs=SAME)
    if sigma == 0 and family == "tiny":  # the grid costs next to no acceptance
        best = tree_law(Nested(sigma=0), model(family, vocab, vocab), branching).mean_accepted
        assert law.mean_accepted == pytest.approx(best, abs=1e-4)


@each(branching=((2, 1), (1, 2)), family=("tiny", "zeros", "tied"))
def test_buckets_and_coarse_majorants_lose_acceptance_and_nothing_else(branching: tuple[int, ...], family: str) -> None:
    small = model(family, 3, 1)
    best = tree_law(Nested(sigma=0), small, branching).mean_accepted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "SORTED", 0)
        patch.setattr(groups, "PIECES", groups.pieces_of([(-12, 1)], 12))
        coarse = tree_law(GridNested(), small, branching)
        patch.setattr(majorant, "HALVINGS", 0)
        coarsest = tree_law(GridNested(0.5), small, branching)
    assert coarse.deviation <= SAME
    assert coarsest.deviation <= SAME
    if family == "tiny":
        assert coarsest.mean_accepted <= best + 1e-9
        assert 0.8 * best <= coarse.mean_accepted <= best + 1e-9


@each(sigma=(0.0, 0.5), branching=((3, 1, 1), (1, 2, 2), (2, 3)), family=("tiny",))
def test_draws_have_the_law_that_is_computed(sigma: float, branching: tuple[int, ...], family: str) -> None:
    tree = drawn(family, 4, branching, 1)[0]
    draws = 2000
    target, draft, tokens, _ = batch([tree])
    rows = [torch.arange(part.shape[1]).expand(draws, -1) for part in (target, draft)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "GROUP", draws)
        patch.setattr(grid, "BINS", 16)
        law = GridNested(sigma).stop_law(tree)
        found = verify_trees(
            target[0], draft[0], tokens.expand(draws, -1), branching, torch.Generator().manual_seed(1),
            rows=(rows[0], rows[1]), sigma=sigma,
        )  # fmt: skip
    assert found.valid.all()
    node, _ = slots_of(tree)
    last = found.slots.gather(1, (found.accepted - 1).clamp(min=0)[:, None])[:, 0]
    last = torch.where(found.accepted > 0, node[last], 0)
    counts = np.bincount((last * law.shape[1] + found.token).numpy(), minlength=law.size)
    assert follows(counts, law)


def test_a_layout_that_a_graph_has_the_address_of_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    kept = branching_layout((3, 1), 5, cpu)
    with monkeypatch.context() as patch:
        patch.setattr(layout, "in_a_graph", lambda _: True)
        assert branching_layout((3, 1), 5, cpu) is kept
        own = branching_layout((3, 2), 5, cpu)
    for rows in range(6, 7 + layout.MOST_CACHED):
        branching_layout((2,), rows, cpu)
    assert branching_layout((3, 1), 5, cpu) is kept
    assert branching_layout((3, 2), 5, cpu) is not own  # what a graph makes belongs to it


@each(rule=trees.RULES, branching=((3, 1, 1), (2, 2), (1, 2, 1)))
def test_links_give_the_tokens_of_a_branching(rule: str, branching: tuple[int, ...]) -> None:
    """Look-ahead splits all but the last level in both; where nothing competes the links' labels stay whole."""
    target, draft, tokens, uniforms = batch(drawn("tiny", 5, branching, SEVERAL))
    slots, length = tokens.shape[1], len(branching)
    right = verify_trees(target, draft, tokens, branching, uniforms, rule=rule)
    wider = torch.nn.functional.pad(target, (0, 0, 0, 2), value=torch.nan)
    dealt = torch.cat((uniforms[:, : slots - 1], uniforms[:, :2], uniforms[:, slots - 1 :]), dim=1)
    padded = torch.nn.functional.pad(tokens, (0, 2), value=-7)
    found = verify_trees(wider, draft, padded, links_of(Shape.of(branching), len(tokens)), dealt, rule=rule)
    assert outputs(found) == outputs(right)
    assert found.slots.shape == (SEVERAL, length)


@each(way=WAYS, sigma=(0.0, 0.5))
def test_paths_of_different_lengths_have_the_law_of_the_target(way: dict[str, Any], sigma: float) -> None:
    """Of many trees: the first two tokens that are put out, and then go on by the target's law, are target text."""
    small = model("tiny", 2, 4)
    draws, rng = 3000, np.random.default_rng(0)
    prefixes = [(), (0,), (1,), *((x, y) for x in range(2) for y in range(2))]
    both = (small.target, small.draft)
    target, draft = (torch.from_numpy(np.array([law(prefix) for prefix in prefixes])) for law in both)
    chance = draft[:, 1].numpy()
    tokens = np.zeros((draws, 5), dtype=np.int64)
    tokens[:, 1:3] = rng.random((draws, 2)) < chance[0]
    tokens[:, 3:] = rng.random((draws, 2)) < chance[1 + tokens[:, 1]][:, None]
    rows = np.column_stack((tokens[:, 0], 1 + tokens[:, 1:3], 3 + 2 * tokens[:, 1:2] + tokens[:, 3:]))
    links = Links(RAGGED.first_child.expand(draws, -1), RAGGED.next_sibling.expand(draws, -1), 2, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "GROUP", draws)
        patch.setattr(grid, "BINS", 16)
        patch.setattr(buckets, "BITS", 4)
        found = verify_trees(
            target, draft, torch.from_numpy(tokens), links, torch.from_numpy(rng.random((draws, 7, 3))),
            rows=(torch.from_numpy(rows),) * 2, sigma=sigma, **way,
        )  # fmt: skip
    assert found.valid.all()
    first = torch.where(found.accepted > 0, found.tokens[:, 0], found.token).numpy()
    second = np.where(found.accepted == 1, found.token, found.tokens[:, 1])
    drawn_on = rng.random(draws) < target[1 + first, 1].numpy()
    second = np.where(found.accepted == 0, drawn_on, second)
    expected = (target[0][:, None] * target[1:3]).numpy().ravel()
    assert follows(np.bincount(2 * first + second, minlength=4), expected)


@each(by=("sorting", "buckets"))
def test_the_draft_law_of_a_text_is_that_of_a_slot_with_children(by: str) -> None:
    """Two slots have one text, and one of them a child: which of them it is does not matter, for it alone has a law."""
    rng = np.random.default_rng(3)
    draws = 40
    target, draft = (torch.from_numpy(rng.dirichlet(np.ones(3), size=4)) for _ in range(2))
    target[2] = target[1]
    tokens = torch.tensor([0, 1, 1, 2]).expand(draws, -1)
    uniforms = torch.from_numpy(rng.random((draws, 6, 3)))
    target_row = torch.arange(4).expand(draws, -1)
    found = []
    for parent in (1, 2):
        links = torch.full((2, 4), -1)
        links[0, 0], links[0, parent], links[1, 1] = 1, 3, 2
        draft_row = torch.full((4,), -1)
        draft_row[0], draft_row[parent] = 0, 1
        first_child, next_sibling = links[:, None].expand(-1, draws, -1)
        topology, rows = Links(first_child, next_sibling, 2, 2), (target_row, draft_row.expand(draws, -1))
        found.append(verify_trees(target, draft, tokens, topology, uniforms, rows=rows, rule="interval", by=by))
    assert outputs(found[0]) == outputs(found[1])
    assert set(found[0].accepted.tolist()) == {0, 1, 2}


@each(dtype=(torch.float64, torch.float32, torch.bfloat16), temperature=(0.3, 4.0, 12.0))
def test_the_law_of_a_picked_token_adds_up(dtype: Any, temperature: float) -> None:
    """Of large vocabularies in groups, rare tokens among them, whatever the totals of the laws are off by."""
    generator = torch.Generator().manual_seed(1)
    logits = temperature * torch.randn((3, 20_000), generator=generator, dtype=torch.float64)
    noise = torch.randn(logits.shape, generator=generator, dtype=torch.float64)
    p, q = ((0.999 * one.softmax(dim=1)).to(dtype) for one in (logits, logits + noise))
    groups = group(p, q)
    whole = grid.Labels(*(part.contiguous() for part in grid.everything((3,), p.device)))
    labels = grid.branch(whole, torch.full((3,), 4), 4)
    shared = share(group_rows(p, q, groups), labels, torch.ones(3, dtype=torch.float64), spread_of(0.5, 4, p.device))
    law = q.double() / q.double().sum(dim=1, keepdim=True) * shared.factor.gather(1, groups)
    assert (law.sum(dim=1) - 1).abs().max() < 1e-11


@each(rule=trees.RULES, branching=((2, 1, 1), (2, 2)))
def test_log_probabilities_are_the_targets_along_what_is_put_out(rule: str, branching: tuple[int, ...]) -> None:
    count = 30
    target, draft, tokens, uniforms = batch(drawn(DISTINCT[0], 7, branching, count))
    found = verify_trees(target, draft, tokens, branching, uniforms, rule=rule, logprobs=True)
    assert found.logprobs is not None
    for tree in range(count):
        accepted = int(found.accepted[tree])
        slots = [0, *found.slots[tree, :accepted].tolist()]
        put_out = [*found.tokens[tree, :accepted].tolist(), int(found.token[tree])]
        own = torch.tensor([target[tree, slot, token] for slot, token in zip(slots, put_out, strict=True)]).log()
        torch.testing.assert_close(found.logprobs[tree, : accepted + 1], own)
        assert found.logprobs[tree, accepted + 1 :].isnan().all()
    without = verify_trees(target, draft, tokens, branching, uniforms, rule=rule)
    assert without.logprobs is None
    assert torch.equal(without.slots, found.slots)


def test_nothing_beyond_the_end_of_a_path_is_accepted_or_counts() -> None:
    """Tokens beyond the end are tokens too, and likely ones: only the length says that they are none."""
    rng, paths, longest, vocab = np.random.default_rng(0), 400, 4, 5
    p, g = (torch.from_numpy(rng.dirichlet(np.ones(vocab), (longest + 1, paths))) for _ in range(2))
    tokens = torch.from_numpy(rng.integers(vocab, size=(paths, longest)))
    length = torch.from_numpy(rng.integers(longest + 1, size=paths))
    uniforms = torch.from_numpy(rng.random((paths, longest + 1)))
    rows = torch.arange(paths)

    def verified(tokens: Any) -> Any:
        return verify_path(lambda at: (p[at, rows], g[at, rows]), tokens, length, uniforms)

    accepted, token = verified(tokens)
    assert (accepted <= length).all()
    assert (accepted == length).any()
    beyond = torch.arange(longest) >= length[:, None]
    again = verified(tokens.masked_fill(beyond, -1))
    assert torch.equal(accepted, again[0])
    assert torch.equal(token, again[1])
