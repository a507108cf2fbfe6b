"""Decoding of a model with its drafter: where a call's milliseconds go, beside plain decoding, by every rule.

Every cell decodes the same texts, all of one length: first `WARM` of them, by which kernels are compiled and graphs
captured, then each once with a clock, and plain decoding before it, as the host's speed changes from one half minute to
the next.  A figure is the median over the texts.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.synchronisations import counted
from benchmarks.reporting import Record
from otspec.decode import shipped
from otspec.decode.base import graphs
from otspec.decode.base.metrics import PHASES, Metrics
from otspec.decode.methods.catalogue import Decode, decoder
from otspec.decode.pair.conversations import templated
from otspec.decode.pair.loading import Models
from otspec.extras import installed
from otspec.reporting.tables import TextTable

PROMPT = 64
"""Tokens of a prompt at most: then all texts fit one cache, whose graphs are captured once."""
WARM = 2
"""Texts decoded before the clock runs: what comes for the second time is captured."""
HOST_TOP_K = 10
"""Tokens of a draft law where the host solves a problem at each node: programs are quadratic in them."""
HOST = {"lp": "highspy", "max_flow": None, "slackness": None, "global_resolution": None}
"""The solvers whose plans verify node by node on the host, and what each needs to be installed."""


LIKELIEST = "likeliest"
"""Trees of the tokens that the drafter finds likeliest, for greedy texts: those that it draws are one path there."""
DYNAMIC = "dynamic-tree"
"""Trees of the prefixes that it finds likeliest, K L of them."""


class Cell(NamedTuple):
    """A way to decode, at a temperature."""

    rule: str
    """`plain`, what verifies, `LIKELIEST` or `DYNAMIC`."""
    temperature: float
    paths: int = 0
    depth: int = 0
    draft_top_k: int | None = None
    drafter: int = 0
    """Which of those that are measured."""
    branching: tuple[int, ...] = ()
    """In place of paths and depth."""

    @property
    def settings(self) -> dict[str, Any]:
        """As its method takes them."""
        own: dict[str, Any] = {"paths": self.paths, "depth": self.depth}
        if self.branching:
            own = {"branching": self.branching}
        if self.rule == DYNAMIC:
            return own
        own |= {"law": "top_k", "draft_temperature": 1.0} if self.rule == LIKELIEST else {"solver": self.rule}
        return own if self.draft_top_k is None else own | {"draft_top_k": self.draft_top_k}

    @property
    def shape(self) -> str:
        """For people."""
        return ", ".join(map(str, self.branching)) or (f"{self.paths} x {self.depth}" if self.paths else "-")


def shape_of(record: Record) -> str:
    """What the cell of a record drafts, for people."""
    return Cell(**{name: record[name] for name in Cell._fields}).shape


def cells(drafters: int = 1) -> list[Cell]:
    """The most valuable first; what others are compared with before them.

    Wide trees fill passes over 32 and 64 rows, which take a GPU little longer than one over a few.
    """
    greedy = [
        Cell("block", 0.0, 1, 3),
        *(Cell(DYNAMIC, 0.0, *shape) for shape in ((3, 4), (3, 5), (6, 5))),
        *(Cell(LIKELIEST, 0.0, branching=one) for one in ((3, 2, 1), (4, 1, 1), (4, 2, 1), (3, 2, 1, 1), (4, 2, 1, 1))),
    ]
    drawn = [
        *(Cell("nested", 1.0, *shape) for shape in ((2, 3), (4, 3), (7, 4), (10, 5))),
        Cell("nested", 1.0, branching=(3, 2, 1)),
    ]
    wide = [Cell("block", 1.0, 1, 3), Cell("nested", 1.0, 2, 4), Cell("nested", 1.0, 4, 4), *greedy[:2]]
    others = [cell._replace(drafter=one) for one in range(1, drafters) for cell in wide]
    host = [Cell(rule, 1.0, 2, 3, HOST_TOP_K) for rule in ("nested", "interval", *HOST)]
    return [
        Cell("plain", 1.0),
        Cell("block", 1.0, 1, 3),
        *drawn,
        Cell("plain", 0.0),
        *greedy,
        *others,
        Cell("interval", 1.0, 2, 3),
        *host,
        Cell("block", 1.0, 1, 5),
        Cell("block", 0.0, 1, 5),
    ]


@dataclass(frozen=True)
class ModelBench:
    """A model and its drafter, and how much they decode.

    Parameters
    ----------
    models : Models
    names : sequence of str
        Of its draft models.
    texts : int
        Timed in every cell, each with a prompt of its own.
    new : int
        Tokens of a text.
    rules : collection of str
        Of the cells that are measured; all if empty.
    traces : Path, optional
        Folder for what torch's profiler sees of one text of each cell, after its clock, for chrome://tracing.
    clock : callable
    """

    models: Models
    names: Sequence[str]
    texts: int
    new: int
    rules: Collection[str] = ()
    traces: Path | None = None
    clock: Callable[[], float] = time.monotonic

    def run(self, seconds: float) -> Iterator[Record]:
        """A record for every cell: figures, or why there are none; none is begun after so many seconds."""
        stop = self.clock() + seconds
        prompts = prompts_of(self.models, self.texts)
        for cell in (one for one in cells(len(self.names)) if one.rule in (self.rules or [one.rule])):
            record: Record = cell._asdict() | {"drafter": self.names[cell.drafter]}
            needed = HOST.get(cell.rule)
            if self.clock() >= stop:
                record["error"] = "not measured: the time was over"
            elif needed is not None and not installed(needed):
                record["error"] = f"not measured: {needed} is not installed"
            else:
                record |= self._tried(cell, prompts)
            yield record

    def _tried(self, cell: Cell, prompts: Sequence[torch.Tensor]) -> Record:
        """What a cell gives, or its error: on a machine that nobody watches the next cell is worth a try."""
        try:
            return self.measure(cell, prompts)
        except Exception as error:
            message = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        gc.collect()  # here the frames that held what did not fit are gone
        return {"error": message}

    def measure(self, cell: Cell, prompts: Sequence[torch.Tensor]) -> Record:
        """Figures of one cell, of texts after these prompts, shape (1, length) each."""
        device = self.models.target.device
        decode, plain = self._decoder(cell), self._decoder(Cell("plain", cell.temperature))
        with captures() as before:
            for prompt in prompts[:WARM]:
                plain(input_ids=prompt)
                decode(input_ids=prompt)
        with captures() as during:
            beside, timed = zip(
                *((plain(input_ids=one).metrics, decode(input_ids=one).metrics) for one in prompts), strict=True
            )
        with counted(device) as count:
            waited = decode(input_ids=prompts[0]).metrics
        if self.traces is not None:
            shape = cell.shape.replace(", ", "x").replace(" x ", "x")
            name = f"{cell.temperature:g}_{self.names[cell.drafter]}_{cell.rule}_{shape}.json.gz"
            self._trace(partial(decode, input_ids=prompts[0]), self.traces / name)
        calls = sum(one.target_calls for one in timed)
        return {
            "ms_a_token": median(1e3 * one.wall / one.tokens for one in timed),
            "over_plain": median(
                own.wall / own.tokens * one.tokens / one.wall for own, one in zip(beside, timed, strict=True)
            ),
            "ms_a_call": {phase: median(per_call(timed, phase)) for phase in (*PHASES, "rest")},
            "tokens": sum(one.tokens for one in timed),
            "tokens_a_call": sum(one.tokens for one in timed) / calls,
            "accepted": [sum(each) for each in zip(*(one.accepted for one in timed), strict=False)],
            "calls": calls,
            "captures_before_and_while_timed": [before[0], during[0]],
            "waits_a_call": count.per_step(waited.target_calls),
            "waits_at": dict(count.places),
            "texts": [one.record() for one in timed],
        }

    def _trace(self, decode: Callable[[], object], path: Path) -> None:
        """Write what a call does, operation by operation and kernel by kernel."""
        on_gpu = [ProfilerActivity.CUDA] if self.models.target.device.type == "cuda" else []
        with profile(activities=[ProfilerActivity.CPU, *on_gpu]) as profiler:
            decode()
        profiler.export_chrome_trace(str(path))

    def _decoder(self, cell: Cell) -> Decode:
        settings = {"temperature": cell.temperature, "seed": 0, "eos_token_id": None, "max_new_tokens": self.new}
        if cell.rule == "plain":
            return partial(decoder("vanilla", self.models, {}), **settings)
        assert self.models.draft is not None
        draft = (self.models.draft, *self.models.more_drafts)[cell.drafter]
        models = self.models._replace(draft=draft, more_drafts=())
        return partial(decoder(DYNAMIC if cell.rule == DYNAMIC else "multi-draft", models, cell.settings), **settings)


def per_call(timed: Sequence[Metrics], phase: str) -> list[float]:
    """Milliseconds that a phase takes a call, in each text."""
    return [1e3 * one.seconds[phase] / one.target_calls for one in timed]


@contextmanager
def captures() -> Iterator[list[int]]:
    """How many graphs are captured meanwhile, in a list of one number."""
    count, capture = [0], graphs.capture

    def counting(*request: Any, **named: Any) -> Any:
        count[0] += 1
        return capture(*request, **named)

    graphs.capture = counting
    try:
        yield count
    finally:
        graphs.capture = capture


def prompts_of(models: Models, count: int) -> list[torch.Tensor]:
    """Prompts of at most `PROMPT` tokens, shape (1, length) each: questions where the target has a chat template."""
    if getattr(models.tokenizer, "chat_template", None):
        lines = (shipped.FOLDER / shipped.QUESTIONS).read_text().splitlines()
        request = (templated(models.tokenizer, json.loads(line)["turns"][:1], ()) for line in lines)
        rows = [row for row in request if len(row) <= PROMPT]
    else:
        rows = shipped.held_out(PROMPT)
    return [torch.tensor([row], device=models.target.device) for row in rows[:count]]


def table(records: Sequence[Record]) -> TextTable:
    """A line for each cell; ratios are to plain decoding of the same texts at its temperature, in turn."""
    rows = []
    for one in records:
        drafter = one["drafter"] if one["rule"] != "plain" else "-"
        labels = (f"{one['temperature']:g}", drafter, one["rule"], shape_of(one), str(one["draft_top_k"] or "-"))
        if "error" in one:
            rows.append((*labels, one["error"], *["-"] * (len(PHASES) + 5)))
            continue
        waits = one["waits_a_call"]
        rows.append(
            (
                *labels,
                *(f"{spent:.2f}" for spent in one["ms_a_call"].values()),
                f"{one['tokens_a_call']:.2f}",
                f"{one['ms_a_token']:.2f}",
                f"{one['over_plain']:.2f}",
                "-" if waits is None else f"{waits:.1f}",
                " + ".join(map(str, one["captures_before_and_while_timed"])),
            )
        )
    header = (
        "T",
        "drafter",
        "rule",
        "K x L",
        "draft top-k",
        *PHASES,
        "rest",
        "tokens a call",
        "ms a token",
        "over plain",
    )
    note = (
        "Milliseconds a call of the target, one text at a time, medians over texts of one length, each decoded plainly "
        "just before. Waits: times a call that the host waits for the device. Captures: graphs captured before + while "
        "timed."
    )
    return TextTable("Decoding with a drafter", (*header, "waits", "captures"), rows, note, labels=5)
