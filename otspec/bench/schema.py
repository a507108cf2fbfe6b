"""What the files of a run and the headers of recordings hold: a model each, by which they are checked when read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, get_args, get_origin, get_type_hints

from otspec.data.recorded import SCHEMA
from otspec.data.trees import ARRAYS as OF_TREES
from otspec.errors import DataError
from otspec.extras import require

require("pydantic")  # where it is missing, the error says how to get it

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config  # noqa: E402
from pydantic_core import PydanticCustomError  # noqa: E402
from typing_extensions import TypedDict, is_typeddict  # noqa: E402

LARGEST = 2**63 - 1
"""Of a column of a table."""
Count = Annotated[int, Field(ge=0, le=LARGEST)]
AtLeastOne = Annotated[int, Field(ge=1, le=LARGEST)]
Positive = Annotated[float, Field(ge=0, le=1e15)]
Share = Annotated[float, Field(ge=-1e-6, le=1 + 1e-6)]
"""A probability, as far as a solver's rounding lets it be one."""
Finite = Annotated[float, Field(ge=-1e15, le=1e15)]
Version = Annotated[int, Field(ge=SCHEMA, le=SCHEMA)]

exactly = with_config(ConfigDict(strict=True))
"""A figure is no text, and fields that a model does not name are unchecked."""


@exactly
class SolversRecord(TypedDict):
    """A record of a solver on a position.

    `solved` is whether the solver answered for the drafted tuple as it is meant to.  `status` is that of the full
    plan, or BUDGET where the time of its cell, `budget_s`, ended first (`wall_s` is then a lower bound), INVALID where
    the data make no problem, RAISED where the solver raised what it should not, or DIED where the measuring process
    did; the figures are null then.  `code` is the digest of a solver that does not come with this package, `machine`
    the processor that it ran on.  With k = 0 all tokens are kept.
    """

    data: str
    k: Count
    n: AtLeastOne
    solver: str
    position: Count
    solved: bool
    status: str
    message: str
    wall_s: Positive
    optimum: NotRequired[Share | None]
    acceptance: NotRequired[Share | None]
    gap: NotRequired[Finite | None]
    deviation: NotRequired[Finite | None]
    cells: NotRequired[Count | None]
    budget_s: Positive
    code: str
    machine: str


@exactly
class PathsRecord(TypedDict):
    """A record of a rule on a recorded tree.

    `position` numbers the trees of a file.  `accepted` is the mean number of accepted tokens given the tree, over the
    random numbers of the rule, `reach` the probability that at least 1, ..., L are; both are null where `message` is
    why the rule failed.  `wall_s` is the time of one verification, `spent_s` all that the rule took.
    """

    data: str
    rule: str
    paths: AtLeastOne
    depth: AtLeastOne
    position: Count
    prompt: Count
    lossless: bool
    accepted: Positive | None
    reach: list[Share] | None
    wall_s: Positive | None
    spent_s: Positive
    message: str
    machine: str


@exactly
class Phases(TypedDict):
    """Seconds of a text, as `otspec.decode.Metrics` has them."""

    prompt: Positive
    draft: Positive
    target: Positive
    verification: Positive
    rest: Positive


@exactly
class Served(TypedDict):
    """What servers report, by their names, as `otspec.decode.Metrics` counts it; null where nothing was drafted."""

    mean_acceptance_length: Positive | None
    acceptance_rate: Positive | None
    acceptance_rate_per_position: list[Positive]
    num_drafts: Count
    num_draft_tokens: Count
    num_accepted_tokens: Count


