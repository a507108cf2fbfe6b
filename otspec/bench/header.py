"""What the header of a recorded file says: where its laws, or its trees, are from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from otspec.bench.fields import EXACTLY, AtLeastOne, Count, Positive, Version, check, exactly
from otspec.data import TreeSource, open_source
from otspec.data.formats import safetensors_about
from otspec.data.recorded import of_schema
from otspec.data.trees import ARRAYS as OF_TREES
from otspec.errors import DataError

Model = Annotated[list[str], Field(min_length=1, max_length=2)]


@exactly
class Prompts(TypedDict):
    """Prompts that texts follow, in turn: row i follows prompt i modulo their number."""

    count: AtLeastOne
    sha256: NotRequired[str]
    """Of their tokens."""


@exactly
class StoringError(TypedDict):
    """How far laws as stored are off those that were computed."""

    target_l1_max: Positive
    draft_l1_max: Positive
    acceptance_max: Positive
    """Of the acceptance of one draft."""


TREES: dict[str, Any] = {
    "if": {"properties": {"format": {"enum": list(OF_TREES)}}},
    "then": {"required": ["paths", "depth"]},
}
"""What `_with_shape` checks, for JSON Schema."""


@with_config(ConfigDict(**EXACTLY, json_schema_extra=TREES))
class Header(TypedDict):
    """What a recorded file says of itself: JSON under the name `otspec` in the metadata of a safetensors file."""

    schema: Version
    """The version of this schema."""
    format: Literal[
        "recorded positions",
        "recorded positions, likeliest tokens",
        "recorded trees",
        "recorded trees, likeliest tokens",
    ]
    """What it holds: both models' laws at single positions, or drafted trees with the laws at their nodes."""
    vocab: AtLeastOne
    """Number of tokens V."""
    paths: NotRequired[AtLeastOne]
    """Of trees: drafted paths K of each."""
    depth: NotRequired[AtLeastOne]
    """Of trees: tokens L of each path."""
    stored: Literal["float16", "bfloat16", "float32"]
    """The type of laws."""
    top_k: int | None
    """How many of the draft model's likeliest tokens are kept of each law; null for all."""
    positions: AtLeastOne
    """How many positions, or trees, the file holds."""
    prompts: Prompts
    target: NotRequired[Model]
    """Its name, and the fingerprint of its weights where that is known."""
    draft: NotRequired[Model]
    """Likewise."""
    dtype: NotRequired[str]
    """Of the target's weights."""
    device: NotRequired[str]
    rest_at: NotRequired[list[Positive]]
    """Temperatures at which the mass of the tokens is known that are not kept."""
    new_tokens: NotRequired[Count]
    """The most tokens that a text has after its prompt."""
    temperature: NotRequired[Positive]
    """Of the texts, and of the laws of trees."""
    seed: NotRequired[int]
    batch: NotRequired[AtLeastOne]
    """Texts that were written together."""
    versions: NotRequired[dict[str, str]]
    acceptance: NotRequired[Positive]
    """Of one draft, in the mean."""
    error_of_storing: NotRequired[StoringError]
    engine: NotRequired[str]
    """The engine that was recorded while it served."""
    recording: NotRequired[str]
    """What the file is a part of, where an engine leaves several."""
    chosen: NotRequired[str]
    """How an engine's recorder chose what it kept."""
    law_after_a_path: NotRequired[str]
    """Where the target's law after a whole path is not known."""


def _with_shape(header: Header) -> Header:
    if header["format"] in OF_TREES and not {"paths", "depth"} <= header.keys():
        raise PydanticCustomError("missing", "trees have paths and a depth")
    return header


RecordingHeader = Annotated[Header, AfterValidator(_with_shape)]
"""A header that says of what shape its trees are."""


def check_header(about: Mapping[str, Any], path: Path) -> None:
    """Check the header of a recorded file.

    Raises
    ------
    DataError
        If it lacks a field, or has one of another kind; the message names the field.
    """
    check(RecordingHeader, about, f"the header of {path} is damaged", "record it anew")


def check_recorded(path: Path) -> Mapping[str, Any]:
    """Read a recorded file to its end, every law of it, and return its header.

    Raises
    ------
    DataError
        If something in it is not as the schema has it; the message says where.
    """
    about = of_schema(path, safetensors_about(path))
    check_header(about, path)
    read: Callable[[int], Any]
    if about["format"] in OF_TREES:
        trees = TreeSource(path)
        count, read = len(trees), trees.tree
    else:
        laws = open_source(path)
        count, read = len(laws), laws.position
    if count != about["positions"]:
        raise DataError(f"the header of {path} says {about['positions']} rows, and it holds {count}; record it anew")
    for row in range(count):
        read(row)
    return about
