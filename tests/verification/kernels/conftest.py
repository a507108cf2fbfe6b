"""Few buckets and few bins for Triton's interpreter, which takes long."""

import pytest

from otspec.extras import installed

collect_ignore_glob = [] if installed("torch") and installed("triton") else ["test_*.py"]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few buckets, in one chunk, bins and rounds: whatever they are, the rules are the same."""
    from otspec.verification.rules.buckets import buckets, cut
    from otspec.verification.rules.nested import grid, grid_kernels
    from otspec.verification.tensors import majorant, majorant_kernels

    monkeypatch.setattr(buckets, "BITS", 4)
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(cut, name, 64)
    monkeypatch.setattr(grid, "BINS", 12)
    monkeypatch.setattr(majorant, "HALVINGS", 3)
    constants = ((grid_kernels.BINS, 12), (grid_kernels.BIN_LANES, 16), (grid_kernels.BIN_ROUNDS, 4))
    for constant, value in (*constants, (majorant_kernels.HALVINGS, 3)):
        monkeypatch.setattr(constant, "value", value)