@exactly
class DecodingRecord(TypedDict):
    """A record of a text that a cell decoded: `otspec.bench.decoding.cells.DecodingCell`, and the sums of `Metrics`.

    A text is a conversation with all of its turns, or as many of these as are decoded together: `prompt` is then the
    first of them.  Beside the sums are the names of `Served`, of all texts together, and in `of_texts` of each;
    transformers' own methods report nothing of each.  Records of versions before a field lack it.
    """

    method: str
    rule: str
    paths: Count
    depth: Count
    temperature: Positive
    drafter: NotRequired[str]
    draft_top_k: NotRequired[int | None]
    draft_top_p: NotRequired[float | None]
    draft_temperature: NotRequired[float | None]
    draft_confidence: NotRequired[float | None]
    pace: NotRequired[str | None]
    schedule: NotRequired[str | None]
    confidence: NotRequired[float | None]
    batch: NotRequired[AtLeastOne]
    trial: bool
    prompt: Count
    repeat: Count
    seed: int
    machine: str
    threads: NotRequired[AtLeastOne]
    load: NotRequired[Positive | None]
    task: NotRequired[str]
    together: NotRequired[AtLeastOne]
    lossless: bool
    message: str
    tokens: Count
    sequence_steps: Count
    target_calls: Count
    drafted_nodes: Count
    offered: list[Count]
    accepted: list[Count]
    seconds: Phases
    committed: Count
    mean_acceptance_length: NotRequired[Positive | None]
    acceptance_rate: NotRequired[Positive | None]
    acceptance_rate_per_position: NotRequired[list[Positive]]
    num_drafts: NotRequired[Count]
    num_draft_tokens: NotRequired[Count]
    num_accepted_tokens: NotRequired[Count]
    of_texts: NotRequired[list[Served]]


@exactly
class Header(TypedDict):
    """The description of a recorded file: JSON under the name `otspec` in the metadata of a safetensors file.

    `docs/recordings.md` explains the fields.
    """

    schema: Version
    format: Literal[
        "recorded positions",
        "recorded positions, likeliest tokens",
        "recorded trees",
        "recorded trees, likeliest tokens",
    ]
    vocab: AtLeastOne
    paths: NotRequired[AtLeastOne]
    depth: NotRequired[AtLeastOne]
    stored: Literal["float16", "bfloat16", "float32"]
    top_k: int | None
    positions: AtLeastOne
    prompts: dict[str, Any]
    target: NotRequired[Annotated[list[str], Field(min_length=1, max_length=2)]]
    draft: NotRequired[Annotated[list[str], Field(min_length=1, max_length=2)]]
    rest_at: NotRequired[list[Positive]]
    temperature: NotRequired[Positive]
    engine: NotRequired[str]


def _with_shape(header: Header) -> Header:
    if header["format"] in OF_TREES and not {"paths", "depth"} <= header.keys():
        raise PydanticCustomError("missing", "trees have paths and a depth")
    return header


RecordingHeader = Annotated[Header, AfterValidator(_with_shape)]
"""A header with the shape of its trees."""


@exactly
class Request(TypedDict):
    """What was requested, and when: an entry of `runs` in run.json."""

    command: str
    date: str
    reference: NotRequired[str]


@exactly
class Grid(TypedDict):
    """Cells that solvers were measured at."""

    data: list[str]
    k: list[Count]
    n: list[Count]
    solver: list[str]


@exactly
class SolversRequest(Request):
    """The same of `otspec bench`, with the number of positions of each cell."""

    positions: Count
    cells: Grid


@exactly
class Code(TypedDict):
    """By what code something was measured; the last field is the digest of the sources of this package."""

    python: str
    versions: dict[str, str]
    code: str


@exactly
class Identity(TypedDict):
    """What makes records comparable, in run.json."""

    schema: Version
    seed: int
    processor: str


@exactly
class SolversRun(Identity, Code):
    """All of run.json, of `otspec bench`."""

    benchmark: Literal["solvers"]
    data: dict[str, Any]
    scheme: str
    temperature: Positive
    top_p: float | None
    jobs: int
    runs: list[SolversRequest]


@exactly
class MeasuredRecording(TypedDict):
    """A recorded file of trees, or the parts of one, with its header."""

    file: str
    bytes: Count
    sha256: str
    about: RecordingHeader
    measured_by: Code


