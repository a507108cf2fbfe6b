import pytest

from benchmarks import interval
from otspec.data import open_source


def test_every_size_has_a_row_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "SHORT", ((10, 2), (100, 3)))
    monkeypatch.setattr(interval, "NS", (2,))
    source = open_source("llama3", 0)
    sizes = interval.truncated(source, 1)
    assert list(sizes.columns[0].cells) == ["(10, 2)", "(100, 3)"]
    for column in sizes.columns[1:-1]:
        assert all(float(str(cell)) > 0 for cell in column.cells)
    assert all(float(str(cell)) < 1e-9 for cell in sizes.columns[-1].cells)
    assert interval.against_argsort(source, 1).row_count == 1
