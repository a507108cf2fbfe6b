"""Trees token by token by Triton's kernels, interpreted on the CPU: what torch puts out by buckets, slot for slot."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec import ProblemError  # noqa: E402
from otspec.verification.device import Links, TreeVerification, trees, verify_trees  # noqa: E402
from otspec.verification.rules.block.path_launch import checked_rows  # noqa: E402
from otspec.verification.rules.buckets import buckets  # noqa: E402
from otspec.verification.rules.buckets import launch as by_bucket_kernels  # noqa: E402
from otspec.verification.rules.token_wise import kernels as token_kernels  # noqa: E402
from otspec.verification.rules.token_wise import launch as by_token_kernels  # noqa: E402
from otspec.verification.rules.token_wise.launch import Stage, Trees, stages_of  # noqa: E402
from otspec.verification.trees.layout import branching_layout, linked_layout  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.tree_batches import batch, drawn  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few buckets, in one chunk, for the interpreter's sake; test_buckets.py has them as they are."""
    monkeypatch.setattr(buckets, "BITS", 4)
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(by_bucket_kernels, name, 64)


def both(given: Any, topology: Any, **settings: Any) -> tuple[TreeVerification, TreeVerification]:
    """By torch and by kernels."""
    target, draft, tokens, uniforms = given
    ways = ("buckets", "triton")
    one, other = (
        verify_trees(target, draft, tokens, topology, uniforms, rule="interval", by=way, **settings) for way in ways
    )
    return one, other


def check_they_agree(given: Any, topology: Any, **settings: Any) -> TreeVerification:
    expected, found = both(given, topology, **settings)
    assert all(map(torch.equal, found, expected))
    return found


@pytest.mark.usefixtures("coarse")
@each(
    given=(
        ("tiny", (3,), 7),
        ("zeros", (1, 1), 2),
        ("peaked", (3, 1, 1), 2),
        ("point", (2, 2), 2),
        ("tied", (2, 2), 2),
        ("tail", (3, 1), 4),
        ("zeros", (1, 2, 2), 2),
    )
)
def test_trees_are_verified_as_by_torch(given: tuple[str, tuple[int, ...], int]) -> None:
    """Of two tokens, many slots have one text."""
    family, branching, vocab = given
    assert check_they_agree(batch(drawn(family, vocab, branching, 3)), branching).sound.all()


@pytest.mark.usefixtures("coarse")
@each(case=((torch.float32, 1100), (torch.bfloat16, 40)))
def test_laws_of_several_types_and_chunks(case: tuple[Any, int], monkeypatch: pytest.MonkeyPatch) -> None:
    dtype, vocab = case
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(by_bucket_kernels, name, 16)
    target, draft, tokens, uniforms = batch(drawn("tiny", vocab, (3, 1), 2))
    assert check_they_agree((target.to(dtype), draft.to(dtype), tokens, uniforms), (3, 1)).sound.all()


@pytest.mark.usefixtures("coarse")
@each(case=(((2, 2), 1), ((2, 1, 2), 2)))
def test_stages_and_waves_change_nothing(case: tuple[tuple[int, ...], int]) -> None:
    branching, stage = case
    given = batch(drawn("tiny", 3, branching, 3, seed=1))
    together = check_they_agree(given, branching)
    assert together.accepted.max() > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_token_kernels, "STAGE", stage)
        patch.setattr(by_bucket_kernels, "WAVE", 2)
        patch.setattr(trees, "GROUP", 2)
        apart = verify_trees(*given[:3], branching, given[3], rule="interval", by="triton")
    assert all(map(torch.equal, apart, together))


def random_links(rng: np.random.Generator, rows: int, slots: int) -> Links:
    """Trees with slots that hang nowhere."""
    first, sibling = np.full((2, rows, slots), -1)
    for row in range(rows):
        hanging = [0]
        for slot in range(1, slots):
            if rng.random() < 0.2:
                continue
            parent = rng.choice(hanging)
            hanging.append(slot)
            if first[row, parent] < 0:
                first[row, parent] = slot
                continue
            elder = first[row, parent]
            while sibling[row, elder] >= 0:
                elder = sibling[row, elder]
            sibling[row, elder] = slot
    return Links(torch.from_numpy(first), torch.from_numpy(sibling))


