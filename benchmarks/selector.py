"""What choosing a shape for every step is worth: tokens a second beside every fixed shape, over sets of prompts.

    python -m benchmarks.selector [--prompts 32] [--new 96] [--seed 0] [--selector FILE] [--out FILE]

On the shipped pair, in seconds that are given by a cost model, so that the machine does not matter.  The target writes
texts after prompts of unseen code, code that both models were trained on, and prose, at three temperatures: nine sets.
Decoding is then simulated along them, exactly in law: given the text that decoding puts out, a rule that picks a path
accepts d drafted tokens or more with probability min over u of g(u)/p(u), u being the first d tokens or fewer
(docs/paths.md).  Every way to choose meets the same texts, and the same random number at each place.

A selector is trained on the first half of the prompts, and all is measured on the other.  A text counts by its seconds
a token, so that each set and each text counts alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.reporting import appended, show
from benchmarks.shipped_pair.corpus import read_corpus
from otspec.decode import Goodput, PassCosts, PassTimes, Selector, run, shipped, train_selector
from otspec.decode.methods import Vanilla
from otspec.decode.pacing.costs import Costs, Step
from otspec.decode.pacing.goodput import Pacer
from otspec.decode.pacing.menu import NONE, USUAL, cuts, menu_of
from otspec.laws import FloatArray, IntArray
from otspec.paths import Nested
from otspec.paths.shape import Shape
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable

TEMPERATURES = (0.3, 1.0, 1.5)
PROMPT = 64
"""Tokens of one."""
ROOM = 8
"""Tokens that are left at the end of a text, so that every shape can be drafted anywhere."""
DOCS = Path(__file__).parents[1] / "docs"

COSTS: dict[str, Costs] = {
    "a core": PassCosts(
        target=PassTimes((1, 4, 32), (3.6e-3, 3.9e-3, 7.6e-3)),
        draft=PassTimes((1, 4), (0.3e-3, 0.4e-3)),
        rest=0.3e-3,
    ),
    "a GPU, 8B/1B": PassCosts(
        target=PassTimes((1, 4, 9, 33), (7.98e-3, 8.76e-3, 9.2e-3, 11.95e-3)),
        draft=PassTimes((1, 2, 4), (2.1e-3, 2.2e-3, 3.2e-3)),
        rest=0.6e-3,
    ),
    "rows nearly free": PassCosts(
        target=PassTimes((1, 33), (7.6e-3, 8.5e-3)), draft=PassTimes((1, 4), (0.9e-3, 1.0e-3)), rest=0.6e-3
    ),
}
"""Of the shipped pair on a core of an AMD EPYC, of an 8B target with a 1B draft on an H100 (docs/decoding.md), and of
the same where a draft pass takes what reading its weights does."""

MENU = menu_of(USUAL)


class Recorded(NamedTuple):
    """A text, and both models' laws of its tokens."""

    target: FloatArray
    """Shape (tokens, V): the law of each token but the first."""
    draft: FloatArray
    tokens: IntArray
    begin: int
    """Of what the target wrote."""
    luck: FloatArray
    """A uniform random number for every place."""

    @property
    def shared(self) -> list[float]:
        """sum min(p, q), by the number of tokens before."""
        return [0.0, *np.minimum(self.target, self.draft).sum(axis=1).tolist()]


