from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.random_pair import SCALE, random_pair  # noqa: E402

CPU = torch.device("cpu")


def test_laws_are_as_wide_and_as_alike_as_they_are_said_to_be() -> None:
    models = random_pair("tiny", "tiny", 4000, CPU, torch.float32)
    with torch.no_grad():
        models_of: list[Any] = [models.target, models.draft]
        logits = [model(torch.arange(50)[None]).logits[0] for model in models_of]
    for one in logits:
        assert one.std().item() == pytest.approx(SCALE, rel=0.1)
    p, q = (one.softmax(dim=-1) for one in logits)
    assert 0.5 < torch.minimum(p, q).sum(dim=-1).mean().item() < 0.75
