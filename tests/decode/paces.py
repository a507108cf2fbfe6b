"""A menu, what its steps take, and selectors of no sense: for tests of what is chosen step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from otspec.decode import PassCosts, PassTimes, Selector
from otspec.decode.pacing.menu import menu_of, prefixes

MENU = [(1,), (1, 2), (2, 1)]
DEAR = PassCosts(PassTimes((1, 32), (1.0, 2.0)), PassTimes((1,), (0.25,)), rest=0.05)
PROMPTS = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])


def drawn(menu: Any = MENU, scale: float = 0.4, seed: int = 0, **about: Any) -> Selector:
    """A selector of no sense, whose mind changes with every sign."""
    rng, count = np.random.default_rng(seed), len(prefixes(menu_of(menu)))
    weights = scale * rng.normal(size=(count, 21))
    weights[:, 0] = rng.uniform(0.3, 0.9, size=count)
    return Selector(menu, weights, np.array([0.6, 0.6, 0.6, 0.9, 0.5]), np.array([0.1, 0.1, 0.2, 0.2, 0.1]), about)
