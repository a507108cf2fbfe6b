"""Every rule for trees and rows by Triton's kernels, interpreted on the CPU: what torch puts out, slot for slot."""

from typing import Any

import numpy as np
import pytest
import torch

from otspec import ProblemError
from otspec.verification.device import Links, TreeVerification, trees, verify_logits, verify_rows, verify_trees
from otspec.verification.rules.buckets import cut
from otspec.verification.rules.token_wise import stages, walk_kernels
from otspec.verification.tensors.groups import group, group_rows
from otspec.verification.tensors.rows import DRIFT
from otspec.verification.trees.group_kernels import check_by_groups
from otspec.verification.trees.layout import branching_layout, linked_layout
from tests import laws
from tests.each import check_each, each
from tests.verification.kernels.setting import CASES, Case, cut_into, interpreted, scattered_links
from tests.verification.row_batches import KINDS, MESSAGES, VALID, pairs_of, spoiled, straddling, tensors
from tests.verification.row_batches import batch as row_batch
from tests.verification.tree_batches import batch, drawn, outputs

pytestmark = interpreted
coarse = pytest.mark.usefixtures("coarse")

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "block": ({"rule": "block", "kernels": True}, {"rule": "block", "kernels": False}),
    "nested": ({"rule": "nested", "kernels": True}, {"rule": "nested", "kernels": False}),
    "no look-ahead": (
        {"rule": "nested", "sigma": 0.0, "kernels": True},
        {"rule": "nested", "sigma": 0.0, "kernels": False},
    ),
    "interval": ({"rule": "interval", "by": "triton"}, {"rule": "interval", "by": "buckets"}),
}
"""By kernels, and by torch."""
PART = {"block": (0, 2), "nested": (0, 3), "no look-ahead": (1, 4), "interval": (1, 2)}
"""Of the cases: every so many from one on.  Labels are compared number by number in `test_labels`."""


def check_they_agree(way: str, inputs: Any, topology: Any, **settings: Any) -> TreeVerification:
    target, draft, tokens, uniforms = inputs
    found, expected = (
        verify_trees(target, draft, tokens, topology, uniforms, logprobs=True, **one, **settings) for one in WAYS[way]
    )
    assert all(map(torch.equal, found.outputs, expected.outputs))
    torch.testing.assert_close(found.logprobs, expected.logprobs, equal_nan=True)
    return found


@coarse
@pytest.mark.parametrize("way", WAYS)
def test_kernels_put_out_what_torch_does(way: str) -> None:
    def check(case: Case) -> None:
        assert check_they_agree(way, case.batch(), case.branching).valid.all()

    first, step = PART[way]
    check_each(check, case=CASES[first::step])


@coarse
@pytest.mark.parametrize("way", ["block", "nested", "interval"])
def test_trees_that_are_not_valid_are_flagged_and_leave_the_others_alone(way: str) -> None:
    vocab = 7
    inputs = batch(drawn("tiny", vocab, (2, 1), 7))
    right = check_they_agree(way, tuple(part[:1] for part in inputs), (2, 1))
    target, draft, tokens, _ = inputs
    target[1, 2, 0], draft[2, 1, 5], tokens[3, 2], tokens[4, 1], target[5, 4] = torch.nan, -0.5, 9999, -1, 0.5
    draft[6, 0] = torch.where(torch.arange(vocab) == tokens[6, 1], 0, 1 / (vocab - 1))
    found = check_they_agree(way, inputs, (2, 1))
    assert found.valid.tolist() == [True] + 6 * [False]
    assert all(torch.equal(mine[0], theirs[0]) for mine, theirs in zip(found.outputs, right.outputs, strict=True))
    assert not found.accepted[1:].any()
    assert not found.token[1:].any()
    rows = torch.arange(5)[None], torch.arange(3)[None]
    for which, row in ((0, 5), (1, -1)):
        rows[which][0, 1], kept = row, rows[which][0, 1].item()
        flat = (target[0], draft[0], tokens[:1], inputs[3][:1])
        assert not check_they_agree(way, flat, (2, 1), rows=rows).valid.any()
        rows[which][0, 1] = kept


@coarse
@pytest.mark.parametrize("way", ["nested", "interval"])
def test_rows_may_be_views_and_kernels_choose_the_way(way: str) -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 7, (2, 1), 3))
    rows: Any = tuple(torch.arange(3 * laws.shape[1]).view(3, -1) for laws in (target, draft))
    laws = target.flatten(0, 1), draft.flatten(0, 1)
    strided: Any = tuple(row.t().contiguous().t() for row in rows)
    found, expected = (
        verify_trees(*laws, own, (2, 1), uniforms, rows=where, **WAYS[way][0])
        for own, where in ((tokens.t().contiguous().t(), strided), (tokens, rows))
    )
    assert outputs(found) == outputs(expected)
    request = {name: value for name, value in WAYS[way][0].items() if name != "by"} | {"kernels": True}
    assert outputs(verify_trees(target, draft, tokens, (2, 1), uniforms, **request)) == outputs(found)


