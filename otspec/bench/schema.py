"""What the files of a run hold: one schema for each benchmark, to write tables by and to check what others left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, get_args, get_origin, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from otspec.bench.fields import (
    AtLeastOne,
    Count,
    Finite,
    Name,
    Number,
    Positive,
    Seconds,
    Share,
    Version,
    check,
    exactly,
)
from otspec.bench.header import RecordingHeader


@exactly
class SolversRecord(TypedDict):
    """A record of a solver on a position.

    `solved` says whether the solver answered for the drafted tuple as it is meant to.  `status` is that of the full
    plan, or BUDGET where the time of its cell, `budget_s`, ended first (`wall_s` is then a lower bound), INVALID where
    the data make no problem, RAISED where the solver raised what it should not, or DIED where the measuring process
    did; the figures are null then.  `code` is the digest of a solver that does not come with this package, `machine`
    the processor that it ran on.
    """

    data: str
    k: Count
    """0 keeps all tokens."""
    n: AtLeastOne
    solver: str
    position: Count
    solved: bool
    status: str
    message: str
    wall_s: Seconds
    optimum: NotRequired[Share | None]
    acceptance: NotRequired[Share | None]
    gap: NotRequired[Finite | None]
    deviation: NotRequired[Finite | None]
    cells: NotRequired[Count | None]
    budget_s: Seconds
    code: str
    machine: str


@exactly
class PathsRecord(TypedDict):
    """A record of a rule on a recorded tree.

    `position` numbers the trees of a file.  `accepted` is the mean number of accepted tokens given the tree, over the
    random numbers of the rule, `reach` the probability that at least 1, ..., L are; both are null where `message` says
    why the rule failed.  `wall_s` is the time of one verification, `spent_s` all that
    the rule took.
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
    wall_s: Seconds | None
    spent_s: Seconds
    message: str
    machine: str


@exactly
class Phases(TypedDict):
    """Seconds of a text, as `otspec.decode.Metrics` has them."""

    prompt: Seconds
    draft: Seconds
    target: Seconds
    verification: Seconds
    rest: Seconds


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
    transformers' own methods tell nothing of each.  Records of versions before a field lack it.
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
class Asked(TypedDict):
    """What was asked for, and when: an entry of `runs` in run.json."""

    command: str
    date: str
    shard: NotRequired[Annotated[str, Field(pattern=r"^[1-9]\d{0,8}/[1-9]\d{0,8}$")]]
    reference: NotRequired[str]


@exactly
class Grid(TypedDict):
    """Cells that solvers were measured at."""

    data: list[str]
    k: list[Count]
    n: list[Count]
    solver: list[str]


@exactly
class AskedOfSolvers(Asked):
    """The same of `otspec bench`: so many positions of each cell."""

    positions: Count
    cells: Grid


@exactly
class Code(TypedDict):
    """By what code something was measured."""

    python: str
    versions: dict[str, str]
    code: str
    """Digest of the sources of this package."""


@exactly
class Identity(TypedDict):
    """What makes records comparable, in run.json."""

    schema: Version
    seed: int
    processor: Name


@exactly
class SolversRun(Identity, Code):
    """All of run.json, of `otspec bench`."""

    benchmark: Literal["solvers"]
    data: dict[str, Any]
    scheme: str
    temperature: Positive
    top_p: float | None
    jobs: Number
    runs: list[AskedOfSolvers]


@exactly
class MeasuredRecording(TypedDict):
    """A recorded file of trees, or the parts of one."""

    file: str
    bytes: Count
    sha256: str
    about: RecordingHeader
    """What its header says."""
    measured_by: Code


@exactly
class PathsRun(Identity):
    """The same of `otspec bench paths`: recordings that others measured may join it, by code of their own."""

    benchmark: Literal["paths"]
    data: dict[str, MeasuredRecording]
    """By name."""
    budget_s: Seconds
    runs: list[Asked]


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
    max_new_tokens: Count
    budget_s: Seconds
    device: Name
    threads: Number
    runs: list[Asked]


class Schema(NamedTuple):
    """What the files of a benchmark's runs hold."""

    record: type
    """A line of results.jsonl."""
    run: type
    """All of run.json."""
    asked: type
    """One of its `runs`."""
    table: bool
    """Whether records are also kept as a table; those of texts are not."""


SCHEMAS: Mapping[str, Schema] = {
    "solvers": Schema(SolversRecord, SolversRun, AskedOfSolvers, table=True),
    "decoding": Schema(DecodingRecord, DecodingRun, Asked, table=False),
    "paths": Schema(PathsRecord, PathsRun, Asked, table=True),
}
"""By benchmark."""

ANEW = "measure anew in a new folder"
"""The way out where a file is damaged."""
_ARROW = {str: "string", int: "int64", float: "float64", bool: "bool_"}


def schema_of(identity: Mapping[str, Any]) -> Schema | None:
    """That of the benchmark which an identity says that a run is of; None where it is none of `SCHEMAS`."""
    benchmark = identity.get("benchmark")
    return SCHEMAS.get(benchmark) if isinstance(benchmark, str) else None


def columns_of(schema: Schema) -> dict[str, str]:
    """The columns of the table of a benchmark's records, and their types as pyarrow calls them.

    Brackets behind a type make lists of it.
    """
    return {name: _arrow(kind) for name, kind in get_type_hints(schema.record).items()}


def _arrow(kind: Any) -> str:
    if kind in _ARROW:
        return _ARROW[kind]
    (one,) = (part for part in get_args(kind) if part is not type(None))
    return f"{_arrow(one)}[]" if get_origin(kind) is list else _arrow(one)


def check_run(schema: Schema, identity: Mapping[str, Any], runs: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Check all that run.json says.

    Raises
    ------
    DataError
        If something is missing in it, or is of another kind; the message names the field.
    """
    check(schema.run, {**identity, "runs": list(runs)}, f"{path} is damaged", ANEW)


def check_asked(schema: Schema | None, runs: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Check what run.json says that was asked for, and when.

    Raises
    ------
    DataError
        If something is missing in it, or is of another kind; without a schema nothing is known.
    """
    if schema is not None:
        for number, run in enumerate(runs):
            check(schema.asked, run, f"{path} is damaged: runs.{number}", ANEW)


def check_records(schema: Schema | None, records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Check the records of a run, a line of the file each.

    Raises
    ------
    DataError
        If one lacks a field, or has one of another kind; the message names the line and the field.
    """
    if schema is not None:
        for number, record in enumerate(records, start=1):
            check(schema.record, record, f"{path}, line {number} is damaged", ANEW)
