"""Trees of tensors: the outputs of the rules on the host, the exact law of the labels on a grid, and the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from scipy.stats import chisquare
from torch import Tensor

import otspec
from otspec import AuditVerdict, ProblemError
from otspec.kernels.interval.lottery import memory
from otspec.paths import Nested, Tree, path_law, tree_law
from otspec.paths.block import block_weights
from otspec.paths.shape import Shape
from otspec.verification import bucket_reference
from otspec.verification.compiled import verify_one
from otspec.verification.device import (
    Links,
    TreeVerification,
    buckets,
    grid,
    layout,
    majorant,
    sharing,
    trees,
    verify_trees,
)
from otspec.verification.device.layout import branching_layout, linked_layout
from tests import laws
from tests.each import each
from tests.oracles import Floats
from tests.paths.models import FAMILIES, model
from tests.verification.grid_nested import GridNested, slots_of

SHAPES = [(1,), (3,), (1, 1, 1), (3, 1, 1), (2, 2), (1, 2, 2), (2, 1, 3)]
SEVERAL = 12
"""Trees of one batch."""
SAME = 1e-13
"""The deviation that sums of a thousand bins leave."""

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""Target and draft laws, tokens and uniforms."""


def drawn(family: str, vocab: int, branching: tuple[int, ...], rows: int, seed: int = 0) -> list[Tree]:
    rng = np.random.default_rng([seed, vocab, *branching])
    return [model(family, vocab, seed + row).drawn(branching, rng) for row in range(rows)]


def batch(found: list[Tree], seed: int = 0) -> Batch:
    """Laws slot by slot, and uniforms."""
    nodes, tokens = zip(*(slots_of(tree) for tree in found), strict=True)
    shape = found[0].shape
    inner = shape.offsets[-2]
    target = torch.stack([torch.from_numpy(tree.target)[node] for tree, node in zip(found, nodes, strict=True)])
    draft = [torch.from_numpy(tree.draft)[node[:inner]] for tree, node in zip(found, nodes, strict=True)]
    uniforms = np.random.default_rng(seed).random((len(found), shape.slots + shape.depth, 3))
    return target, torch.stack(draft), torch.stack(tokens), torch.from_numpy(uniforms)


Output = tuple[tuple[int, ...], int]


def outputs(found: TreeVerification) -> list[Output]:
    """The accepted tokens and the one after them, tree by tree; the fields agree with each other."""
    assert found.sound.all()
    assert ((found.slots >= 0) == (found.tokens >= 0)).all()
    assert (found.accepted == (found.tokens >= 0).sum(dim=1)).all()
    rows = zip(found.tokens.tolist(), found.accepted.tolist(), found.token.tolist(), strict=True)
    return [(tuple(tokens[:accepted]), token) for tokens, accepted, token in rows]


def inverse(law: Floats, uniform: float) -> int:
    return int(np.searchsorted(np.cumsum(law), uniform * law.sum(), side="right"))


def token_by_token(tree: Tree, uniforms: Floats) -> Output:
    """The compiled rule at every node, for the slots that agree with the output."""
    mine = memory.of(tree.target.shape[1])
    node, tokens = (part.numpy() for part in slots_of(tree))
    alive = np.array([0])
    put_out: list[int] = []
    for level in range(tree.shape.depth):
        drafts = np.flatnonzero(np.isin(tree.shape.parent, alive))
        here = node[alive[0]]
        dealt = np.concatenate((uniforms[drafts - 1], uniforms[tree.shape.slots - 1 + level, None]))
        token, _ = verify_one(tree.target[here], tree.draft[here], tokens[drafts], dealt, mine.work, mine.room)
        alive = drafts[tokens[drafts] == token]
        if not alive.size:
            return tuple(put_out), token
        put_out.append(token)
    return tuple(put_out), inverse(tree.target[node[alive[0]]], uniforms[-1, 1])


