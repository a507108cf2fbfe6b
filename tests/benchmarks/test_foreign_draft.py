"""The figures of a drafter with another tokenizer, on two short prompts."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.foreign_draft import ALIGNED, OWN, TLI, accepted, decoded, summed_up, table, texts_of, ways  # noqa: E402
from otspec.decode.shipped import held_out  # noqa: E402


def test_figures_of_every_drafter() -> None:
    everyone, share = ways({})
    prompts = held_out(20)[:2]
    texts = texts_of(everyone.target, prompts, 8)
    assert texts.shape == (2, 28)
    acceptance = accepted(everyone, texts, 20)
    assert list(acceptance) == [OWN, TLI, ALIGNED]
    assert all(found.shape == (2, 2) for found in acceptance.values())
    # Of the pair's own draft model, from the start of the text.
    own = everyone.drafters[OWN]["draft"]
    with torch.inference_mode():
        p, q = (model(texts).logits[:, [19, 23]].double().softmax(dim=-1).numpy() for model in (everyone.target, own))
    np.testing.assert_allclose(acceptance[OWN], np.minimum(p, q).sum(axis=-1), atol=1e-4)
    rows = summed_up(decoded(everyone, prompts, 8, 2, (OWN, TLI, ALIGNED)))
    told = {row["drafter"]: row for row in rows}
    assert told["vanilla"]["block_efficiency"] == told["vanilla"]["speed_up"] == told[OWN]["draft_time"] == 1
    assert all(1 <= row["block_efficiency"] <= 3 for row in rows)
    shown = table(acceptance, rows, share, "title").markdown()
    assert "50.0%" in shown
    assert f"| {TLI} |" in shown
