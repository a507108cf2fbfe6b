"""Rows by buckets by Triton's kernels: what torch puts out, and every number of a solution to the last bit."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec import ProblemError  # noqa: E402
from otspec.verification.device import verify_logits, verify_rows  # noqa: E402
from otspec.verification.rules.buckets import buckets, chunk_kernels, cut, solving_kernels  # noqa: E402
from otspec.verification.rules.buckets.buckets import bucket_of, count  # noqa: E402
from otspec.verification.rules.buckets.cut import Problems, workspace_for  # noqa: E402
from otspec.verification.rules.token_wise import walk_kernels  # noqa: E402
from otspec.verification.tensors.measures import Counts  # noqa: E402
from tests import laws  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.kernels.setting import interpreted  # noqa: E402
from tests.verification.row_batches import (  # noqa: E402
    KINDS,
    MESSAGES,
    VALID,
    batch,
    pairs_of,
    spoiled,
    straddling,
    tensors,
)

pytestmark = interpreted

SEVERAL = ("dirichlet", "zeros", "tiny tails", "points")
"""Of the kinds, whose solutions are all compared number by number."""


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes as long for one number as for a thousand, so all buckets are looked at together."""
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(cut, name, 1 << 14)


@pytest.mark.usefixtures("together")
@each(case=[("zeros", torch.float64), ("points", torch.float64), ("model", torch.float32), ("model", torch.bfloat16)])
def test_triton_puts_out_the_tokens_of_torch(case: tuple[str, Any]) -> None:
    name, dtype = case
    rng = np.random.default_rng(3)
    p, q, drafts, uniforms = tensors(*batch(KINDS[name], rng, 1100, 3, 2))
    p, q = p.to(dtype), q.to(dtype)
    drafts = torch.where(q.gather(1, drafts) > 0, drafts, q.argmax(dim=1, keepdim=True))
    assert pairs_of(verify_rows(p, q, drafts, uniforms, by="triton")) == pairs_of(
        verify_rows(p, q, drafts, uniforms, by="buckets")
    )


def check_the_problems_of_the_buckets(name: str, counts: tuple[int, ...], vocab: int = 300) -> None:
    """Every number of the solutions in Triton is that of torch; the first problem of the list is of an earlier wave."""
    rows, most = len(counts), max(counts)
    p, q = tensors(*batch(KINDS[name], np.random.default_rng([vocab, *counts]), vocab, most, rows)[:2])
    masses = buckets.histogram(p, q, bucket_of(p, q, most), most)
    expected = buckets.solve_buckets(*masses, Counts(torch.tensor(counts)[:, None], most))

    listed = torch.tensor([0, *counts])
    problems = Problems(listed[None], torch.tensor([rows + 1]), most)
    work = workspace_for(rows + 1, most, p.device)  # one more than are listed
    work.tables.zero_()
    for plane, mass in zip((chunk_kernels.TARGET, chunk_kernels.SIZE), masses, strict=True):
        work.longs[:rows, plane.value] = mass
    factor = torch.full((rows + 2, count(most) + 1), torch.nan, dtype=torch.float64)
    solving_kernels.solve(work, problems, listed, 1, factor)
    assert torch.equal(factor[1:-1], expected.factor)
    assert factor[[0, -1]].isnan().all()
    places, columns = expected.exchanges, count(most) + 1
    for mine, theirs in (("DENSITY", places.density), ("THRESHOLD", places.threshold)):
        assert torch.equal(work.floats[:rows, getattr(chunk_kernels, mine).value], theirs), mine
    assert torch.equal(work.longs[:rows, chunk_kernels.UNITS.value], places.size)
    chunk = torch.arange(columns) // cut.TILE
    for name in ("wanted", "served", "given", "alone", "heads"):
        plane = getattr(chunk_kernels, name.upper()).value
        found = work.longs[:rows, plane] + work.tables[:rows, plane][:, chunk]
        assert torch.equal(found, getattr(places, name)), name


@pytest.mark.usefixtures("together")
@each(case=[*((name, (6, 2)) for name in SEVERAL), ("close", (1, 3)), ("long tail", (4,))])
def test_triton_solves_the_buckets_as_torch_does(case: tuple[str, tuple[int, ...]]) -> None:
    check_the_problems_of_the_buckets(*case)


def test_what_one_chunk_leaves_to_the_next() -> None:
    check_the_problems_of_the_buckets("tiny tails", (3, 2), vocab=2000)


@pytest.mark.usefixtures("coarse")
def test_adversarial_rows_are_picked_from_as_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tokens share few buckets here, so that most drafts enter an exchange: thirty picks for one solution."""
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(cut, name, 32)  # of 50 buckets
    rng = np.random.default_rng(0)
    p, q = straddling(3, "everywhere", vocab=600)
    rows = 10
    target, draft = (torch.from_numpy(law).expand(rows, -1).contiguous() for law in (p, q))
    drafts = torch.from_numpy(rng.choice(601, size=(rows, 3), p=q))
    given = (target, draft, drafts, torch.from_numpy(rng.random((rows, 4, 3))))
    assert pairs_of(verify_rows(*given, by="triton")) == pairs_of(verify_rows(*given, by="buckets"))


@pytest.mark.usefixtures("coarse")
def test_triton_works_on_large_batches_in_waves_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tensors(*batch(laws.model, np.random.default_rng(0), 30, 2, 5))
    together = pairs_of(verify_rows(*made, by="triton"))
    monkeypatch.setattr(cut, "WAVE", 2)
    assert pairs_of(verify_rows(*made, by="triton")) == together
    monkeypatch.setattr(walk_kernels, "GROUP", 3)
    assert pairs_of(verify_rows(*made, by="triton")) == together


@pytest.mark.usefixtures("coarse")
@each(temperature=(0.0, 0.6))
def test_triton_reads_logits(temperature: float) -> None:
    rng = np.random.default_rng(7)
    logits = torch.from_numpy(3 * rng.laplace(size=(2, 3, 1100))).float()
    logits[:, :, :3] = -torch.inf
    drafts = logits[1].topk(2).indices[:, [0, 0]]
    given = (*logits, drafts, torch.from_numpy(rng.random((3, 3, 3))))
    found = verify_logits(*given, temperature=temperature, by="triton")
    assert pairs_of(found) == pairs_of(verify_logits(*given, temperature=temperature, by="buckets"))
    logits[0, 1, 7] = torch.nan
    assert verify_logits(*given, temperature=temperature, by="triton").valid.tolist() == [True, False, True]


@pytest.mark.usefixtures("coarse")
def test_triton_flags_rows_that_are_not_valid() -> None:
    valid = tensors(*VALID)
    right, count = verify_rows(*valid, by="triton"), len(valid[0])
    wrong = [[part[3:4] for part in spoiled(name)] for name in MESSAGES]
    among = [torch.cat((part[:2], *spoilt, part[2:])) for part, *spoilt in zip(valid, *wrong, strict=True)]
    found = verify_rows(*among, by="triton")
    assert found.valid.tolist() == [True, True, *len(wrong) * [False], *(count - 2) * [True]]
    for mine, theirs in ((found.tokens, right.tokens), (found.accepted, right.accepted)):
        assert torch.equal(mine[found.valid], theirs)


@pytest.mark.usefixtures("coarse")
def test_what_is_wrong_is_told_of_rows_that_triton_flags() -> None:
    with pytest.raises(ProblemError, match=MESSAGES["nan"]):
        verify_rows(*spoiled("nan"), by="triton", check=True)
