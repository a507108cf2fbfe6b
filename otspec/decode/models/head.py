"""The head of a model apart from the rest of it: for some tokens only, or taken off altogether."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from otspec.decode.models.context import vocabulary
from otspec.decode.models.passes.packed import PackedLinear
from otspec.decode.models.self_check import TOLERANCE
from otspec.errors import ProblemError

SOFT_CAP = "final_logit_softcapping"
"""Where configurations have the bound that logits are bent to after the head, if they have one."""


@dataclass(frozen=True, eq=False)
class Head:
    """A linear head, or some rows of one, and the soft cap after it."""

    weight: torch.Tensor
    """Shape (k, d)."""
    bias: torch.Tensor | None = None
    """Shape (k,), if there is one."""
    cap: float | None = None
    """What logits are bent to, if they are."""

    def rows(self, tokens: torch.Tensor | slice) -> Head:
        """Some rows: a copy for tokens, shape (m,), and for a slice a view."""
        return Head(self.weight[tokens], None if self.bias is None else self.bias[tokens], self.cap)

    def __call__(self, output: torch.Tensor) -> torch.Tensor:
        """Logits, shape (..., k), from what comes before the head, (..., d)."""
        return self.capped(linear(output, self.weight, self.bias))

    def capped(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits, shape (..., k), as the soft cap leaves them."""
        return softly_capped(logits, self.cap)


def softly_capped(logits: torch.Tensor, cap: float | None) -> torch.Tensor:
    """Logits bent to a bound, if there is one, in the order of operations that models have."""
    return logits if cap is None else torch.tanh(logits / cap) * cap


def with_head_for(model: PreTrainedModel, tokens: torch.Tensor) -> PreTrainedModel:
    """The model with a head of fewer rows; what it does to logits after the head, such as a soft cap, stays.

    Only these rows are copied, and the model itself stays as it is, its embedding too where that is tied to the head.

    Parameters
    ----------
    model : PreTrainedModel
    tokens : Tensor of int, shape (k,)
        Different rows of its head, which are its tokens; if these are all in their order, the model is returned.

    Raises
    ------
    ProblemError
        If the head is not a linear layer of the model, or other code stands in for one of them.
    """
    whole = getattr(model.get_output_embeddings(), "out_features", vocabulary(model))
    if np.array_equal(tokens.cpu().numpy(), np.arange(whole)):
        return model
    name, head = _plain_head(model)
    rows = tokens.to(head.weight.device)
    narrow = nn.Linear(head.in_features, len(tokens), head.bias is not None, device="meta")
    narrow.weight = _gathered(head.weight, rows)
    narrow.bias = None if head.bias is None else _gathered(head.bias, rows)
    made = PackedLinear(narrow) if isinstance(head, PackedLinear) else narrow
    return _twin(model, name, made.train(head.training))


def lent_head(target: PreTrainedModel, dtype: torch.dtype, rows: torch.Tensor | slice = slice(None)) -> Any:
    """A target's head, or some rows of it, for a draft model: what is not copied does not learn.

    Parameters
    ----------
    target : PreTrainedModel
    dtype : torch.dtype
        Of the draft model.
    rows : Tensor of int, shape (k,), or slice

    Raises
    ------
    ProblemError
        If the head is offloaded from its device.
    """
    head: Any = target.get_output_embeddings()
    if head.weight.is_meta:
        raise ProblemError(
            "the draft model borrows the target's head, which is offloaded from its devices; name one in the device map"
        )
    if isinstance(head, PackedLinear) and head.matrix.dtype == dtype and isinstance(rows, slice):
        return head
    own = nn.Linear(head.in_features, head.out_features, head.bias is not None, device="meta")
    for name in ("weight", "bias"):
        if (values := getattr(head, name)) is not None:
            some = values.detach()[rows.to(values.device) if isinstance(rows, torch.Tensor) else rows]
            setattr(own, name, nn.Parameter(some.to(target.device, dtype), requires_grad=False))
    own.out_features = len(own.weight)
    return own


def without_head(model: PreTrainedModel) -> tuple[PreTrainedModel, Head]:
    """The model less its head, whose "logits" are what comes before it, shape (..., d); and the head, not copied.

    Raises
    ------
    ProblemError
        If the head is not a linear layer of the model, or other code stands in for one of them, or the model does
        more to its logits than to bend them to a soft cap.
    """
    name, head = _plain_head(model)
    twin = _twin(model, name, nn.Identity().train(head.training))
    cap = getattr(model.config.get_text_config(), SOFT_CAP, None)
    if cap is not None:
        twin.config = copy.deepcopy(model.config)
        setattr(twin.config.get_text_config(), SOFT_CAP, None)
    bias = None if head.bias is None else head.bias.detach()
    apart = Head(head.weight.detach(), bias, cap)
    _check_parts(model, twin, apart)
    return twin, apart


_alike: WeakSet[Any] = WeakSet()
"""Models whose parts were found to give the whole."""


def _check_parts(model: PreTrainedModel, twin: PreTrainedModel, head: Head) -> None:
    """Raise unless the parts give the logits of the whole; a model is checked once, on two tokens."""
    if model in _alike:
        return
    tokens = torch.arange(2, device=model.device)[None] % vocabulary(model)
    with torch.no_grad():
        whole = model(input_ids=tokens, use_cache=False).logits.double()
        parts = head(twin(input_ids=tokens, use_cache=False).logits).double()
    if not (parts - whole).std() <= TOLERANCE.get(model.dtype, 2.0**-3) * whole.std():
        raise ProblemError(
            f"{type(model).__name__} does something to its logits that is neither its head nor a soft cap, so that the "
            "head cannot be computed apart from the rest; leave out draft_shortlist, or pass draft_tokens"
        )
    _alike.add(model)


def _plain_head(model: PreTrainedModel) -> tuple[str, nn.Linear | PackedLinear]:
    """The head and its name.

    Raises
    ------
    ProblemError
        If it is not a linear layer of the model, or other code stands in for one of them.
    """
    head = model.get_output_embeddings()
    name = next((name for name, child in model.named_children() if child is head), None)
    if name is None or type(head) not in (nn.Linear, PackedLinear) or _is_hooked(head) or _is_hooked(model):
        found = "none of its own" if name is None else f"a {type(head).__name__}"
        raise ProblemError(
            f"the head of {type(model).__name__} cannot be computed for some tokens only: that takes a plain linear "
            f"layer without hooks in a model without hooks, and it is {found}; leave out draft_tokens, draft_kernel "
            "and draft_shortlist"
        )
    return name, head


def _twin(model: PreTrainedModel, name: str, head: nn.Module) -> PreTrainedModel:
    """The model with another head, and all other modules its own."""
    twin = copy.copy(model)
    twin._modules = {**model._modules, name: head}
    return twin


def _gathered(weights: torch.Tensor, rows: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(weights.detach()[rows], requires_grad=False)


def _is_hooked(module: nn.Module) -> bool:
    """Whether somebody put in a hook, or a forward of their own."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
