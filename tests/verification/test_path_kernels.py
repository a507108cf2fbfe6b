"""Block verification by Triton's kernels, interpreted on the CPU: what torch puts out for the same uniforms."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.engines.chains import ChainLaws, Chains, verify_chains, verify_chains_in_rows  # noqa: E402
from otspec.verification.device import verify_trees  # noqa: E402
from otspec.verification.rules.groups.groups import group, grouped  # noqa: E402
from otspec.verification.rules.groups.launch import check_by_groups  # noqa: E402
from otspec.verification.rules.nested import grid  # noqa: E402
from otspec.verification.tensors import majorant  # noqa: E402
from otspec.verification.trees.layout import branching_layout  # noqa: E402
from tests import laws  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.test_device import points, tensors, tiny_tails  # noqa: E402
from tests.verification.tree_batches import batch, drawn, outputs  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")

KINDS: dict[str, laws.Kind] = {
    "model": laws.model,
    "zeros": laws.zeros(laws.model, 0.3),
    "same": laws.same(laws.model),
    "ties": laws.tied_ratios,
    "tiny tails": tiny_tails,
    "points": points,
}


def chains(name: str, rows: int, length: int, vocab: int) -> tuple[Any, ...]:
    """Laws of chains, tokens drawn from them, and uniforms."""
    rng = np.random.default_rng([rows, length, vocab])
    pairs = [[KINDS[name](rng, vocab) for _ in range(length + 1)] for _ in range(rows)]
    p, q = (np.array([[pair[which] for pair in row] for row in pairs]) for which in (0, 1))
    tokens = np.array([[rng.choice(vocab, p=law / law.sum()) for law in row[:-1]] for row in q], dtype=np.int64)
    return tensors(p, q[:, :-1], tokens, rng.random((rows, length + 1)))


def triples(found: Chains) -> list[tuple[int, int, bool]]:
    return list(zip(*(part.tolist() for part in found), strict=True))


@each(name=list(KINDS), shape=((12, 1, 5), (12, 3, 5), (4, 2, 1500)), dtype=(torch.float64, torch.float32))
def test_chains_are_verified_as_by_torch(name: str, shape: tuple[int, int, int], dtype: Any) -> None:
    p, q, tokens, uniforms = chains(name, *shape)
    given = p.to(dtype), q.to(dtype), tokens, uniforms
    assert triples(verify_chains(*given, kernels=True)) == triples(verify_chains(*given, kernels=False))


@each(length=(15, 18))
def test_long_chains_are_verified_as_by_torch(length: int) -> None:
    """More levels than are settled at once, or as many; after a token that is none nothing is left of equal laws."""
    p, q, tokens, uniforms = chains("same", 4, length, 5)
    for row, end in enumerate((length - 1, 3, 0)):
        tokens[row, end] = -1
    found, expected = (triples(verify_chains(p, q, tokens, uniforms, kernels=way)) for way in (True, False))
    assert found == expected
    assert [accepted for accepted, _, _ in found] == [length - 1, 3, 0, length]


def test_laws_of_many_chunks_are_verified_as_by_torch() -> None:
    """More chunks than are added up at once."""
    given = chains("model", 3, 2, 9000)
    found, expected = (triples(verify_chains(*given, kernels=way)) for way in (True, False))
    assert found == expected
    assert {accepted for accepted, _, _ in found} == {0, 2}


def test_rows_that_are_not_sound_and_tokens_that_are_none() -> None:
    p, q, tokens, uniforms = chains("model", 6, 3, 7)
    p[1, 2, 0], tokens[2, 1], q[3, 0, 0], p[4, 0] = torch.nan, -1, -0.1, 0.0
    found, expected = (triples(verify_chains(p, q, tokens, uniforms, kernels=way)) for way in (True, False))
    assert found == expected
    assert [sound for _, _, sound in found] == [True, False, True, False, False, True]


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
    given = ChainLaws(logits, rows, draft if drawn else None, rows[:, :3], logits=True)
    found, expected = (
        triples(verify_chains_in_rows(given, tokens, lengths, uniforms, kernels=way)) for way in (True, False)
    )
    assert found == expected
    assert sum(accepted for accepted, _, _ in found) > 1


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels on few bins, for the interpreter's sake; test_label_kernels.py has them on fine grids."""
    monkeypatch.setattr(grid, "BINS", 8)
    monkeypatch.setattr(majorant, "HALVINGS", 1)


