from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from benchmarks.shipped_pair.muon import Muon, orthogonalised  # noqa: E402


def test_orthogonalised_keeps_singular_vectors_and_brings_singular_values_near_one() -> None:
    for shape in ((5, 5), (3, 12, 5), (2, 5, 12)):
        matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        left, _, right = torch.linalg.svd(matrices, full_matrices=False)
        result = left.mT @ orthogonalised(matrices) @ right.mT
        diagonal = torch.diagonal(result, dim1=-2, dim2=-1)
        # The quintic overshoots by design: five steps leave singular values within 0.7 .. 1.2.
        assert 0.6 < diagonal.min() <= diagonal.max() < 1.3, shape
        np.testing.assert_allclose(result - torch.diag_embed(diagonal), 0.0, atol=1e-12, err_msg=str(shape))


def test_optimiser_fits_and_goes_on_from_its_state() -> None:
    def trained(stop: int | None) -> object:
        generator = torch.Generator().manual_seed(0)
        goal = torch.randn(6, 4, generator=generator)
        weights = {"matrix": torch.nn.Parameter(torch.zeros(6, 4)), "norm": torch.nn.Parameter(torch.zeros(4))}
        optimiser = Muon(weights.items())
        for step in range(300):
            if step == stop:
                state, optimiser = optimiser.state(), Muon(weights.items())
                optimiser.restore(state)
            loss = ((weights["matrix"] - goal) ** 2).sum() + ((weights["norm"] - goal[0]) ** 2).sum()
            loss.backward()
            optimiser.step(0.1 * (1 - step / 300))
        assert loss.item() < 0.05
        return torch.cat([value.detach().flatten() for value in weights.values()])

    np.testing.assert_array_equal(trained(None), trained(100))
