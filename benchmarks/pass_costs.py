"""What a pass of a model costs on this machine, by its rows, and plain decoding by several engines.

    python -m benchmarks.pass_costs [--target smollm2] [--rows 1,2,4,8,16] [--vllm ENV/bin/python]

A pass over drafts has several rows, and speculation pays where they cost little more than one. `transformers` is its
own forward pass; `linear` is ours on weights as they are, as small models are multiplied; `packed` is ours on weights
that were packed once (`otspec.decode.models.passes.packed`), as models are decoded that commands load. All take turns,
and the best of some rounds counts. Use one thread (OMP_NUM_THREADS=1) for figures of one core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from benchmarks.reporting import Record, finish
from otspec.decode.methods.catalogue import decoder
from otspec.decode.models.context import vocabulary
from otspec.decode.models.passes.reader import Reader, reader_of
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.decode.pair.loading import Models, load_models, save_model
from otspec.reporting.machine import processor
from otspec.reporting.tables import TextTable

T = TypeVar("T")

DTYPES = ("float32", "bfloat16")
PROMPT = "Write a Python function that reverses a string, and explain what it does."
CONTEXT = 64
"""Tokens before the rows."""
ROUNDS = 12
TEXTS = 3
"""How often a text is decoded."""
SERVED = """
import json, sys, time, vllm
folder, dtype, prompt, new = json.loads(sys.argv[1])
engine = vllm.LLM(folder, dtype=dtype, enforce_eager=True, max_model_len=1024, max_num_seqs=1)
sampling = vllm.SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True)
engine.generate([prompt], sampling, use_tqdm=False)
seconds = []
for _ in range(3):
    started = time.perf_counter()
    engine.generate([prompt], sampling, use_tqdm=False)
    seconds.append(time.perf_counter() - started)
print("SECONDS", min(seconds))
"""
"""What the environment of vLLM runs."""


class Way(NamedTuple):
    """A pass."""

    packed: bool
    """Whether it is over packed weights."""
    reader: Callable[[Any], Reader]
    method: str
    """What decodes by it, plainly."""


WAYS = {
    "transformers": Way(False, TransformersReader, "generate"),
    "linear": Way(False, reader_of, "vanilla"),
    "packed": Way(True, reader_of, "vanilla"),
}

Held = Mapping[tuple[str, bool], Models]
"""By type of the weights, and whether they are packed."""


def passes(held: Held, rows: Sequence[int]) -> Iterator[Record]:
    """A record of each type of weights, way and number of rows."""
    models = {(dtype, name): held[dtype, way.packed].target for dtype in DTYPES for name, way in WAYS.items()}
    readers = {at: _begun(WAYS[at[1]].reader(model)) for at, model in models.items()}
    best: dict[tuple[str, str, int], float] = {}
    for _ in range(ROUNDS):
        for (dtype, way), reader in readers.items():
            for count in rows:
                spent = _seconds(reader, models[dtype, way], count)
                best[dtype, way, count] = min(spent, best.get((dtype, way, count), spent))
    for (dtype, way, count), spent in best.items():
        yield {"dtype": dtype, "way": way, "rows": count, "ms": 1e3 * spent}


def decoding(held: Held, new: int, vllm: Path | None) -> Iterator[Record]:
    """Plain decoding: transformers' `generate`, our loop, and vLLM's; greedily, one text."""
    best: dict[tuple[str, str], float] = {}
    for _ in range(TEXTS):
        for dtype, (name, way) in itertools.product(DTYPES, WAYS.items()):
            models = held[dtype, way.packed]
            inputs = models.tokenizer(PROMPT, return_tensors="pt")
            endless = {"eos_token_id": vocabulary(models.target), "max_new_tokens": new}  # no token ends a text
            decode = partial(decoder(way.method, models, {}), **inputs, **endless, temperature=0.0, seed=0)
            spent, text = _timed(decode)
            best[dtype, name] = min(spent / text.metrics.tokens, best.get((dtype, name), math.inf))
    if vllm is not None:
        best |= {(dtype, "vLLM"): _served(held[dtype, False], dtype, new, vllm) / new for dtype in DTYPES}
    for (dtype, name), spent in sorted(best.items(), key=lambda one: DTYPES.index(one[0][0])):
        yield {"dtype": dtype, "way": name, "ms": 1e3 * spent}


def _begun(reader: Reader) -> Reader:
    position = torch.arange(CONTEXT)[None]
    with torch.inference_mode():
        reader.begin(position.clone(), torch.ones_like(position, dtype=torch.bool), position)
    return reader


def _seconds(reader: Reader, model: Any, rows: int) -> float:
    """Seconds of a pass, whose rows see all before them and each other."""
    position = torch.arange(CONTEXT, CONTEXT + rows)[None]
    mask = None if rows == 1 else torch.zeros(1, 1, rows, CONTEXT + rows, dtype=model.dtype)
    with torch.inference_mode():
        return _timed(lambda: reader.read(position, position, mask, CONTEXT, rows))[0]


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and what came back."""
    started = time.perf_counter()
    given = call()
    return time.perf_counter() - started, given


