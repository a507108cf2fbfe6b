"""What is measured on a GPU, the most valuable first, and how one cell of it is."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import torch

from benchmarks.gpu.synchronisations import counted
from benchmarks.random_pair import random_pair
from benchmarks.reporting import Record
from otspec.decode import shipped
from otspec.decode.methods.catalogue import Decode, decoder
from otspec.decode.models.context import vocabulary
from otspec.decode.pair.loading import SHIPPED, Models, load_models
from otspec.errors import ProblemError

SHAPES = ((1, 3), (2, 4), (1, 8), (4, 8))
"""Paths and tokens of each: short, two paths, long, and many rows."""
PROMPT = 64
TRIAL = 10
"""New tokens of the first three runs: kernels are compiled, graphs captured, and the pace is taken."""
LEAST = 48
"""New tokens that a cell decodes even if that takes more than its share of the time: a shorter text is over soon after
its graphs are captured."""
BEFORE, TIMED = 2, 3
"""Runs of the text itself: what comes for the second time is captured; of those that are timed, the median counts."""
MARGIN = 0.1
"""Share of the time that is kept for what the last cell takes beyond the end."""


class TooSlowError(Exception):
    """A cell would not end in time."""


class Cell(NamedTuple):
    """A pair of models, a batch, and how it is decoded."""

    pair: str
    """`shipped`, or names of a target's and a draft model's shape with a slash between them."""
    batch: int
    method: str
    paths: int = 0
    """K; 0 where the method chooses."""
    depth: int = 0
    """L; 0 where the method chooses."""
    draft_top_k: int | None = None


@dataclass(frozen=True)
class Plan:
    """All that is measured."""

    pairs: Sequence[str]
    batches: Sequence[int]
    top_ks: Sequence[int | None]
    """Of the drafts, the most valuable first; the target's law is whole."""
    vocab: int = 128_256
    new: int = 128

    def only(self, chosen: Mapping[str, Sequence[Any] | None]) -> Plan:
        """Those of its pairs, batches and truncations, 0 for none, that are named, in its order; None for all.

        Raises
        ------
        ProblemError
            If one is not planned.
        """
        kept: dict[str, Any] = {}
        for name, request in chosen.items():
            planned = getattr(self, name)
            if request is None:
                continue
            if unknown := [one for one in request if (one or None) not in planned]:
                message = ", ".join(str(one or 0) for one in planned)
                raise ProblemError(f"{unknown[0]} is none of the {name} that are planned: {message}")
            kept[name] = tuple(one for one in planned if (one or 0) in request)
        return replace(self, **kept)

    def cells(self) -> list[Cell]:
        """The most valuable first: plain decoding and drafts of the first truncation, batches ascending; the rest."""
        load = [(pair, batch) for batch in self.batches for pair in self.pairs]

        def drafted(one: tuple[str, int], top_ks: Sequence[int | None]) -> list[Cell]:
            return [Cell(*one, "multi-draft", *shape, k) for k in top_ks for shape in SHAPES]

        first = [cell for one in load for cell in (Cell(*one, "vanilla"), *drafted(one, self.top_ks[:1]))]
        later = [cell for k in self.top_ks[1:] for one in load for cell in drafted(one, [k])]
        assisted = [Cell(pair, 1, "assisted") for pair in self.pairs if 1 in self.batches]
        return [*first, *assisted, *later]


GPU = Plan(("8b/1b", SHIPPED), (1, 8, 32), (None, 100, 10, 1000))
TINY = Plan(("tiny/tiny", SHIPPED), (1, 2), (None, 100, 10), vocab=600, new=20)
"""The same at a size for a CPU."""