@pytest.mark.usefixtures("coarse")
@each(rule=("block", "nested"), branching=((2, 1), (1, 2)), vocab=(40, 4200))
def test_trees_are_verified_as_by_torch(rule: str, branching: tuple[int, ...], vocab: int) -> None:
    """Labels on large vocabularies, whose tokens are put into groups by the kernels; by torch otherwise."""
    target, draft, tokens, uniforms = batch(drawn("tiny", vocab, branching, 3))
    p, q = target.float(), draft.float()
    found, expected = (
        outputs(verify_trees(p, q, tokens, branching, uniforms, rule=rule, kernels=way)) for way in (True, False)
    )
    assert found == expected


@pytest.mark.usefixtures("coarse")
@each(rule=("block", "nested"))
def test_trees_that_are_not_sound_are_flagged_and_leave_the_others_alone(rule: str) -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 4200, (2, 1), 4))
    right = verify_trees(target, draft, tokens, (2, 1), uniforms, rule=rule, kernels=True)
    target[1, 2, 0], draft[2, 1, 5], tokens[3, 2] = torch.nan, -0.5, 9999
    found = verify_trees(target, draft, tokens, (2, 1), uniforms, rule=rule, kernels=True)
    assert found.sound.tolist() == [True, False, False, False]
    assert all(torch.equal(mine[0], theirs[0]) for mine, theirs in zip(found, right, strict=True))
    assert found.accepted[1:].tolist() == found.token[1:].tolist() == [0, 0, 0]


@each(dtype=(torch.float64, torch.float32, torch.bfloat16), vocab=(700, 9000))
def test_groups_and_totals_of_laws_are_those_of_torch(dtype: Any, vocab: int) -> None:
    """Of laws as they came, with tails, zeros and points; a drift of the totals is left to what reads them."""
    rng = np.random.default_rng(vocab)
    logits = torch.from_numpy(np.stack([9 * rng.standard_normal(vocab), 60 * rng.standard_normal(vocab)]))
    p, q = logits.softmax(dim=1), (logits + torch.from_numpy(rng.standard_normal((2, vocab)))).softmax(dim=1)
    p[0, :40], q[0, 20:60] = 0, 0
    point = torch.eye(vocab, dtype=p.dtype)[:1]
    target, draft = torch.cat((p, point, point.roll(1, 1))).to(dtype), torch.cat((q, point, point)).to(dtype)
    target, draft = 1.003 * target, 0.998 * draft
    layout = branching_layout((1,), 4, target.device)
    rows = torch.arange(4)[:, None].expand(4, 2).contiguous()
    mine, theirs, found = check_by_groups(target, draft, rows, rows, layout, (0.02, 0.02))
    expected = grouped(target, draft, group(target, draft))
    inner = (layout.children > 0).flatten()
    drawn = mine.sound & theirs.sound & (draft.double().sum(dim=1) > 0)
    for counted, right in zip(found, expected, strict=True):
        assert torch.equal(counted[inner][drawn], right[drawn])
    for law, read in ((target, mine), (draft, theirs)):
        total = law.double().sum(dim=1)
        assert torch.equal(read.sound, (total - 1).abs() <= 0.02)
        assert torch.allclose(read.read.scale[read.sound], 1 / total[read.sound], rtol=1e-11, atol=0)


@each(wrong=(torch.nan, -1e-9, -0.5, torch.inf, -torch.inf, 4.0, 1e30))
def test_laws_that_are_none_are_told_by_their_groups(wrong: float) -> None:
    """Also where the units of the total run over and come round to those of a law."""
    law = torch.full((3, 700), 1 / 700, dtype=torch.float32)
    law[1, 99] = wrong
    law[2, :17] = 1.0
    rows = torch.arange(3)[:, None].expand(3, 2).contiguous()
    layout = branching_layout((1,), 3, law.device)
    for target, draft in ((law, law.flip(1)), (law.double(), law.double())):
        with np.errstate(all="ignore"):  # what is made of such numbers, nobody reads
            mine, theirs, groups = check_by_groups(target, draft, rows, rows, layout, (1e-3, 1e-3))
        assert mine.sound.tolist() == theirs.sound.tolist() == [True, False, False]
        assert (groups.size[2::2].sum(dim=1) == 2**62).all()  # a law, in place of one


@pytest.mark.usefixtures("coarse")
@each(rule=("block", "nested", "interval"))
def test_rows_may_be_views(rule: str) -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 600, (2, 1), 3))
    rows = tuple(torch.arange(3 * laws.shape[1]).view(3, -1) for laws in (target, draft))
    laws = target.flatten(0, 1), draft.flatten(0, 1)
    strided = tuple(row.t().contiguous().t() for row in rows)
    found, expected = (
        verify_trees(*laws, own, (2, 1), uniforms, rows=where, rule=rule, kernels=True)
        for own, where in ((tokens.t().contiguous().t(), strided), (tokens, rows))
    )
    assert outputs(found) == outputs(expected)
