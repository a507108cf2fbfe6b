"""Draft models that are a decoder of transformers and something more: of every architecture, a class of their own.

Such a class has two bases, what is added and the decoder, and its configuration likewise.  It is made when it is first
requested, by a draft model or by a folder that one was saved in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)

from otspec.decode.models.context import check_model, vocabulary
from otspec.decode.models.passes.conditioned import Conditioned
from otspec.decode.models.self_check import TOLERANCE
from otspec.errors import ProblemError

LEFT_OUT = ("architectures", "model_type", "transformers_version", "dtype", "torch_dtype")
"""Settings of the class, which is another now."""


class ConditionedLayers(Conditioned, PreTrainedModel):  # type: ignore[misc]  # transformers is untyped here
    """What is added to a decoder; its direct subclasses are a decoder besides."""

    settings: ClassVar[type]
    """What is added to a configuration, with a default for everything."""
    model_type: ClassVar[str]
    """The type in folders of these models, beside that of the decoder."""

    @staticmethod
    def read_settings(config: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a folder's configuration, whatever version wrote it."""
        return dict(config)

    @classmethod
    def class_of(cls, decoder: type[PreTrainedModel]) -> type[Any]:
        """The class that adds this to a decoder."""
        for made in cls.__subclasses__():
            if decoder in made.__bases__:
                return made
        known, here = decoder.config_class, {"__module__": cls.__module__}
        body = {"model_type": cls.model_type, "__init__": vars(cls.settings)["__init__"], **here}
        config = type(f"{cls.__name__}{known.__name__}", (cls.settings, known), body)
        made = type(f"{cls.__name__}{decoder.__name__}", (cls, decoder), {"config_class": config, **here})
        AutoModelForCausalLM.register(config, made)
        return made

    @classmethod
    def copy_of(cls, draft: PreTrainedModel, **settings: Any) -> Any:
        """A copy of a draft model with this added, not trained yet.

        Raises
        ------
        ProblemError
            If the draft model is no decoder of transformers, or one that cannot take more than tokens.
        """
        known = type(draft.config)
        is_own = not type(draft).__module__.startswith("transformers.")
        if is_own or type(draft) is not MODEL_FOR_CAUSAL_LM_MAPPING.get(known, None):
            raise ProblemError(
                f"the draft model is a {type(draft).__name__}; one that receives a target's hidden states is made of a "
                "causal language model of transformers, as AutoModelForCausalLM loads it"
            )
        check_model(draft)
        decoder = {name: value for name, value in draft.config.to_dict().items() if name not in LEFT_OUT}
        made = cls.class_of(type(draft))
        attention = draft.config._attn_implementation
        config = made.config_class(**settings, **decoder, decoder_type=known.model_type, attn_implementation=attention)
        model = made(config).to(draft.device, draft.dtype)
        model.load_state_dict(draft.state_dict(), strict=False)
        _check_copy(model.eval(), draft)
        return model.train(draft.training)


class FolderConfig(PreTrainedConfig):  # type: ignore[misc]
    """A folder's configuration before it is known which decoder it holds: `ConditionedLayers` makes its class."""

    more: ClassVar[type[ConditionedLayers]]

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **settings: Any) -> Any:
        """The configuration of that class."""
        config = cls.more.read_settings(config_dict)
        config.pop("model_type", None)
        name = config.setdefault("decoder_type", "llama")  # of folders from before there were others
        decoder = MODEL_FOR_CAUSAL_LM_MAPPING[CONFIG_MAPPING[name]]
        return cls.more.class_of(decoder).config_class.from_dict(config, **settings)

    @classmethod
    def register(cls, more: type[ConditionedLayers], *former: str) -> None:
        """Have `AutoModelForCausalLM` read folders of what adds this to a decoder, by its name and former ones."""
        for name in (more.model_type, *former):
            body = {"model_type": name, "more": more, "__module__": more.__module__}
            AutoConfig.register(name, type(f"{more.__name__}Config", (cls,), body))


def layers_of(model: PreTrainedModel) -> nn.ModuleList:
    """The layers of a decoder.

    Raises
    ------
    ProblemError
        If it has no list of them.
    """
    count = int(model.config.get_text_config().num_hidden_layers)
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise ProblemError(f"{type(model).__name__} has no list of its {count} layers, so that nothing can be added there")


@torch.no_grad()
def _check_copy(model: PreTrainedModel, draft: PreTrainedModel) -> None:
    """Raise unless both give the same logits while nothing is added; they are called with two tokens."""
    tokens = torch.arange(2, device=draft.device)[None] % vocabulary(draft)
    training = draft.training
    wanted = draft.eval()(input_ids=tokens, use_cache=False).logits.double()
    draft.train(training)
    try:
        off = (model(input_ids=tokens, use_cache=False).logits.double() - wanted).std()
    except (RuntimeError, ValueError, TypeError):  # embeddings are not taken, or not those alone
        off = torch.tensor(torch.inf)
    if off > TOLERANCE.get(draft.dtype, 2.0**-3) * wanted.std():
        raise ProblemError(
            f"{type(draft).__name__} needs more of its tokens than their embeddings, so that nothing can be added to "
            "these; pass a draft model of another architecture"
        )