# --- token by token


@coarse
@each(case=(((2, 2), 1, 3), ((1, 2, 1), 2, 40)))
def test_stages_waves_and_chunks_change_nothing(case: tuple[tuple[int, ...], int, int]) -> None:
    branching, stage, vocab = case
    inputs = batch(drawn("tiny", vocab, branching, 3, seed=1))
    together = check_they_agree("interval", inputs, branching)
    assert together.accepted.max() > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "STAGE", stage)
        patch.setattr(cut, "WAVE", 2)
        cut_into(patch, 16)
        patch.setattr(trees, "GROUP", 2)
        apart = verify_trees(*inputs[:3], branching, inputs[3], rule="interval", by="triton")
    assert all(map(torch.equal, apart.outputs, together.outputs))  # no log-probabilities were asked for


def by_text(rng: np.random.Generator, links: Links, vocab: int) -> tuple[Any, Any]:
    """Trees whose slots have laws by their texts, in rows that they share; rows of slots without children are none."""
    layout = linked_layout(links)
    shape = layout.parent.shape
    target, draft = rng.dirichlet(np.ones(vocab), (2, layout.parent.numel()))
    tokens, row = np.zeros(shape, dtype=np.int64), np.full(shape, -1)
    rows: dict[tuple[int, ...], int] = {}
    texts: dict[tuple[int, int], tuple[int, ...]] = {}
    for tree, slot in np.argwhere(layout.depth.numpy() >= 0).tolist():
        texts[tree, slot] = ()
        if slot:
            above = int(layout.parent[tree, slot])
            tokens[tree, slot] = rng.choice(vocab, p=draft[row[tree, above]])
            texts[tree, slot] = (*texts[tree, above], int(tokens[tree, slot]))
        row[tree, slot] = rows.setdefault(texts[tree, slot], len(rows))
    inner = np.where(layout.children.numpy() > 0, row, -1)
    uniforms = rng.random((shape[0], shape[1] + layout.length, 3))
    inputs = tensors(target, draft, tokens, uniforms)
    return inputs, tensors(row, inner)


@coarse
def test_ragged_trees_that_share_laws() -> None:
    rng = np.random.default_rng(5)
    links = scattered_links(rng, 3, 9)
    inputs, rows = by_text(rng, links, 2)
    found = check_they_agree("interval", inputs, links, rows=rows)
    assert found.valid.all()
    assert found.accepted.max() > 1


# --- tokens in groups


@pytest.fixture
def drifting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals may be off by so much, whatever the type."""
    for dtype in DRIFT:
        monkeypatch.setitem(DRIFT, dtype, 0.02)


@pytest.mark.usefixtures("drifting")
@each(case=((torch.float64, 700), (torch.float32, 9000), (torch.bfloat16, 700)))
def test_groups_and_totals_of_laws_are_those_of_torch(case: tuple[Any, int]) -> None:
    """Of laws as they came, with tails, zeros and points; a drift of the totals is left to what reads them."""
    dtype, vocab = case
    rng = np.random.default_rng(vocab)
    logits = torch.from_numpy(np.stack([9 * rng.standard_normal(vocab), 60 * rng.standard_normal(vocab)]))
    p, q = logits.softmax(dim=1), (logits + torch.from_numpy(rng.standard_normal((2, vocab)))).softmax(dim=1)
    p[0, :40], q[0, 20:60] = 0, 0
    point = torch.eye(vocab, dtype=p.dtype)[:1]
    target, draft = torch.cat((p, point, point.roll(1, 1))).to(dtype), torch.cat((q, point, point)).to(dtype)
    target, draft = 1.003 * target, 0.998 * draft
    layout = branching_layout((1,), 4, target.device)
    rows = torch.arange(4)[:, None].expand(4, 2).contiguous()
    mine, theirs, found = check_by_groups(target, draft, rows, rows, layout)
    expected = group_rows(target, draft, group(target, draft))
    inner = (layout.children > 0).flatten()
    drawn = mine.valid & theirs.valid & (draft.double().sum(dim=1) > 0)
    for counted, right in zip(found, expected, strict=True):
        assert torch.equal(counted[inner][drawn], right[drawn])
    for law, read in ((target, mine), (draft, theirs)):
        total = law.double().sum(dim=1)
        assert torch.equal(read.valid, (total - 1).abs() <= 0.02)
        assert torch.allclose(read.read.scale[read.valid], 1 / total[read.valid], rtol=1e-11, atol=0)


def test_laws_that_are_none_are_told_by_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the units of the total run over and come round to those of a law."""
    for dtype in DRIFT:
        monkeypatch.setitem(DRIFT, dtype, 1e-3)
    wrong = torch.tensor([torch.nan, -1e-9, -0.5, torch.inf, -torch.inf, 4.0, 1e30])
    count = len(wrong) + 2
    law = torch.full((count, 300), 1 / 300, dtype=torch.float32)
    law[1:-1, 99] = wrong
    law[-1, :17] = 1.0
    rows = torch.arange(count)[:, None].expand(count, 2).contiguous()
    layout = branching_layout((1,), count, law.device)
    for target, draft in ((law, law.flip(1)), (law.double(), law.double())):
        with np.errstate(all="ignore"):  # what is made of such numbers, nobody reads
            mine, theirs, groups = check_by_groups(target, draft, rows, rows, layout)
        assert mine.valid.tolist() == theirs.valid.tolist() == [True] + (count - 1) * [False]
        assert (groups.size[2::2].sum(dim=1) == 2**62).all()  # a law, in place of one


