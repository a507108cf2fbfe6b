"""The rule by buckets: its exact reference against its own statement, torch and Triton against the reference."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import otspec
from otspec import IID, Problem, ProblemError
from otspec.extras import installed
from otspec.verification.device import RowVerification, verify_logits, verify_rows
from otspec.verification.reference import buckets as bucket_reference
from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.buckets import launch as by_bucket_kernels
from otspec.verification.rules.buckets.buckets import AIMS, BITS, LADDER, acceptance, bucket_of, count, slopes_of
from otspec.verification.rules.token_wise import launch as by_token_kernels
from otspec.verification.tensors.measures import Counts
from tests import laws
from tests.each import each
from tests.oracles import Floats
from tests.verification.test_device import KINDS, MESSAGES, SOUND, batch, pairs_of, spoiled, tensors

needs_triton = pytest.mark.skipif(not installed("triton"), reason="triton is not installed")


def exact(law: Floats) -> list[Fraction]:
    values = [Fraction(float(value)) for value in law]
    return [value / sum(values) for value in values]


@each(name=list(KINDS), vocab=(1, 2, 6, 30), n=(1, 2, 3))
def test_the_reference_picks_its_proposal_and_keeps_places_whole(name: str, vocab: int, n: int) -> None:
    p, q = (exact(law) for law in KINDS[name](np.random.default_rng([vocab, n]), vocab))
    solution = bucket_reference.solve(p, q, n)
    assert sum(place.g for place in solution.tokens) == 1
    for place in solution.tokens:
        assert all(stake > 0 for stake in place.stakes.values())
        assert sum(place.stakes.values()) <= place.q
        owned = (place.q - sum(place.stakes.values())) * place.density
        for number, stake in place.stakes.items():
            members = [solution.tokens[rank] for rank in solution.lotteries[number]]
            held = sum(member.stakes[number] for member in members)
            owned += stake * sum(member.stakes[number] * member.density for member in members) / held
        assert owned == place.g
    # It attains the optimum of the laws of the buckets.
    outside = 1 - sum(place.p for place in solution.tokens)
    problem = Problem(
        np.array([float(place.p) for place in solution.tokens] + [float(outside)]),
        IID(np.array([float(place.q) for place in solution.tokens] + [0.0]), n),
    )
    assert float(sum(min(place.p, place.g) for place in solution.tokens)) == pytest.approx(
        otspec.optimum(problem).acceptance, abs=1e-12
    )


@each(name=list(KINDS), vocab=(1, 2, 6, 40), n=(1, 2, 3, 5))
def test_torch_puts_out_the_tokens_of_the_reference(name: str, vocab: int, n: int) -> None:
    made = batch(KINDS[name], np.random.default_rng([vocab, n]), vocab, n, 6)
    rows = zip(*(array.tolist() for array in made), strict=True)
    assert pairs_of(verify_rows(*tensors(*made), by="buckets")) == [
        tuple(bucket_reference.verify(*row)) for row in rows
    ]


def test_buckets_ascend_with_the_ratio() -> None:
    ratios = np.concatenate(([0.0], np.geomspace(1e-12, 1e6, 4001), [1.0, np.nextafter(1.0, 0), 2.0, 4.0, np.inf]))
    ratios.sort()
    q = np.full(ratios.size, 0.5)
    q[-1] = 1e-320  # p/q overflows
    p = np.append(ratios[:-1] * 0.5, 1.0)
    target, draft = tensors(p, q)
    for n in (1, 2, 3, 4, 5, 9):
        found = bucket_of(target, draft, n).tolist()
        assert found == sorted(found)
        assert found[0] == 0
        assert found[-1] == count(n) - 1
        assert (
            found[:-1]
            == [bucket_reference.bucket_of(Fraction(a) / Fraction(b), n) for a, b in zip(p, q, strict=True)][:-1]
        )
    assert bucket_of(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.0]), 2).tolist() == [count(2)] * 2
    assert [float(slope) for slope in bucket_reference.LADDER] == list(LADDER)
    assert len(AIMS) == len(LADDER) + 1


def straddling(n: int, family: str, vocab: int = 20_000) -> tuple[Floats, Floats]:
    """Laws whose p/q lie at both ends of every bucket, half of the tokens at each, with slopes of 1."""
    step = 2.0**-BITS
    at = (np.arange(vocab) + 0.5) / vocab
    ratio = {"everywhere": n * at ** (n - 1), "one bucket": np.ones(vocab), "rare": np.full(vocab, 0.01)}[family]
    steps = step * 2.0 ** np.floor(np.log2(np.maximum(ratio, 1)))
    ratio = (np.floor(ratio / steps) + 0.5 + 0.49 * (-1.0) ** np.arange(vocab)) * steps
    p, q = np.append(ratio / vocab, 0.0), np.append(np.full(vocab, 1 / vocab), 0.0)
    if family == "rare":
        p[-1] = 1 - p.sum()
    return laws.normalised(p), q


@each(n=(1, 2, 3, 4, 8), family=("everywhere", "one bucket", "rare"))
def test_adversarial_rows_cost_less_than_the_bound(n: int, family: str) -> None:
    p, q = straddling(n, family)
    best = otspec.optimum(Problem(p, IID(q, n))).acceptance
    target, draft = tensors(p[None], q[None])
    found = acceptance(target, draft, n).item()
    assert (best - found) / best < 1e-4
    assert found <= best + 1e-11
    if (n, family) == (2, "everywhere"):  # the row does what it is made for
        assert best - found > 2e-5


@each(name=list(KINDS), n=(1, 3, 8))
def test_models_cost_next_to_nothing(name: str, n: int) -> None:
    p, q, _, _ = batch(KINDS[name], np.random.default_rng(n), 400, n, 4)
    best = [otspec.optimum(Problem(*pair)).acceptance for pair in ((a, IID(b, n)) for a, b in zip(p, q, strict=True))]
    # Where all p/q are near 1, so are all slopes.
    target, draft = tensors(p, q)
    np.testing.assert_allclose(acceptance(target, draft, n), np.array(best), atol=3e-5 if name == "close" else 2e-6)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton on the CPU: its decorators look at the environment when the kernels are first imported.

    The interpreter takes as long for one number as for a thousand, so all buckets are looked at together.
    """
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(by_bucket_kernels, name, 1 << 14)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton on the CPU with few buckets, where it does not matter how many there are."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(buckets, "BITS", 4)
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(by_bucket_kernels, name, 64)


