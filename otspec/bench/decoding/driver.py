"""The decoding benchmark: every way to decode on the same prompts, in turn, and how long each takes."""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from otspec.bench.code import package_digest
from otspec.bench.decoding.cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding.summary import chosen, seconds_of
from otspec.bench.records import Record, RecordFolder, Turns
from otspec.decode.base.metrics import Metrics, wait_for
from otspec.decode.methods.catalogue import METHODS, Decode, decoder, lossless, warm_up
from otspec.decode.methods.drafting import Drafting
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.own_config import own_config
from otspec.decode.pair.conversations import Conversation, converse, turn_seed
from otspec.decode.pair.loading import Models, batch_of
from otspec.decode.step.harness import Generation
from otspec.reporting.machine import load_average, processor, versions
from otspec.reporting.means import group_by
from otspec.results import SolveError

MOMENT = 1e-3
"""Seconds that a turn is granted where the cell's are spent: one token."""
TRIALS = 4
"""Prompts on which settings are chosen, the last ones: whatever the number of prompts that are then measured."""


@dataclass(frozen=True, eq=False)
class DecodingBenchmark:
    """What to measure."""

    models: Models
    names: tuple[str, str]
    """What the user calls target and draft."""
    cells: list[DecodingCell]
    conversations: Sequence[Conversation]
    """The prompts; most conversations are a single one."""
    first: int
    """How many of them to have, from the first on."""
    repeats: int = 1
    """How often, each time with other random numbers."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Of target and draft, beside the temperature."""
    max_new_tokens: int = 64
    seed: int = 0
    """Of the first text; the next, of the next prompt and then of the next repeat, has seed + 1.

    Later turns of a conversation have seeds of their own (`otspec.decode.pair.conversations.turn_seed`)."""
    budget_s: float = 60.0
    """Decoding time granted to each cell, in seconds; a text under way is then cut short."""
    tasks: Sequence[str] = ()
    """The task of each prompt; empty where prompts have none."""
    drafters: Mapping[str, Drafting] = field(default_factory=dict)
    """What drafts in the draft model's place, by the names that cells have."""

    @property
    def identity(self) -> Mapping[str, object]:
        """What makes records comparable with each other."""
        return {
            "benchmark": "decoding",
            "target": [self.names[0], fingerprint(self.models.target)],
            "draft": [self.names[1], None if self.models.draft is None else fingerprint(self.models.draft)],
            **({"drafters": self._drafters} if self.drafters else {}),
            "dtype": str(self.models.target.dtype),
            "prompts": _digest([[*one.first, *one.turns[1:]] for one in self.conversations]),
            "tasks": _digest(self.tasks) if self.tasks else None,
            **self.sampling,
            "own_config": own_config(self.models.target),
            "max_new_tokens": self.max_new_tokens,
            "seed": self.seed,
            "budget_s": self.budget_s,
            "device": self._device,
            "processor": processor(),
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "versions": versions("numpy", "scipy", "numba", "torch", "transformers"),
            "code": package_digest(),
        }

    @property
    def _drafters(self) -> Mapping[str, object]:
        models = {name: drafting.models.draft for name, drafting in self.drafters.items()}
        return {name: None if model is None else fingerprint(model) for name, model in models.items()}

    def decoder(self, cell: DecodingCell) -> Decode:
        """The method of a cell at work."""
        drafting = self.drafters[cell.drafter] if cell.drafter else Drafting(self.models)
        return decoder(cell.method, drafting.models, {**cell.settings, **drafting.settings})

    @property
    def _device(self) -> str:
        return torch.cuda.get_device_name() if self.models.target.device.type == "cuda" else "cpu"

    @property
    def machine(self) -> str:
        """What decodes: the GPU, or the processor."""
        return processor() if self._device == "cpu" else self._device

    @property
    def trials(self) -> list[tuple[int, DecodingCell]]:
        """Short measurements before the others: the settings that open cells may get, by prompt."""
        candidates = [candidate for cell in self.cells if cell.open for candidate in cell.candidates]
        last = range(max(len(self.conversations) - TRIALS, 0), len(self.conversations))
        return [(prompt, cell) for prompt in last for cell in self._shuffled(candidates, prompt)]

    @property
    def count(self) -> int:
        """Texts to decode."""
        return len(self.trials) + sum(1 for _ in self.measurements(self.cells))

    @cached_property
    def texts(self) -> list[tuple[int, int]]:
        """Repeat and prompt of every text."""
        prompts = min(self.first, len(self.conversations))
        return list(itertools.product(range(self.repeats), range(prompts)))

    def measurements(self, cells: Sequence[DecodingCell]) -> Iterator[tuple[int, tuple[int, ...], DecodingCell]]:
        """Repeat, prompts and cell: every cell on one prompt, in an order of its own, before the next prompt.

        Several prompts are decoded together when it is the first one's turn; they are of one task.
        """
        sizes = {cell.batch for cell in cells}
        together = {(repeat, size): self._together(repeat, size) for repeat in range(self.repeats) for size in sizes}
        for repeat, prompt in self.texts:
            for cell in self._shuffled(cells, prompt, repeat):
                if prompt in together[repeat, cell.batch]:
                    yield repeat, together[repeat, cell.batch][prompt], cell

    def _together(self, repeat: int, size: int) -> dict[int, tuple[int, ...]]:
        """The prompts in groups of that size, by the first of each."""
        mine = [prompt for at, prompt in self.texts if at == repeat]
        of_tasks = group_by(mine, lambda prompt: self.tasks[prompt] if self.tasks else "")
        groups = [
            tuple(task[start : start + size]) for task in of_tasks.values() for start in range(0, len(task), size)
        ]
        return {group[0]: group for group in groups}

    def _shuffled(self, cells: Sequence[DecodingCell], *text: int) -> list[DecodingCell]:
        order = np.random.default_rng((self.seed, *text)).permutation(len(cells))
        return [cells[at] for at in order]


