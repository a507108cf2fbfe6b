"""The published schemas: a validator that is not ours takes what we write, and nothing that our readers refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import otspec.bench
from otspec import DataError
from otspec.bench.fields import check
from otspec.bench.header import RecordingHeader
from otspec.bench.json_schemas import KINDS, json_schema
from otspec.bench.schema import SCHEMAS
from tests.bench.records import HEADER, asked_of, identity_of, record_of
from tests.bench.test_malformed import spoil

jsonschema = pytest.importorskip("jsonschema")

PUBLISHED = Path(otspec.bench.__file__).parent / "schemas"
CASES = 300


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json_schema(name))


def examples(name: str) -> list[tuple[Any, dict[str, Any]]]:
    """What is right, with the type that our readers hold it against."""
    if name == "recording":
        return [
            (RecordingHeader, HEADER),
            (RecordingHeader, HEADER | {"format": "recorded positions", "target": ["t", "1"]}),
        ]
    if name == "run":
        return [(one.run, identity_of(of) | {"runs": [asked_of(of)]}) for of, one in SCHEMAS.items()]
    return [(one.record, record_of(of)) for of, one in SCHEMAS.items()]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_published_is_what_our_readers_check(name: str) -> None:
    text = (PUBLISHED / f"{name}.json").read_text()
    assert json.loads(text) == json_schema(name), f"otspec schema {name} > otspec/bench/schemas/{name}.json"
    jsonschema.Draft202012Validator.check_schema(json_schema(name))


@pytest.mark.parametrize("name", KINDS)
def test_a_validator_agrees_with_our_readers(name: str) -> None:
    rng, judge = np.random.default_rng(0), validator(name)
    verdicts = set()
    for kind, right in examples(name):
        judge.validate(right)
        check(kind, right, "", "")
        for _ in range(CASES // len(examples(name))):
            value = spoil(rng, right)
            try:
                text = json.dumps(value, allow_nan=False)
            except ValueError:  # no JSON
                continue
            if "e+308" in text:  # a whole number for JSON Schema, and not for us
                continue
            ours = readers_take(kind, value)
            assert judge.is_valid(value) is ours, value
            verdicts.add(ours)
    assert verdicts == {True, False}


def readers_take(kind: Any, value: Any) -> bool:
    try:
        check(kind, value, "", "")
    except DataError:
        return False
    return True