# --- rows by buckets


def check_rows(*inputs: Any) -> list[tuple[int, int]]:
    """Rows of tensors by kernels and by torch."""
    found = pairs_of(verify_rows(*inputs, by="triton"))
    assert found == pairs_of(verify_rows(*inputs, by="buckets"))
    return found


@coarse
def test_what_one_chunk_leaves_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of adversarial rows many tokens share few buckets, so that most drafts enter an exchange."""
    cut_into(monkeypatch, 32)  # of 50 buckets
    rng, rows = np.random.default_rng(0), 10
    p, q = straddling(3, "everywhere", vocab=600)
    target, draft = (torch.from_numpy(law).expand(rows, -1).contiguous() for law in (p, q))
    drafts = torch.from_numpy(rng.choice(601, size=(rows, 3), p=q))
    check_rows(target, draft, drafts, torch.from_numpy(rng.random((rows, 4, 3))))
    check_rows(*tensors(*row_batch(KINDS["tiny tails"], rng, 2000, 3, 2)))


@coarse
@each(case=[("zeros", torch.float64), ("points", torch.float64), ("model", torch.float32), ("model", torch.bfloat16)])
def test_triton_puts_out_the_tokens_of_torch(case: tuple[str, Any]) -> None:
    name, dtype = case
    p, q, drafts, uniforms = tensors(*row_batch(KINDS[name], np.random.default_rng(3), 1100, 3, 2))
    p, q = p.to(dtype), q.to(dtype)
    check_rows(p, q, torch.where(q.gather(1, drafts) > 0, drafts, q.argmax(dim=1, keepdim=True)), uniforms)


@coarse
def test_triton_works_on_large_batches_in_waves_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tensors(*row_batch(laws.model, np.random.default_rng(0), 30, 2, 5))
    together = check_rows(*made)
    monkeypatch.setattr(cut, "WAVE", 2)
    monkeypatch.setattr(walk_kernels, "GROUP", 3)
    assert pairs_of(verify_rows(*made, by="triton")) == together


@coarse
@each(temperature=(0.0, 0.6))
def test_triton_reads_logits(temperature: float) -> None:
    rng = np.random.default_rng(7)
    logits = torch.from_numpy(3 * rng.laplace(size=(2, 3, 1100))).float()
    logits[:, :, :3] = -torch.inf
    drafts = logits[1].topk(2).indices[:, [0, 0]]
    inputs = (*logits, drafts, torch.from_numpy(rng.random((3, 3, 3))))
    expected = pairs_of(verify_logits(*inputs, temperature=temperature, by="buckets"))
    assert pairs_of(verify_logits(*inputs, temperature=temperature, by="triton")) == expected
    logits[0, 1, 7] = torch.nan
    assert verify_logits(*inputs, temperature=temperature, by="triton").valid.tolist() == [True, False, True]


@coarse
def test_triton_flags_rows_that_are_not_valid() -> None:
    valid = tensors(*VALID)
    right, count = verify_rows(*valid, by="triton"), len(valid[0])
    wrong = [[part[3:4] for part in spoiled(name)] for name in MESSAGES]
    among = [torch.cat((part[:2], *spoilt, part[2:])) for part, *spoilt in zip(valid, *wrong, strict=True)]
    found = verify_rows(*among, by="triton")
    assert found.valid.tolist() == [True, True, *len(wrong) * [False], *(count - 2) * [True]]
    for mine, theirs in ((found.tokens, right.tokens), (found.accepted, right.accepted)):
        assert torch.equal(mine[found.valid], theirs)
    with pytest.raises(ProblemError, match=MESSAGES["nan"]):
        verify_rows(*spoiled("nan"), by="triton", check=True)
