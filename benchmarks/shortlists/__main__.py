"""What shortlists of tokens cost a drafter, and what they save: FR-Spec, PA-FR and DynaSpec on a pair of models.

    OMP_NUM_THREADS=1 python -m benchmarks.shortlists --pair report/pair-16k --router report/pair-16k/router.safetensors
    OMP_NUM_THREADS=1 python -m benchmarks.shortlists --large

The first drafts from contexts that the target has sampled after held-out text, the same for all drafters.  What is
accepted is exact given the drafts: sum min(p, q) at every position, and what block verification accepts.  Times are of
the processor, on one thread, medians of passes in turn: what else the machine does counts as far as it takes caches and
memory.  records.jsonl has what has been done; a run that was stopped goes on from there.  The
second times a head of 128 256 random rows and the layer before it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.reporting import finish, show
from benchmarks.shortlists.drafting import measure, read_records
from benchmarks.shortlists.large_head import large, large_table
from benchmarks.shortlists.summary import Summary, draw, tables
from otspec.decode import Router
from otspec.decode.shipped import FOLDER, ROUTER, load


def main() -> None:
    """Measure what the options select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", type=Path, default=FOLDER, help="folder of a pair, laid out as the shipped one")
    parser.add_argument("--router", type=Path, help="by default the one in that folder")
    parser.add_argument("--rows", type=int, default=64, help="held-out rows to draft after")
    parser.add_argument("--repeats", type=int, default=2, help="drafts of each context")
    parser.add_argument("--turns", type=int, default=60, help="passes of each that are timed")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, and report what records.jsonl has")
    parser.add_argument("--large", action="store_true", help="time a head of 128 256 tokens instead")
    parser.add_argument("--width", type=int, default=2048, help="of that")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of that")
    parser.add_argument("--out", type=Path, default=Path("report/shortlists"), help="folder for the results")
    request = parser.parse_args()
    request.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with torch.inference_mode():
        if request.large:
            dtype = getattr(torch, request.dtype)
            show(large_table(large(request.width, dtype, min(request.turns, 20)), request.width, dtype))
            return
        if request.report_only:
            records = read_records(request.out)
        else:
            router = Router.load(request.router or request.pair / ROUTER)
            records = measure(load(folder=request.pair), request.pair, router, request)
    summary = Summary(records)
    draw(summary, request.out / "shortlists.png")
    finish(request.out, records, tables(summary), ["shortlists.png"])


if __name__ == "__main__":
    main()
