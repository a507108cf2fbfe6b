"""Draft models without a text of their own: they go on from the target's last hidden state.

`MedusaHeads` draft every token from that state alone [cai2024medusa]; `MlpSpeculator` has a state that takes in each
token that was drafted [wertheimer2024accelerating].  Both draft as many tokens as they have heads.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, silu
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from otspec.decode.drafters.hidden_states import head_of, last_layer
from otspec.decode.models.context import vocabulary
from otspec.decode.models.head import Head
from otspec.errors import ProblemError
from otspec.laws import as_count


class HeadsConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """The configuration of heads on a target's last hidden state.

    Parameters
    ----------
    vocab_size : int
        The target's number of tokens.
    features : sequence of int
        After how many of the target's layers its hidden states are read: after all of them, which is known once the
        target is; empty before.
    feature_width : int
        Their width.
    heads : int
        How many tokens are drafted.
    **config
        Those of every configuration.
    """

    def __init__(
        self, vocab_size: int = 0, features: Any = (), feature_width: int = 0, heads: int = 0, **config: Any
    ) -> None:
        self.vocab_size = vocab_size
        self.features = list(features)
        self.feature_width = feature_width
        self.heads = heads
        config.setdefault("tie_word_embeddings", False)
        super().__init__(**config)


class Heads(PreTrainedModel):  # type: ignore[misc]
    """Draws laws of the next tokens from the target's hidden state at the last token that it has read."""

    config_class: type[HeadsConfig] = HeadsConfig
    base_model_prefix = "heads"

    @property
    def count(self) -> int:
        """How many tokens it drafts."""
        return int(self.config.heads)

    def borrow(self, target: PreTrainedModel) -> None:
        """Set the target's last layer, where the configuration does not name it."""
        self.config.features = self.config.features or list(last_layer(target))

    @abstractmethod
    def begin(self, features: torch.Tensor) -> torch.Tensor:
        """The state that drafting begins with, shape (..., d).

        Parameters
        ----------
        features : Tensor, shape (..., feature_width)
            The target's last hidden state at the token before the last of a text, 0 where there is none.
        """

    @abstractmethod
    def step(self, state: torch.Tensor, tokens: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The state once a token is read, shape (..., d), and the logits of the next, (..., V).

        Parameters
        ----------
        state : Tensor, shape (..., d)
        tokens : Tensor of int, shape (...)
            For the first head the text's last token, for the others what was drafted from the head before.
        number : int
            Of the head, from 0 on.
        """

    def along(self, tokens: torch.Tensor, features: torch.Tensor) -> list[torch.Tensor]:
        """Logits of all heads after the tokens of texts, as if all behind a token that drafting begins at were drafts.

        Parameters
        ----------
        tokens : Tensor of int, shape (B, N)
        features : Tensor, shape (B, N, feature_width)
            At the token before each.

        Returns
        -------
        list of Tensor
            Of head i, shape (B, N - i, V): after the tokens from the i-th on, drafting having begun i tokens before.
        """
        state, found = self.begin(features.to(self.dtype)), []
        columns = tokens.shape[1]
        for number in range(min(self.count, columns)):
            state, logits = self.step(state[:, : columns - number], tokens[:, number:], number)
            found.append(logits)
        return found

    def forward(
        self, input_ids: torch.Tensor | None = None, features: torch.Tensor | None = None, **settings: Any
    ) -> CausalLMOutput:
        """Logits of the first head, shape (B, N, V); parameters as in `along`.

        Raises
        ------
        ProblemError
            If it is called as a model that reads text.
        """
        if input_ids is None or features is None:
            raise ProblemError(
                f"{type(self).__name__} drafts from its target's hidden states, and reads no text by itself; decode "
                "with it (otspec.generate, otspec decode), or pass a draft model that is a causal language model"
            )
        return CausalLMOutput(logits=self.step(self.begin(features.to(self.dtype)), input_ids, 0)[1])


def _about(target: PreTrainedModel, heads: int) -> dict[str, Any]:
    """The settings of a configuration for a target, with so many heads."""
    config = target.config.get_text_config()
    return {
        "vocab_size": vocabulary(target),
        "features": [int(config.num_hidden_layers)],
        "feature_width": int(config.hidden_size),
        "heads": as_count("heads", heads),
    }


class MedusaConfig(HeadsConfig):
    """The configuration of `MedusaHeads`.

    Parameters
    ----------
    blocks : int
        Residual blocks of each head.
    bias : bool
        Whether heads end with a bias, as the target's does.
    final_logit_softcapping : float, optional
        The target's soft cap.
    **config
        As in `HeadsConfig`.
    """

    model_type = "otspec_medusa"

    def __init__(
        self, blocks: int = 1, bias: bool = False, final_logit_softcapping: float | None = None, **config: Any
    ) -> None:
        self.blocks = blocks
        self.bias = bias
        self.final_logit_softcapping = final_logit_softcapping
        super().__init__(**config)


class MedusaHead(nn.Module):
    """softmax(W_2 (h + SiLU(W_1 h + b))) before the softmax, with one residual block or several [cai2024medusa]."""

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        width = config.feature_width
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(config.blocks))
        self.out = nn.Linear(width, config.vocab_size, bias=config.bias)
        self.cap = config.final_logit_softcapping

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits, shape (..., V), from the target's hidden state, (..., feature_width)."""
        for block in self.blocks:
            hidden = hidden + silu(block(hidden))
        return Head(self.out.weight, self.out.bias, self.cap)(hidden)


class MedusaHeads(Heads):
    """Each head sees the target's hidden state and none of the drafts before its own [cai2024medusa]."""

    config_class = MedusaConfig

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__(config)
        self.each = nn.ModuleList(MedusaHead(config) for _ in range(config.heads))
        self.post_init()

    @classmethod
    def of(cls, target: PreTrainedModel, heads: int = 4, blocks: int = 1) -> MedusaHeads:
        """Heads that begin as the target's own: their residual blocks are 0.

        Raises
        ------
        ProblemError
            If the target's head cannot be copied, or a number is no count.
        """
        head = head_of(target)
        config = MedusaConfig(as_count("blocks", blocks), head.bias is not None, head.cap, **_about(target, heads))
        model = cls(config).to(target.device, target.dtype)
        with torch.no_grad():
            for one in model.each:
                for weights in one.blocks.parameters():
                    weights.zero_()
                one.out.weight.copy_(head.weight)
                if head.bias is not None:
                    one.out.bias.copy_(head.bias)
        return model

    def begin(self, features: torch.Tensor) -> torch.Tensor:
        """The hidden state itself."""
        return features

    def step(self, state: torch.Tensor, tokens: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same state for every head."""
        return state, self.each[number](state)


class MlpConfig(HeadsConfig):
    """The configuration of an `MlpSpeculator`.

    Parameters
    ----------
    width : int
        Of the state.
    tied : bool
        Whether all stages have one embedding, one norm and one head, and all but the first one map of the state.
    **config
        As in `HeadsConfig`.
    """

    model_type = "otspec_mlp"

    def __init__(self, width: int = 0, tied: bool = False, **config: Any) -> None:
        self.width = width
        self.tied = tied
        config.setdefault("initializer_range", max(width, 1) ** -0.5)
        super().__init__(**config)


class MlpSpeculator(Heads):
    """A state that each token is added to: the MLP speculator [wertheimer2024accelerating].

    With s the state and z the embedding of the token, a stage computes

        s  <-  GELU(LayerNorm(a W s + b sqrt(d / 2) z)),    a = 2^(-1 / (2 stages)),    a^2 + b^2 = 1,

    so that after the last stage about half of the state is the target's.  That is scaled to unit variance over sqrt(2)
    before.
    """

    config_class: type[MlpConfig] = MlpConfig

    def __init__(self, config: MlpConfig) -> None:
        super().__init__(config)
        width, vocab = config.width, config.vocab_size
        several = 1 if config.tied else config.heads
        # The first maps the target's hidden states, which may have another width than the state: it is never tied.
        inputs = [config.feature_width, *[width] * (config.heads - 1)][: 2 if config.tied else config.heads]
        self.project = nn.ModuleList(nn.Linear(size, width, bias=False) for size in inputs)
        self.embedding = nn.ModuleList(nn.Embedding(vocab, width) for _ in range(several))
        self.norm = nn.ModuleList(nn.LayerNorm(width, eps=1e-6) for _ in range(several))
        self.out = nn.ModuleList(nn.Linear(width, vocab, bias=False) for _ in range(several))
        self.share = 0.5 ** (0.5 / config.heads)
        self.post_init()

    @classmethod
    def of(cls, target: PreTrainedModel, heads: int = 3, width: int | None = None, tied: bool = False) -> MlpSpeculator:
        """A speculator that has learnt nothing: weights are random.

        Parameters
        ----------
        target : PreTrainedModel
        heads : int
            Stages.
        width : int, optional
            Of the state; by default that of the target.
        tied : bool

        Raises
        ------
        ProblemError
            If a number is no count.
        """
        settings = _about(target, heads)
        width = settings["feature_width"] if width is None else as_count("width", width)
        return cls(MlpConfig(width, tied, **settings)).to(target.device, target.dtype)

    def begin(self, features: torch.Tensor) -> torch.Tensor:
        """The hidden state at unit variance over sqrt(2)."""
        return layer_norm(features, features.shape[-1:], eps=1e-6) / 2**0.5

    def parts(self, number: int) -> tuple[Any, ...]:
        """The map of the state, the embedding, the norm and the head of a stage."""
        every = self.project, self.embedding, self.norm, self.out
        return tuple(parts[min(number, len(parts) - 1)] for parts in every)

    def step(self, state: torch.Tensor, tokens: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Take in the token."""
        project, embedding, norm, out = self.parts(number)
        weight = math.sqrt((1 - self.share**2) * self.config.width / 2)
        state = gelu(norm(self.share * project(state) + weight * embedding(tokens)))
        return state, out(state)


for _config, _model in ((MedusaConfig, MedusaHeads), (MlpConfig, MlpSpeculator)):
    AutoConfig.register(_config.model_type, _config)
    AutoModelForCausalLM.register(_config, _model)
