"""Whether a token of a long text costs more than its passes, which grow with the text, and what memory it takes.

    python -m benchmarks.decode_long [--tokens 2000] [--segment 250] [--repeats 3]

Two random Llamas, the target deep and narrow and the draft model of one layer, decode one text plainly and with
drafts.  The same seed gives the same steps, so a segment's time is its least over the repeats; so is that of its
passes alone, with nothing around them.  Memory is looked at in a run of its own, which nobody times.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.random_pair import SHAPES, random_pair
from benchmarks.reporting import Record, finish
from otspec.decode import floor
from otspec.decode.methods.catalogue import Decode, decoder
from otspec.decode.models.context import Pass
from otspec.decode.models.passes.cache import Block
from otspec.decode.pair.loading import Models
from otspec.errors import ProblemError
from otspec.reporting.machine import processor
from otspec.reporting.tables import TextTable

PROMPT = 64
METHODS = {"vanilla": "vanilla", "nested": "multi-draft"}
"""What is measured, and the name of its method."""


class Load(NamedTuple):
    """How long the text gets, and how it is told."""

    tokens: int = 2000
    segment: int = 250
    paths: int = 4
    depth: int = 8
    repeats: int = 3


class Steps:
    """A streamer that notes how many tokens each step gave, and when; after each it may look at something else."""

    def __init__(self, look: Callable[[int], None] | None = None) -> None:
        self.tokens: list[int] = []
        self.at: list[float] = []
        self._look = look

    def put(self, value: torch.Tensor) -> None:
        """The prompt first, then what each step gave."""
        if value.ndim == 1:
            self.tokens.append(len(value))
        self.at.append(time.perf_counter())
        if self._look is not None:
            self._look(sum(self.tokens))

    def end(self) -> None:
        """Nothing is left to flush."""


class Segment(NamedTuple):
    """Some consecutive steps."""

    tokens: int
    steps: int
    seconds: float
    floor: float


class Memory(NamedTuple):
    """Bytes at the end of a segment."""

    cache: int
    """Keys and values of both models, columns that wait for tokens included."""
    python: int
    """What Python and NumPy hold of what was allocated since the text began."""
    process: float
    """Resident; NaN where the system does not say."""


def segment_of(tokens: Sequence[int], segment: int) -> list[int]:
    """The segment in which each step began, steps told by the tokens that they gave."""
    return [before // segment for before in accumulate(tokens[:-1], initial=0)]


def by_step(passes: Sequence[Pass]) -> list[list[Pass]]:
    """A drafter's passes, parted by step: the next begins before the columns at which the last one ended.

    Of several paths one at most becomes text, so that the settled text is always shorter than what was on trial.
    """
    steps: list[list[Pass]] = []
    for one in passes:
        if not steps or one.start < steps[-1][-1].start + steps[-1][-1].rows:
            steps.append([])
        steps[-1].append(one)
    return steps


def measure(models: Models, load: Load) -> list[Record]:
    """A record for each method and segment."""
    records: list[Record] = []
    for name in METHODS:
        runs = [_segments(models, name, load) for _ in range(load.repeats)]
        held = memory(models, name, load)
        for number, (same, end) in enumerate(zip(zip(*runs, strict=True), held, strict=True)):
            first = same[0]
            records.append(
                {
                    "method": name,
                    "from": number * load.segment,
                    "tokens": first.tokens,
                    "steps": first.steps,
                    "seconds": min(one.seconds for one in same),
                    "floor": min(one.floor for one in same),
                    **end._asdict(),
                }
            )
    return records


def _segments(models: Models, name: str, load: Load) -> list[Segment]:
    noted = Steps()
    generation = _decode(models, name, load)(**_asked(models, load.tokens), streamer=noted)
    places = segment_of(noted.tokens, load.segment)
    seconds = [stop - start for start, stop in zip(noted.at[:-1], noted.at[1:], strict=True)]
    seconds[0] -= generation.metrics.seconds["prompt"]
    target, draft = generation.passes["target"], by_step(generation.passes["draft"])
    found = []
    for number in range(places[-1] + 1):
        mine = slice(places.index(number), len(places) - places[::-1].index(number))
        least = floor(models.target, target[mine])
        if models.draft is not None and draft:
            least += floor(models.draft, [one for step in draft[mine] for one in step])
        tokens = noted.tokens[mine]
        found.append(Segment(sum(tokens), len(tokens), sum(seconds[mine]), least))
    return found


def memory(models: Models, name: str, load: Load) -> list[Memory]:
    """What is held at the end of each segment."""
    held: list[Memory] = []

    def look(tokens: int) -> None:
        while tokens >= min((len(held) + 1) * load.segment, load.tokens) and len(held) * load.segment < load.tokens:
            gc.collect()
            held.append(Memory(cache_bytes(), tracemalloc.get_traced_memory()[0], resident_bytes()))

    tracemalloc.start()
    try:
        _decode(models, name, load)(**_asked(models, load.tokens), streamer=Steps(look))
    finally:
        tracemalloc.stop()
    return held


def cache_bytes() -> int:
    """Of all keys and values that are alive."""
    return sum(block.entries.nbytes for block in gc.get_objects() if type(block) is Block)


def resident_bytes() -> float:
    """Memory of this process that is not swapped out, NaN where the system does not say."""
    statm = Path("/proc/self/statm")
    return float(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else float("nan")


def _decode(models: Models, name: str, load: Load) -> Decode:
    settings = {} if name == "vanilla" else {"paths": load.paths, "depth": load.depth, "solver": name}
    return decoder(METHODS[name], models, settings)


def _asked(models: Models, tokens: int) -> dict[str, object]:
    vocab = models.target.config.vocab_size
    prompt = torch.randint(vocab, (1, PROMPT), generator=torch.Generator().manual_seed(0))
    return {"input_ids": prompt, "temperature": 1.0, "seed": 0, "max_new_tokens": tokens}


def table(records: Sequence[Record], title: str) -> TextTable:
    """Milliseconds a token beside those of the passes alone, and megabytes, by segment."""
    header = ["tokens"]
    for name in METHODS:
        header += [f"{name}, ms", "passes", "ratio"]
    header += ["tokens a step", "cache, MB", "Python, MB", "process without cache, MB"]
    rows = []
    for start in sorted({one["from"] for one in records}):
        mine = {one["method"]: one for one in records if one["from"] == start}
        last = mine["nested"]
        row = [f"from {start}"]
        for one in mine.values():
            each = (1e3 * one[part] / one["tokens"] for part in ("seconds", "floor"))
            row += [*(f"{spent:.2f}" for spent in each), f"{one['seconds'] / one['floor']:.2f}"]
        megabytes = (last["cache"], last["python"], last["process"] - last["cache"])
        row += [f"{last['tokens'] / last['steps']:.2f}", *(f"{held / 1e6:.1f}" for held in megabytes)]
        rows.append(tuple(row))
    note = (
        "Milliseconds a token, and those of the same passes with nothing around them. Memory is that of nested, at "
        "the end of each segment. A step counts for the segment in which it begins."
    )
    return TextTable(title, tuple(header), rows, note, labels=1)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=SHAPES, default="deep")
    parser.add_argument("--draft", choices=SHAPES, default="wide")
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--positions", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=Load().tokens)
    parser.add_argument("--segment", type=int, default=Load().segment)
    parser.add_argument("--paths", type=int, default=Load().paths, help="2 or more")
    parser.add_argument("--depth", type=int, default=Load().depth)
    parser.add_argument("--repeats", type=int, default=Load().repeats)
    parser.add_argument("--out", type=Path, default=Path("report_long"), help="folder for the results")
    given = parser.parse_args()
    if given.paths < 2:
        parser.error(f"--paths is {given.paths}; passes are told apart by step for 2 paths or more")
    if given.segment <= given.depth:
        parser.error(f"--segment is {given.segment}, and a step gives up to {given.depth + 1} tokens; pass more")
    load = Load(given.tokens, given.segment, given.paths, given.depth, given.repeats)
    cpu = torch.device("cpu")
    try:
        models = random_pair(given.target, given.draft, given.vocab, cpu, torch.float32, given.positions)
        for name in METHODS:
            _decode(models, name, load)(**_asked(models, 10))  # compiles what is timed next
        records = measure(models, load)
    except ProblemError as error:
        raise SystemExit(f"error: {error}") from error
    given.out.mkdir(parents=True, exist_ok=True)
    title = (
        f"A text of {load.tokens} tokens: target {given.target}, draft {given.draft}, V = {given.vocab}, "
        f"K = {load.paths}, L = {load.depth}; {processor()}, {torch.get_num_threads()} thread(s)"
    )
    finish(given.out, records, [table(records, title)], [])


if __name__ == "__main__":
    main()
