"""What decoding took and gave: sums and totals, from which ratios stay right however records are merged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

import torch

AS_SERVED = (
    *("mean_acceptance_length", "acceptance_rate", "acceptance_rate_per_position"),
    *("num_drafts", "num_draft_tokens", "num_accepted_tokens"),
)
"""Properties of `Metrics` that servers have, too."""

PHASES = ("prompt", "draft", "target", "verification")


@dataclass
class Metrics:
    """Sums over the steps of a run; two runs are merged with ``+``.

    Examples
    --------
    >>> from otspec.decode import Metrics
    >>> metrics = Metrics()
    >>> for accepted in 2, 0:  # of two steps
    ...     metrics.step(levels=3, accepted=accepted, nodes=4, tokens=accepted + 1)
    >>> metrics.accepted, metrics.offered  # by depth
    ([1, 1, 0], [2, 2, 2])
    """

    tokens: int = 0
    """Tokens put out."""
    sequence_steps: int = 0
    """Steps summed over the sequences that took part: one target call of a batch of 4 counts 4."""
    target_calls: int = 0
    """Target passes over drafted trees, prompts not counted."""
    drafted_nodes: int = 0
    """Distinct drafted prefixes that the target read."""
    offered: list[int] = field(default_factory=list)
    """Entry d - 1: sequence steps with drafts of d tokens or more; up to the end of a text that ends within them."""
    accepted: list[int] = field(default_factory=list)
    """Entry d - 1: sequence steps in which d drafted tokens or more became text."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*PHASES, "rest"), 0.0))
    """Wall-clock of reading prompts, drafting, the target's passes, verification (copy to the host
    included), and the rest."""
    committed: int = 0
    """Tokens put out by the sequence steps that had drafts."""

    def step(self, levels: int, accepted: int, nodes: int, tokens: int) -> None:
        """Count one sequence's step.

        Parameters
        ----------
        levels : int
            Depth of its drafts.
        accepted : int
            Drafted tokens in a row that verification accepted.
        nodes : int
            What the target read: the drafted prefixes and the one without drafts.
        tokens : int
            What the text got, at most one more than was accepted; less where it ended before, and what lies behind
            the end was neither offered nor accepted.
        """
        if tokens <= accepted:
            levels = accepted = tokens
        self.tokens += tokens
        self.committed += tokens if levels else 0
        self.sequence_steps += 1
        self.drafted_nodes += nodes - 1
        for sums, depth in ((self.offered, levels), (self.accepted, accepted)):
            sums.extend([0] * (levels - len(sums)))
            for d in range(depth):
                sums[d] += 1

    def __add__(self, other: Metrics) -> Metrics:
        """The sums of two runs together."""
        return Metrics(
            self.tokens + other.tokens,
            self.sequence_steps + other.sequence_steps,
            self.target_calls + other.target_calls,
            self.drafted_nodes + other.drafted_nodes,
            _sum(self.offered, other.offered),
            _sum(self.accepted, other.accepted),
            {phase: spent + other.seconds[phase] for phase, spent in self.seconds.items()},
            self.committed + other.committed,
        )

    @property
    def block_efficiency(self) -> float:
        """Tokens put out for each target call of a sequence, NaN before the first."""
        return self.tokens / self.sequence_steps if self.sequence_steps else float("nan")

    @property
    def num_drafts(self) -> int:
        """Sequence steps that had drafts: the names from here on are vLLM's, and count as it does."""
        return self.offered[0] if self.offered else 0

    @property
    def num_draft_tokens(self) -> int:
        """Drafted tokens that the target read; where drafts share a beginning it is read, and counts, once."""
        return self.drafted_nodes

    @property
    def num_accepted_tokens(self) -> int:
        """Accepted drafts; those behind the end of a text are none."""
        return sum(self.accepted)

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens put out by each step that had drafts, NaN without one: 1 + accepted drafts, but where texts end."""
        return self.committed / self.num_drafts if self.num_drafts else float("nan")

    @property
    def acceptance_rate(self) -> float:
        """Accepted for each drafted token, NaN without one."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else float("nan")

    @property
    def acceptance_rate_per_position(self) -> list[float]:
        """Of the steps that had drafts, the share that accepted d or more, for d = 1, 2, ...; as vLLM counts."""
        return [count / self.num_drafts for count in self.accepted]

    @property
    def acceptance(self) -> list[float]:
        """Of the steps with drafts of d tokens or more, the share that accepted d or more, for d = 1, 2, ..."""
        return [got / of if of else float("nan") for got, of in zip(self.accepted, self.offered, strict=True)]

    @property
    def wall(self) -> float:
        """Seconds in all, prompts included."""
        return sum(self.seconds.values())

    def as_served(self) -> dict[str, Any]:
        """What servers report, under vLLM's names."""
        return {name: getattr(self, name) for name in AS_SERVED}

    def served_record(self) -> dict[str, Any]:
        """The same for a line of JSON, which has no NaN: what there is none of is null."""
        return {name: None if value != value else value for name, value in self.as_served().items()}

    def record(self) -> dict[str, Any]:
        """All sums, for a line of JSON."""
        return asdict(self)


def _sum(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all work that was launched."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


Mark = Any
"""A time on the host, or an event."""


class PhaseSwitch:
    """Marks which phase goes on, and where the next one begins.

    Parameters
    ----------
    phase : str
    add : callable
        Takes a phase and when it began and ended.
    mark : callable
        Returns the time.
    """

    def __init__(self, phase: str, add: Callable[[str, Mark, Mark], None], mark: Callable[[], Mark]) -> None:
        self._phase, self._add, self._mark = phase, add, mark
        self._since = mark()

    def then(self, phase: str) -> None:
        """End the phase that goes on, where another begins."""
        now = self._mark()
        self._add(self._phase, self._since, now)
        self._phase, self._since = phase, now


class Clock:
    """Wall-clock by phase.  On a GPU events are recorded and read at the end, so that nothing waits for the clock."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        self._device = device
        self._spans: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._wall = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the run; between its steps others may have theirs, which is no time of its own."""
        started = time.perf_counter()
        yield
        self._wall += time.perf_counter() - started

    @contextmanager
    def on_device(self, phase: str) -> Iterator[PhaseSwitch]:
        """Time work of the device, one phase after the other by the switch."""
        switch = PhaseSwitch(phase, self._add, self._mark)
        yield switch
        switch.then("")

    @contextmanager
    def on_host(self, phase: str) -> Iterator[None]:
        """Time work of the host."""
        started = time.perf_counter()
        yield
        self._add(phase, started, time.perf_counter())

    def _mark(self) -> Mark:
        """Now: on a GPU when the work launched so far is done."""
        if self._stream is None:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def _add(self, phase: str, start: Mark, stop: Mark) -> None:
        if isinstance(start, torch.cuda.Event):
            self._spans.append((phase, start, stop))
        else:
            self._seconds[phase] += stop - start

    def seconds(self) -> dict[str, float]:
        """Seconds by phase so far, and the rest of the time that the run has had."""
        with self.running():
            wait_for(self._device)
        for phase, start, stop in self._spans:
            self._seconds[phase] += start.elapsed_time(stop) / 1000
        self._spans.clear()
        return {**self._seconds, "rest": self._wall - sum(self._seconds.values())}
