"""Choosing a shape for every step by the clock: tokens a second beside fixed shapes, over sets of prompts.

    python -m benchmarks.selector_clock [--texts 4] [--repeats 2] [--clock wall] [--selector FILE] [--out FILE]

The nine sets of `benchmarks.selector`, and its selector; but models, verifier and pacers do all that they do in
decoding, and what they take is timed from the first step to the last.  What is accepted is not left to chance: every
way to choose is led along the same text, which the target has written, and accepts of it what the same random number
says, exactly in law (`benchmarks.selector` says how).  The tokens that are accepted are drafted in place of the first
path's, all others are drawn.  So ways differ by what they choose and by what that takes, and by nothing else.

Ways take turns on each text, and of repeats the least counts: what else a machine does makes them longer.  Costs are
those of whole steps of this machine, timed before on other prompts, as `otspec tune` does; ways that learn them as they
go begin without.  Of the fixed shapes those are timed that these costs let expect to be within `NEAR` of the best of
some set.  Intervals are of ratios of sums over texts, 95 %, by bootstrap.

``--clock cpu`` counts the process's own time on one thread: for a machine that has other things to do.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import bootstrap
from transformers import LogitsProcessorList, MaxLengthCriteria, StoppingCriteriaList, TemperatureLogitsWarper

from benchmarks.reporting import appended, show
from benchmarks.selector import MENU, ROOM, TEMPERATURES, Simulated, Way, prompts, recorded
from otspec.decode import Generation, Goodput, MultiDraft, Selector, StepCosts, Strategy, run, shipped, train_selector
from otspec.decode.drafters.draft_laws import DraftLaw, draft_law
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.paced import paced
from otspec.decode.drafters.protocol import Drafter, Drafts
from otspec.decode.loop import Decoder
from otspec.decode.metrics import Clock, Metrics
from otspec.decode.models.context import vocabulary
from otspec.decode.models.target import Target
from otspec.decode.pacing.goodput import Pacer
from otspec.decode.pacing.menu import NONE, USUAL
from otspec.decode.sampling import Sampling
from otspec.decode.text import Ending, Text
from otspec.decode.tuning.passes import Passes
from otspec.decode.tuning.steps import step_costs
from otspec.decode.verifiers import Extension, verifier
from otspec.laws import FloatArray
from otspec.paths.shape import Shape
from otspec.reporting.tables import TextTable

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
NEAR = 0.04
"""Of the best of a set: fixed shapes that are expected to be slower than that everywhere are left out."""
FEWEST = 5
"""Texts that an interval is made of."""
IID = draft_law("iid")


class Script:
    """What is to come of a text, step by step.

    Parameters
    ----------
    text : Simulated
    """

    def __init__(self, text: Simulated) -> None:
        self.text = text
        self.at = text.text.begin
        """The next place."""
        self._branching: tuple[int, ...] = ()
        """What has been drafted of this step."""

    @property
    def law(self) -> DraftLaw:
        """Draws drafts; where one is to be accepted, the first is what comes there."""
        return IID._replace(draw=self._draw)

    def _draw(self, laws: torch.Tensor, children: int, generator: torch.Generator) -> torch.Tensor:
        drawn = IID.draw(laws, children, generator)
        self._branching = (*self._branching, children)
        level = len(self._branching)
        if self.text.accepted(self.at, Shape(self._branching)) == level:
            drawn[0, 0, 0] = int(self.text.text.tokens[self.at + level - 1])
        return drawn

    def next(self, drafts: Drafts) -> Extension:
        """What this step puts out."""
        (tree,), tokens = drafts.trees, self.text.text.tokens
        accepted, nodes = self.text.accepted(self.at, Shape(self._branching)), [0]
        for more in range(accepted):
            children = np.flatnonzero(tree.parent == nodes[-1])
            nodes.append(int(children[tree.token[children] == tokens[self.at + more]][0]))
        self.at, self._branching = self.at + accepted + 1, ()
        return Extension(nodes[1:], int(tokens[self.at - 1]))


@dataclass(frozen=True, eq=False)
class Led(Decoder):
    """Decoding that drafts, reads and verifies as ever, and then goes on as a script says."""

    script: Script | None = None
    begun: list[dict[str, float]] | None = None
    """Gets what the clocks show when the first step begins."""

    def _step(self, going: list[Text], target: Target, clock: Clock, metrics: Metrics) -> list[Text]:
        assert self.begun is not None
        if not self.begun:
            self.begun.append({name: now() for name, now in CLOCKS.items()})
        return super()._step(going, target, clock, metrics)

    def _verify(self, drafts: Drafts, laws: torch.Tensor, clock: Clock) -> list[Extension]:
        super()._verify(drafts, laws, clock)
        assert self.script is not None
        return [self.script.next(drafts)]


@torch.no_grad()
def along(text: Simulated, temperature: float, shape: Shape, pacer: Pacer | None) -> dict[str, float]:
    """Seconds of the steps along a text, by each clock, and how many steps there are.

    Parameters
    ----------
    text : Simulated
    temperature : float
    shape : Shape
        What is drafted at most.
    pacer : Pacer, optional
        Chooses what is drafted.
    """
    target, draft, _ = shipped.load()
    script, vocab = Script(text), vocabulary(target)
    warpers = [] if temperature == 1 else [TemperatureLogitsWarper(temperature)]
    sampling, generator = Sampling(LogitsProcessorList(warpers), True), torch.Generator().manual_seed(0)
    drafter: Drafter = ModelDrafter(draft, shape, script.law, sampling, vocab, generator)
    if pacer is not None:
        drafter = paced(drafter, pacer)
    widest = max([shape] if pacer is None else pacer.menu, key=lambda one: max(one.branching, default=0))
    ending = Ending(StoppingCriteriaList([MaxLengthCriteria(len(text.text.tokens) - ROOM)]), target.device)
    begun = list[dict[str, float]]()
    led = Led(
        target,
        drafter,
        verifier(None, widest, IID),
        sampling,
        ending,
        np.random.default_rng(0),
        generator,
        script=script,
        begun=begun,
    )
    metrics, _ = led.run([Text(0, [], text.text.tokens[: text.text.begin].tolist())])
    return {name: now() - begun[0][name] for name, now in CLOCKS.items()} | {"steps": float(metrics.target_calls)}


Choosing = Callable[[float], tuple[Shape, Pacer | None]]
"""Of texts at a temperature: what a way drafts at most, and who chooses."""
DEPTHS = [shape for shape in MENU if shape.slots == shape.depth + 1]
"""Single paths."""


def ways(costs: Mapping[float, StepCosts], selector: Selector, fixed: Sequence[Shape]) -> dict[str, Choosing]:
    """All ways to choose, by name."""

    def always(shape: Shape) -> Choosing:
        return lambda temperature: (shape, None)

    def by(menu: Sequence[Shape], learnt: bool = False, **settings: Any) -> Choosing:
        rules = {} if learnt else {each: Goodput(known, **settings) for each, known in costs.items()}
        anew = Goodput(**settings)
        return lambda temperature: (DEPTHS[-1], Pacer(rules.get(temperature, anew), menu))

    return {
        **{str(shape.branching): always(shape) for shape in fixed},
        "one path by acceptance": by(DEPTHS),
        "one path by the selector": by(DEPTHS, selector=selector),
        "menu by acceptance": by(MENU),
        "menu by the selector": by(MENU, selector=selector),
        "one path by acceptance, costs learnt": by(DEPTHS, learnt=True),
    }


def timed(rows: Sequence[Sequence[int]], temperature: float, seconds: float, now: Callable[[], float]) -> StepCosts:
    """What whole steps take here."""
    target, draft, _ = shipped.load()

    def decode(strategy: Strategy, prompt: Sequence[int], seed: int) -> Generation:
        return run(target, strategy, torch.tensor([prompt]), temperature=temperature, max_new_tokens=64, seed=seed)

    passes = Passes(draft, rows[0], siblings=True, depth=1, now=now)
    look = float(np.median([passes.time(1) for _ in range(50)]))
    return step_costs(lambda pace: MultiDraft(draft, pace=pace, menu=USUAL), decode, rows, 0, seconds, look, now)


class Set(NamedTuple):
    """Texts of one kind at one temperature."""

    name: str
    temperature: float
    texts: list[Simulated]


def contenders(sets: Sequence[Set], costs: Mapping[float, StepCosts]) -> list[Shape]:
    """The fixed shapes that are expected to be near the best of some set."""
    kept = set[Shape]()
    for one in sets:
        expected = {
            shape: sum(text.seconds_a_token(partial(Way, shape), costs[one.temperature]) for text in one.texts)
            for shape in (NONE, *MENU)
        }
        kept |= {shape for shape, seconds in expected.items() if seconds <= (1 + NEAR) * min(expected.values())}
    return [shape for shape in (NONE, *MENU) if shape in kept]


def prepare(texts: Sequence[Simulated]) -> None:
    """Find what is accepted anywhere, so that it need not be found on the clock."""
    for text in texts:
        for at, shape in itertools.product(range(text.text.begin, len(text.text.tokens) - ROOM), MENU):
            text.accepted(at, shape)


def compare(sets: Sequence[Set], chosen: Mapping[str, Choosing], repeats: int) -> Iterator[dict[str, Any]]:
    """Records for each text and each way, which take turns; the first of each round is another one every time."""
    names, turn = list(chosen), 0
    for number in [*range(max(len(one.texts) for one in sets))] * repeats:
        for one in sets:
            for text in one.texts[number : number + 1]:
                for name in names[turn:] + names[:turn]:
                    found = along(text, one.temperature, *chosen[name](one.temperature))
                    tokens = len(text.text.tokens) - ROOM - text.text.begin
                    yield {"set": one.name, "text": number, "way": name, "tokens": tokens, **found}
                turn = (turn + 1) % len(names)


class Times:
    """Seconds a token of every text, by set and way, the least of its repeats.

    Parameters
    ----------
    records : sequence of records
    clock : str
    """

    def __init__(self, records: Sequence[dict[str, Any]], clock: str) -> None:
        self.ways = list(dict.fromkeys(sorted((one["way"] for one in records), key=lambda way: way[0] != "(")))
        self.sets = list(dict.fromkeys(one["set"] for one in records))
        least = dict[tuple[str, int, str], float]()
        for one in records:
            key = one["set"], one["text"], one["way"]
            least[key] = min(least.get(key, math.inf), one[clock] / one["tokens"])
        self._of: dict[tuple[str, str], list[float]] = {}
        for (kind, _, way), seconds in sorted(least.items()):
            self._of.setdefault((kind, way), []).append(seconds)
        self.fixed = [way for way in self.ways if way.startswith("(")]

    def of(self, way: str, kind: str | None = None) -> FloatArray:
        """Of all texts, or of those of a set."""
        return np.concatenate([self._of[each, way] for each in ([kind] if kind else self.sets)])

    def best(self, kind: str | None = None) -> str:
        """The fastest of the fixed shapes."""
        return min(self.fixed, key=lambda way: float(self.of(way, kind).sum()))

    def over(self, base: str, way: str, kind: str | None = None) -> float:
        """How much faster a way is."""
        return float(self.of(base, kind).sum() / self.of(way, kind).sum())

    def shown(self, base: str, way: str, kind: str | None = None) -> str:
        """The same, and its interval where there are texts enough."""
        both, found = (self.of(base, kind), self.of(way, kind)), f"{self.over(base, way, kind):.3f}"
        if both[0].size < FEWEST or base == way:
            return found
        drawn = bootstrap(both, _ratio, paired=True, method="percentile", rng=np.random.default_rng(0))
        low, high = drawn.confidence_interval
        return f"{found} [{low:.3f}, {high:.3f}]"


def _ratio(one: FloatArray, two: FloatArray, axis: int = -1) -> FloatArray:
    return one.sum(axis=axis) / two.sum(axis=axis)


def tables(records: Sequence[dict[str, Any]], clock: str) -> list[TextTable]:
    """Over the best shape of the mix and of each set; and by set."""
    times = Times(records, clock)
    rows, base = [], times.best()
    for way in times.ways:
        own = [times.over(times.best(kind), way, kind) for kind in times.sets]
        each = [f"{np.mean(own):.3f}", f"{min(own):.3f}"]
        over = "1" if way == base else times.shown(base, way)
        rows.append((way, f"{1 / times.of(way).mean():.1f}", over, *each))
    header = ("shape of a step", "tokens a second", "over the best one shape", "over each set's own", "least")
    note = (
        f"By the {clock} clock, {times.of(base).size} texts of {len(times.sets)} sets, prompts left out; intervals of "
        "95 % over texts. The last columns are the mean and the least of the ratios to the shape that is best for a "
        "set, which is found on the very texts."
    )
    whole = TextTable("A shape for every step, by the clock", header, rows, note, labels=1)
    ways = [way for way in times.ways if way not in times.fixed]
    by_set = [
        (kind, times.best(kind), *(times.shown(times.best(kind), way, kind) for way in ways)) for kind in times.sets
    ]
    header = ("set", "its best shape", *ways)
    return [whole, TextTable("Each set", header, by_set, "Over the best shape of the set.", labels=2)]


def main() -> None:
    """Record, learn, time, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=4, help="of each set")
    parser.add_argument("--repeats", type=int, default=2, help="of each text by each way, of which the least counts")
    parser.add_argument("--learn", type=int, default=16, help="other prompts of each kind, for selector and costs")
    parser.add_argument("--new", type=int, default=96, help="tokens of a text")
    parser.add_argument("--positions", type=int, default=4000, help="that the selector learns from")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--costs-seconds", type=float, default=6.0, help="to time steps in, at each temperature")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--selector", type=Path, help="a file of `otspec selector`, in place of one that is trained")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kinds, now = prompts(given.learn + given.texts, given.seed), CLOCKS[given.clock]
    learn = [row for each in kinds.values() for row in each[: given.learn]]
    if given.selector is None:
        target, draft, _ = shipped.load()
        settings = {"temperatures": TEMPERATURES, "positions": given.positions, "seed": given.seed}
        selector = train_selector(target, draft, learn, **settings)
    else:
        selector = Selector.load(given.selector)
    sets = [
        Set(f"{kind}, T = {temperature:g}", temperature, [Simulated(text) for text in texts])
        for kind, rows in kinds.items()
        for temperature in TEMPERATURES
        for texts in [recorded(rows[given.learn :], temperature, given.new, given.seed + 1)]
    ]
    for one in sets:
        prepare(one.texts)
    costs = {temperature: timed(learn, temperature, given.costs_seconds, now) for temperature in TEMPERATURES}
    fixed = contenders(sets, costs)
    for choosing in ways(costs, selector, fixed).values():  # what is compiled and allocated is not timed
        along(sets[0].texts[0], sets[0].temperature, *choosing(sets[0].temperature))
    show(*tables(list(appended(compare(sets, ways(costs, selector, fixed), given.repeats), given.out)), given.clock))


if __name__ == "__main__":
    main()
