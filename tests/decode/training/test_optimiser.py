"""What changes weights: torch's own optimisers, each for its weights, at the rate of the step."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from otspec.decode.training.optimiser import DECAY, OPTIMISERS, Optimiser
from otspec.errors import ProblemError

RATES = (0.1, 0.05, 0.2)


def _weights() -> list[Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [Parameter(torch.randn(size, generator=generator)) for size in ((5, 3), (4,), (3, 3), (2, 2, 2))]


def _descend(step: Callable[[float], object], weights: list[Parameter], rates: tuple[float, ...]) -> None:
    for rate in rates:
        sum((one.sin().square().sum() for one in weights), torch.zeros(())).backward()
        step(rate)
        assert all(one.grad is None for one in weights)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_each_weight_goes_as_its_own_optimiser_of_torch_has_it(name: str) -> None:
    """Also where another one goes on from the state that it was in after the first step."""
    own, other = _weights(), _weights()
    matrices = [one for one in other if one.ndim == 2 and name == "muon"]
    rest = [one for one in other if not any(one is matrix for matrix in matrices)]
    torchs: list[Any] = [torch.optim.AdamW(rest, lr=1.0, weight_decay=DECAY)]
    if matrices:
        torchs.append(torch.optim.Muon(matrices, lr=1.0, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"))

    def by_hand(rate: float) -> None:
        for one in torchs:
            for group in one.param_groups:
                group["lr"] = rate
            one.step()
            one.zero_grad()

    first, second = (Optimiser(name, own, 1.0) for _ in range(2))
    _descend(first.step, own, RATES[:1])
    second.load_state_dict(first.state_dict())
    _descend(second.step, own, RATES[1:])
    _descend(by_hand, other, RATES)
    for one, two in zip(own, other, strict=True):
        assert torch.equal(one, two)


def test_a_torch_without_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    Optimiser("adamw", _weights(), 1.0)
    with pytest.raises(ProblemError, match=r"torch .* has no Muon; update it to 2.9 or newer"):
        Optimiser("muon", _weights(), 1.0)
