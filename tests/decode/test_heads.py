"""Heads on the target's last hidden state: what they compute, and how accuracies by depth are counted."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import isotonic_regression

import otspec
from otspec.decode.drafters.heads.model import MedusaHeads
from otspec.decode.pair.loading import Models
from otspec.decode.recording.accuracies import accuracies
from otspec.errors import ProblemError
from tests.contracts.catalogue import Law, of_heads, on
from tests.contracts.draft_models import HEADS, all_features, heads, logits_of_heads, models
from tests.decode.families import family
from tests.decode.models import greedy_text, tiny

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXT = [3, 1, 4, 1, 5]


@pytest.mark.parametrize("name", HEADS)
def test_heads_compute_what_the_papers_say(name: str) -> None:
    target = tiny()
    model = heads(name, target)
    states = all_features(target, TEXT, (2,))[:, 0]
    tokens, features = torch.tensor([TEXT[1:]]), states[None, :-1]
    along = model.along(tokens, features)
    assert [logits.shape for logits in along] == [(1, 4 - number, 8) for number in range(3)]
    for number, logits in enumerate(along):
        for column in range(4 - number):
            read = TEXT[1 + column : 2 + column + number]
            np.testing.assert_allclose(logits[0, column], logits_of_heads(model, states[column], read), atol=1e-9)
    assert torch.equal(model(tokens, features).logits, along[0])
    assert len(model.along(tokens[:, :1], features[:, :1])) == 1


def test_medusa_begins_as_the_head_of_its_target() -> None:
    """With its bias and soft cap; a text goes no deeper than there are heads."""
    capped = copy.deepcopy(family("gemma2", 8))
    capped.lm_head.bias = torch.nn.Parameter(torch.linspace(-3, 3, 8, dtype=torch.float64))
    for target, most in ((copy.deepcopy(tiny()).float(), 2), (capped, 1)):
        said = target(torch.tensor([TEXT]), output_hidden_states=True)
        for logits in MedusaHeads.of(target, most).along(torch.tensor([TEXT]), said.hidden_states[-1]):
            torch.testing.assert_close(logits, said.logits[:, : logits.shape[1]], rtol=1e-9, atol=1e-12)
    assert 2 < said.logits.abs().max() < 3.0
    found = otspec.generate(tiny(), MedusaHeads.of(tiny(), 2), torch.tensor([TEXT]), depth=6, max_new_tokens=9, seed=0)
    assert len(found.metrics.accepted) == 2
    capped.lm_head.register_forward_hook(lambda module, inputs, found: found)
    with pytest.raises(ProblemError, match="begins as the head of its target, and Gemma2ForCausalLM has none"):
        MedusaHeads.of(capped, 2)


VOCAB, PROMPTS, DEPTH, NEW = 8, [[3, 1, 4], [2, 7, 5, 1]], 3, 6
KEPT = [1, 3, 5, 7]
KINDS: dict[str, tuple[Any, Law, dict[str, Any]]] = {
    "kept": (lambda of: of.draft, on(lambda of: KEPT), {"draft_tokens": KEPT}),
    "medusa": (lambda of: heads("medusa", of.target, 0.1), of_heads("medusa"), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_accuracies_are_counted_by_depth_and_rank(kind: str) -> None:
    """Beside a count over the texts with laws that are computed anew."""
    of = models(VOCAB)
    make, law, settings = KINDS[kind]
    both = Models(of.target, None, make(of))
    found = accuracies(both, PROMPTS, depth=DEPTH, ranks=VOCAB, new=NEW, settings=settings)
    hits = np.zeros((DEPTH, VOCAB))
    for prompt in PROMPTS:
        text = greedy_text(of.target, prompt, NEW)
        for at in range(len(prompt), len(text) - DEPTH + 1):
            for level in range(DEPTH):
                said = law(of, text[:at], text[at : at + level], 0)
                if said[text[at + level]] > 0:
                    hits[level, (said > said[text[at + level]]).sum()] += 1
    places = len(PROMPTS) * (NEW - DEPTH + 1)
    expected = [isotonic_regression(row / places, increasing=False).x for row in hits]
    np.testing.assert_allclose(found, expected, atol=1e-12)