def by_buckets(tree: Tree, uniforms: Floats) -> Output:
    """The exact rule by buckets at every node, for the slots that agree with what was accepted."""
    node, tokens = (part.numpy() for part in slots_of(tree))
    most = max(np.diff(tree.shape.offsets))
    alive = np.array([0])
    put_out: list[int] = []
    for level in range(tree.shape.depth):
        drafts = np.flatnonzero(np.isin(tree.shape.parent, alive))
        here = node[alive[0]]
        dealt = np.concatenate((uniforms[drafts - 1], uniforms[tree.shape.slots - 1 + level, None])).tolist()
        laws_here = tree.target[here].tolist(), tree.draft[here].tolist()
        token, accepted = bucket_reference.verify(*laws_here, tokens[drafts].tolist(), dealt, int(most))
        if accepted < 0:
            return tuple(put_out), token
        alive = drafts[tokens[drafts] == token]
        put_out.append(token)
    return tuple(put_out), inverse(tree.target[node[alive[0]]], uniforms[-1, 1])


def first_path(tree: Tree, uniforms: Floats) -> Output:
    """Block verification of the path of first children, by the figures of `otspec.paths`."""
    nodes = tree.node[0]
    tokens, p, q = tree.token[nodes[1:]], tree.target[nodes], tree.draft[nodes[:-1]]
    weight, stop = block_weights(p, q, tokens)
    dealt = uniforms[tree.shape.slots - 1 :]
    accepted = max((i for i in range(1, tokens.size + 1) if dealt[i - 1, 0] < stop[i]), default=0)
    law = p[accepted]
    if accepted < tokens.size:
        rest = np.maximum(weight[accepted] * p[accepted] - q[accepted], 0)
        law = rest if rest.sum() > 0 else law
    return tuple(tokens[:accepted].tolist()), inverse(law, dealt[-1, 1])


ON_THE_HOST: dict[str, Callable[[Tree, Floats], Output]] = {
    "interval": token_by_token,
    "block": first_path,
    "by buckets": by_buckets,
}
WAYS: dict[str, dict[str, Any]] = {rule: {"rule": rule} for rule in trees.RULES}
WAYS["by buckets"] = {"rule": "interval", "by": "buckets"}
DISTINCT = ("tiny", "zeros", "peaked", "point")
"""Families whose p/q have no ties but exact ones, and no laws so rare that another rule is used for them."""


@pytest.mark.parametrize("way", ON_THE_HOST)
@each(family=DISTINCT, branching=SHAPES, vocab=(2, 7))
def test_trees_are_verified_as_on_the_host(way: str, family: str, branching: tuple[int, ...], vocab: int) -> None:
    found = drawn(family, vocab, branching, SEVERAL)
    given = batch(found)
    expected = [ON_THE_HOST[way](*row) for row in zip(found, given[3].numpy(), strict=True)]
    assert outputs(verify_trees(*given[:3], branching, given[3], **WAYS[way])) == expected


@pytest.mark.parametrize("sigma", [0.0, 0.7])
@each(family=FAMILIES)
def test_labels_on_a_grid_put_out_the_law_of_the_target(sigma: float, family: str) -> None:
    law = path_law(GridNested(sigma, 3), model(family, 3, 3), 2, 2)
    assert law.deviation <= SAME
    assert law.target.sum() == pytest.approx(1.0, abs=SAME)


@each(branching=((2, 2), (1, 2, 1), (2, 1, 2), (3, 1), (1, 3)), family=("tiny", "tied", "tail"))
def test_on_trees_that_branch_too(branching: tuple[int, ...], family: str) -> None:
    assert tree_law(GridNested(0.5), model(family, 2, 5), branching).deviation <= SAME


@each(branching=((2, 1), (1, 2)), family=("tiny", "zeros", "point", "tail", "tied"))
def test_buckets_and_coarse_majorants_lose_acceptance_and_nothing_else(branching: tuple[int, ...], family: str) -> None:
    small = model(family, 3, 1)
    best = tree_law(Nested(sigma=0), small, branching).mean_accepted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "SORTED", 0)
        patch.setattr(sharing, "PIECES", sharing.pieces_of([(-12, 1)], 12))
        coarse = tree_law(GridNested(), small, branching)
        patch.setattr(majorant, "HALVINGS", 0)
        coarsest = tree_law(GridNested(0.5), small, branching)
    assert coarse.deviation <= SAME
    assert coarsest.deviation <= SAME
    if family == "tiny":
        assert coarsest.mean_accepted <= best + 1e-9
        assert 0.8 * best <= coarse.mean_accepted <= best + 1e-9


