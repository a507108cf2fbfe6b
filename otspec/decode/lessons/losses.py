"""How far draft laws are from the target's: what training makes small."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy, kl_div, smooth_l1_loss

from otspec.errors import ProblemError


class Prediction(NamedTuple):
    """What a draft model says at some positions."""

    logits: torch.Tensor
    """Of the tokens that it drafts, shape (..., k)."""
    features: torch.Tensor | None = None
    """Hidden states as the head gets them, shape (..., width); only where they stand for the target's."""


class Wanted(NamedTuple):
    """What the target says there."""

    log_law: torch.Tensor
    """Logarithms of the probabilities of the tokens that are drafted, shape (..., k); together they may have less
    than 1, as others are never drafted."""
    features: torch.Tensor | None = None
    """Its hidden states as the head gets them, shape (..., width), where they are looked at."""


Loss = Callable[[Wanted, Prediction], torch.Tensor]
"""What target and draft model say to the mean over positions."""


def kl(target: Wanted, draft: Prediction) -> torch.Tensor:
    """KL(p || q), in nats [zhou2024distillspec; berdozsteering, Section 3.3]: the share of the tokens that are drafted.

    But for the entropy of p, on which q has no bearing, it is the cross-entropy that heads are trained with, of labels
    that are p in place of one token drawn from it.
    """
    p, q = (logits.float().flatten(0, -2) for logits in (target.log_law, draft.logits.float().log_softmax(-1)))
    return kl_div(q, p, log_target=True, reduction="batchmean")


def tvd(target: Wanted, draft: Prediction) -> torch.Tensor:
    """Total variation, the probability that a single draft is refused [leviathan2023fast]."""
    p, q = target.log_law.float().exp(), draft.logits.float().softmax(-1)
    return 1 - torch.minimum(p, q).sum(-1).mean()


@dataclass(frozen=True)
class Refusal:
    """1 - alpha*(n): the probability that n i.i.d. drafts are all refused by the rule that accepts most.

    It is max over sets A of p(A) - 1 + (1 - q(A))^n [hu2025towards], and as that set is best, its gradient is that of
    the expression with A held fixed (`docs/theory/training.md`).  At n = 1 it is the total variation.
    """

    n: int
    """Drafts."""

    def __call__(self, target: Wanted, draft: Prediction) -> torch.Tensor:
        """The mean over positions."""
        log_p, log_q = target.log_law.float(), draft.logits.float().log_softmax(-1)
        with torch.no_grad():
            left = ~best_level_set(log_p, log_q, self.n)
            lost = log_p.exp().masked_fill(~left, 0).sum(-1)  # p of what is drafted and not in A
        inside = log_q.exp().masked_fill(left, 0).sum(-1)
        return ((1 - inside).clamp(min=0) ** self.n - lost).mean()


STEPS = 8
"""Level sets of p / q that are looked at, to an octave."""
OCTAVES = (-32, 8)
"""Of p / q, beyond which all is one."""


def best_level_set(log_p: torch.Tensor, log_q: torch.Tensor, n: int) -> torch.Tensor:
    """Of the sets {p >= t q}, with t on a grid, that of the largest p(A) + (1 - q(A))^n, shape (..., k) of bool.

    The best set of all is one of them with t = n (1 - q(A))^(n - 1); between points of the grid the value is flat.

    Parameters
    ----------
    log_p, log_q : Tensor, shape (..., k)
    n : int
    """
    lowest, highest = (STEPS * end for end in OCTAVES)
    octaves = (log_p - log_q) / math.log(2)
    place = (STEPS * octaves).nan_to_num(lowest, highest, lowest).clamp(lowest, highest).floor().long() - lowest
    sums = [
        torch.zeros(*place.shape[:-1], highest - lowest + 1, device=place.device).scatter_add_(-1, place, one.exp())
        for one in (log_p, log_q)
    ]
    p, q = (one.flip(-1).cumsum(-1) for one in sums)  # of sets, from those of the largest ratios on
    best = (p + (1 - q).clamp(min=0) ** n).argmax(-1, keepdim=True)
    return place >= highest - lowest - best


LAW_SHARE = 0.1
"""w_cls of EAGLE."""


def eagle(target: Wanted, draft: Prediction) -> torch.Tensor:
    """Smooth L1 of the hidden states, and a tenth of the cross-entropy of p and q [li2024eagle]."""
    assert target.features is not None
    assert draft.features is not None
    regression = smooth_l1_loss(draft.features.float(), target.features.float())
    p = target.log_law.float().exp().flatten(0, -2)
    return regression + LAW_SHARE * cross_entropy(draft.logits.float().flatten(0, -2), p)


LOSSES: Mapping[str, Loss] = {"kl": kl, "tvd": tvd, "eagle": eagle}
"""By name; beside them ``alpha:n`` is `Refusal`."""
ALPHA, MOST = "alpha", 64

OF_FEATURES = ("eagle",)
"""Those that compare hidden states: for draft models whose outputs stand for the target's."""


def loss_named(spelling: str) -> Loss:
    """The loss of that name, or the sum of several with a plus between them.

    Raises
    ------
    ProblemError
        If there is no such loss.
    """
    names = spelling.split("+")
    each = [_loss(name) for name in names]
    return (
        each[0] if len(each) == 1 else lambda target, draft: torch.stack([loss(target, draft) for loss in each]).sum()
    )


def _loss(name: str) -> Loss:
    word, colon, number = name.partition(":")
    if word == ALPHA and colon and number.isdecimal() and 0 < int(number) <= MOST:
        return Refusal(int(number))
    if name not in LOSSES:
        known = ", ".join([*LOSSES, f"{ALPHA}:n for n of 1 to {MOST} drafts"])
        raise ProblemError(f"no loss {name!r}; known: {known}, and sums such as kl+{ALPHA}:4")
    return LOSSES[name]