@needs_triton
@pytest.mark.usefixtures("interpreted")
@each(name=list(KINDS), dtype=(torch.float64, torch.float32, torch.bfloat16))
def test_triton_puts_out_the_tokens_of_torch(name: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    p, q, drafts, uniforms = tensors(*batch(KINDS[name], rng, 1100, 3, 2))
    p, q = p.to(dtype), q.to(dtype)
    drafts = torch.where(q.gather(1, drafts) > 0, drafts, q.argmax(dim=1, keepdim=True))
    assert pairs_of(verify_rows(p, q, drafts, uniforms, by="triton")) == pairs_of(
        verify_rows(p, q, drafts, uniforms, by="buckets")
    )


def check_the_problems_of_the_buckets(name: str, counts: tuple[int, ...], vocab: int = 300) -> None:
    """Every number of the solutions in Triton is that of torch; the first problem of the list is of an earlier wave."""
    from otspec.verification.rules.buckets import bucket_kernels

    rows, most = len(counts), max(counts)
    p, q = tensors(*batch(KINDS[name], np.random.default_rng([vocab, *counts]), vocab, most, rows)[:2])
    masses = buckets.histogram(p, q, bucket_of(p, q, most), most)
    expected = buckets.solve_buckets(*masses, Counts(torch.tensor(counts)[:, None], most))

    listed = torch.tensor([0, *counts])
    problems = by_bucket_kernels.Problems(listed[None], torch.tensor([rows + 1]), most)
    room = by_bucket_kernels.room_for(rows + 1, most, p.device)  # with room for one that is not listed
    room.tables.zero_()
    for plane, mass in zip((bucket_kernels.TARGET, bucket_kernels.SIZE), masses, strict=True):
        room.longs[:rows, plane.value] = mass
    factor = torch.full((rows + 2, count(most) + 1), torch.nan, dtype=torch.float64)
    by_bucket_kernels.solve(room, problems, listed, 1, factor)
    assert torch.equal(factor[1:-1], expected.factor)
    assert factor[[0, -1]].isnan().all()
    places, columns = expected.lotteries, count(most) + 1
    for mine, theirs in (("DENSITY", places.density), ("PIVOT", places.pivot)):
        assert torch.equal(room.floats[:rows, getattr(bucket_kernels, mine).value], theirs), mine
    assert torch.equal(room.longs[:rows, bucket_kernels.UNITS.value], places.size)
    chunk = torch.arange(columns) // by_bucket_kernels.TILE
    for name in ("wanted", "served", "given", "alone", "heads"):
        plane = getattr(bucket_kernels, name.upper()).value
        found = room.longs[:rows, plane] + room.tables[:rows, plane][:, chunk]
        assert torch.equal(found, getattr(places, name)), name


@needs_triton
@pytest.mark.usefixtures("interpreted")
@each(name=list(KINDS), counts=((1, 3), (6, 2), (4,)))
def test_triton_solves_the_buckets_as_torch_does(name: str, counts: tuple[int, ...]) -> None:
    check_the_problems_of_the_buckets(name, counts)


@needs_triton
@each(name=("model", "tiny tails"))
def test_what_one_chunk_leaves_to_the_next(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    check_the_problems_of_the_buckets(name, (3, 2), vocab=2000)


@needs_triton
@pytest.mark.usefixtures("few")
def test_adversarial_rows_are_picked_from_as_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tokens share few buckets here, so that most drafts enter a lottery: hundreds of picks for one solution."""
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(by_bucket_kernels, name, 32)  # of 50 buckets
    rng = np.random.default_rng(0)
    p, q = straddling(3, "everywhere", vocab=600)
    rows = 60
    target, draft = (torch.from_numpy(law).expand(rows, -1).contiguous() for law in (p, q))
    drafts = torch.from_numpy(rng.choice(601, size=(rows, 3), p=q))
    given = (target, draft, drafts, torch.from_numpy(rng.random((rows, 4, 3))))
    assert pairs_of(verify_rows(*given, by="triton")) == pairs_of(verify_rows(*given, by="buckets"))


def test_slopes_are_made_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is brought to a GPU is waited for: no tensor may be made of numbers of the host."""

    def refuse(*given: Any, **named: Any) -> None:
        raise AssertionError("a tensor of numbers of the host")

    assert slopes_of(torch.arange(len(LADDER))).tolist() == list(LADDER)
    made = tensors(*batch(laws.model, np.random.default_rng(0), 30, 2, 3))
    for name in ("tensor", "as_tensor", "from_numpy"):
        monkeypatch.setattr(torch, name, refuse)
    for by in ("buckets", "sorting"):
        assert verify_rows(*made, by=by).sound.all()


@needs_triton
@pytest.mark.usefixtures("few")
def test_triton_works_on_large_batches_in_waves_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tensors(*batch(laws.model, np.random.default_rng(0), 30, 2, 5))
    together = pairs_of(verify_rows(*made, by="triton"))
    monkeypatch.setattr(by_bucket_kernels, "WAVE", 2)
    assert pairs_of(verify_rows(*made, by="triton")) == together
    monkeypatch.setattr(by_token_kernels, "GROUP", 3)
    assert pairs_of(verify_rows(*made, by="triton")) == together


@needs_triton
@pytest.mark.usefixtures("few")
@each(temperature=(0.0, 0.6, 1.0))
def test_triton_reads_logits(temperature: float) -> None:
    rng = np.random.default_rng(7)
    logits = torch.from_numpy(3 * rng.laplace(size=(2, 3, 1100))).float()
    logits[:, :, :3] = -torch.inf
    drafts = logits[1].topk(2).indices[:, [0, 0]]
    given = (*logits, drafts, torch.from_numpy(rng.random((3, 3, 3))))
    found = verify_logits(*given, temperature=temperature, by="triton")
    assert pairs_of(found) == pairs_of(verify_logits(*given, temperature=temperature, by="buckets"))
    logits[0, 1, 7] = torch.nan
    assert verify_logits(*given, temperature=temperature, by="triton").sound.tolist() == [True, False, True]


@pytest.fixture
def right(few: None) -> RowVerification:
    """What Triton says of rows that are all sound."""
    return verify_rows(*tensors(*SOUND), by="triton")


@needs_triton
@pytest.mark.usefixtures("few")
@each(name=list(MESSAGES))
def test_triton_flags_rows_that_are_not_sound(name: str, right: RowVerification) -> None:
    found = verify_rows(*spoiled(name), by="triton")
    assert found.sound.tolist() == [True, True, True, False, True]
    for b in (0, 1, 2, 4):
        assert (found.tokens[b].item(), found.accepted[b].item()) == (right.tokens[b].item(), right.accepted[b].item())
    with pytest.raises(ProblemError, match=MESSAGES[name]):
        verify_rows(*spoiled(name), by="triton", check=True)


COMPILE = """
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from otspec.engines import walk_kernels
from otspec.verification.rules.block import line_kernels, path_kernels
from otspec.verification.rules.buckets import bucket_kernels, launch as by_bucket_kernels, lottery_kernels
from otspec.verification.rules.groups import kernels as group_kernels, launch as by_group_kernels
from otspec.verification.rules.nested import label_kernels, label_launch as by_label_kernels
from otspec.verification.rules.token_wise import kernels as token_kernels
from otspec.verification.tensors import reading_kernels as kernels
from otspec.verification.tensors.reading import BLOCK, EXACT
from otspec.verification.rules.groups.launch import of_groups
from otspec.verification.trees.layout import branching_layout

reads = 2 * [*["*bf16", "*fp64", "*i64", "*fp64", "*fp64"], "*i8"]
laws = 2 * [*["*bf16", "*fp64", "*fp64", "*fp64", "*fp64"], "*i8"]
bucketed = {**by_bucket_kernels.of_buckets(4), "LOGITS": False, "LEAVES": True, "APART": False, "BLOCK": BLOCK}
planes = ["*i64", "i32", "*i64"]
slots = {**bucketed, "LANES": 64, "LENGTH": 8}
groups = {**of_groups(128_256), "BLOCK": BLOCK}
paths = [*reads, "*fp64", *5 * ["*i64"], "*fp64"]
left = ["*bf16", *3 * ["*i64"]]
walked = {"NODES": 33, "BLOCK": BLOCK, "LANES": 128}
count = groups["GROUPS"]
gpu = torch.device("cuda")
laid = by_label_kernels.of_layout(count, 4, gpu) | {"LOOK": True}
refined = by_label_kernels.of_level(count, 4, gpu) | by_label_kernels.of_points(4 * count)
refined |= {"FIRST": False, "LAST": False, "BITS": 3, "LOOKED": True, "LOOK": True, "DEEP": 2}
several = by_label_kernels.of_climbing(branching_layout((4, 2, 1, 1), 1, torch.device("cpu")), 29)
at_root = by_label_kernels.of_climbing(branching_layout((4, 1, 1, 1), 1, torch.device("cpu")), 17) | {"lowest": 1}
line = 6 * ["*i64"]
level = [*5 * ["*i64"], "*fp64", "*fp64", "*i64", "*i64", "*i32", *4 * ["*i64"]]
level += ["*fp64", "*fp64", "*i64", "*fp64", *5 * ["i32"]]
path = {**groups, "LOGITS": False, "POINT": False, "FACTOR": True, "LEVELS": 8, "LANES": 128, "ROWS": 16, "COLUMNS": 8}
warps = by_bucket_kernels.WARPS
for kernel, types, fixed, warps in (
    (
        kernels.add_to_buckets,
        [*reads, *3 * ["*i64"], "i32", "*i64", "*i64", "i32", "i32"],
        bucketed | {"LOGITS": True},
        4,
    ),
    (bucket_kernels.clear, [*planes, "*i64"], bucketed, 4),
    (bucket_kernels.add_up, [*planes, "*i64"], bucketed, 4),
    (
        bucket_kernels.find_heights,
        ["*i64", *planes, "*i64", "*fp64", "*i64"],
        bucketed,
        warps["find_heights"],
    ),
    (bucket_kernels.find_excess, ["*i64", *planes, "*fp64", "*i64", "*fp64", "*i64", "*i64"], bucketed, 4),
    (bucket_kernels.find_offers, [*planes, "*i64", "*i64"], bucketed, 4),
    (bucket_kernels.grant, [*planes, "*fp64", "*i64", "*i64", "*fp64"], bucketed, 4),
    (lottery_kernels.stake, [*planes, "*fp64", "*i64"], bucketed, 4),
    (token_kernels.find_sound, [*laws, "*i8", *6 * ["*i64"], "*i8", *3 * ["*i64"], *4 * ["i32"]], slots, 4),
    (token_kernels.find_heads, [*10 * ["*i64"], "i32"], slots, 4),
    (
        token_kernels.enlist,
        [*laws, "*i8", *7 * ["*i64"], "*fp64", *6 * ["*i64"], *7 * ["i32"]],
        slots,
        4,
    ),
    (
        token_kernels.pick,
        [*laws, *4 * ["*i64"], "*fp64", *3 * ["*i64"], "i32", "*i64", "*fp64", "*i64", "*fp64", *4 * ["i32"]],
        slots,
        4,
    ),
    (token_kernels.walk, ["*i8", *8 * ["*i64"], *3 * ["i32"]], slots, 1),
    (token_kernels.sum_left, [*laws, "*fp64", "*i8", *7 * ["*i64"], "i32", "i32"], slots, 4),
    (
        token_kernels.draw_left,
        [*laws, "*fp64", "*i8", *8 * ["*i64"], "*fp64", "*i64", *4 * ["i32"]],
        slots | {"LANES": 128},
        4,
    ),
    (path_kernels.sum_law, ["*bf16", "*fp64", "i32"], {"BLOCK": BLOCK}, 4),
    (path_kernels.settle_totals, ["*fp64", "*fp64", "*i8", "i32"], {"DRIFT": 1e-3, "LANES": 128}, 4),
    (
        group_kernels.add_to_groups,
        ["*bf16", "*fp32", *6 * ["*i64"], *3 * ["i32"]],
        groups | {"BLOCK": 32, "TILES": by_group_kernels.MOST_TILES, "TOGETHER": True},
        1,
    ),
    (
        group_kernels.settle_groups,
        [*6 * ["*i64"], "*fp64", "*i8", "*fp64", "*i8", "i32", "i32"],
        groups | {"P_DRIFT": 1e-2, "Q_DRIFT": 1e-3, "LANES": 128},
        4,
    ),
    (
        group_kernels.look_up_groups,
        [*reads, *4 * ["*i64"], "*fp64", "*fp64", "*i64", *3 * ["i32"]],
        groups | {"BLOCK": 64},
        4,
    ),
    (path_kernels.weigh, [*paths, "i32"], path, 4),
    (path_kernels.sum_rest_along, [*paths, "*i64", "*i64", "i32"], path, 4),
    (
        walk_kernels.walk,
        ["*bf16", *4 * ["*i64"], "*fp32", "fp32", "fp32", "*i32", "*i32", *5 * ["*i64"], "i32", "i32"],
        walked,
        4,
    ),
    (walk_kernels.sum_left, [*left, "*fp64", "*fp64", "i32"], walked, 4),
    (walk_kernels.count_left, [*left, "*fp64", "*i8", "*i64", "i32"], walked, 4),
    (walk_kernels.draw_left, [*left, "*fp64", "*i8", "*i64", "*fp32", "*i64", "*i32", "i32", "i32"], walked, 4),
    (path_kernels.settle, [*paths, "*i64", "*i64", "*fp64", "*i64", "*i64", *5 * ["i32"]], path, 4),
    (line_kernels.lay_first, [*6 * ["*i64"], *line, "i32"], {"LENGTH": 8, "LEVELS": 16, "LANES": 64}, 4),
    (line_kernels.put_out, [*4 * ["*i64"], "*i8", *4 * ["*i64"]], {"LENGTH": 8, "LANES": 8}, 4),
    (
        label_kernels.lay_out,
        ["*i64", "*i64", "i32", "*i64", "*i64", "*i32", "*i64", "*i64", "*fp64", "*i64", "*fp64"],
        laid,
        by_label_kernels.LAY_WARPS,
    ),
    (label_kernels.refine, level, refined, by_label_kernels.WARPS),
    *(
        (label_kernels.pick_path, [*4 * ["*i64"], "*fp64", *6 * ["*i64"], *line, *4 * ["i32"], *more], fixed, 1)
        for fixed, more in ((several, ["i32"]), (at_root, []))
    ),
):
    rest = iter(types)
    fixed = {name: value for name, value in fixed.items() if name in kernel.arg_names}
    signature = {name: "constexpr" if name in fixed else next(rest) for name in kernel.arg_names}
    assert next(rest, None) is None
    options = EXACT | {"num_warps": warps}
    built = compile(ASTSource(kernel, signature, fixed), target=GPUTarget("cuda", 90, 32), options=options)
    print(kernel.__name__, len(built.asm["cubin"]))
"""


@needs_triton
def test_the_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    """The compiler needs no GPU; and it forbids what its interpreter lets pass."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    ran = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()] == [
        *("add_to_buckets", "clear", "add_up", "find_heights", "find_excess", "find_offers", "grant", "stake"),
        *("find_sound", "find_heads", "enlist", "pick", "walk", "sum_left", "draw_left"),
        *("sum_law", "settle_totals", "add_to_groups", "settle_groups", "look_up_groups", "weigh", "sum_rest_along"),
        *("walk", "sum_left", "count_left", "draw_left", "settle", "lay_first", "put_out"),
        *("lay_out", "refine", "pick_path", "pick_path"),
    ]


def test_triton_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    error = ProblemError if installed("triton") else otspec.MissingExtra
    with pytest.raises(error, match=r"TRITON_INTERPRET=1|triton is not installed"):
        verify_rows(*tensors(*SOUND), by="triton")
    assert math.isfinite(verify_rows(*tensors(*SOUND), by="buckets").tokens.sum().item())