class Simulated:
    """Decoding along a text.

    Parameters
    ----------
    text : Recorded
    """

    def __init__(self, text: Recorded) -> None:
        self.text = text
        self.shared = text.shared
        self._kept = cache(self._kept_of)

    def accepted(self, at: int, shape: Shape) -> int:
        """How many drafted tokens are accepted where the token at a place is the next."""
        if not shape.depth:
            return 0
        whole = next(one for one in _LONGEST if one[: shape.depth] == shape.branching)
        return int((self._kept(at, whole)[: shape.depth] >= self.text.luck[at]).sum())

    def _kept_of(self, at: int, branching: tuple[int, ...]) -> FloatArray:
        """P(as many tokens are accepted or more), given the text, shape (L,)."""
        text, depth = self.text, len(branching)
        laws = text.target[at - 1 : at - 1 + depth], text.draft[at - 1 : at - 1 + depth]
        tokens = text.tokens[at : at + depth]
        drawn = laws[1][np.arange(depth), tokens] > 0
        reach = depth if drawn.all() else int(drawn.argmin())
        kept = np.zeros(depth)
        if reach:
            picked = Nested().along(laws[0][:reach], laws[1][:reach], tokens[:reach], Shape(branching))
            rows = np.arange(reach), tokens[:reach]
            with np.errstate(divide="ignore"):
                ratio = np.log(picked[rows]) - np.log(laws[0][:reach][rows])
            kept[:reach] = np.exp(np.minimum.accumulate(np.minimum(ratio.cumsum(), 0.0)))
        return kept

    def seconds_a_token(self, choose: Callable[[], Way], costs: Costs) -> float:
        """Of the whole text, by a way to choose."""
        way, at, seconds, steps = choose(), self.text.begin, 0.0, 0
        while at < len(self.text.tokens) - ROOM:
            shape = way.choose(self.text.draft[at - 1])
            accepted = self.accepted(at, shape)
            seconds += costs(Step.of(1, shape, way.looks))
            known = range(at, at + min(accepted + 1, shape.depth))
            way.learn(shape, accepted, [self.shared[place] for place in known])
            at, steps = at + accepted + 1, steps + 1
        return seconds / (at - self.text.begin)


_LONGEST = sorted((shape.branching for shape in MENU), key=len, reverse=True)
"""A shape's first levels stand for the shapes that it begins with."""


class Way:
    """A way to choose, of one text: always the same shape."""

    looks = False
    """Whether a draft pass comes before the choice, and so is spent where nothing is drafted."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def choose(self, law: FloatArray) -> Shape:
        """What to draft where the draft model's law is this."""
        return self.shape

    def learn(self, shape: Shape, accepted: int, shared: Sequence[float]) -> None:
        """What became of it."""


class Paced(Way):
    """By a pacer."""

    def __init__(self, rule: Goodput, menu: Sequence[Shape]) -> None:
        self.pacer = Pacer(rule, menu)
        self.pacer.begin(1)
        self.looks = self.pacer.wants_law

    def choose(self, law: FloatArray) -> Shape:
        """As in decoding."""
        return self.pacer.choose(ROOM, torch.from_numpy(law)[None])

    def learn(self, shape: Shape, accepted: int, shared: Sequence[float]) -> None:
        """As in decoding."""
        self.pacer.compare([shared])
        self.pacer.learn(shape, [shape.depth], [accepted], [0])


def prompts(count: int, seed: int) -> dict[str, list[list[int]]]:
    """As many of each kind, the first half to learn from."""
    rng, (_, _, words) = np.random.default_rng(seed), shipped.load()
    begin = words.bos_token_id

    def parts(texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < count:
            ids = words(texts[int(rng.integers(len(texts)))], add_special_tokens=False, verbose=False).input_ids
            if len(ids) > 2 * PROMPT:
                first = int(rng.integers(len(ids) - PROMPT))
                found.append([begin, *ids[first : first + PROMPT - 1]])
        return found

    learnt = [source.text for source in read_corpus() if not source.held_out]
    prose = [path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))]
    return {"unseen code": shipped.held_out(PROMPT)[:count], "seen code": parts(learnt), "prose": parts(prose)}


@torch.no_grad()
def recorded(rows: Sequence[Sequence[int]], temperature: float, new: int, seed: int) -> Iterator[Recorded]:
    """Texts that the target writes after prompts, with both models' laws; those that end at once are left out."""
    target, draft, _ = shipped.load()
    settings: dict[str, Any] = {"max_new_tokens": new + ROOM, "temperature": temperature, "seed": seed}
    written = run(target, Vanilla(), torch.tensor(rows), **settings).new_tokens
    for number, (row, more) in enumerate(zip(rows, written, strict=True)):
        if len(more) > 4 * ROOM:
            ids = torch.tensor([[*row, *more]])
            laws = [
                (model(input_ids=ids[:, :-1]).logits[0].double() / temperature).softmax(-1).numpy()
                for model in (target, draft)
            ]
            luck = np.random.default_rng([seed, number]).random(ids.shape[1])
            yield Recorded(laws[0], laws[1], ids[0].numpy(), len(row), luck)


