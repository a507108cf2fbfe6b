"""What changes weights: AdamW, or Muon for matrices and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import Parameter

from otspec.errors import ProblemError

ADAMW, MUON = "adamw", "muon"
OPTIMISERS = (ADAMW, MUON)
DECAY = 0.01
"""Of weights, by the rate."""


class Optimiser:
    """Some of torch's, all at one learning rate.

    Muon orthogonalises the updates of matrices [jordan2024muon]; scaled to the root mean square of Adam's
    [liu2025muon], they take its rate.

    Parameters
    ----------
    name : str
        One of `OPTIMISERS`.
    learning : iterable of Parameter
    rate : float

    Raises
    ------
    ProblemError
        If this torch has no Muon.
    """

    def __init__(self, name: str, learning: Iterable[Parameter], rate: float) -> None:
        weights = list(learning)
        by_muon = [one for one in weights if one.ndim == 2] if name == MUON else []
        rest = [one for one in weights if name != MUON or one.ndim != 2]
        self._each: list[torch.optim.Optimizer] = []
        if by_muon:
            muon: Any = getattr(torch.optim, "Muon", None)
            if muon is None:
                raise ProblemError(f"torch {torch.__version__} has no Muon; update it to 2.9 or newer")
            self._each.append(muon(by_muon, lr=rate, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"))
        if rest:
            fused = rest[0].device.type == "cuda"
            self._each.append(torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.999), weight_decay=DECAY, fused=fused))

    def step(self, rate: float) -> None:
        """One update at that learning rate; clears the gradients."""
        for one in self._each:
            for group in one.param_groups:
                group["lr"] = rate
            one.step()
            one.zero_grad()

    def state_dict(self) -> list[dict[str, Any]]:
        """What a checkpoint needs."""
        return [one.state_dict() for one in self._each]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Go on from what `state_dict` returned."""
        for one, held in zip(self._each, state, strict=True):
            one.load_state_dict(held)
