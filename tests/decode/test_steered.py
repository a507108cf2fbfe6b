"""Draft models that the target steers: the same bits without steering, and the law that is verified with it."""

from typing import Any

import pytest
import torch

import otspec
from otspec.decode import MultiDraft
from otspec.decode.drafters.hidden_states import rms_normalise
from otspec.decode.drafters.sd2.drafter import SteeredDrafter
from tests.contracts.draft_models import LAYERS, WIDTH, all_features, features_before, models, steered
from tests.contracts.playing import Play
from tests.decode.models import calls_of, pair

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = ([3, 1, 4, 1, 5], [2, 7], [6])


def test_hidden_states_are_scaled_to_one_size() -> None:
    features = torch.tensor([[3.0, -4.0], [0.0, 0.0], [1e-30, 0.0]])
    found = rms_normalise(features)
    torch.testing.assert_close(found[0], features[0] / 12.5**0.5)
    assert found[1].tolist() == [0.0, 0.0]
    assert found.isfinite().all()
    _, draft = pair()
    model = steered(draft)
    inputs = torch.randn(2, 3, len(LAYERS), WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(model.shifts(100 * inputs), model.shifts(inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [(2, 1, 0), (1, 3, 2)])
def test_laws_are_those_of_a_pass_whose_tokens_are_steered_as_of_their_time(lengths: tuple[int, ...]) -> None:
    """After a prompt, and again after a step that accepted some drafts and added a token."""
    of = models(8)
    model = steered(of.draft)
    play = Play(MultiDraft(model, branching=(2, 1, 1)), of, TEXTS, {})
    steering = [features_before(of.target, text[:-1]) for text in TEXTS]

    def check() -> Any:
        drafts, row = play.draft(3), 0
        for text, tree, past in zip(play.texts, drafts.trees, steering, strict=True):
            known = features_before(of.target, text)
            for node in range(tree.inner):
                whole = [*text, *tree.token[tree.line(node)].tolist()]
                drafted = known[-1:].expand(len(whole) - len(text), -1, -1)
                each = torch.cat((past, known[len(past) :], drafted))
                logits = model(torch.tensor([whole]), shifts=model.shifts(each[None])).logits[0, -1]
                torch.testing.assert_close(drafts.laws[row], logits.softmax(-1), rtol=1e-9, atol=1e-12)
                row += 1
        assert row == len(drafts.laws)
        return drafts

    trees = check().trees
    for number, (text, length) in enumerate(zip(TEXTS, lengths, strict=True)):
        # What the draft model has read of it keeps its steering; a draft of the last level was never read, and is
        # steered by the token before it, as in training.
        kept = len(text) + min(length, 2)
        now = features_before(of.target, text)[-1:]
        steering[number] = torch.cat((steering[number], now.expand(kept - len(steering[number]), -1, -1)))
    play.go_on([int(tree.node[0, length]) for tree, length in zip(trees, lengths, strict=True)], [3] * 3, range(3))
    check()


def test_the_loop_tells_hidden_states_of_prompts_and_of_all_that_became_text() -> None:
    target, draft = pair()
    model = steered(draft)
    ids = torch.tensor([[0, 3, 1, 4], [2, 7, 1, 5]])
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
    with pytest.MonkeyPatch.context() as patch:
        shown = calls_of(patch, SteeredDrafter, "observe")
        found = otspec.generate(target, model, ids, attention_mask=mask, paths=2, depth=2, max_new_tokens=9, seed=0)
    for row in range(2):
        text = found.sequences[row][mask[row].sum().item() * -1 - 9 :].tolist()
        parts = [one[row] for (_, one), _ in shown if len(one) == 2]  # until one of them has ended
        heard = torch.cat(parts)
        torch.testing.assert_close(heard, all_features(target, text)[: len(heard)])
        assert len(heard) > mask[row].sum()
