"""A model that gives logits for some tokens only: the rows of its head for these, and all other weights its own."""

from __future__ import annotations

import copy

import torch
from torch import nn
from transformers import PreTrainedModel

from otspec.decode.models.context import vocabulary
from otspec.errors import ProblemError


def with_head_for(model: PreTrainedModel, tokens: torch.Tensor) -> PreTrainedModel:
    """The model with a head of fewer rows; what it does to logits after the head, a soft cap say, it still does.

    Only these rows are copied, and the model itself stays as it is, its embedding too where that is tied to the head.

    Parameters
    ----------
    model : PreTrainedModel
    tokens : Tensor of int, shape (k,)
        Different ids of its tokens; if these are all in their order, the model is returned.

    Raises
    ------
    ProblemError
        If the head is not a linear layer of the model, or other code stands in for one of them.
    """
    if torch.equal(tokens, torch.arange(vocabulary(model), device=tokens.device)):
        return model
    head = model.get_output_embeddings()
    name = next((name for name, child in model.named_children() if child is head), None)
    if name is None or type(head) is not nn.Linear or _is_hooked(head) or _is_hooked(model):
        found = "none of its own" if name is None else f"a {type(head).__name__}"
        raise ProblemError(
            f"the head of {type(model).__name__} cannot be computed for some tokens only: that takes a plain linear "
            f"layer without hooks in a model without hooks, and it is {found}; leave out draft_tokens and draft_kernel"
        )
    rows = tokens.to(head.weight.device)
    narrow = nn.Linear(head.in_features, len(tokens), head.bias is not None, device="meta")
    narrow.weight = _gathered(head.weight, rows)
    narrow.bias = None if head.bias is None else _gathered(head.bias, rows)
    twin = copy.copy(model)
    twin._modules = {**model._modules, name: narrow.train(head.training)}
    return twin


def _gathered(weights: torch.Tensor, rows: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(weights.detach()[rows], requires_grad=False)


def _is_hooked(module: nn.Module) -> bool:
    """Whether somebody put in a hook, or a forward of their own."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
