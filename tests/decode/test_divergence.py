"""A near tie, a wrong rule and a wrong pass are told apart."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError  # noqa: E402
from otspec.decode import MultiDraft, explain_divergence  # noqa: E402
from otspec.decode.divergence import Divergence  # noqa: E402
from otspec.laws import Seed  # noqa: E402
from otspec.paths import Block, PathVerification, Tree  # noqa: E402
from tests.decode.models import greedy_text, logits_after, pair  # noqa: E402

PROMPT = [1, 3, 7]


def explained(target: Any, draft: Any, prompt: list[int] = PROMPT, **settings: Any) -> Divergence | None:
    """With paths of six tokens, or what the settings say."""
    strategy = MultiDraft(draft, **{"depth": 6, **settings})
    return explain_divergence(target, strategy, torch.tensor([prompt]), max_new_tokens=12)


class AcceptsAll(Block):
    """A rule that is wrong: whatever was drafted becomes text."""

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        return PathVerification(int(tree.node[0, -1]), tree.length, int(tree.target[tree.node[0, -1]].argmax()))


def test_texts_that_are_equal_have_no_divergence() -> None:
    target, draft = pair(40)
    assert explained(target, draft) is None
    assert explained(target, draft, branching=(2, 2)) is None


def test_a_near_tie_of_logits_in_bfloat16() -> None:
    """Tokens come in twins, whose rows of the head are apart by less than bfloat16 tells after the layers."""
    target, draft = (copy.deepcopy(one).to(torch.bfloat16) for one in pair(40, layers=4))
    with torch.no_grad():
        head = target.lm_head.weight
        noise = torch.randn(head[20:].shape, generator=torch.Generator().manual_seed(0))
        head[20:] = head[:20] + (0.004 * noise).to(head.dtype)
    prompts = [[first, *PROMPT[1:]] for first in (0, 3, 4)]
    found = [one for prompt in prompts if (one := explained(target, draft, prompt)) is not None]
    assert found
    for prompt in prompts:  # passes that round a row alike leave nothing to decide
        strategy, ids = MultiDraft(draft, depth=6), torch.tensor([prompt])
        assert explain_divergence(target, strategy, ids, max_new_tokens=12, invariant=True) is None
    for one in found:
        assert one.verdict == "near tie"
        assert one.plain % 20 == one.drafted % 20
        assert one.of_one_row.plain >= one.of_one_row.drafted
        assert one.of_drafts.drafted >= one.of_drafts.plain
        assert one.rows > 1
        assert (one.dtype, one.precision) == ("bfloat16", "float32")
        assert abs(one.precise.plain - one.precise.drafted) < 0.1
    assert "near tie at new token" in str(found[0])


def test_a_rule_that_is_wrong() -> None:
    target, draft = pair(40)
    found = explained(target, draft, solver=AcceptsAll())
    assert found is not None
    assert found.verdict == "wrong rule"
    text = greedy_text(target, PROMPT, found.place + 1)
    assert found.plain == text[-1]
    said = logits_after(target, text[:-1])
    both = pytest.approx((said[found.plain], said[found.drafted]), abs=1e-9)
    assert found.of_one_row == both
    assert found.of_drafts == both
    assert found.precise == both
    assert found.of_drafts.drafted < found.of_drafts.plain


def test_a_pass_that_is_wrong() -> None:
    """The rule follows logits that are those of other tokens."""
    target, draft = (copy.deepcopy(one) for one in pair(40))

    def rolled(module: Any, given: Any, logits: Any) -> Any:
        return logits.roll(1, -1) if logits.shape[1] == 6 else logits  # as many rows as the drafts below have

    target.lm_head.register_forward_hook(rolled)
    found = explained(target, draft, depth=5)
    assert found is not None
    assert (found.verdict, found.rows) == ("wrong pass", 6)


def test_what_is_not_one_greedy_text_is_refused() -> None:
    target, draft = pair(40)
    with pytest.raises(ProblemError, match="2 prompts"):
        explain_divergence(target, MultiDraft(draft), torch.tensor([[1], [2]]), max_new_tokens=4)
    with pytest.raises(ProblemError, match=r"temperature is 0\.5"):
        explain_divergence(target, MultiDraft(draft), torch.tensor([[1]]), max_new_tokens=4, temperature=0.5)
