"""Token by token by Triton's kernels: heads, stages and waves, ragged trees that share laws, and rows."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.verification.device import Links, trees, verify_trees  # noqa: E402
from otspec.verification.rules.buckets import cut  # noqa: E402
from otspec.verification.rules.token_wise import picking_kernels, stages  # noqa: E402
from otspec.verification.tensors.reading_kernels import checked_rows  # noqa: E402
from otspec.verification.trees.layout import branching_layout, linked_layout  # noqa: E402
from otspec.verification.trees.validity_kernels import validate_by_kernels  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.kernels.setting import interpreted, scattered_links  # noqa: E402
from tests.verification.kernels.test_rules import check_they_agree  # noqa: E402
from tests.verification.tree_batches import batch, drawn  # noqa: E402

pytestmark = interpreted


@pytest.mark.usefixtures("coarse")
@each(case=((torch.float32, 1100), (torch.bfloat16, 40)))
def test_laws_of_several_types_and_buckets_of_several_chunks(
    case: tuple[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype, vocab = case
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(cut, name, 16)
    target, draft, tokens, uniforms = batch(drawn("tiny", vocab, (3, 1), 2))
    assert check_they_agree("interval", (target.to(dtype), draft.to(dtype), tokens, uniforms), (3, 1)).valid.all()


@pytest.mark.usefixtures("coarse")
@each(case=(((2, 2), 1), ((1, 2, 1), 2)))
def test_stages_and_waves_change_nothing(case: tuple[tuple[int, ...], int]) -> None:
    branching, stage = case
    given = batch(drawn("tiny", 3, branching, 3, seed=1))
    together = check_they_agree("interval", given, branching)
    assert together.accepted.max() > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "STAGE", stage)
        patch.setattr(cut, "WAVE", 2)
        patch.setattr(trees, "GROUP", 2)
        apart = verify_trees(*given[:3], branching, given[3], rule="interval", by="triton")
    assert all(map(torch.equal, apart[:-1], together))  # no log-probabilities were asked for


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
    layout = linked_layout(scattered_links(rng, rows, slots))
    assert layout.valid.all()
    tokens = torch.from_numpy(rng.integers(2, size=(rows, slots)))
    target_row, draft_row = torch.from_numpy(rng.integers(100, size=(2, rows, slots)))
    heads, drafts, p_rows, q_rows = torch.empty((4, rows, slots), dtype=torch.int64)
    picking_kernels.find_heads[(rows, slots)](
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
    links = scattered_links(rng, 3, 9)
    given, rows = by_text(rng, links, 2)
    found = check_they_agree("interval", given, links, rows=rows)
    assert found.valid.all()
    assert found.accepted.max() > 1


def test_totals_and_what_is_no_law() -> None:
    law = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(1500), size=6))
    law[1] *= 1.00001
    law[2] *= 1.1
    law[3, 7], law[4, 1400], law[5, 3] = torch.nan, -1e-300, torch.inf
    rows = checked_rows(law, 1e-4)
    assert rows.valid.tolist() == [True, True, False, False, False, False]
    assert torch.allclose(rows.read.scale[:2], 1 / law[:2].sum(dim=1), rtol=1e-14)


def test_leaves_without_laws_are_rows() -> None:
    """What tells a row from a tree of one level: a slot without children needs no law, and nothing is drawn there."""
    given = batch(drawn("tiny", 5, (2,), 4))
    rows = torch.full((4, 3), -1)
    rows[:, 0] = 3 * torch.arange(4)
    layout = branching_layout((2,), 4, rows.device)
    p, q = (checked_rows(law.flatten(0, 1), 1e-6) for law in given[:2])
    made = (layout, p, rows, q, rows // 3, given[2])
    assert not validate_by_kernels(*made)[0].any()
    assert validate_by_kernels(*made, leaves=False)[0].all()
