"""What a user of transformers has without any of this: plain `generate`, measured as the other methods are."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.methods.measured import measured
from otspec.decode.step.harness import Generation


def plain(target: PreTrainedModel, input_ids: torch.Tensor, **settings: Any) -> Generation:
    """Decode by ``target.generate``, token by token.

    Parameters
    ----------
    target : PreTrainedModel
    input_ids : Tensor of int, shape (B, S)
    **settings
        As in `otspec.generate`: temperature, top_k, top_p, seed, and what `generate` takes.

    Raises
    ------
    ProblemError
        As `otspec.decode.methods.measured.measured` does.
    """
    return measured(target, input_ids, {"target": target}, **settings)
