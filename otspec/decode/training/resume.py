"""Going on from a draft model that learnt before: from other text, by another loss, or with more of its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.pair.loading import Models, load_draft, with_draft
from otspec.decode.training.folder import RECORD
from otspec.decode.training.specs import KINDS, family
from otspec.errors import DataError, ProblemError


def read_record(folder: Path, name: str) -> Mapping[str, Any]:
    """The record of the draft model in a folder, from which one of the kind of that name is to go on.

    Raises
    ------
    DataError
        If no training has left it.
    ProblemError
        If it is of another kind.
    """
    try:
        record: Mapping[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        kind = str(record["kind"])
        record["target"][1], record["ahead"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"{folder} has no {RECORD} of `otspec train`, which training goes on from: {error}; pass a folder of its"
        ) from error
    if kind not in (known := family(name)):
        raise ProblemError(f"{folder} holds a draft model of kind {kind!r}; {name} goes on from {' or '.join(known)}")
    return record


def with_earlier(models: Models, folder: Path, record: Mapping[str, Any], dtype: str) -> Models:
    """The target with the draft model of a folder, which is to learn on.

    Parameters
    ----------
    models : Models
    folder : Path
    record : mapping
        Its record, as `read_record` returns it.
    dtype : str
        The type of its weights, one of `otspec.decode.pair.loading.DTYPES`.

    Raises
    ------
    ProblemError
        If it was trained for another target.
    """
    name, known = record["target"]
    if (own := fingerprint(models.target)) != known:
        raise ProblemError(
            f"{folder} was trained for the target {name!r}, fingerprint {known}, and this one has {own}; pass that one"
        )
    held = "float32" if KINDS[record["kind"]].shares else dtype  # the target may be held in less
    draft, tokenizer = load_draft(str(folder), str(models.target.device), held)
    layers = list(KINDS[record["kind"]].layers(models.target))
    if (seen := list(getattr(draft.config, "features", layers))) != layers:
        raise ProblemError(
            f"{folder} holds a model that reads layers {seen} of its target, and {record['kind']} reads {layers}; "
            "what was eagle3 in a former version is shared: write that into its training.json"
        )
    found = with_draft(models, draft.train(), tokenizer)  # what does not learn may be packed, and cannot learn any more
    draft.eval()
    return found
