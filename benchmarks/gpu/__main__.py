"""Decoding on a GPU machine: one command of ten minutes, one report.

    python -m benchmarks.gpu [--out report_gpu] [--minutes 10]
    python -m benchmarks.gpu --model smollm2 [--minutes 4]    # a model with its drafter, by every rule
    python -m benchmarks.gpu --tiny --device cpu              # all of it at tiny shapes, to see that it works

Llama shapes of 8B and 1B with random weights in bfloat16, V = 128256, and the shipped pair; batches of 1, 8 and 32;
drafts of top-k 10, 100, 1000 and whole; vanilla and assisted decoding beside them.  Some of that is selected by
--pairs, --batches and --top-ks.  `results.jsonl` gets a line for each cell as it is measured, and report.md is written
anew: a run that is cut short leaves what it has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.cells import GPU, TINY, Bench
from benchmarks.gpu.model import ModelBench, shape_of, table
from benchmarks.gpu.report import machine, report, speeds
from benchmarks.reporting import Record, show
from otspec.decode.pair.loading import device_of, load_models
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, errors
from otspec.reporting.tables import markdown_report

RESULTS, REPORT = "results.jsonl", "report.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("report_gpu"), help="folder for the results, without earlier")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no cell is begun")
    parser.add_argument("--device", default="cuda", help="cpu is for --tiny")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes in float32")
    parser.add_argument("--pairs", type=_names, help="of those that are planned, with commas between them")
    parser.add_argument("--batches", type=_whole_numbers, help="likewise")
    parser.add_argument("--top-ks", type=_whole_numbers, help="likewise; 0 for whole drafts")
    parser.add_argument("--model", help="a target, and its drafter, in place of the pairs: smollm2")
    parser.add_argument("--drafter", default="eagle", help="for --model; several with commas between them")
    parser.add_argument("--rules", type=_names, default=[], help="for --model: of the cells that are measured")
    parser.add_argument("--trace", action="store_true", help="for --model: write what the profiler sees of a text, too")
    parser.add_argument("--texts", type=int, default=5, help="timed in every cell of --model")
    parser.add_argument("--new", type=int, default=128, help="tokens of each of them")
    request = parser.parse_args(arguments)
    try:
        if request.model:
            return _of_model(request)
        chosen = {"pairs": request.pairs, "batches": request.batches, "top_ks": request.top_ks}
        bench = _bench(request, chosen)
    except (ProblemError, DataError) as error:
        errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return 2
    about = machine(bench.device, bench.dtype)
    command = "python -m benchmarks.gpu" + (" --tiny" if request.tiny else "") + f" --device {request.device}"
    command += f" --minutes {request.minutes:g}"
    command += "".join(
        f" --{name.replace('_', '-')} {','.join(map(str, values))}" for name, values in chosen.items() if values
    )
    request.out.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    with (request.out / RESULTS).open("w") as results:
        for record in bench.run(request.minutes):
            records.append(record)
            results.write(json.dumps(about | record) + "\n")
            results.flush()
            (request.out / REPORT).write_text(report(records, about, command))
            errors.print(_progress(record), markup=False, highlight=False, soft_wrap=True)
    show(speeds(records))
    console.print(f"Wrote {request.out / RESULTS}, {request.out / REPORT}")
    return 0


def _of_model(request: argparse.Namespace) -> int:
    """The cells of a model with its drafter."""
    begun = time.monotonic()
    _check(request)
    device = device_of(request.device)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    names = _names(request.drafter)
    models = load_models(request.model, names, request.device, str(dtype).removeprefix("torch."))
    about = machine(device, dtype) | {"model": request.model, "drafter": request.drafter}
    command = f"python -m benchmarks.gpu --model {request.model} --drafter {request.drafter} --device {request.device}"
    request.out.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    with (request.out / RESULTS).open("w") as results:
        traces = request.out if request.trace else None
        bench = ModelBench(models, names, request.texts, request.new, request.rules, traces)
        for record in bench.run(60 * request.minutes - (time.monotonic() - begun)):
            records.append(record)
            results.write(json.dumps(about | record) + "\n")
            results.flush()
            paragraph = f"`{command}` on " + ", ".join(f"{name} {value}" for name, value in about.items()) + "."
            (request.out / REPORT).write_text(markdown_report([table(records)], (), [paragraph], "Decoding on a GPU"))
            errors.print(_shown(record), markup=False, highlight=False, soft_wrap=True)
    show(table(records))
    return 0


def _shown(record: Record) -> str:
    labels = " ".join(str(record[name]) for name in ("drafter", "rule", "temperature"))
    labels += f", {shape_of(record)}" + (f", top-k {record['draft_top_k']}" if record["draft_top_k"] else "")
    return f"{labels}: {record['error'] if 'error' in record else format(record['ms_a_token'], '.2f') + ' ms a token'}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _whole_numbers(text: str) -> list[int]:
    return [int(name) for name in _names(text)]


def _check(request: argparse.Namespace) -> None:
    """Raise where nothing can be measured, or what was measured would be lost."""
    if not request.minutes > 0:
        raise ProblemError(f"--minutes is {request.minutes:g}; it has to be above 0")
    if (request.out / RESULTS).exists():
        raise ProblemError(f"{request.out / RESULTS} is there from an earlier run; pass another --out, or remove it")
    if request.device.startswith("cuda") and not torch.cuda.is_available():
        raise ProblemError("there is no GPU here; --tiny --device cpu runs all of it at tiny shapes")


def _bench(request: argparse.Namespace, chosen: Mapping[str, Sequence[Any] | None]) -> Bench:
    _check(request)
    device, tiny = request.device, request.tiny
    place = device_of(device)
    if place.type == "cpu" and not tiny:
        raise ProblemError("models of 8B and 1B are not for a CPU; pass --tiny as well, or --device cuda")
    plan, dtype = (TINY, torch.float32) if tiny else (GPU, torch.bfloat16)
    return Bench(plan.only(chosen), place, dtype)


def _progress(record: Record) -> str:
    labels = " ".join(str(record[name]) for name in ("pair", "batch", "method"))
    labels += f" {record['paths']} x {record['depth']}" if record["paths"] else ""
    labels += f", drafts of top-k {record['draft_top_k']}" if record["draft_top_k"] else ""
    return f"{labels}: {record['error'] if 'error' in record else format(record['tokens_per_s'], '.1f') + ' tokens/s'}"


if __name__ == "__main__":
    sys.exit(main())
