"""The optimiser of the recipe: Muon for matrices, AdamW for the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch

MOMENTUM = 0.95
DECAY = 0.1
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic of [jordan2024muon], which drives singular values towards 1 in five steps."""


class Muon:
    """Momentum whose matrix updates are orthogonalised [jordan2024muon]; AdamW for embeddings and norms.

    Updates of matrices are scaled to the root mean square of Adam's [liu2025muon], so one learning rate serves all.
    """

    def __init__(self, parameters: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
        named = list(parameters)
        rest = [value for name, value in named if value.ndim != 2 or "embed" in name]
        self._adam = torch.optim.AdamW(rest, betas=(0.9, 0.95), weight_decay=0.0)
        shapes: dict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
        for name, value in named:
            if value.ndim == 2 and "embed" not in name:
                shapes[value.shape].append(value)
        self._groups = list(shapes.values())
        self._momenta = [group[0].new_zeros(len(group), *group[0].shape) for group in self._groups]

    def step(self, rate: float) -> None:
        """One update at that learning rate; clears the gradients."""
        for options in self._adam.param_groups:
            options["lr"] = rate
        self._adam.step()
        self._adam.zero_grad()
        with torch.no_grad():
            for group, momentum in zip(self._groups, self._momenta, strict=True):
                gradient = torch.stack([value.grad for value in group if value.grad is not None])
                momentum.lerp_(gradient, 1 - MOMENTUM)
                updates = orthogonalised(gradient.lerp_(momentum, MOMENTUM))
                scale = 0.2 * max(updates.shape[-2:]) ** 0.5
                for value, update in zip(group, updates, strict=True):
                    value.mul_(1 - rate * DECAY).sub_(update, alpha=rate * scale)
                    value.grad = None

    def state(self) -> dict[str, object]:
        """What a checkpoint needs."""
        return {"adam": self._adam.state_dict(), "momenta": self._momenta}

    def restore(self, state: dict[str, object]) -> None:
        """Go on from what `state` gave."""
        self._adam.load_state_dict(state["adam"])  # type: ignore[arg-type]
        self._momenta = state["momenta"]  # type: ignore[assignment]


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """The nearest matrices with orthonormal rows or columns, roughly; shape (..., rows, columns)."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    X = matrices.mT if tall else matrices
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-12)
    for _ in range(5):
        square = X @ X.mT
        X = a * X + (b * square + c * square @ square) @ X
    return X.mT if tall else X
