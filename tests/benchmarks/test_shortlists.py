"""The figures of `benchmarks.shortlists`, on a few contexts of the shipped pair."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.shortlists import drafting, summary  # noqa: E402
from otspec.decode import shipped, train_router  # noqa: E402
from otspec.vocab import frequency_prune  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")


def test_what_is_measured_and_how_it_is_told(tmp_path: Path) -> None:
    pair = shipped.load()
    texts, of = shipped.held_out(40)[:4], [0, 1, 2, 3]
    router = train_router(pair.draft, texts, clusters=64, width=8, epochs=1)
    order = frequency_prune(shipped.frequencies(), 2048)
    each = list(drafting.drafters(order, router, texts))
    records = [record for one in each for record in drafting.drafted(pair, one, texts, of, 1)]
    # The first position against whole passes of both models.
    tokens = torch.tensor(texts)
    p, q = (model(tokens).logits[:, -1].double().softmax(dim=-1).numpy() for model in (pair.target, pair.draft))
    whole = [record for record in records if record["drafter"] == drafting.FULL]
    np.testing.assert_allclose([one["rates"][0] for one in whole], np.minimum(p, q).sum(axis=1), atol=1e-4)
    cut = np.where(np.isin(np.arange(2048), order[:512]), q, 0.0)
    fixed = [one for one in records if (one["drafter"], one["share"]) == ("FR-Spec", 4)]
    expected = np.minimum(p, cut / cut.sum(axis=1, keepdims=True)).sum(axis=1)
    np.testing.assert_allclose([one["rates"][0] for one in fixed], expected, atol=1e-4)
    assert {size for one in fixed for size in one["sizes"]} == {512}
    records += drafting.oracle(pair, texts, of, 2048)
    records += drafting.timed(pair, each, texts[0], 2)
    totals = summary.Summary(records)
    best, rate = (totals.mean((drafting.ORACLE, 4), figure)[0] for figure in ("best", "rate"))
    assert rate <= best
    assert best == pytest.approx(np.sort(p, axis=1)[:, -512:].sum(axis=1).mean(), abs=1e-4)
    found, gains, oracle = summary.tables(totals)
    assert len(found.rows) == 1 + len(drafting.FAMILIES) * len(drafting.SHARES) + 1
    assert len(gains.rows) == 10
    assert len(oracle.rows) == len(drafting.SHARES)
    summary.draw(totals, tmp_path / "shortlists.png")
    assert (tmp_path / "shortlists.png").stat().st_size > 10_000
