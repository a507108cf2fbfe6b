"""How far draft laws are from the target's: what training minimises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn.functional import kl_div, pad, smooth_l1_loss

from otspec.errors import ProblemError


class Prediction(NamedTuple):
    """A draft model's outputs at some positions."""

    logits: torch.Tensor
    """Of the tokens that it drafts, shape (..., k)."""
    features: torch.Tensor | None = None
    """Hidden states as the head gets them, shape (..., width); only where they stand for the target's."""


class TeacherTargets(NamedTuple):
    """The target's outputs there."""

    log_law: torch.Tensor
    """Logarithms of the probabilities of the tokens that are drafted, shape (..., k); together they may have less
    than 1, as others are never drafted."""
    features: torch.Tensor | None = None
    """Its hidden states as the head gets them, shape (..., width), where a loss reads them."""


Loss = Callable[[TeacherTargets, Prediction], torch.Tensor]
"""From the outputs of target and draft model to the mean over positions."""


LEAST = math.log(torch.finfo(torch.float32).tiny)
"""What stands for the logarithm of 0: a law that is 0 where the other is not is far from it, and not infinitely far."""


def _log_laws(target: TeacherTargets, draft: Prediction) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithms of p and q, shape (..., k), in float32 at least, `LEAST` where a law is 0."""
    surplus = target.log_law.shape[-1] - draft.logits.shape[-1]  # of a padded head; as in decoding q is over p's tokens
    # `pad` copies all logits, even by nothing.
    log_p, log_q = target.log_law, pad(draft.logits, (0, surplus), value=-math.inf) if surplus else draft.logits
    log_p, log_q = (one.to(torch.promote_types(one.dtype, torch.float32)) for one in (log_p, log_q))
    log_p, log_q = (one.nan_to_num(math.nan, neginf=LEAST) for one in (log_p, log_q.log_softmax(-1)))
    return log_p, log_q


def kl(target: TeacherTargets, draft: Prediction) -> torch.Tensor:
    """KL(p || q), in nats [zhou2024distillspec; berdozsteering, Section 3.3]: the share of the tokens that are drafted.

    But for the entropy of p, on which q has no bearing, it is the cross-entropy that heads are trained with, of labels
    that are p in place of one token drawn from it.
    """
    p, q = (logits.flatten(0, -2) for logits in _log_laws(target, draft))
    return kl_div(q, p, log_target=True, reduction="batchmean")


def reverse_kl(target: TeacherTargets, draft: Prediction) -> torch.Tensor:
    """KL(q || p), in nats [zhou2024distillspec]: q keeps to tokens that are likely under p, and need not have all."""
    log_p, log_q = _log_laws(target, draft)
    return (log_q.exp() * (log_q - log_p)).sum(-1).mean()


def jsd(target: TeacherTargets, draft: Prediction) -> torch.Tensor:
    """The Jensen-Shannon divergence, in nats [zhou2024distillspec]: half of KL(p || m) + KL(q || m), m = (p + q) / 2.

    As with `kl` it is the share of the tokens that are drafted, at most log 2.
    """
    log_p, log_q = _log_laws(target, draft)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    each = log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)
    return each.sum(-1).mean() / 2


def tvd(target: TeacherTargets, draft: Prediction) -> torch.Tensor:
    """Total variation, the probability that a single draft is refused [leviathan2023fast]."""
    p, q = (logits.exp() for logits in _log_laws(target, draft))
    return 1 - torch.minimum(p, q).sum(-1).mean()


@dataclass(frozen=True)
class Likeliest:
    """The cross-entropy of p and q of the target's likeliest tokens alone: the top-K loss of [zhang2025hass].

    What is accepted depends most on these tokens.  It is added to another loss, as by itself it leaves open how what is
    left goes to the others.
    """

    count: int
    """K: so many tokens, or all that are drafted where these are fewer."""

    def __call__(self, target: TeacherTargets, draft: Prediction) -> torch.Tensor:
        """The mean over positions."""
        log_p, log_q = _log_laws(target, draft)
        log_p, tokens = log_p.topk(min(self.count, log_p.shape[-1]), dim=-1)
        return _cross_entropy(log_p, log_q.gather(-1, tokens))


def _cross_entropy(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    """Of some tokens, shape (..., k): the mean over positions."""
    return -(log_p.exp() * log_q).sum(-1).mean()


@dataclass(frozen=True)
class Refusal:
    """1 - alpha*(n): the probability that n i.i.d. drafts are all refused by the rule that accepts most.

    It is max over sets A of p(A) - 1 + (1 - q(A))^n [hu2025towards], and as that set is best, its gradient is that of
    the expression with A held fixed (`docs/drafters.md`).  At n = 1 it is the total variation.
    """

    n: int
    """Drafts."""

    def __call__(self, target: TeacherTargets, draft: Prediction) -> torch.Tensor:
        """The mean over positions."""
        log_p, log_q = _log_laws(target, draft)
        with torch.no_grad():
            left = ~best_level_set(log_p, log_q, self.n)
            lost = log_p.exp().masked_fill(~left, 0).sum(-1)  # p of what is drafted and not in A
        inside = log_q.exp().masked_fill(left, 0).sum(-1)
        return ((1 - inside).clamp(min=0) ** self.n - lost).mean()


STEPS = 8
"""Level sets of p / q that are tried, to an octave."""
OCTAVES = (-32, 8)
"""Of p / q, beyond which all is one."""


def best_level_set(log_p: torch.Tensor, log_q: torch.Tensor, n: int) -> torch.Tensor:
    """Of the sets {p >= t q}, with t on a grid, that of the largest p(A) + (1 - q(A))^n, shape (..., k) of bool.

    The best set of all is one of them with t = n (1 - q(A))^(n - 1); between points of the grid the value is flat.
    """
    lowest, highest = (STEPS * end for end in OCTAVES)
    octaves = (log_p - log_q) / math.log(2)
    place = (STEPS * octaves).nan_to_num(lowest, highest, lowest).clamp(lowest, highest).floor().long() - lowest
    sums = [
        one.new_zeros(*place.shape[:-1], highest - lowest + 1).scatter_add_(-1, place, one.exp())
        for one in (log_p, log_q)
    ]
    p, q = (one.flip(-1).cumsum(-1) for one in sums)  # of sets, from those of the largest ratios on
    best = (p + (1 - q).clamp(min=0) ** n).argmax(-1, keepdim=True)
    return place >= highest - lowest - best


LAW_SHARE = 0.1
"""w_cls of EAGLE."""


def eagle(target: TeacherTargets, draft: Prediction) -> torch.Tensor:
    """Smooth L1 of the hidden states, and a tenth of the cross-entropy of p and q [li2024eagle]."""
    assert target.features is not None
    assert draft.features is not None
    regression = smooth_l1_loss(draft.features.float(), target.features.float())
    return regression + LAW_SHARE * _cross_entropy(*_log_laws(target, draft))


LOSSES: Mapping[str, Loss] = {"kl": kl, "reverse-kl": reverse_kl, "jsd": jsd, "tvd": tvd, "eagle": eagle}
"""By name."""


class Counted(NamedTuple):
    """Losses of one kind, with a number as parameter."""

    made: Callable[[int], Loss]
    most: int
    """The largest number."""
    letter: str
    what: str
    """What it counts."""


COUNTED: Mapping[str, Counted] = {
    "alpha": Counted(Refusal, 64, "n", "drafts"),
    "topk": Counted(Likeliest, 1 << 20, "K", "tokens"),
}
"""By the word before the colon."""
DIGITS = 8
"""Digits that are read of a number: no number has more."""

OF_FEATURES = ("eagle",)
"""Those that compare hidden states: for draft models whose outputs stand for the target's."""