@each(seed=(0, 1, 2), branching=((2, 1), (2, 2)))
def test_the_grid_costs_next_to_no_acceptance(seed: int, branching: tuple[int, ...]) -> None:
    small = model("tiny", 3 if branching[1] == 1 else 2, seed)
    on_grid, best = (tree_law(rule, small, branching).mean_accepted for rule in (GridNested(), Nested(sigma=0)))
    assert on_grid == pytest.approx(best, abs=1e-4)


@each(sigma=(0.0, 0.5), branching=((3, 1, 1), (1, 2, 2), (2, 3)), family=("tiny", "ties"))
def test_draws_have_the_law_that_is_computed(sigma: float, branching: tuple[int, ...], family: str) -> None:
    tree = drawn(family, 4, branching, 1)[0]
    draws = 3000
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
    assert found.sound.all()
    node, _ = slots_of(tree)
    last = found.slots.gather(1, (found.accepted - 1).clamp(min=0)[:, None])[:, 0]
    last = torch.where(found.accepted > 0, node[last], 0)
    counts = np.bincount((last * law.shape[1] + found.token).numpy(), minlength=law.size)
    assert not counts[law.ravel() <= 1e-15].any()
    often = law.ravel() * draws > 5
    observed = np.append(counts[often], draws - counts[often].sum())
    expected = np.append(law.ravel()[often], max(1 - law.ravel()[often].sum(), 0)) * draws
    kept = expected > 1e-6
    assert chisquare(observed[kept], expected[kept] / expected[kept].sum() * draws).pvalue > 1e-4


def links_of(shape: Shape, rows: int) -> Links:
    """The links of a branching, and slots at the end that hang nowhere."""
    first, sibling = np.full(shape.slots + 2, -1), np.full(shape.slots + 2, -1)
    for slot in range(shape.slots - 1, 0, -1):
        parent = shape.parent[slot]
        sibling[slot], first[parent] = first[parent], slot
    children, siblings = (torch.from_numpy(link).expand(rows, -1).to(torch.int32) for link in (first, sibling))
    return Links(children, siblings, shape.depth, shape.offsets[-1] - shape.offsets[-2])


@each(branching=SHAPES)
def test_links_lay_out_what_a_branching_does(branching: tuple[int, ...]) -> None:
    shape = Shape.of(branching)
    laid, linked = branching_layout(branching, 2, torch.device("cpu")), linked_layout(links_of(shape, 2))
    assert linked.sound.all()
    assert linked.length == laid.length == shape.depth
    for name in ("parent", "depth", "children", "first"):
        assert (getattr(laid, name) == getattr(linked, name)[:, : shape.slots]).all()
    assert (linked.depth[:, shape.slots :] == -1).all()
    for level, (one, other) in enumerate(zip(laid.levels, linked.levels, strict=True)):
        width = one.slots.shape[1]
        assert (one.slots == other.slots[:, :width]).all()
        assert (one.above == other.above[:, :width]).all(), level
        assert (other.slots[:, width:] == shape.slots + 2).all()


def test_a_layout_that_a_graph_has_the_address_of_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    kept = branching_layout((3, 1), 5, cpu)
    with monkeypatch.context() as patch:
        patch.setattr(layout, "in_a_graph", lambda _: True)
        assert branching_layout((3, 1), 5, cpu) is kept
        own = branching_layout((3, 2), 5, cpu)
    for rows in range(6, 7 + layout.MOST_KEPT):
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


RAGGED = Links(torch.tensor([[1, 3, -1, -1, -1]]), torch.tensor([[-1, 2, -1, 4, -1]]))
"""The root has two children; the first of them has two."""