def ways(costs: Costs, selector: Selector) -> dict[str, Callable[[], Way]]:
    """All ways to choose, by name."""
    return {
        **{str(shape.branching): partial(Way, shape) for shape in (NONE, *MENU)},
        "depth by acceptance": lambda: Paced(Goodput(costs), cuts(Shape.paths(1, ROOM))),
        "menu by acceptance": lambda: Paced(Goodput(costs), MENU),
        "menu by the selector": lambda: Paced(Goodput(costs, selector=selector), MENU),
    }


def compare(texts: dict[str, list[Simulated]], selector: Selector) -> Iterator[dict[str, Any]]:
    """A record for each cost model and each way: seconds a token of every text, by set."""
    for name, costs in COSTS.items():
        for way, choose in ways(costs, selector).items():
            yield {
                "costs": name,
                "way": way,
                "seconds": {
                    kind: [text.seconds_a_token(choose, costs) for text in those] for kind, those in texts.items()
                },
            }


def table(records: Sequence[dict[str, Any]]) -> TextTable:
    """What is chosen step by step, over the best fixed shapes: of the mix of all sets, and of each set by itself."""
    rows = []
    for costs in dict.fromkeys(one["costs"] for one in records):
        mine = [one for one in records if one["costs"] == costs]
        fixed = [one for one in mine if one["way"].startswith("(")]
        best = min(fixed, key=_mean)
        rows.append((costs, f"{best['way']} always", f"{1 / _mean(best):.1f}", "1", *_over_sets(best, fixed)))
        for one in mine:
            if one not in fixed:
                gain = _ratio(best, one)
                rows.append((costs, one["way"], f"{1 / _mean(one):.1f}", gain, *_over_sets(one, fixed)))
    header = ("costs", "shape of a step", "tokens a second", "over the best one shape", "over each set's own", "least")
    note = (
        "Tokens per predicted second over the mix of nine sets, ± standard error over texts; the last columns are the "
        "mean and the least of nine ratios to the shape that is best for the set."
    )
    return TextTable("A shape for every step", header, [tuple(map(str, row)) for row in rows], note, labels=2)


def _mean(record: dict[str, Any]) -> float:
    return float(np.mean([np.mean(those) for those in record["seconds"].values()]))


def _ratio(base: dict[str, Any], other: dict[str, Any]) -> str:
    """How much faster, with its standard error: texts are paired."""
    one, two = (np.concatenate([np.array(those) for those in each["seconds"].values()]) for each in (base, other))
    error = standard_error(one - _mean(base) / _mean(other) * two) / two.mean()
    return f"{_mean(base) / _mean(other):.3f} ± {error:.3f}"


def _over_sets(record: dict[str, Any], fixed: Sequence[dict[str, Any]]) -> tuple[str, str]:
    found = [
        min(np.mean(one["seconds"][kind]) for one in fixed) / np.mean(those)
        for kind, those in record["seconds"].items()
    ]
    return f"{np.mean(found):.3f}", f"{min(found):.3f}"


def main() -> None:
    """Record, learn, simulate, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=32, help="of each kind, half of them to learn from")
    parser.add_argument("--new", type=int, default=96, help="tokens of a text")
    parser.add_argument("--positions", type=int, default=6000, help="that the selector learns from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--selector", type=Path, help="a file of `otspec selector`, in place of one that is trained")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    kinds, half = prompts(given.prompts, given.seed), given.prompts // 2
    if given.selector is None:
        target, draft, _ = shipped.load()
        rows = [row for each in kinds.values() for row in each[:half]]
        settings = {"temperatures": TEMPERATURES, "positions": given.positions, "seed": given.seed}
        selector = train_selector(target, draft, rows, **settings)
    else:
        selector = Selector.load(given.selector)
    texts = {
        f"{kind}, T = {temperature:g}": [
            Simulated(text) for text in recorded(rows[half:], temperature, given.new, given.seed + 1)
        ]
        for kind, rows in kinds.items()
        for temperature in TEMPERATURES
    }
    show(table(list(appended(compare(texts, selector), given.out))))


if __name__ == "__main__":
    main()
