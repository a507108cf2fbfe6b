"""Every rule for drafted trees by Triton's kernels, interpreted on the CPU: what torch puts out, slot for slot."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.verification.device import TreeVerification, verify_trees  # noqa: E402
from tests.each import check_each  # noqa: E402
from tests.verification.kernels.setting import CASES, Case, interpreted  # noqa: E402
from tests.verification.tree_batches import batch, drawn, outputs  # noqa: E402

pytestmark = [interpreted, pytest.mark.usefixtures("coarse")]

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


def both(way: str, given: Any, topology: Any, **settings: Any) -> tuple[TreeVerification, TreeVerification]:
    target, draft, tokens, uniforms = given
    found, expected = (verify_trees(target, draft, tokens, topology, uniforms, **one, **settings) for one in WAYS[way])
    return found, expected


def check_they_agree(way: str, given: Any, topology: Any, **settings: Any) -> TreeVerification:
    found, expected = both(way, given, topology, logprobs=True, **settings)
    assert all(map(torch.equal, found.outputs, expected.outputs))
    torch.testing.assert_close(found.logprobs, expected.logprobs, equal_nan=True)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_kernels_put_out_what_torch_does(way: str) -> None:
    def check(case: Case) -> None:
        assert check_they_agree(way, case.batch(), case.branching).valid.all()

    first, step = PART[way]
    check_each(check, case=CASES[first::step])


@pytest.mark.parametrize("way", WAYS)
def test_trees_that_are_not_valid_are_flagged_and_leave_the_others_alone(way: str) -> None:
    vocab = 7
    given = batch(drawn("tiny", vocab, (2, 1), 7))
    right = check_they_agree(way, tuple(part[:1] for part in given), (2, 1))
    target, draft, tokens, _ = given
    target[1, 2, 0], draft[2, 1, 5], tokens[3, 2], tokens[4, 1], target[5, 4] = torch.nan, -0.5, 9999, -1, 0.5
    draft[6, 0] = torch.where(torch.arange(vocab) == tokens[6, 1], 0, 1 / (vocab - 1))
    found = check_they_agree(way, given, (2, 1))
    assert found.valid.tolist() == [True] + 6 * [False]
    assert all(torch.equal(mine[0], theirs[0]) for mine, theirs in zip(found.outputs, right.outputs, strict=True))
    assert not found.accepted[1:].any()
    assert not found.token[1:].any()
    rows = torch.arange(5)[None], torch.arange(3)[None]
    for which, row in ((0, 5), (1, -1)):
        rows[which][0, 1], kept = row, rows[which][0, 1].item()
        flat = (target[0], draft[0], tokens[:1], given[3][:1])
        assert not check_they_agree(way, flat, (2, 1), rows=rows).valid.any()
        rows[which][0, 1] = kept


@pytest.mark.parametrize("way", ["nested", "interval"])
def test_rows_may_be_views(way: str) -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 40, (2, 1), 3))
    rows = tuple(torch.arange(3 * laws.shape[1]).view(3, -1) for laws in (target, draft))
    laws = target.flatten(0, 1), draft.flatten(0, 1)
    strided = tuple(row.t().contiguous().t() for row in rows)
    found, expected = (
        verify_trees(*laws, own, (2, 1), uniforms, rows=where, **WAYS[way][0])
        for own, where in ((tokens.t().contiguous().t(), strided), (tokens, rows))
    )
    assert outputs(found) == outputs(expected)


def test_kernels_choose_the_way() -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 5, (3, 1), 2))
    given = (target, draft, tokens, (3, 1), uniforms)
    for kernels, by in ((True, "triton"), (None, "sorting")):
        found = verify_trees(*given, rule="interval", kernels=kernels)
        expected = verify_trees(*given, rule="interval", by=by)
        assert all(map(torch.equal, found[:-1], expected))  # no log-probabilities were asked for
