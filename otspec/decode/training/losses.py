"""How far draft laws are from the target's: what training makes small."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn.functional import kl_div

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Logits of target and draft, shape (..., V), to the mean over positions."""


def kl(target: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    """KL(p || q), in nats [zhou2024distillspec; berdozsteering, Section 3.3]."""
    p, q = target.float().log_softmax(-1), draft.float().log_softmax(-1)
    return kl_div(q.flatten(0, -2), p.flatten(0, -2), log_target=True, reduction="batchmean")


def tvd(target: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    """Total variation, the probability that a single draft is refused [leviathan2023fast]."""
    return 1 - torch.minimum(target.float().softmax(-1), draft.float().softmax(-1)).sum(-1).mean()


LOSSES: Mapping[str, Loss] = {"kl": kl, "tvd": tvd}
"""By name."""
