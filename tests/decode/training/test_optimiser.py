"""What changes weights: torch's own optimisers, each for its weights, at the rate of the step."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from otspec.decode.training.optimiser import DECAY, OPTIMISERS, Optimiser
from otspec.errors import ProblemError

RATES = (0.1, 0.05, 0.2)


def _weights(seed: int = 0) -> list[Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [Parameter(torch.randn(size, generator=generator)) for size in ((5, 3), (4,), (3, 3), (2, 2, 2))]


def _descend(step: Callable[[float], object], weights: list[Parameter], rates: tuple[float, ...] = RATES) -> None:
    for rate in rates:
        sum((one.sin().square().sum() for one in weights), torch.zeros(())).backward()
        step(rate)
        assert all(one.grad is None for one in weights)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_each_weight_goes_as_its_own_optimiser_of_torch_has_it(name: str) -> None:
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

    _descend(Optimiser(name, own, 1.0).step, own)
    _descend(by_hand, other)
    for one, two in zip(own, other, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_goes_on_from_its_state(name: str) -> None:
    whole, halves = _weights(), _weights()
    _descend(Optimiser(name, whole, 1.0).step, whole)
    first = Optimiser(name, halves, 1.0)
    _descend(first.step, halves, RATES[:1])
    second = Optimiser(name, halves, 1.0)
    second.load_state_dict(first.state_dict())
    _descend(second.step, halves, RATES[1:])
    assert all(torch.equal(one, two) for one, two in zip(whole, halves, strict=True))


def test_a_torch_without_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    Optimiser("adamw", _weights(), 1.0)
    with pytest.raises(ProblemError, match=r"torch .* has no Muon; update it to 2.9 or newer"):
        Optimiser("muon", _weights(), 1.0)
