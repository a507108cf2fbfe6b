"""How the children of a node are drawn on the device, and the scheme that tells their law to the verifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from otspec.errors import ProblemError
from otspec.paths.token_wise import Scheme
from otspec.paths.topology import NONE
from otspec.schemes import IID, Greedy, TopK, WithoutReplacement

Drawing = Callable[[torch.Tensor, int, torch.Generator], torch.Tensor]
"""Laws, shape (..., V), number of children n and a generator to tokens, shape (..., n), in the order of drawing.

Where fewer than n tokens have a probability above 0, the last ones are `NONE`.
"""


class DraftLaw(NamedTuple):
    """A way to draw n drafts, given in two forms: as the device does it, and as the law that a verifier needs."""

    draw: Drawing
    scheme: Scheme


def _possible(laws: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The tokens, `NONE` in place of those of probability 0."""
    return torch.where(laws.gather(-1, tokens) > 0, tokens, NONE)


def inverse_arrivals(laws: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One over the times at which exponential clocks of these rates ring, one clock a token.

    The first to ring, of largest inverse, is a draw from the law; the order in which they ring is one without
    replacement.  `torch.multinomial` would check its argument, and on a GPU wait for the answer.  Times are drawn in
    float64, since in float32 those of tiny tokens would all be alike.
    """
    unit = torch.empty(laws.shape, dtype=torch.float64, device=laws.device).exponential_(generator=generator)
    return laws / unit


def _iid(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return inverse_arrivals(laws.unsqueeze(-2).expand(*laws.shape[:-1], n, -1), generator).argmax(dim=-1)


def _without_replacement(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _possible(laws, inverse_arrivals(laws, generator).topk(n, dim=-1).indices)


def _likeliest(laws: torch.Tensor, n: int) -> torch.Tensor:
    """Ties in favour of the lowest id, as in the schemes."""
    return _possible(laws, laws.sort(dim=-1, descending=True, stable=True).indices[..., :n])


def _greedy(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    fixed = _likeliest(laws, n - 1)
    rest = laws.scatter(-1, fixed.clamp(min=0), 0.0)  # where one of them is NONE, nothing is left anyway
    last = inverse_arrivals(rest, generator).argmax(dim=-1, keepdim=True)
    return torch.cat((fixed, _possible(rest, last)), dim=-1)


def _top_k(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _likeliest(laws, n)


DRAFT_LAWS = {
    "iid": DraftLaw(_iid, IID),
    "without_replacement": DraftLaw(_without_replacement, WithoutReplacement),
    "greedy": DraftLaw(_greedy, Greedy),
    "top_k": DraftLaw(_top_k, TopK),
}
"""Draft laws by name."""


def draft_law(name: str) -> DraftLaw:
    """The draft law of that name.

    Raises
    ------
    ProblemError
        If there is no draft law of that name.
    """
    if name not in DRAFT_LAWS:
        raise ProblemError(f"no draft law {name!r}; known: {', '.join(DRAFT_LAWS)}")
    return DRAFT_LAWS[name]
