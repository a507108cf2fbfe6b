"""Decoding on a GPU machine: one command of ten minutes, one report.

    python -m benchmarks.gpu [--out report_gpu] [--minutes 10]
    python -m benchmarks.gpu --tiny --device cpu              # all of it at tiny shapes, to see that it works

Llama shapes of 8B and 1B with random weights in bfloat16, V = 128256, and the shipped pair; batches of 1, 8 and 32;
drafts of top-k 10, 100, 1000 and whole; vanilla and assisted decoding beside them.  `results.jsonl` gets a line for
each cell as it is measured, and report.md is written anew: a run that is cut short leaves what it has.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.gpu.cells import GPU, TINY, Bench
from benchmarks.gpu.report import machine, report, speeds
from benchmarks.reporting import Record, show
from otspec.decode.models.loading import device_of
from otspec.errors import ProblemError
from otspec.reporting.console import console, errors

RESULTS, REPORT = "results.jsonl", "report.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("report_gpu"), help="folder for the results, without earlier")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no cell is begun")
    parser.add_argument("--device", default="cuda", help="cpu is for --tiny")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes in float32")
    given = parser.parse_args(arguments)
    try:
        bench = _bench(given.device, given.tiny, given.minutes, given.out)
    except ProblemError as error:
        errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return 2
    about = machine(bench.device, bench.dtype)
    command = "python -m benchmarks.gpu" + (" --tiny" if given.tiny else "") + f" --device {given.device}"
    command += f" --minutes {given.minutes:g}"
    given.out.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    with (given.out / RESULTS).open("w") as results:
        for record in bench.run(given.minutes):
            records.append(record)
            results.write(json.dumps(about | record) + "\n")
            results.flush()
            (given.out / REPORT).write_text(report(records, about, command))
            errors.print(_progress(record), markup=False, highlight=False, soft_wrap=True)
    show(speeds(records))
    console.print(f"Wrote {given.out / RESULTS}, {given.out / REPORT}")
    return 0


def _bench(device: str, tiny: bool, minutes: float, out: Path) -> Bench:
    if not minutes > 0:
        raise ProblemError(f"--minutes is {minutes:g}; it has to be above 0")
    if (out / RESULTS).exists():
        raise ProblemError(f"{out / RESULTS} is there from an earlier run; pass another --out, or remove it")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ProblemError("there is no GPU here; --tiny --device cpu runs all of it at tiny shapes")
    place = device_of(device)
    if place.type == "cpu" and not tiny:
        raise ProblemError("models of 8B and 1B are not for a CPU; pass --tiny as well, or --device cuda")
    return Bench(TINY, place, torch.float32) if tiny else Bench(GPU, place, torch.bfloat16)


def _progress(record: Record) -> str:
    labels = " ".join(str(record[name]) for name in ("pair", "batch", "method", "draft_top_k"))
    return f"{labels}: {record['error'] if 'error' in record else format(record['tokens_per_s'], '.1f') + ' tokens/s'}"


if __name__ == "__main__":
    sys.exit(main())
