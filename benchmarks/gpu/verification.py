"""Verification where the laws are: milliseconds, against the time that its bytes take.

    python -m benchmarks.gpu.verification [--out report_verification]
    python -m benchmarks.gpu.verification --tiny --device cpu     # all of it at a tiny shape, to see that it works

Batches of 1, 8, 32 and 64 at V = 128 256: rows of K = 4 drafts, chains of L = 8 tokens, and trees of K paths and L
levels, drafted from a model.  Every line has its floor: the laws that are read, once, over the bandwidth of the device,
which is measured first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.gpu.report import machine
from benchmarks.gpu.synchronisations import counted
from benchmarks.gpu.work import Shape, Work, works
from benchmarks.reporting import Record, show
from otspec.decode.base.graphs import capture
from otspec.decode.base.metrics import wait_for
from otspec.decode.pair.loading import device_of
from otspec.errors import ProblemError
from otspec.reporting.console import console, errors
from otspec.reporting.tables import TextTable, markdown_report

FULL = Shape(vocab=128_256, batches=(1, 8, 32, 64), copied=1 << 30)
TINY = Shape(vocab=600, batches=(1, 2), copied=1 << 22)
WARM, REPEATS = 3, 20
SLOW, FEW = 0.05, 5
"""Seconds of a call that is repeated less often."""
RESULTS, REPORT = "results.jsonl", "report.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.verification",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("report_verification"), help="folder for the results")
    parser.add_argument("--device", default="cuda", help="cpu is for --tiny")
    parser.add_argument("--tiny", action="store_true", help="a tiny vocabulary, and batches of 1 and 2")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="rows whose rule or implementation has this in its name; can be repeated",
    )
    request = parser.parse_args(arguments)
    try:
        device = _device(request.device, request.tiny)
    except ProblemError as error:
        errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return 2
    about = machine(device, torch.float32)
    shape = TINY if request.tiny else FULL
    request.out.mkdir(parents=True, exist_ok=True)
    records = _written(run(shape, device, request.only), about, request.out / RESULTS)
    heading = ", ".join(f"{name} {value}" for name, value in about.items())
    message = table(records)
    (request.out / REPORT).write_text(markdown_report([message], (), [heading], "Verification on a device"))
    show(message)
    console.print(f"Wrote {request.out / RESULTS}, {request.out / REPORT}")
    return 0


def _written(records: Iterable[Record], about: Record, path: Path) -> list[Record]:
    """All records; each is on disk as soon as it is there."""
    kept = []
    with path.open("w") as lines:
        for record in records:
            kept.append(record)
            lines.write(json.dumps(about | record) + "\n")
            lines.flush()
    return kept


def run(shape: Shape, device: torch.device, only: Sequence[str] = ()) -> Iterator[Record]:
    """A record for every rule and batch that has one of these in its name: figures, or why there are none."""
    speed = bandwidth(device, shape.copied)
    for batch in shape.batches:
        for work in works(shape, batch, device):
            if only and not any(part in f"{work.what} {work.by}" for part in only):
                continue
            record: Record = {"what": work.what, "by": work.by, "batch": batch, "bytes": work.bytes}
            try:
                record |= measure(work, device)._asdict()
                record["floor_ms"] = 1e3 * work.bytes / speed
                record["over_floor"] = record["ms"] / record["floor_ms"]
            except Exception as error:  # on a machine that nobody watches the next line is worth a try
                record["error"] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            if device.type == "cuda":
                torch.cuda.empty_cache()
            yield record


class Figures(NamedTuple):
    """What is measured of one call."""

    ms: float
    """Median of the calls, each waited for."""
    graph_ms: float | None
    """The same replayed as a CUDA graph; None without a GPU, or where it cannot be captured."""
    graph: str
    """Why it cannot."""
    synchronisations: int | None
    """In one call; None where nothing reports them."""
    peak_bytes: int | None
    """Memory beside that of the laws."""


def measure(work: Work, device: torch.device) -> Figures:
    """Time one call, count what it waits for, and what memory it takes."""
    for _ in range(WARM):
        work.call()
    wait_for(device)
    with counted(device, within=_once.__code__) as count:
        _once(work.call)
    peak = None
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work.call()
        peak = torch.cuda.max_memory_allocated(device) - before
    repeats = REPEATS if _seconds(work.call, device) < SLOW else min(FEW, REPEATS)
    spent = median(_seconds(work.call, device) for _ in range(repeats))
    replay, why = _captured(work.call, device)
    return Figures(
        1e3 * spent,
        None if replay is None else 1e3 * median(_seconds(replay, device) for _ in range(repeats)),
        why,
        count.places.total() if count.known else None,
        peak,
    )


def _once(call: Callable[[], object]) -> None:
    """One call, within which synchronisations count."""
    call()


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    wait_for(device)
    started = time.perf_counter()
    call()
    wait_for(device)
    return time.perf_counter() - started


def _captured(call: Callable[[], object], device: torch.device) -> tuple[Callable[[], object] | None, str]:
    """A call as a CUDA graph, or why there is none."""
    if device.type != "cuda":
        return None, "no GPU"
    try:
        graph, _ = capture(lambda _: call())
    except Exception as error:
        torch.cuda.synchronize(device)
        return None, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return graph.replay, ""


def bandwidth(device: torch.device, copied: int) -> float:
    """Bytes a second that a copy of so many bytes reads and writes, the best of a few."""
    source: Tensor = torch.zeros(copied, dtype=torch.uint8, device=device)
    goal = torch.empty_like(source)
    return 2 * copied / min(_seconds(lambda: goal.copy_(source), device) for _ in range(REPEATS))


def table(records: Sequence[Record]) -> TextTable:
    """A line for each rule and batch."""
    rows = []
    for one in records:
        labels = (one["what"], one["by"], str(one["batch"]))
        if "error" in one:
            rows.append((*labels, one["error"], *["-"] * 5))
            continue
        figures: dict[str, Any] = one
        rows.append(
            (
                *labels,
                f"{figures['ms']:.3f}",
                "-" if figures["graph_ms"] is None else f"{figures['graph_ms']:.3f}",
                f"{figures['floor_ms']:.4f}",
                f"{figures['over_floor']:.0f}",
                "-" if figures["synchronisations"] is None else str(figures["synchronisations"]),
                "-" if figures["peak_bytes"] is None else f"{figures['peak_bytes'] / 1e6:.0f}",
            )
        )
    header = ("what", "by", "batch", "ms", "graph ms", "floor ms", "over floor", "syncs", "peak, MB")
    note = (
        "Medians for the whole batch. Graph: the same call, captured and replayed. Floor: the laws that are read, "
        "once, at the bandwidth of a copy. Syncs: times that the host waits in a call. Peak: beside the laws."
    )
    return TextTable("Verification on the device", header, rows, note, labels=3)


def _device(name: str, tiny: bool) -> torch.device:
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ProblemError("there is no GPU here; --tiny --device cpu runs all of it at a tiny shape")
    device = device_of(name)
    if device.type == "cpu" and not tiny:
        raise ProblemError("128 256 tokens in batches of 64 are not for a CPU; pass --tiny as well, or --device cuda")
    return device


if __name__ == "__main__":
    sys.exit(main())
