"""Rows of tensors: the same tokens as the rule for one position, whatever the laws, and nothing waits for a device."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import otspec
from otspec import ProblemError, Verification
from otspec.kernels.interval.places import memory
from otspec.logits import law_from_logits
from otspec.verification.device import RowVerification, verify_logits, verify_rows, verify_truncated
from otspec.verification.reference import interval as reference
from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.interval.compiled import verify_one
from tests import laws
from tests.each import each
from tests.refusals import Refused, check_refused
from tests.verification.row_batches import KINDS, MESSAGES, VALID, batch, pairs_of, spoiled, tensors


@pytest.mark.parametrize("name", KINDS)
@each(vocab=(1, 2, 3, 7, 40, 1000), n=(1, 3, 9))
def test_sorted_rows_put_out_the_tokens_of_the_compiled_rule_and_of_the_exact_reference(
    name: str, vocab: int, n: int
) -> None:
    made = batch(KINDS[name], np.random.default_rng([vocab, n]), vocab, n, 16)
    found, mine = pairs_of(verify_rows(*tensors(*made))), memory.of(vocab)
    assert found == [verify_one(*row, mine.work, mine.places) for row in zip(*made, strict=True)]
    if vocab <= 7 and n <= 3:
        assert found[:8] == [tuple(reference.verify(*row)) for row in zip(*(x[:8].tolist() for x in made), strict=True)]


@each(by=("sorting", "buckets"))
def test_a_row_does_not_depend_on_those_beside_it(by: str) -> None:
    made = tensors(*batch(laws.model, np.random.default_rng(0), 300, 4, 12))
    together = pairs_of(verify_rows(*made, by=by))
    assert together == [pairs_of(verify_rows(*(array[b : b + 1] for array in made), by=by))[0] for b in range(12)]
    with pytest.MonkeyPatch.context() as patch:  # large batches are worked on in groups
        patch.setattr(buckets, "GROUP", 5)
        assert pairs_of(verify_rows(*made, by=by)) == together


def test_verify_answers_by_the_type_of_its_input() -> None:
    p, q, drafts, uniforms = tensors(*batch(laws.model, np.random.default_rng(0), 20, 3, 4))
    rows = otspec.verify(p, q, drafts, uniforms)
    assert isinstance(rows, RowVerification)
    assert rows.tokens.tolist() == verify_rows(p, q, drafts, uniforms).tokens.tolist()
    one = otspec.verify(p[0], q[0], drafts[0], np.random.default_rng(0))
    assert one == otspec.verify(p[0].numpy(), q[0].numpy(), drafts[0].numpy(), np.random.default_rng(0))
    assert isinstance(one, Verification)
    drawn = [otspec.verify(p, q, drafts, torch.Generator().manual_seed(3)).tokens.tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]


@each(n=(1, 3), top_k=(1, 5, 40), padded=(False, True))
def test_truncated_drafts_give_the_tokens_of_the_whole_law(n: int, top_k: int, padded: bool) -> None:
    """A pad of probability 0 counts once, whatever token it is, and wherever it stands how often."""
    rng = np.random.default_rng([n, top_k])
    p, q, _, uniforms = batch(laws.model, rng, 40, n, 32)
    support = np.argsort(-q, axis=1)[:, :top_k]
    kept = np.zeros_like(q)
    np.put_along_axis(kept, support, np.take_along_axis(q, support, axis=1), axis=1)
    kept /= kept.sum(axis=1, keepdims=True)
    listed = np.take_along_axis(kept, support, axis=1)
    if padded:
        pad = (kept > 0).argmin(axis=1)[:, None]  # the first token beyond the support, if there is one
        support = np.hstack((pad, support[:, -1:], support, pad, support[:, :1]))
        listed = np.pad(listed, ((0, 0), (2, 2)))
    drafts = np.array([rng.choice(40, size=n, p=law) for law in kept])
    whole = verify_rows(*tensors(p, kept, drafts, uniforms))
    assert pairs_of(verify_truncated(*tensors(p, support, listed, drafts, uniforms))) == pairs_of(whole)


@each(temperature=(0.0, 0.6, 1.0, 1.7))
def test_logits_are_read_at_a_temperature(temperature: float) -> None:
    rng = np.random.default_rng(7)
    logits = 3 * rng.laplace(size=(2, 16, 30))
    logits[:, :, :3] = -np.inf
    logits[:, :4, 5] = logits[:, :4, 9] = 60.0  # a tie at the top
    p, q = (np.array([law_from_logits("logits", row, temperature) for row in rows]) for rows in logits)
    drafts = np.array([rng.choice(30, size=3, p=law) for law in q])
    uniforms = rng.random((16, 4, 3))
    expected = pairs_of(verify_rows(*tensors(p, q, drafts, uniforms)))
    assert pairs_of(verify_logits(*tensors(*logits, drafts, uniforms), temperature=temperature)) == expected
    heats = torch.full((16,), temperature)
    if np.float32(temperature) == temperature:
        assert pairs_of(verify_logits(*tensors(*logits, drafts, uniforms), temperature=heats)) == expected


@each(name=list(MESSAGES), by=("sorting", "buckets"))
def test_a_row_that_is_not_valid_is_flagged_and_leaves_the_others_alone(name: str, by: str) -> None:
    made = spoiled(name)
    found, right = verify_rows(*made, by=by), verify_rows(*tensors(*VALID), by=by)
    assert found.valid.tolist() == [True, True, True, False, True]
    assert [one[3].item() for one in (found.tokens, found.accepted)] == [0, -1]
    for b in (0, 1, 2, 4):
        assert (found.tokens[b], found.accepted[b]) == (right.tokens[b], right.accepted[b])
    with pytest.raises(ProblemError, match=MESSAGES[name]):
        verify_rows(*made, by=by, check=True)
    verify_rows(*tensors(*VALID), by=by, check=True)


def test_logits_that_are_none_are_flagged() -> None:
    logits = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    wrong = logits.clone()
    wrong[1, 2], wrong[2, 0], wrong[3] = torch.nan, torch.inf, -torch.inf
    drafts, uniforms = torch.zeros((5, 2), dtype=torch.long), torch.rand((5, 3, 3), dtype=torch.float64)
    for temperature in (0.0, 1.0, torch.ones(5)):
        draft = torch.zeros_like(logits)  # greedy drafts are token 0
        found = verify_logits(wrong, draft, drafts, uniforms, temperature=temperature)
        assert found.valid.tolist() == [True, False, False, False, True]
    with pytest.raises(ProblemError, match="temperature is -1"):
        verify_logits(logits, logits, drafts, uniforms, temperature=-1)
    with pytest.raises(ProblemError, match=r"temperature has shape \(2,\)"):
        verify_logits(logits, logits, drafts, uniforms, temperature=torch.ones(2))


P, Q, DRAFTS, UNIFORMS = tensors(*VALID)


REFUSED: list[Refused] = [
    (lambda: verify_rows(P, Q[:, 1:], DRAFTS, UNIFORMS), r"p has shape \(5, 12\) and q \(5, 11\)"),
    (lambda: verify_rows(P.long(), Q, DRAFTS, UNIFORMS), "p is torch.int64"),
    (lambda: otspec.verify(P, Q.numpy(), DRAFTS, UNIFORMS), "q is ndarray"),
    (lambda: verify_rows(P, Q, DRAFTS.double(), UNIFORMS), "token ids are integers"),
    (lambda: verify_rows(P, Q, DRAFTS[:2], UNIFORMS), r"drafts are \(2, 2\); pass a tensor of shape \(5, n\)"),
    (lambda: verify_rows(P, Q, DRAFTS, UNIFORMS.float()), r"need torch.float64 of shape \(5, 3, 3\)"),
    (lambda: otspec.verify(P, Q, DRAFTS, np.random.default_rng(0)), "take a torch.Generator"),
    (lambda: verify_rows(P, Q, DRAFTS, UNIFORMS, by="magic"), "by is 'magic'; known: sorting, buckets, triton"),
    (lambda: verify_rows(P, Q.to("meta"), DRAFTS, UNIFORMS), "move them to one"),
    (lambda: verify_rows(P.to_sparse(), Q, DRAFTS, UNIFORMS), r"p is torch.sparse_coo; .*to_dense"),
    (
        lambda: verify_logits(P, Q, DRAFTS, UNIFORMS, temperature="1"),  # type: ignore[arg-type]
        "temperature is '1'; it must be finite",
    ),
    (lambda: verify_truncated(P, DRAFTS, Q, DRAFTS, UNIFORMS), r"they need \(B, V\), \(B, k\)"),
]


def test_what_is_wrong_is_named() -> None:
    check_refused(REFUSED)


def test_support_is_looked_at_too() -> None:
    support = torch.arange(12).expand(5, 12).contiguous()
    assert verify_truncated(P, support, Q, DRAFTS, UNIFORMS, check=True).valid.all()
    outside, short, laws = support.clone(), support[:, :11], Q[:, :11] / Q[:, :11].sum(1, keepdim=True)
    outside[2, 0] = 12  # the first that is none
    assert verify_truncated(P, outside, Q, DRAFTS, UNIFORMS).valid.tolist() == [True, True, False, True, True]
    with pytest.raises(ProblemError, match="support holds 12; token ids run from 0 to 11"):
        verify_truncated(P, outside, Q, DRAFTS, UNIFORMS, check=True)
    for draft in (0, 1):  # one of them outside is enough
        drafts = torch.zeros_like(DRAFTS)
        drafts[3, draft] = 11
        assert verify_truncated(P, short, laws, drafts, UNIFORMS).valid.tolist() == [True, True, True, False, True]
        with pytest.raises(ProblemError, match=r"drafts\[3\] is \[(11, 0|0, 11).*support\[3\] lacks one of these"):
            verify_truncated(P, short, laws, drafts, UNIFORMS, check=True)
    # A token that has two probabilities.
    p = torch.full((2, 4), 0.25, dtype=torch.float64)
    support, q = torch.tensor([[1, 0, 1], [1, 0, 2]]), torch.tensor([[0.5, 0.25, 0.25]] * 2, dtype=torch.float64)
    drafts, uniforms = torch.ones((2, 2), dtype=torch.int64), torch.full((2, 3, 3), 0.5, dtype=torch.float64)
    assert verify_truncated(p, support, q, drafts, uniforms).valid.tolist() == [False, True]
    with pytest.raises(ProblemError, match=r"support\[0\] is \[1, 0, 1\], and holds a token twice"):
        verify_truncated(p, support, q, drafts, uniforms, check=True)


def test_ties_keep_the_order_of_tokens() -> None:
    """Where p/q ties exactly, in floats as in fractions, the reference decides by the token's id; so does the sort.

    The first token belongs to two exchanges, the second of which has the last token as its only donor: a draft of it
    that enters neither was once taken to enter the second.
    """
    rng = np.random.default_rng(0)
    p = np.array([0.0625, 0.125, 0.0625, 0.25, 0.25, 0.25])
    q = np.array([0.125, 0.25, 0.125, 0.125, 0.25, 0.125])
    for _ in range(200):
        drafts, uniforms = rng.choice(6, size=(1, 3), p=q), rng.random((1, 4, 3))
        found = pairs_of(verify_rows(*tensors(p[None], q[None], drafts, uniforms)))
        assert found == [tuple(reference.verify(p.tolist(), q.tolist(), drafts[0].tolist(), uniforms[0].tolist()))]


@each(by=(None, "buckets"), dtype=(torch.float64, torch.bfloat16))
def test_log_probabilities_are_the_targets_of_what_is_put_out(by: str | None, dtype: torch.dtype) -> None:
    p, q, drafts, uniforms = tensors(*batch(laws.model, np.random.default_rng(3), 12, 2, 24))
    p, q = p.to(dtype), q.to(dtype)
    found = verify_rows(p, q, drafts, uniforms, by=by, logprobs=True)
    own = p.double() / p.double().sum(dim=1, keepdim=True)
    torch.testing.assert_close(found.logprobs, own[torch.arange(24), found.tokens].log())
    assert (found.accepted < 0).any()
    for heat in (0.7, 0.0):
        of_logits: Any = verify_logits(own.log(), q.log(), drafts, uniforms, temperature=heat, by=by, logprobs=True)
        heated = (own.log() / max(heat, 1e-4)).log_softmax(dim=1)[torch.arange(24), of_logits.tokens]
        valid = of_logits.valid
        torch.testing.assert_close(of_logits.logprobs[valid], heated[valid])
        assert of_logits.logprobs[~valid].isnan().all()
    tokens = torch.arange(12).expand(24, -1)
    cut = verify_truncated(p, tokens, q, drafts, uniforms, logprobs=True)
    torch.testing.assert_close(cut.logprobs, own[torch.arange(24), cut.tokens].log())
    one = otspec.verify(own[0], own[0], drafts[0], 0, logprobs=True)
    assert one.logprob == pytest.approx(float(own[0, one.token].log()))
