"""How far draft laws are from the target's: what training makes small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy, kl_div, smooth_l1_loss


class Prediction(NamedTuple):
    """What a model says at some positions."""

    logits: torch.Tensor
    """Shape (..., V)."""
    features: torch.Tensor | None = None
    """Hidden states as the head gets them, shape (..., width); a draft model's only where they stand for these."""


Loss = Callable[[Prediction, Prediction], torch.Tensor]
"""What target and draft model say to the mean over positions."""


def kl(target: Prediction, draft: Prediction) -> torch.Tensor:
    """KL(p || q), in nats [zhou2024distillspec; berdozsteering, Section 3.3].

    But for the entropy of p, on which q has no bearing, it is the cross-entropy that heads are trained with, of labels
    that are p in place of one token drawn from it.
    """
    p, q = (prediction.logits.float().log_softmax(-1).flatten(0, -2) for prediction in (target, draft))
    return kl_div(q, p, log_target=True, reduction="batchmean")


def tvd(target: Prediction, draft: Prediction) -> torch.Tensor:
    """Total variation, the probability that a single draft is refused [leviathan2023fast]."""
    return 1 - torch.minimum(*(prediction.logits.float().softmax(-1) for prediction in (target, draft))).sum(-1).mean()


LAW_SHARE = 0.1
"""w_cls of EAGLE."""


def eagle(target: Prediction, draft: Prediction) -> torch.Tensor:
    """Smooth L1 of the hidden states, and a tenth of the cross-entropy of p and q [li2024eagle]."""
    assert target.features is not None
    assert draft.features is not None
    regression = smooth_l1_loss(draft.features.float(), target.features.float())
    p = target.logits.float().softmax(-1).flatten(0, -2)
    return regression + LAW_SHARE * cross_entropy(draft.logits.float().flatten(0, -2), p)


LOSSES: Mapping[str, Loss] = {"kl": kl, "tvd": tvd, "eagle": eagle}
"""By name."""

OF_FEATURES = ("eagle",)
"""Those that compare hidden states: for draft models whose outputs stand for the target's."""
