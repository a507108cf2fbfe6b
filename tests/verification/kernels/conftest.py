"""Few buckets and few bins for Triton's interpreter, which takes long."""

import pytest

from otspec.extras import installed

collect_ignore_glob = [] if installed("torch") and installed("triton") else ["test_*.py"]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few buckets, in one chunk, bins and rounds: whatever they are, the rules are the same."""
    from otspec.verification.rules.buckets import buckets, solving_kernels
    from otspec.verification.rules.nested import grid, grid_kernels
    from otspec.verification.tensors import majorant, majorant_kernels
    from tests.verification.kernels.setting import cut_into

    cut_into(monkeypatch, 64)
    monkeypatch.setattr(grid_kernels.BIN_LANES, "value", 16)
    monkeypatch.setattr(grid_kernels.BIN_ROUNDS, "value", 4)
    for modules, name, value in (
        ((buckets, solving_kernels), "BITS", 4),
        ((grid, grid_kernels), "BINS", 12),
        ((majorant, majorant_kernels), "HALVINGS", 3),
    ):
        monkeypatch.setattr(modules[0], name, value)
        monkeypatch.setattr(getattr(modules[1], name), "value", value)
