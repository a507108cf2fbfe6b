"""Whether a model's pass over a tree is its reading: read both ways before anything is decoded."""

from __future__ import annotations

import copy
import warnings
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.models.context import vocabulary
from otspec.decode.models.passes.plain import is_spread
from otspec.decode.models.target import Target
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

TOLERANCE = {torch.float64: 1e-4, torch.float32: 2.0**-6, torch.float16: 2.0**-3, torch.bfloat16: 2.0**-3}
"""How far logits may differ, as a share of their spread over the vocabulary.

Two passes of other shapes over one text differ by roundings that grow with the square root of the number of layers:
some 16 units of bfloat16, 2**-7.  Float16 is allowed the same, as its weights may be quantised, and float32 16 units of
the 2**-10 that GPUs may round its products to.  In float64 much of a model (rotary angles, softmax) is in float32 all
the same.  Wrong positions or a mask that is ignored differ by the order of the spread itself.  So may, in 16 bits,
a model whose hidden states have outliers: it is checked again in float32.
"""
NARROW = (torch.float16, torch.bfloat16)

SHAPE = Shape((2, 2))
_passed: WeakKeyDictionary[PreTrainedModel, tuple[object, ...]] = WeakKeyDictionary()
"""Models that passed, with what the result depends on."""


def check_reading(model: PreTrainedModel, name: str) -> None:
    """Raise unless the logits of a tree, read in one pass, are those of its paths, read one by one from the start.

    Models that count positions by themselves, or ignore the mask of a tree, would give other laws without a warning.
    A model is checked once, in three short passes.  One of 16 bits that fails is checked again as a float32 copy,
    where rounding is no excuse, unless it is too large for one device.

    Parameters
    ----------
    model : PreTrainedModel
    name : str
        The user's name for it.

    Raises
    ------
    ProblemError
        If they differ, or are no numbers after any text that was read.
    """
    state = (model.dtype, model.device, model.config._attn_implementation, model.training)
    if _passed.get(model) == state:
        return
    difference, allowed = _difference(model, name)
    if not difference <= allowed and model.dtype in NARROW and not model.training and not is_spread(model):
        difference, allowed = _difference(_in_float32(model), name)
    if not difference <= allowed:
        why = (
            "it is in training mode, where no two passes agree: call .eval() first"
            if model.training
            else "its positions do not count from 0, or it ignores the mask of a tree; pass another model"
        )
        raise ProblemError(
            f"the {name}, {type(model).__name__}, gives other logits for a tree in one pass than for its paths one by "
            f"one: they differ by {difference:.3g}, where {allowed:.3g} would be rounding. {why[0].upper()}{why[1:]}"
        )
    _passed[model] = state


@torch.no_grad()
def _difference(model: PreTrainedModel, name: str) -> tuple[float, float]:
    """How far the two readings are apart, and how far they may be."""
    tokens = _tokens(model, 2 + SHAPE.slots - 1)
    text, tree = tokens[:2].tolist(), Topology.merge(SHAPE, tokens[2:])
    paths = np.array([[*text, *tree.token[nodes[1:]]] for nodes in tree.node])
    in_one_pass = Target(model, [text]).read([text], [tree])[torch.from_numpy(tree.node).to(model.device)]
    plain = model(input_ids=torch.from_numpy(paths).to(model.device), use_cache=False).logits[:, len(text) - 1 :]
    numbers = plain.isfinite().all(dim=-1)  # where a model overflows its pass can be neither right nor wrong
    _check_numbers(model, name, numbers)
    in_one_pass, plain = in_one_pass[numbers], plain[numbers]
    difference = _spread_of(in_one_pass.double() - plain.double())
    return difference, TOLERANCE.get(model.dtype, 2.0**-3) * _spread_of(plain)


def _in_float32(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in float32."""
    made: PreTrainedModel = type(model)(copy.deepcopy(model.config)).to(torch.float32)
    made.load_state_dict(model.state_dict(), strict=False)  # a head that is the embedding may not be there
    return made.to(model.device).eval()


def _check_numbers(model: PreTrainedModel, name: str, numbers: torch.Tensor) -> None:
    """Refuse a model without any logits that are numbers, and warn where some are none."""
    what, narrow = f"the {name}, {type(model).__name__}", f"{model.dtype} may be too narrow for it"
    if not bool(numbers.any()):
        raise ProblemError(
            f"the logits of {what}, are nan or infinite after all of {numbers.numel()} short texts; {narrow}: load it "
            "in float32 or bfloat16, or pass another model"
        )
    if not bool(numbers.all()):
        warnings.warn(
            f"some logits of {what}, are nan or infinite: with a target's decoding ends with an error, and with a "
            f"draft model's nothing of use is drafted there; {narrow}",
            stacklevel=3,
        )


def _tokens(model: PreTrainedModel, count: int) -> IntArray:
    """Tokens from the middle of the vocabulary, different ones if there are enough; special ones are at its ends."""
    vocab, pad = vocabulary(model), getattr(model.config.get_text_config(), "pad_token_id", None)
    ordinary = [token for token in range(vocab // 4, vocab) if token != pad] or [0]
    step = max(len(ordinary) // (2 * count), 1)
    return np.resize(np.array(ordinary[: step * count : step]), count)


def _spread_of(logits: torch.Tensor) -> float:
    """Root mean square over all nodes and tokens, each node's logits about their mean: a constant changes no law."""
    values = logits.double()
    return float((values - values.mean(dim=-1, keepdim=True)).square().mean().sqrt())