@exactly
class PathsRun(Identity):
    """The same of `otspec bench paths`: recordings that others measured may join it, by code of their own."""

    benchmark: Literal["paths"]
    data: dict[str, MeasuredRecording]
    budget_s: Positive
    runs: list[Request]


@exactly
class DecodingRun(Identity, Code):
    """The same of `otspec bench decode`."""

    benchmark: Literal["decoding"]
    target: list[str]
    draft: list[str | None]
    dtype: str
    prompts: str
    top_k: NotRequired[int | None]
    top_p: NotRequired[float | None]
    own_config: NotRequired[dict[str, Any]]
    max_new_tokens: Count
    budget_s: Positive
    device: str
    threads: int
    runs: list[Request]


class Schema(NamedTuple):
    """What the files of a benchmark's runs hold."""

    record: type
    """A line of results.jsonl."""
    run: type
    """All of run.json."""
    request: type
    """One of its `runs`."""
    table: bool
    """Whether records are also written as a table; those of texts are not."""


SCHEMAS: Mapping[str, Schema] = {
    "solvers": Schema(SolversRecord, SolversRun, SolversRequest, table=True),
    "decoding": Schema(DecodingRecord, DecodingRun, Request, table=False),
    "paths": Schema(PathsRecord, PathsRun, Request, table=True),
}
"""By benchmark."""

ANEW = "measure anew in a new folder"
"""The way out where a file is damaged."""


def schema_of(identity: Mapping[str, Any]) -> Schema | None:
    """That of the benchmark that an identity names; None where it is none of `SCHEMAS`."""
    benchmark = identity.get("benchmark")
    return SCHEMAS.get(benchmark) if isinstance(benchmark, str) else None


def columns_of(schema: Schema) -> dict[str, Any]:
    """The columns of the table of a benchmark's records, and their types: of lists in a list, of fields by name."""
    return _fields(schema.record)


def _fields(record: type) -> dict[str, Any]:
    return {name: _plain(kind) for name, kind in get_type_hints(record).items()}


def _plain(kind: Any) -> Any:
    if isinstance(kind, type) and get_origin(kind) is None:
        return _fields(kind) if is_typeddict(kind) else kind
    (one,) = (part for part in get_args(kind) if part is not type(None))
    return [_plain(one)] if get_origin(kind) is list else _plain(one)


def check_run(schema: Schema, identity: Mapping[str, Any], runs: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Check all of run.json; a `DataError` names the field that is missing, or of another kind."""
    _check(schema.run, {**identity, "runs": list(runs)}, f"{path} is damaged", ANEW)


def check_requests(schema: Schema | None, runs: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Check the requests in run.json likewise; without a schema nothing is checked."""
    for number, run in enumerate(runs):
        if schema is not None:
            _check(schema.request, run, f"{path} is damaged: runs.{number}", ANEW)


def check_records(schema: Schema | None, records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Check the records of a run, a line of the file each, likewise; the message names the line, too."""
    for number, record in enumerate(records, start=1):
        if schema is not None:
            _check(schema.record, record, f"{path}, line {number} is damaged", ANEW)


def check_header(about: Mapping[str, Any], path: Path) -> None:
    """Check the header of a recorded file likewise."""
    _check(RecordingHeader, about, f"the header of {path} is damaged", "record it anew")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _check(kind: Any, value: Mapping[str, Any], where: str, anew: str) -> None:
    """Check a value of a file; messages begin with `where`, and name `anew` beside a file that is as it was."""
    try:
        _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ": ".join(filter(None, [where, ".".join(map(str, first["loc"]))]))
        text = json.dumps(first["input"], default=repr)
        there = "" if first["type"] == "missing" else f", and is {text if len(text) <= 60 else f'{text[:57]}...'}"
        raise DataError(f"{place}: {first['msg'].lower()}{there}; restore the file, or {anew}") from error