def _served(models: Models, dtype: str, new: int, python: Path) -> float:
    """Seconds that vLLM takes, in an environment of its own (docs/vllm.md)."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(models.target, models.tokenizer, Path(folder))
        settings = {
            "VLLM_USE_V2_MODEL_RUNNER": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "LD_PRELOAD": str(python.parent.parent / "lib" / "libiomp5.so"),
        }
        asked = json.dumps([folder, dtype, PROMPT, new])
        bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        ended = subprocess.run(
            [python, "-c", SERVED, asked], env=bare | settings, capture_output=True, text=True, check=False
        )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("SECONDS")]
    if not lines:
        raise SystemExit(f"vLLM of {python} did not answer: {ended.stderr.strip()[-500:]}")
    return float(lines[-1].split()[1])


def tables(records: Sequence[Record], name: str) -> list[TextTable]:
    """Milliseconds of passes, and of a token."""
    of_rows = [one for one in records if "rows" in one]
    counts = sorted({one["rows"] for one in of_rows})
    ms = {(one["dtype"], one["way"], one["rows"]): one["ms"] for one in of_rows}
    rows: list[tuple[str, ...]] = []
    for dtype, way in dict.fromkeys((one["dtype"], one["way"]) for one in of_rows):
        mine = [ms[dtype, way, count] for count in counts]
        rows.append((dtype, way, *(f"{value:.1f}" for value in mine), f"{mine[-1] / mine[0]:.2f}"))
    header = ("weights", "pass", *(f"{count} rows" for count in counts), f"{counts[-1]} over {counts[0]}")
    note = f"Milliseconds, the best of {ROUNDS} rounds, {torch.get_num_threads()} thread(s) of {processor()}."
    plain = [one for one in records if "rows" not in one]
    before = next(one["ms"] for one in plain if (one["dtype"], one["way"]) == ("float32", "linear"))
    speeds: list[tuple[str, ...]] = [
        (one["dtype"], one["way"], f"{one['ms']:.1f}", f"{1e3 / one['ms']:.1f}", f"{before / one['ms']:.2f}")
        for one in plain
    ]
    return [
        TextTable(f"A pass of {name}", header, rows, note),
        TextTable(
            f"Plain decoding by {name}",
            ("weights", "engine", "ms a token", "tokens/s", "times linear in float32"),
            speeds,
            f"Greedy text of one prompt, its reading included; the best of {TEXTS}, in turn but for vLLM.",
        ),
    ]


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2", help="a model as `otspec decode --target` takes it")
    parser.add_argument("--rows", default="1,2,4,8,16", help="a list")
    parser.add_argument("--new", type=int, default=64, help="tokens that are decoded")
    parser.add_argument("--vllm", type=Path, help="the python of an environment that has vLLM for CPUs")
    parser.add_argument("--out", type=Path, default=Path("report_pass_costs"), help="folder for the results")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    held = {
        (dtype, packed): load_models(asked.target, None, "cpu", dtype, packed=packed)
        for dtype in DTYPES
        for packed in (False, True)
    }
    counts = sorted({int(word) for word in asked.rows.split(",")})
    records = [*passes(held, counts), *decoding(held, asked.new, asked.vllm)]
    finish(asked.out, records, tables(records, asked.target), [])


if __name__ == "__main__":
    main()
