"""The decoding benchmark: rules at various numbers of paths on the same prompts, and methods to compare with."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from otspec.bench.cells import every_solver
from otspec.bench.code import package_digest
from otspec.bench.records import Record, RecordFolder
from otspec.catalogue import available
from otspec.decode.methods.catalogue import CHAIN, METHODS, Decode, decoder, lossless, method_of, rule, warm_up
from otspec.decode.metrics import Metrics
from otspec.decode.models.loading import Models, batch_of
from otspec.decode.verifiers import JOINT
from otspec.reporting.machine import processor, versions
from otspec.results import SolveError

SPELT = {
    "global_resolution": f"global_resolution{CHAIN}naive",
    "polymatroid": "polymatroid:tol=1e-6",
    "luce": "luce:tol=1e-6",
}
"""Solvers that would soon fail as they are: the one with the fallback of its paper, the others with a wider gap."""


@dataclass(frozen=True)
class DecodingCell:
    """One way to decode: a rule of our trees of K paths, or another method."""

    method: str
    """A name of `otspec.decode.methods.catalogue.METHODS`."""
    rule: str = ""
    """Spelling of the rule of a multi-draft method."""
    paths: int = 0
    """K; 0 where the method has none."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.rule or self.method


def every_rule() -> tuple[list[str], list[str]]:
    """All joint rules of several paths and all solvers that are installed; and the solvers left out."""
    spellings, left_out = every_solver()
    names = [info.name for info in available()]
    joint = [name for name in JOINT if name != "block"]
    solvers = [SPELT.get(name, name) for name in names if name in spellings]
    return [*joint, *solvers], [name for name in names if name in left_out]


def decoding_grid(paths: Sequence[int], rules: Sequence[str], baselines: Sequence[str]) -> list[DecodingCell]:
    """All cells, vanilla decoding first: the others are compared with it.

    Raises
    ------
    UnknownSolver
        If a rule has no such name.
    ProblemError
        If a baseline has none.
    """
    for spelling in rules:
        rule(spelling, CHAIN)
    cells = [DecodingCell("vanilla")]
    for name in baselines:
        takes = method_of(name, {}).takes
        if "paths" in takes:
            cells += [DecodingCell(name, paths=count) for count in paths]
        else:
            cells.append(DecodingCell(name, paths=1 if METHODS[name].drafts else 0))
    cells += [DecodingCell("multi-draft", spelling, count) for count in paths for spelling in rules]
    return list(dict.fromkeys(cells))


@dataclass(frozen=True, eq=False)
class DecodingBenchmark:
    """What to measure."""

    models: Models
    names: tuple[str, str]
    """What the user calls target and draft."""
    cells: list[DecodingCell]
    prompts: list[list[int]]
    """Tokens of each."""
    first: int
    """How many of them to decode, from the first on."""
    depth: int = 8
    """L, tokens of a path."""
    sampling: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 1.0})
    max_new_tokens: int = 64
    seed: int = 0
    """Of the first prompt; the next has seed + 1."""
    budget_s: float = 60.0
    """Decoding time granted to each cell, in seconds; a text under way is then cut short."""
    drafts: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the drafts alone, those that are given: `otspec.decode.sampling.DraftSettings`."""

    @property
    def identity(self) -> Mapping[str, object]:
        """What makes records comparable with each other."""
        return {
            "target": [self.names[0], fingerprint(self.models.target)],
            "draft": [self.names[1], fingerprint(self.models.draft)],
            "dtype": str(self.models.target.dtype),
            "prompts": _digest(self.prompts),
            "depth": self.depth,
            **self.sampling,
            **self.drafts,
            "max_new_tokens": self.max_new_tokens,
            "seed": self.seed,
            "budget_s": self.budget_s,
            "device": torch.cuda.get_device_name() if self.models.target.device.type == "cuda" else "cpu",
            "processor": processor(),
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "versions": versions("numpy", "scipy", "numba", "torch", "transformers"),
            "code": package_digest(),
        }


def run(
    benchmark: DecodingBenchmark, folder: RecordFolder, progress: Callable[[int], None] = lambda steps: None
) -> None:
    """Measure what the folder does not hold yet, every cell on one prompt before the next prompt.

    So whatever else the machine does in the meantime hits all cells alike.  A cell whose solver fails, or whose time
    is spent, gets no more prompts.
    """
    ready: dict[DecodingCell, Decode] = {}
    for index in range(min(benchmark.first, len(benchmark.prompts))):
        for cell in benchmark.cells:
            mine = records_of(folder.records, cell)
            left_s = benchmark.budget_s - sum(sum(record["seconds"].values()) for record in mine)
            over = left_s <= 0 or any(record["message"] for record in mine)
            if not over and index not in {record["prompt"] for record in mine}:
                folder.append(asdict(cell) | {"prompt": index} | _measure(benchmark, ready, cell, index, left_s))
            progress(1)


def records_of(records: Sequence[Record], cell: DecodingCell) -> list[Record]:
    """The records of a cell, by prompt."""
    mine = [
        one for one in records if (one["method"], one["rule"], one["paths"]) == (cell.method, cell.rule, cell.paths)
    ]
    return sorted(mine, key=lambda record: record["prompt"])


def fingerprint(model: Any) -> str:
    """Digest of a model's parameters: names, shapes, and the first values of each."""
    digest = hashlib.sha256()
    for name, weights in model.named_parameters():
        values = weights.detach().flatten()[:64].float().tolist()
        digest.update(json.dumps([name, list(weights.shape), values]).encode())
    return digest.hexdigest()[:16]


def _digest(prompts: Sequence[Sequence[int]]) -> str:
    return hashlib.sha256(json.dumps(prompts).encode()).hexdigest()[:16]


def _measure(
    benchmark: DecodingBenchmark, ready: dict[DecodingCell, Decode], cell: DecodingCell, index: int, left_s: float
) -> Record:
    """What a cell does with a prompt.  On its first, it decodes a little before: nothing is compiled on the clock."""
    inputs = batch_of([benchmark.prompts[index]], benchmark.models.target.device)
    settings = {**benchmark.sampling, "seed": benchmark.seed + index}
    metrics, message = Metrics(), ""
    try:
        if cell not in ready:
            decode = decoder(cell.method, benchmark.models, _settings(benchmark, cell))
            warm_up(decode, inputs, {**settings, "max_time": left_s})
            ready[cell] = decode
        metrics = ready[cell](**inputs, **settings, max_new_tokens=benchmark.max_new_tokens, max_time=left_s).metrics
    except SolveError as error:
        message = str(error)
    exact = lossless(METHODS[cell.method], _settings(benchmark, cell))
    return {"lossless": exact, "message": message, **metrics.record()}


def _settings(benchmark: DecodingBenchmark, cell: DecodingCell) -> dict[str, Any]:
    possible = {"paths": cell.paths, "depth": benchmark.depth, **benchmark.drafts}
    settings: dict[str, Any] = {name: possible[name] for name in METHODS[cell.method].takes if name in possible}
    return {**settings, "solver": rule(cell.rule, CHAIN)} if cell.rule else settings
