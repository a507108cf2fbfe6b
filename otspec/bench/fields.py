"""Kinds of figures in the files of runs and recordings, and how what others left is checked against them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from otspec.data.recorded import SCHEMA
from otspec.errors import DataError
from otspec.extras import require

require("pydantic")  # where it is missing, the error says how to get it

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config  # noqa: E402

LARGEST = 2**63 - 1
"""Of a column of a table."""
Count = Annotated[int, Field(ge=0, le=LARGEST)]
AtLeastOne = Annotated[int, Field(ge=1, le=LARGEST)]
Positive = Annotated[float, Field(ge=0, le=1e15)]
Seconds = Positive
Share = Annotated[float, Field(ge=-1e-6, le=1 + 1e-6)]
"""A probability, as far as a solver's rounding lets it be one."""
Finite = Annotated[float, Field(ge=-1e15, le=1e15)]
Version = Annotated[int, Field(ge=SCHEMA, le=SCHEMA)]
"""Of the schema."""
Name = str | list[str]
"""A name of the machine, or part of it; of a merged run it is a list."""
Number = int | list[int]
"""Likewise a number of the machine."""

EXACTLY = ConfigDict(strict=True, use_attribute_docstrings=True)
exactly = with_config(EXACTLY)
"""A figure is no text, and fields that the schema does not name are as whoever wrote them wants."""


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What checks values of a kind, and writes its JSON Schema."""
    return TypeAdapter(kind)


def check(kind: Any, value: Mapping[str, Any], where: str, anew: str) -> None:
    """Check a value of a file.

    Parameters
    ----------
    kind : type
        A TypedDict, or an alias of one.
    value : mapping
    where : str
        What the message begins with.
    anew : str
        The way out, beside a file that is as it was.

    Raises
    ------
    DataError
        If it lacks a field, or has one of another kind; the message names the field.
    """
    try:
        adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ": ".join(filter(None, [where, ".".join(map(str, first["loc"]))]))
        there = "" if first["type"] == "missing" else f", and is {_shown(first['input'])}"
        raise DataError(f"{place}: {first['msg'].lower()}{there}; restore the file, or {anew}") from error


def _shown(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
