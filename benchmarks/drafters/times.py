"""How fast they are: every drafter on the same prompts in turns, one text at a time, by `otspec bench decode`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import bootstrap

from benchmarks.drafters.acceptance import done
from benchmarks.drafters.plan import FREE, WAYS, Plan
from benchmarks.reporting import Record
from otspec.decode.pair.loading import SHIPPED
from otspec.laws import FloatArray

FOLDER = "times"
AS_IT_IS = f"{SHIPPED}-pretrained"
"""The shipped draft model, by the name that it has among the learners."""


class Speed(NamedTuple):
    """How many times as fast as something else, with a 95 % interval over prompts."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """As tables have it."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def command(plan: Plan, out: Path, first: int, new: int) -> list[str]:
    """What measures everything that is in the folder, of the first seed."""
    folders = [one.folder(out, 0) for one in plan.learners if one.learns or one.start != SHIPPED]
    drafters = ["full", *(str(folder.resolve()) for folder in folders if done(folder))]
    way = WAYS[0]
    options = {
        "--drafter": ",".join(drafters),
        "--paths": str(way.paths),
        "--depth": str(way.depth),
        "--solver": "nested",
        "--reference": "nested",
        "--baselines": ",".join(("generate", *FREE)),
        "--temperature": "1,0",
        "--first": str(first),
        "--max-new-tokens": str(new),
        "--device": "cpu",
        "--budget": "600",
        "--out": str(out / FOLDER),
    }
    return [sys.executable, "-m", "otspec", "bench", "decode", *(word for pair in options.items() for word in pair)]


def measure(plan: Plan, out: Path, first: int, new: int) -> None:
    """Measure what is not measured yet."""
    subprocess.run(command(plan, out, first, new), check=True)


def measured(out: Path) -> list[Record]:
    """A record for every text and drafter, with the learner's or the method's name; none before `measure`."""
    path = out / FOLDER / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return [one | {"name": _name(one)} for one in records if not one["trial"] and one["tokens"]]


def _name(record: Record) -> str:
    if record["method"] != "multi-draft":
        return str(record["method"])
    folder = Path(record["drafter"]).name
    return folder.removesuffix("-0") if folder else AS_IT_IS


def speed(records: Sequence[Record], name: str, over: str, temperature: float) -> Speed | None:
    """Of one drafter over another, or over a method, on the same prompts; None where either is not measured."""
    mine, theirs = (_by_prompt(records, one, temperature) for one in (name, over))
    both = sorted(mine.keys() & theirs.keys())
    if len(both) < 2:
        return None
    pairs = np.array([[*mine[at], *theirs[at]] for at in both]).T
    found = bootstrap(pairs, ratio, paired=True, vectorized=True, method="percentile", rng=np.random.default_rng(0))
    return Speed(float(ratio(*pairs)), *map(float, found.confidence_interval))


def ratio(
    tokens: FloatArray, spent: FloatArray, others: FloatArray, elsewhere: FloatArray, axis: int = -1
) -> FloatArray:
    """Tokens a second over those of the other."""
    found: FloatArray = tokens.sum(axis) / spent.sum(axis) / (others.sum(axis) / elsewhere.sum(axis))
    return found


def _by_prompt(records: Iterable[Record], name: str, temperature: float) -> dict[int, tuple[float, float]]:
    """Tokens and seconds, by prompt; temperatures 0 and 1 are apart, as everywhere."""
    mine = [one for one in records if (one["name"], one["temperature"]) == (name, temperature)]
    return {one["prompt"]: (one["tokens"], sum(one["seconds"].values())) for one in mine}


def per_draft(records: Iterable[Record], name: str) -> float | None:
    """Milliseconds of drafting for each token drafted, at temperature 1; None where it is not measured."""
    mine = [one for one in records if (one["name"], one["temperature"]) == (name, 1.0)]
    return _ratio(mine, lambda one: 1e3 * one["seconds"]["draft"], lambda one: sum(one["offered"]))


def _ratio(
    records: Sequence[Record], above: Callable[[Record], float], below: Callable[[Record], float]
) -> float | None:
    total = sum(map(below, records))
    return sum(map(above, records)) / total if total else None
