"""The target's log-probabilities of the new tokens, whoever drafted them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from otspec.decode.base.sampling import Prefix, Sampling


class TokenLogprob(NamedTuple):
    """Of one token that was put out, in nats."""

    logprob: float
    """Under the law that it was drawn from: after temperature, penalties and truncation, 0 in greedy decoding."""
    raw: float
    """Under the softmax of the target's logits."""
    top: dict[int, float]
    """The likeliest tokens by the logits, most likely first, as `raw`."""


@dataclass(frozen=True, eq=False)
class Scorer:
    """Takes log-probabilities from the rows of the target's pass that became text.

    Parameters
    ----------
    sampling : Sampling
        Of the target.
    count : int
        Tokens of `TokenLogprob.top`.
    """

    sampling: Sampling
    count: int

    def score(self, logits: torch.Tensor, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> list[TokenLogprob]:
        """The log-probabilities of tokens, each after a text of its own.

        Parameters
        ----------
        logits : Tensor, shape (R, V)
            Of the pass that verified the tokens.
        prefixes : sequence of Prefix
            The R texts, where sampling reads them.
        tokens : sequence of int
            Shape (R,).
        """
        put_out = torch.tensor(tokens, device=logits.device)[:, None]
        chosen = self.sampling.target_laws(logits, prefixes).gather(1, put_out).log()[:, 0]
        log = logits.double().log_softmax(-1)
        raw, top = log.gather(1, put_out)[:, 0], log.topk(min(self.count, log.shape[1]), dim=1)
        return [
            TokenLogprob(one, other, dict(zip(which, values, strict=True)))
            for one, other, which, values in zip(
                chosen.tolist(), raw.tolist(), top.indices.tolist(), top.values.tolist(), strict=True
            )
        ]