@each(way=WAYS, sigma=(0.0, 0.5))
def test_paths_of_different_lengths_have_the_law_of_the_target(way: dict[str, Any], sigma: float) -> None:
    """Of many trees: the first two tokens that are put out, and then go on by the target's law, are target text."""
    small = model("tiny", 2, 4)
    draws, rng = 6000, np.random.default_rng(0)
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
    assert found.sound.all()
    first = torch.where(found.accepted > 0, found.tokens[:, 0], found.token).numpy()
    second = np.where(found.accepted == 1, found.token, found.tokens[:, 1])
    drawn_on = rng.random(draws) < target[1 + first, 1].numpy()
    second = np.where(found.accepted == 0, drawn_on, second)
    expected = (target[0][:, None] * target[1:3]).numpy().ravel()
    assert chisquare(np.bincount(2 * first + second, minlength=4), draws * expected).pvalue > 1e-4


@each(by=("sorting", "buckets"))
def test_the_draft_law_of_a_text_is_that_of_a_slot_with_children(by: str) -> None:
    """Two slots have one text, and one of them a child: which of them it is does not matter, for it alone has a law."""
    rng = np.random.default_rng(3)
    draws = 200
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


@each(
    links=(
        Links(torch.tensor([[1, 0, -1]]), torch.tensor([[-1, 2, -1]])),  # back to the root
        Links(torch.tensor([[1, 2, -1]]), torch.tensor([[-1, 2, -1]])),  # two ways to one slot
        Links(torch.tensor([[1, -1, -1]]), torch.tensor([[-1, 3, -1]])),  # beyond the last
        Links(torch.tensor([[1, 2, -1]]), torch.tensor([[-1, -1, -1]]), depth=1),  # deeper than said
        Links(torch.tensor([[1, -1, -1]]), torch.tensor([[-1, 2, -1]]), width=1),  # wider than said
        Links(torch.tensor([[-1, -1, -1]]), torch.tensor([[1, 2, -1]])),  # a brother of the root
    )
)
def test_links_that_are_no_tree_are_flagged(links: Links) -> None:
    even, tokens = torch.full((1, 3, 2), 0.5, dtype=torch.float64), torch.zeros((1, 3), dtype=torch.long)
    for rule in trees.RULES:
        found = verify_trees(even, even, tokens, links, torch.Generator(), rule=rule)
        assert (found.sound.item(), found.accepted.item(), found.token.item()) == (False, 0, 0)
    with pytest.raises(ProblemError, match="the links of tree 0 are none of a tree"):
        verify_trees(even, even, tokens, links, torch.Generator(), check=True)


def test_a_slot_that_hangs_below_nothing_is_not_in_the_tree() -> None:
    links = Links(torch.tensor([[1, -1, 3, -1]]), torch.tensor([[-1, -1, -1, -1]]))
    layout = linked_layout(links)
    assert layout.sound.all()
    assert layout.depth.tolist() == [[0, 1, -1, -1]]


PATHS = (3, 1, 1)


@each(dtype=(torch.float32, torch.bfloat16, torch.float16), rule=trees.RULES)
def test_laws_are_read_in_the_type_of_a_model(dtype: torch.dtype, rule: str) -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 6, PATHS, SEVERAL))
    given = target.to(dtype), draft.to(dtype)
    wide = [law.double() / law.double().sum(dim=-1, keepdim=True) for law in given]
    expected = outputs(verify_trees(wide[0], wide[1], tokens, PATHS, uniforms, rule=rule))
    assert outputs(verify_trees(*given, tokens.int(), PATHS, uniforms, rule=rule)) == expected


@each(rule=trees.RULES)
def test_a_tree_does_not_depend_on_those_beside_it(rule: str) -> None:
    given = batch(drawn("tiny", 5, PATHS, 5))
    together = outputs(verify_trees(*given[:3], PATHS, given[3], rule=rule))
    for b, output in enumerate(together):
        target, draft, tokens, uniforms = (part[b : b + 1] for part in given)
        assert outputs(verify_trees(target, draft, tokens, PATHS, uniforms, rule=rule)) == [output]
    links = links_of(Shape.of(PATHS), 5)
    links = Links(links.first_child[:, :-2], links.next_sibling[:, :-2], links.depth, links.width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "GROUP", 2)
        assert outputs(verify_trees(*given[:3], PATHS, given[3], rule=rule)) == together
        assert outputs(verify_trees(*given[:3], links, given[3], rule=rule)) == together