@dataclass(frozen=True)
class Bench:
    """Where and in what numbers cells are measured; models are made once."""

    plan: Plan
    device: torch.device
    dtype: torch.dtype
    clock: Callable[[], float] = time.monotonic
    models: Callable[[str], Models] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", cache(self._models))

    def _models(self, pair: str) -> Models:
        if pair == SHIPPED:
            name = str(self.dtype).removeprefix("torch.")
            return load_models(SHIPPED, SHIPPED, str(self.device), name)
        target, draft = pair.split("/")
        return random_pair(target, draft, self.plan.vocab, self.device, self.dtype)

    def run(self, minutes: float) -> Iterator[Record]:
        """A record for every cell: figures, or why there are none.

        What is left of the time is shared among the cells that are left; a cell that takes less leaves more to others.
        """
        cells = self.plan.cells()
        stop = self.clock() + 60 * minutes * (1 - MARGIN)
        for number, cell in enumerate(cells):
            left = stop - self.clock()
            record: Record = cell._asdict()
            if left <= 0:
                record["error"] = f"not measured: the {minutes:g} minutes were over"
            else:
                record |= self._tried(cell, left / (len(cells) - number), stop)
            yield record

    def _tried(self, cell: Cell, budget: float, stop: float) -> Record:
        """What a cell gives, or its error: on a machine that nobody watches the next cell is worth a try."""
        try:
            return self.measure(cell, budget, stop)
        except TooSlowError as error:
            message = f"not measured: {error}"
        except torch.OutOfMemoryError as error:
            message = f"out of memory: {_first_line(error)}"
        except Exception as error:
            message = f"{type(error).__name__}: {_first_line(error)}"
        # Here the error is gone, and with it the frames that held what did not fit.
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return {"error": message}

    def measure(self, cell: Cell, budget: float, stop: float) -> Record:
        """Figures of one cell.

        Parameters
        ----------
        cell : Cell
        budget : float
            Seconds, half of them for the runs of the text, and the rest for what comes before and after; never less
            than `LEAST` new tokens are decoded, nor more than planned.
        stop : float
            When all has to be over, by the clock.

        Raises
        ------
        TooSlowError
            If the first few tokens show that it would take longer.
        """
        models = self.models(cell.pair)
        decode, inputs = self._decoder(cell, models), self._prompts(cell, models)
        settings = {"temperature": 1.0, "seed": 0, "eos_token_id": None}

        def decoded(new: int) -> Any:
            return decode(**inputs, **settings, max_new_tokens=new)

        def speed(generation: Any) -> float:
            metrics = generation.metrics
            return float(metrics.tokens / (metrics.wall - metrics.seconds["prompt"]))

        decoded(TRIAL)  # takes as long as it takes to compile
        started = self.clock()
        decoded(TRIAL)
        took, left = self.clock() - started, stop - self.clock()
        least, runs = min(LEAST, self.plan.new), BEFORE + TIMED
        if took * (1 + runs * least / TRIAL) > left:  # one trial more, and the runs
            raise TooSlowError(f"{TRIAL} tokens took {took:.1f} s, and {max(left, 0):.1f} s were left")
        with counted(self.device) as count:
            trial = decoded(TRIAL)
        per_step = cell.batch / speed(trial)  # seconds in which each text grows by a token
        new = max(least, min(self.plan.new, int(budget / (2 * runs) / per_step)))
        for _ in range(BEFORE):
            decoded(new)
        with _peak(self.device, models) as peak:
            timed = sorted((decoded(new) for _ in range(TIMED)), key=speed)
        generation = timed[TIMED // 2]
        metrics = generation.metrics
        return {
            "new": new,
            "vocab": vocabulary(models.target),
            "block_efficiency": metrics.block_efficiency,
            "tokens_per_s": speed(generation),
            "tokens_per_s_least_and_most": [speed(timed[0]), speed(timed[-1])],
            "peak_bytes": peak.get("bytes"),
            "synchronisations": count.per_step(trial.metrics.target_calls),
            "synchronised_at": count.places,
            **metrics.record(),
        }

    def _decoder(self, cell: Cell, models: Models) -> Decode:
        known = {name: getattr(cell, name) for name in ("paths", "depth", "draft_top_k") if getattr(cell, name)}
        return decoder(cell.method, models, known)

    def _prompts(self, cell: Cell, models: Models) -> Mapping[str, torch.Tensor]:
        if cell.pair == SHIPPED:
            rows = torch.tensor(shipped.held_out(PROMPT)[: cell.batch])
        else:
            generator = torch.Generator().manual_seed(0)
            rows = torch.randint(vocabulary(models.target), (cell.batch, PROMPT), generator=generator)
        return {"input_ids": rows.to(self.device), "attention_mask": torch.ones_like(rows).to(self.device)}


@contextmanager
def _peak(device: torch.device, models: Models) -> Iterator[dict[str, int]]:
    """The most memory that a run takes, the weights of these models included but those of others not."""
    peak: dict[str, int] = {}
    if device.type != "cuda":
        yield peak
        return
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    yield peak
    own = sum(model.get_memory_footprint() for model in (models.target, models.draft) if model is not None)
    peak["bytes"] = torch.cuda.max_memory_allocated(device) - before + own


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