def texts_of(parent: Any, depth: Any, tokens: Any) -> list[tuple[int, ...] | None]:
    texts: list[tuple[int, ...] | None] = []
    for slot in range(len(tokens)):
        above = texts[parent[slot]] if slot else ()
        texts.append(None if depth[slot] < 0 else () if slot == 0 else (*(above or ()), int(tokens[slot])))
    return texts


@each(lanes=(4, 256))
def test_slots_of_one_text_have_one_head(lanes: int) -> None:
    rng = np.random.default_rng(2)
    rows, slots = 4, 14
    layout = linked_layout(random_links(rng, rows, slots))
    assert layout.sound.all()
    tokens = torch.from_numpy(rng.integers(2, size=(rows, slots)))
    target_row, draft_row = torch.from_numpy(rng.integers(100, size=(2, rows, slots)))
    heads, drafts, p_rows, q_rows = torch.empty((4, rows, slots), dtype=torch.int64)
    token_kernels.find_heads[(rows, slots)](
        layout.parent, layout.depth, layout.children, tokens, target_row, draft_row, heads, drafts, p_rows, q_rows,
        slots, APART=False, LANES=lanes,
    )  # fmt: skip
    shared = 0
    for row in range(rows):
        texts = texts_of(layout.parent[row], layout.depth[row], tokens[row])
        for slot, text in enumerate(texts):
            if text is None:
                assert (heads[row, slot], drafts[row, slot]) == (-1, 0)
                continue
            same = [other for other in range(slots) if texts[other] == text]
            with_children = [other for other in same if layout.children[row, other] > 0]
            assert heads[row, slot] == same[0]
            assert drafts[row, slot] == sum(layout.children[row, other] for other in same)
            assert p_rows[row, slot] == target_row[row, same[0]]
            if with_children:
                assert q_rows[row, slot] == draft_row[row, with_children[0]]
            shared += len(same) > 1
    assert shared > 5


def by_text(rng: np.random.Generator, links: Links, vocab: int) -> tuple[Any, Any]:
    """Trees whose slots have laws by their texts, in rows that they share; rows of slots without children are none."""
    layout = linked_layout(links)
    count, slots = layout.parent.shape
    kinds: dict[Any, int] = {}
    target: list[Any] = []
    draft: list[Any] = []
    tokens = np.zeros((count, slots), dtype=np.int64)
    row = np.full((count, slots), -1)
    for tree in range(count):
        texts: dict[int, tuple[int, ...]] = {0: ()}
        for slot in range(slots):
            if layout.depth[tree, slot] < 0:
                continue
            if slot:
                above = int(layout.parent[tree, slot])
                tokens[tree, slot] = rng.choice(vocab, p=draft[row[tree, above]])
                texts[slot] = (*texts[above], int(tokens[tree, slot]))
            if texts[slot] not in kinds:
                kinds[texts[slot]] = len(kinds)
                target.append(rng.dirichlet(np.ones(vocab)))
                draft.append(rng.dirichlet(np.ones(vocab)))
            row[tree, slot] = kinds[texts[slot]]
    inner = np.where(layout.children.numpy() > 0, row, -1)
    laws = (torch.from_numpy(np.array(law)) for law in (target, draft))
    uniforms = torch.from_numpy(rng.random((count, slots + layout.length, 3)))
    rows = (torch.from_numpy(row), torch.from_numpy(inner))
    return (*laws, torch.from_numpy(tokens), uniforms), rows


@pytest.mark.usefixtures("coarse")
def test_ragged_trees_that_share_laws() -> None:
    rng = np.random.default_rng(5)
    links = random_links(rng, 3, 9)
    given, rows = by_text(rng, links, 2)
    found = check_they_agree(given, links, rows=rows)
    assert found.sound.all()
    assert found.accepted.max() > 1


