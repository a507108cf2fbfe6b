"""Text that a draft model writes while it learns: it meets its own mistakes, and the target's laws after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.distillation.teacher import TeacherBatch, TeacherData
from otspec.decode.distillation.texts import continued
from otspec.decode.models.context import vocabulary


def on_policy_batch(
    model: PreTrainedModel, data: TeacherData, rows: Sequence[int], rng: np.random.Generator
) -> TeacherBatch:
    """Some of the target's texts as the draft model goes on with them [zhou2024distillspec], at temperature 1.

    It goes on from a random place, the same in all of them, as it does in decoding; so it need not be known where
    prompts end.

    Parameters
    ----------
    model : PreTrainedModel
        The draft model as it is by now; it is left in evaluation mode.
    data : TeacherData
    rows : sequence of int
        The texts.
    rng : Generator
        Chooses the place, and what is drawn.
    """
    texts = data.texts[list(rows)].to(model.device)
    length = texts.shape[1]
    begun = texts[:, : rng.integers(1, length)]
    model.eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(int(rng.integers(2**62)))
        written = continued(model, begun, begun.new_ones(len(begun)), length, most=vocabulary(data.target))
    return data.batch_on(written)
