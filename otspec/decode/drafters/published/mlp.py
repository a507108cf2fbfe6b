"""IBM's MLP speculator with the arithmetic that is published: its norms take away no mean [wertheimer2024accelerating].

`otspec.decode.drafters.heads.model.MlpSpeculator` has layer norms, as in the paper.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import gelu
from transformers import AutoConfig, AutoModelForCausalLM

from otspec.decode.drafters.heads.model import MlpConfig, MlpSpeculator

EPS = 1e-6


class PublishedMlpConfig(MlpConfig):
    """The configuration of a `PublishedMlp`.

    Parameters
    ----------
    scaled : bool
        Whether the target's hidden state is scaled to root mean square 1 / sqrt(2) before.
    **config
        As in `MlpConfig`.
    """

    model_type = "otspec_published_mlp"

    def __init__(self, scaled: bool = False, **config: Any) -> None:
        self.scaled = scaled
        super().__init__(**config)


class PublishedMlp(MlpSpeculator):
    """An MLP speculator, with norms by root mean squares, and the token's share over the state's in place of both."""

    config_class: type[MlpConfig] = PublishedMlpConfig

    def begin(self, features: torch.Tensor) -> torch.Tensor:
        """The hidden state, scaled if the configuration is `scaled`."""
        return _normed(features) / 2**0.5 if self.config.scaled else features

    def step(self, state: torch.Tensor, tokens: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Take in the token."""
        project, embedding, norm, out = self.parts(number)
        weight = math.sqrt((1 - self.share**2) * self.config.width / 2) / self.share
        state = gelu(norm.weight * _normed(project(state) + weight * embedding(tokens)) + norm.bias)
        return state, out(state)


def _normed(states: torch.Tensor) -> torch.Tensor:
    """Of root mean square 1."""
    return states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + EPS)


AutoConfig.register(PublishedMlpConfig.model_type, PublishedMlpConfig)
AutoModelForCausalLM.register(PublishedMlpConfig, PublishedMlp)