def loss_named(spelling: str) -> Loss:
    """The loss of that name, or the sum of several with a plus between them, each perhaps with its weight.

    Raises
    ------
    ProblemError
        If there is no such loss.

    Examples
    --------
    >>> import torch
    >>> from otspec.decode.distillation.losses import Prediction, TeacherTargets, loss_named
    >>> p, q = TeacherTargets(torch.tensor([[0.5, 0.25, 0.25]]).log()), Prediction(torch.zeros(1, 3))
    >>> [round(loss_named(name)(p, q).item(), 4) for name in ("kl", "topk:1", "kl+2*topk:1")]
    [0.0589, 0.5493, 1.1575]
    """
    terms = [(weight, _loss(name)) for weight, name in terms_of(spelling)]

    def total(target: TeacherTargets, draft: Prediction) -> torch.Tensor:
        return torch.stack([weight * loss(target, draft) for weight, loss in terms]).sum()

    return total


def terms_of(spelling: str) -> Iterator[tuple[float, str]]:
    """The weights of a sum such as ``kl+0.5*topk:10`` and the names that they are of.

    Raises
    ------
    ProblemError
        If a weight is no finite number above 0.
    """
    for term in spelling.split("+"):
        weight, star, name = term.rpartition("*")
        try:
            value = float(weight) if star else 1.0
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise ProblemError(f"the weight of {name!r} is {weight!r}; pass a number above 0, such as kl+0.5*topk:10")
        yield value, name


def _loss(name: str) -> Loss:
    word, _, number = name.partition(":")
    if (kind := COUNTED.get(word)) and number.isdecimal() and 0 < int(number[:DIGITS]) <= kind.most:
        return kind.made(int(number))
    if name not in LOSSES:
        counted = (
            f"{word}:{one.letter} for {one.letter} of 1 to {one.most} {one.what}" for word, one in COUNTED.items()
        )
        raise ProblemError(f"no loss {name!r}; known: {', '.join([*LOSSES, *counted])}, and sums such as kl+alpha:4")
    return LOSSES[name]
