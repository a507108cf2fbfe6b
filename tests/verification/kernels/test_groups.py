"""Tokens in groups by Triton's kernels: the sums of torch to the last bit, and laws that are told by them."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.verification.tensors import reading  # noqa: E402
from otspec.verification.tensors.groups import group, grouped  # noqa: E402
from otspec.verification.trees.group_kernels import check_by_groups  # noqa: E402
from otspec.verification.trees.layout import branching_layout  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.kernels.setting import interpreted  # noqa: E402

pytestmark = interpreted


@pytest.fixture
def drifting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals may be off by so much, whatever the type."""
    for dtype in reading.DRIFT:
        monkeypatch.setitem(reading.DRIFT, dtype, 0.02)


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
    expected = grouped(target, draft, group(target, draft))
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
    for dtype in reading.DRIFT:
        monkeypatch.setitem(reading.DRIFT, dtype, 1e-3)
    wrong = torch.tensor([torch.nan, -1e-9, -0.5, torch.inf, -torch.inf, 4.0, 1e30])
    count = len(wrong) + 2
    law = torch.full((count, 700), 1 / 700, dtype=torch.float32)
    law[1:-1, 99] = wrong
    law[-1, :17] = 1.0
    rows = torch.arange(count)[:, None].expand(count, 2).contiguous()
    layout = branching_layout((1,), count, law.device)
    for target, draft in ((law, law.flip(1)), (law.double(), law.double())):
        with np.errstate(all="ignore"):  # what is made of such numbers, nobody reads
            mine, theirs, groups = check_by_groups(target, draft, rows, rows, layout)
        assert mine.valid.tolist() == theirs.valid.tolist() == [True] + (count - 1) * [False]
        assert (groups.size[2::2].sum(dim=1) == 2**62).all()  # a law, in place of one
