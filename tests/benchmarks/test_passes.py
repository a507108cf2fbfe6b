"""All ways to make a pass give the same logits, or their times would not be of one thing."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import passes  # noqa: E402
from otspec.decode import shipped  # noqa: E402


@pytest.mark.parametrize("rows", [1, 4])
def test_all_ways_read_the_same(rows: int) -> None:
    with torch.no_grad():
        for model in (shipped.load().draft, shipped.load().target):
            lean, whole, static = (
                make(model, 30, rows)() for make in (passes._lean, passes._transformers, passes._static)
            )
            assert torch.equal(lean, whole)
            assert (static - whole).abs().max() < 1e-3


def test_the_table_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    passes.main(context=8, repeats=1, compiled=False)
    shown = capsys.readouterr().out
    assert "compiling" in shown
    assert shown.count("target") == 2
