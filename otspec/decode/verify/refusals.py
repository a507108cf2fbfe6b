"""Why a step cannot be verified: a text after which the target has no law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from otspec.decode.base.text import Request
from otspec.errors import ProblemError
from otspec.verification.trees.topology import NONE, Topology


def no_law(
    texts: Sequence[Request], trees: Sequence[Topology], logits: torch.Tensor, seen: torch.Tensor
) -> ProblemError | None:
    """The error that names the first text after which the target has no law; None if it has one everywhere.

    Parameters
    ----------
    texts : sequence of Request
        The B texts of a step.
    trees : sequence of Topology
        What was drafted after each, N nodes in all.
    logits : Tensor, shape (N, V)
        The target's, after the nodes of all trees, one tree after the other.
    seen : Tensor, shape (N,) or (N, V)
        What was made of them: choices, `NONE` where there is none, or laws, NaN where there is none.
    """
    missing = seen == NONE if seen.dim() == 1 else seen.sum(dim=-1).isnan()
    found = missing.nonzero().flatten().tolist()
    if not found:
        return None
    starts = np.cumsum([0, *(tree.size for tree in trees)])
    at = int(np.searchsorted(starts, found[0], side="right")) - 1
    depth = len(trees[at].line(found[0] - int(starts[at])))
    place = f"after {len(texts[at].new)} new tokens" + (f" and {depth} drafted ones" if depth else "")
    return ProblemError(f"text {texts[at].row}, {place}: {_reason(logits[found[0]])}")


def _reason(logits: torch.Tensor) -> str:
    """What is wrong with the logits of one position, shape (V,)."""
    narrow = "has it overflowed in half precision? Load it in bfloat16 or float32"
    if bool(logits.isnan().any()):
        return f"the target gives logits that are nan; {narrow}"
    if bool((logits == torch.inf).any()):
        return f"the target gives a logit of infinity; {narrow}"
    if bool((logits == -torch.inf).all()):
        return "the target's logits are minus infinity for all tokens, so none can follow"
    return "logits processors leave no token, or the temperature makes infinities of logits: change these settings"
