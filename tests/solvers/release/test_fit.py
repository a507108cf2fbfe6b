import numpy as np

from otspec.solvers.release.fit import merge


def test_merges_neighbours_of_like_ratio_only() -> None:
    q = np.array([1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 1.0]) * 1e-3
    p = np.array([1.0, 0.9, 0.7, 3.0, 0.5, 0.5, 0.5, 0.5]) * 1e-3
    heavy = np.array([0, 0, 0, 1, 0, 0, 0, 0], dtype=bool)
    assert merge(q, heavy, p, 0.0035).tolist() == [0, 0, 1, 2, 3, 3, 3, 4]
