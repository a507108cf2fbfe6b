"""Laws of a pair of models after a text, against transformers' own passes."""

import numpy as np
import pytest
import torch

from otspec.decode import model_after
from otspec.laws import law_from_logits
from otspec.paths import Nested, accepted_length
from tests.decode.models import pair

TEXT = [1, 2, 3, 4, 9]


def test_laws_are_those_of_the_models_own_passes() -> None:
    target, draft = pair(40, noise=0.1)
    after = model_after(target, draft, TEXT, temperature=0.7, top_k=9)
    for prefix in ((), (5,), (5, 6, 1), (7,), (5, 6)):
        for law, model in ((after.target, target), (after.draft, draft)):
            with torch.no_grad():
                logits = model(torch.tensor([[*TEXT, *prefix]])).logits[0, -1]
            np.testing.assert_allclose(law(prefix), law_from_logits("own", logits.numpy(), 0.7, 9), atol=1e-6)
    assert np.count_nonzero(after.target((1, 2))) == 9


def test_rules_are_measured_after_a_text_of_a_pair() -> None:
    target, draft = pair(40, noise=0.1)
    same, near = (
        accepted_length(Nested(), model_after(target, other, TEXT), (1, 2, 1), samples=3) for other in (target, draft)
    )
    assert same.value == pytest.approx(3.0)
    assert 0 < near.value < 3
