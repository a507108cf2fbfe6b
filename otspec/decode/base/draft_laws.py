"""How the children of a node are drawn on the device, and the scheme that gives the verifier their law."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from otspec.errors import ProblemError
from otspec.extras import installed
from otspec.laws import FloatArray
from otspec.schemes import IID, DraftScheme, Greedy, HubPairs, Independent, TopK, WithoutReplacement
from otspec.verification.rules.token_wise.token_wise import Scheme
from otspec.verification.trees.topology import NONE

FEW_LAWS = 64
"""Up to which torch's softmax and running sums leave most of a GPU idle."""

Drawing = Callable[[torch.Tensor, int, torch.Generator], torch.Tensor]
"""Laws, shape (..., V), number of children n and a generator to tokens, shape (..., n), in the order of drawing.

Where fewer than n tokens have a probability above 0, the last ones are `NONE`.
"""


FEW = 8
"""Tokens up to which each is searched for by itself: a sort of all takes as long as hundreds of searches."""


class DraftLaw(NamedTuple):
    """A way to draw n drafts, given in two forms: as the device does it, and as the law that a verifier needs."""

    name: str
    draw: Drawing
    scheme: Scheme
    most: int | None = None
    """How many children of a node there may be; None: as many as there are tokens."""
    picks: str | None = None
    """A solver whose plans pick one of the drafts, where those of the solver of choice do not."""
    several: bool = False
    """Whether paths are independent, and each may have a draft model of its own."""


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


def draw(laws: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One draw from each law, shape (..., V), without a synchronisation; shape (...)."""
    return _iid(laws, 1, generator).squeeze(-1)


def _iid(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    """By the inverse of the distribution function: one uniform number a draft, where clocks take one a token."""
    unit = torch.rand(*laws.shape[:-1], n, dtype=torch.float64, device=laws.device, generator=generator)
    if few_on_a_gpu(laws):
        from otspec.decode.base import law_kernels  # Triton is wanted on a GPU alone

        return law_kernels.draw(laws.reshape(-1, laws.shape[-1]), unit.reshape(-1, n)).view(unit.shape)
    reached = laws.cumsum(dim=-1)
    # A multiple of 2^-53 below 1, so its product with the total is below the total: the token has a probability.
    return torch.searchsorted(reached, unit * reached[..., -1:], right=True)


def few_on_a_gpu(laws: torch.Tensor) -> bool:
    """Whether kernels of our own take these laws, or the scores that laws are made of, shape (..., V)."""
    return laws.device.type == "cuda" and laws[..., 0].numel() <= FEW_LAWS and installed("triton")


def _without_replacement(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _possible(laws, inverse_arrivals(laws, generator).topk(n, dim=-1).indices)


def _likeliest(laws: torch.Tensor, n: int) -> torch.Tensor:
    """The n likeliest first; ties in favour of the lowest id, as in the schemes."""
    if 0 < n <= FEW and few_on_a_gpu(laws):
        from otspec.decode.base import law_kernels

        return law_kernels.likeliest(laws.reshape(-1, laws.shape[-1]), n).view(*laws.shape[:-1], n)
    if not 0 < n <= FEW:
        return _possible(laws, laws.sort(dim=-1, descending=True, stable=True).indices[..., :n])
    rest, tokens = laws.clone(), list[torch.Tensor]()
    for _ in range(n):
        tokens.append(rest.argmax(dim=-1, keepdim=True))  # of several ones, the first
        rest.scatter_(-1, tokens[-1], -1.0)
    return _possible(laws, torch.cat(tokens, dim=-1))


def _greedy(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    fixed = _likeliest(laws, n - 1)
    rest = laws.scatter(-1, fixed.clamp(min=0), 0.0)  # where one of them is NONE, nothing is left anyway
    last = inverse_arrivals(rest, generator).argmax(dim=-1, keepdim=True)
    return torch.cat((fixed, _possible(rest, last)), dim=-1)


def _top_k(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _likeliest(laws, n)


def _hub_pairs(laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    first = _iid(laws, 1, generator)
    if n == 1:
        return first
    hub = laws.argmax(dim=-1, keepdim=True)
    rest = laws.scatter(-1, hub, 0.0)
    other = _possible(rest, inverse_arrivals(rest, generator).argmax(dim=-1, keepdim=True))
    return torch.cat((first, torch.where(first == hub, other, hub)), dim=-1)


def _pair_or_one(q: FloatArray, n: int) -> DraftScheme:
    """Where there is one token, or one draft is requested, that draft is from q."""
    return HubPairs(q) if n == 2 else IID(q, n)


def _each_its_own(q: FloatArray, n: int) -> DraftScheme:
    """Drafts from one law, shape (V,), or each from its own, (n, V); rows of one model are equal to the bit."""
    if q.ndim == 1:
        return IID(q, n)
    return IID(q[0], n) if (q == q[0]).all() else Independent(q)


DRAFT_LAWS = {
    law.name: law
    for law in (
        DraftLaw("iid", _iid, IID),
        DraftLaw("without_replacement", _without_replacement, WithoutReplacement),
        DraftLaw("greedy", _greedy, Greedy),
        DraftLaw("top_k", _top_k, TopK),
        DraftLaw("hub_pairs", _hub_pairs, _pair_or_one, most=2, picks="max_flow"),
        DraftLaw("independent", _iid, _each_its_own, several=True),
    )
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