def spoil(what: str, target: Tensor, draft: Tensor, tokens: Tensor) -> None:
    """Make tree 2 of a batch unsound."""
    if what == "nan":
        target[2, 4, 1] = torch.nan
    elif what == "negative":
        draft[2, 1, 0] -= 1.0
    elif what == "total":
        target[2, 9] *= 0.9
    elif what == "token":
        tokens[2, 5] = 6
    elif what == "undrafted":
        token = tokens[2, 3]
        draft[2, 0, token] = 0
        draft[2, 0] /= draft[2, 0].sum()


MESSAGES = {
    "nan": r"target at slot 4 of tree 2\[1\] is nan",
    "negative": r"draft at slot 1 of tree 2\[0\] is -",
    "total": "target at slot 9 of tree 2 sums to 0.9",
    "token": "tree 2 has token 6 at slot 5",
    "undrafted": "tree 2 has token . at slot [123], which the draft law of its parent, over 6 tokens, cannot draw",
}


@each(what=tuple(MESSAGES), rule=trees.RULES)
def test_a_tree_that_is_not_sound_is_flagged_and_leaves_the_others_alone(what: str, rule: str) -> None:
    given = batch(drawn("tiny", 6, PATHS, 4))
    right = verify_trees(*given[:3], PATHS, given[3], rule=rule)
    spoil(what, *given[:3])
    found = verify_trees(*given[:3], PATHS, given[3], rule=rule)
    assert found.sound.tolist() == [True, True, False, True]
    assert (found.accepted[2].item(), found.token[2].item()) == (0, 0)
    assert (found.slots[2] == -1).all()
    for b in (0, 1, 3):
        assert found.tokens[b].tolist() == right.tokens[b].tolist()
        assert found.token[b] == right.token[b]
    with pytest.raises(ProblemError, match=MESSAGES[what]):
        verify_trees(*given[:3], PATHS, given[3], rule=rule, check=True)


TARGET, DRAFT, TOKENS, UNIFORMS = batch(drawn("tiny", 6, PATHS, 4))


def call(**changes: Any) -> Callable[[], object]:
    """`verify_trees` on sound trees, one argument replaced."""
    given = {"target": TARGET, "draft": DRAFT, "tokens": TOKENS, "topology": PATHS, "rng": UNIFORMS, **changes}
    return lambda: verify_trees(**given)


@each(
    case={
        "rule": (call(rule="traversal"), "rule is 'traversal'; known: nested, block, interval"),
        "sigma": (call(sigma=-1), "sigma is -1; it is between 0"),
        "slots": (call(topology=(2, 1, 1)), r"tokens are for 10 slots, and branching \(2, 1, 1\) has 7"),
        "topology": (call(topology=()), r"the topology is \(\); pass the number of children"),
        "branching": (call(topology=(3, 0, 1)), "branching is 0; pass an integer >= 1"),
        "vocabulary": (call(draft=DRAFT[:, :, 1:]), "they need laws over the same tokens"),
        "laws": (call(target=TARGET[:, 1:]), r"they need \(B, S, V\) and \(B, I, V\)"),
        "array": (call(target=TARGET.numpy()), "target is ndarray; pass a tensor of floats"),
        "tokens": (call(tokens=TOKENS.double()), "token ids are integers"),
        "root": (call(tokens=TOKENS[:, :1]), "S >= 2"),
        "uniforms": (call(rng=UNIFORMS[:, 1:]), r"need torch.float64 of shape \(4, 13, 3\)"),
        "generator": (call(rng=np.random.default_rng(0)), "take a torch.Generator"),
        "links": (
            call(topology=Links(TOKENS[:, 1:], TOKENS)),
            r"first_child is .* \(4, 9\); pass integers of the shape",
        ),
        "depth": (call(topology=Links(TOKENS, TOKENS, depth=0)), "depth is 0; pass an integer >= 1"),
        "rows": (
            call(target=TARGET[0], draft=DRAFT[0], rows=(TOKENS[:, 1:], TOKENS)),
            r"the rows of target are torch.int64 of shape \(4, 9\)",
        ),
        "device": (call(target=TARGET.to("meta")), "target is on meta, and tokens on cpu; move them to one"),
    }
)
def test_what_is_wrong_is_named(case: tuple[Callable[[], object], str]) -> None:
    wrong, message = case
    with pytest.raises(ProblemError, match=message):
        wrong()