def run(
    benchmark: DecodingBenchmark, folder: RecordFolder, progress: Callable[[int], None] = lambda steps: None
) -> None:
    """Measure what the folder does not hold yet, every cell on one prompt before the next prompt.

    So whatever else the machine does in the meantime hits all cells alike; and as their order is shuffled anew for each
    prompt, none profits from what is before it.  A cell whose solver fails, or whose time is spent, gets no more texts.
    """
    texts = set(benchmark.texts)

    def of(record: Record) -> tuple[tuple[DecodingCell, bool], tuple[int, int]] | None:
        place = record["repeat"], record["prompt"]
        return ((decoding_cell_of(record), record["trial"]), place) if record["trial"] or place in texts else None

    clock, turns = _Stopwatch(benchmark), Turns(folder, benchmark.budget_s, of, seconds_of)
    for prompt, cell in benchmark.trials:
        turns.take((cell, True), (0, prompt), partial(clock.measure, cell, [prompt], 0, True))
        progress(1)
    cells = [chosen(folder.records, cell) if cell.open else cell for cell in benchmark.cells]
    for repeat, prompts, cell in benchmark.measurements(cells):
        turns.take((cell, False), (repeat, prompts[0]), partial(clock.measure, cell, prompts, repeat, False))
        progress(1)


def _digest(prompts: Sequence[Sequence[int | str] | str]) -> str:
    return hashlib.sha256(json.dumps(prompts).encode()).hexdigest()[:16]


class _Stopwatch:
    """Decodes one text after the other by whatever cell."""

    def __init__(self, benchmark: DecodingBenchmark) -> None:
        self._benchmark, self._machine = benchmark, benchmark.machine
        self._ready: dict[DecodingCell, Decode] = {}

    def measure(self, cell: DecodingCell, prompts: Sequence[int], repeat: int, trial: bool, left_s: float) -> Record:
        """The record of prompts that are decoded together."""
        prompt = prompts[0]
        seed = self._benchmark.seed + repeat * len(self._benchmark.conversations) + prompt
        about = {"trial": trial, "prompt": prompt, "repeat": repeat, "seed": seed, "machine": self._machine}
        about |= {"threads": torch.get_num_threads(), "load": load_average()}
        if self._benchmark.tasks:
            about["task"] = self._benchmark.tasks[prompt]
        if len(prompts) > 1:
            about["together"] = len(prompts)
        return asdict(cell) | about | self._decoded(cell, prompts, seed, left_s)

    def _decoded(self, cell: DecodingCell, prompts: Sequence[int], seed: int, left_s: float) -> Record:
        """What a cell does with prompts.  Before its first it decodes a little: nothing is compiled on the clock."""
        benchmark = self._benchmark
        target, tokenizer = benchmark.models.target, benchmark.models.tokenizer
        own = [benchmark.conversations[prompt] for prompt in prompts]
        sampling = {**benchmark.sampling, "temperature": cell.temperature}
        metrics, of_texts, message = Metrics(), [Metrics() for _ in own], ""
        try:
            if cell not in self._ready:
                made = benchmark.decoder(cell)
                first = batch_of([one.first for one in own], target.device)
                warm_up(made, first, {**sampling, "seed": seed, "max_time": left_s})
                self._ready[cell] = made

            def decode(rows: Sequence[Sequence[int]], turn: int) -> Generation:
                inputs = batch_of(rows, target.device)
                room = {"max_new_tokens": benchmark.max_new_tokens, "max_time": max(left_s - metrics.wall, MOMENT)}
                return self._timed(partial(self._ready[cell], **inputs, **sampling, **room, seed=turn_seed(seed, turn)))

            for turn in converse(own, decode, tokenizer):
                metrics += turn.generation.metrics
                for at, one in zip(turn.going, turn.generation.metrics_of_texts, strict=False):  # or there are none
                    of_texts[at] += one
        except SolveError as error:
            message = str(error)
        exact = lossless(METHODS[cell.method], cell.settings)
        each = [one.served_record() for one in of_texts if one.target_calls]
        return {"lossless": exact, "message": message, **metrics.record(), **metrics.served_record(), "of_texts": each}

    def _timed(self, decode: Callable[[], Generation]) -> Generation:
        """Text whose seconds are those from call to answer, for all methods alike: what one leaves out is rest."""
        device = self._benchmark.models.target.device
        wait_for(device)
        started = time.perf_counter()
        generation = decode()
        wait_for(device)
        metrics = generation.metrics
        metrics.seconds["rest"] += time.perf_counter() - started - metrics.wall
        return generation