@pytest.mark.usefixtures("coarse")
def test_trees_that_are_not_sound_are_flagged_and_leave_the_others_alone() -> None:
    given = batch(drawn("tiny", 7, (2, 1), 7))
    right = check_they_agree(given, (2, 1))
    target, draft, tokens, _ = given
    target[1, 2, 0], draft[2, 1, 5], tokens[3, 2], tokens[4, 1], target[5, 4] = torch.nan, -0.5, 9999, -1, 0.5
    draft[6, 0] = torch.where(torch.arange(7) == tokens[6, 1], 0, 1 / 6)
    found = check_they_agree(given, (2, 1))
    assert found.sound.tolist() == [True] + 6 * [False]
    assert all(torch.equal(mine[0], theirs[0]) for mine, theirs in zip(found, right, strict=True))
    rows = torch.arange(35).view(7, 5), torch.arange(21).view(7, 3)
    for which, row in ((0, 35), (1, -1)):
        rows[which][0, 1], kept = row, rows[which][0, 1].item()
        flat = (target.flatten(0, 1), draft.flatten(0, 1), *given[2:])
        assert not check_they_agree(flat, (2, 1), rows=rows).sound.any()
        rows[which][0, 1] = kept


def test_totals_and_what_is_no_law() -> None:
    law = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(1500), size=6))
    law[1] *= 1.00001
    law[2] *= 1.1
    law[3, 7], law[4, 1400], law[5, 3] = torch.nan, -1e-300, torch.inf
    rows = checked_rows(law, 1e-4)
    assert rows.sound.tolist() == [True, True, False, False, False, False]
    assert torch.allclose(rows.read.scale[:2], 1 / law[:2].sum(dim=1), rtol=1e-14)


def test_stages_have_few_problems() -> None:
    assert stages_of((1, *8 * (4,)), 33) == [Stage(0, 8, 15)]  # at the root, and twice two drafts on seven levels
    assert stages_of((1, *8 * (32,)), 33) == [Stage(0, 8, 16)]  # of 32 slots below the root
    assert stages_of((1, 1, 1), 3) == [Stage(0, 2, 0)]
    assert stages_of((1, 4, 16, 64, 256), 341) == [Stage(0, 2, 5), Stage(2, 3, 1), Stage(3, 4, 1)]
    assert stages_of((1, 2, 4, 8), 15, most=1) == [Stage(0, 1, 1), Stage(1, 2, 1), Stage(2, 3, 1)]
    assert stages_of((1, 3), 4) == [Stage(0, 1, 1)]


@each(
    case=(
        ({"by": "sorting"}, "by is 'sorting', and the rule 'nested'; only 'interval' has several ways"),
        ({"rule": "interval", "by": "cuda"}, "by is 'cuda'; known: sorting, buckets, triton"),
        ({"rule": "interval", "by": "buckets", "kernels": True}, "by is 'buckets', and kernels is True"),
        ({"rule": "interval", "by": "triton", "kernels": False}, "by is 'triton', and kernels is False"),
    )
)
def test_ways_that_do_not_fit_are_named(case: tuple[dict[str, Any], str]) -> None:
    settings, message = case
    target, draft, tokens, uniforms = batch(drawn("tiny", 3, (2,), 1))
    with pytest.raises(ProblemError, match=message):
        verify_trees(target, draft, tokens, (2,), uniforms, **settings)


@pytest.mark.usefixtures("coarse")
def test_kernels_choose_the_way() -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 5, (3, 1), 2))
    given = (target, draft, tokens, (3, 1), uniforms)
    for kernels, by in ((True, "triton"), (None, "sorting")):
        found = verify_trees(*given, rule="interval", kernels=kernels)
        assert all(map(torch.equal, found, verify_trees(*given, rule="interval", by=by)))


def test_leaves_without_laws_are_rows() -> None:
    """What tells a row from a tree of one level: a slot without children needs no law, and nothing is drawn there."""
    given = batch(drawn("tiny", 5, (2,), 4))
    rows = torch.full((4, 3), -1)
    rows[:, 0] = 3 * torch.arange(4)
    layout = branching_layout((2,), 4, rows.device)
    p, q = (checked_rows(law.flatten(0, 1), 1e-6) for law in given[:2])
    made = Trees(layout, p, rows, q, rows // 3, given[2])
    assert not by_token_kernels.find_sound(made)[0].any()
    assert by_token_kernels.find_sound(made._replace(leaves=False))[0].all()