def test_a_row_that_there_is_not_is_named() -> None:
    rows = torch.zeros_like(TOKENS), torch.zeros_like(TOKENS[:, :7])
    rows[1][1, 2] = 99
    with pytest.raises(ProblemError, match="slot 2 of tree 1 has row 99 of 1 of draft"):
        verify_trees(TARGET[0, :1], torch.full((1, 6), 1 / 6), TOKENS, PATHS, UNIFORMS, rows=rows, check=True)


TOPOLOGIES: dict[str, Any] = {"branching": PATHS, "links": None}


@each(way=WAYS, by=tuple(TOPOLOGIES), vocab=(6, 5000))
def test_nothing_waits_for_the_device(way: dict[str, Any], by: str, vocab: int) -> None:
    """The meta device has shapes and no values: to read one of them, or to let it decide on a shape, is an error."""
    target, draft = (torch.empty((2, count, vocab), device="meta") for count in (10, 7))
    tokens = torch.empty((2, 10), dtype=torch.int32, device="meta")
    uniforms = torch.empty((2, 13, 3), dtype=torch.float64, device="meta")
    topology = TOPOLOGIES[by] or Links(tokens, tokens, depth=3, width=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(majorant, "HALVINGS", 2)
        patch.setattr(majorant, "ROUNDS", 2)
        found = verify_trees(target, draft, tokens, topology, uniforms, **way)
    assert found.slots.shape == found.tokens.shape == (2, 3)
    assert found.token.shape == found.accepted.shape == found.sound.shape == (2,)
    with pytest.raises(RuntimeError, match="meta"):
        found.sound.all().item()


@pytest.mark.parametrize("way", WAYS)
def test_one_graph_without_breaks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few rounds of the same kind: all of them take minutes to trace."""
    monkeypatch.setattr(majorant, "HALVINGS", 2)
    monkeypatch.setattr(majorant, "ROUNDS", 2)
    given = batch(drawn("tiny", 4, (2, 1), 2))

    def verified(target: Tensor, draft: Tensor, tokens: Tensor, uniforms: Tensor) -> TreeVerification:
        return verify_trees(target, draft, tokens, (2, 1), uniforms, **WAYS[way])

    compiled = torch.compile(verified, fullgraph=True, backend="aot_eager")
    assert outputs(compiled(*given)) == outputs(verified(*given))


@pytest.mark.parametrize("rule", ["nested", "interval"])
def test_the_audit_passes_trees_of_one_level(rule: str) -> None:
    """They are single positions: the first token is a draft, or one that is put out in their place."""

    def first_token(p: Tensor, q: Tensor, drafts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        rows = len(p), drafts.shape[1]
        tokens = torch.nn.functional.pad(drafts, (1, 0))
        target = torch.cat((p[:, None], torch.full((*rows, p.shape[1]), 1 / p.shape[1])), dim=1)
        found = verify_trees(target.double(), q[:, None], tokens, rows[1:], generator, rule=rule)
        picked = found.accepted > 0
        return torch.where(picked, found.tokens[:, 0], found.token), torch.where(picked, found.slots[:, 0] - 1, -1)

    rng = np.random.default_rng(0)
    instances = [kind(rng, 6) for kind in (laws.zeros(laws.model, 0.3, 0.8), laws.model)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "BINS", 16)
        audit = otspec.audit(first_token, n=3, instances=instances, resolution=0.1)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert audit.outcome.draws > 2000
