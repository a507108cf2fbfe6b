"""Accuracies by depth and rank, beside a count over the texts with laws that are computed anew."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import isotonic_regression

from otspec.decode.pair.loading import Models
from otspec.decode.recording.accuracies import accuracies
from tests.contracts.catalogue import Law, of_eagle, of_heads, on, plain
from tests.contracts.draft_models import eagle, heads, models
from tests.decode.models import greedy_text

VOCAB, PROMPTS, DEPTH, NEW = 8, [[3, 1, 4], [2, 7, 5, 1]], 3, 6
KEPT = [1, 3, 5, 7]
KINDS: dict[str, tuple[Any, Law, dict[str, Any]]] = {
    "plain": (lambda of: of.draft, plain(), {}),
    "kept": (lambda of: of.draft, on(lambda of: KEPT), {"draft_tokens": KEPT}),
    "eagle": (lambda of: eagle(of.draft), of_eagle(lambda of: eagle(of.draft)), {}),
    "medusa": (lambda of: heads("medusa", of.target, 0.1), of_heads("medusa"), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_counted(kind: str) -> None:
    of = models(VOCAB)
    make, law, settings = KINDS[kind]
    with torch.no_grad():
        found = accuracies(
            Models(of.target, None, make(of)), PROMPTS, depth=DEPTH, ranks=VOCAB, new=NEW, settings=settings
        )
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
