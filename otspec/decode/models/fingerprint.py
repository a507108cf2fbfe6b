"""Models told apart by their weights."""

from __future__ import annotations

import hashlib
import json

from transformers import PreTrainedModel

SAMPLED = 64
"""Values of every parameter that a fingerprint looks at."""


def fingerprint(model: PreTrainedModel) -> str:
    """Digest of a model's parameters: names, shapes, and the first values of each.

    Values are rounded to bfloat16, so that a model has one fingerprint in all precisions.
    """
    digest = hashlib.sha256()
    for name, weights in model.named_parameters():
        values = weights.detach().flatten()[:SAMPLED].bfloat16().float().tolist()
        digest.update(json.dumps([name, list(weights.shape), values]).encode())
    return digest.hexdigest()[:16]
