"""How to look ahead: what the settings of nested labels are worth, and what they cost.

    python -m benchmarks.look_ahead [--texts 1000] [--cells "mixed:1000:4,1,1,1 ..."] [--settings "sigma=0.7 ..."]

A cell is laws:V:branching, the laws a regime of `otspec.paths.REGIMES`, `llama3` (that profile at V tokens, the drafts
truncated to the top 1000), or `shipped`, the pair of the package after its held-out prompts (V is its own).

The mean accepted length, the sum over prefixes v of A(v) = p(v) min over the prefixes u of v of min(1, g(u)/p(u)), is a
mean over texts of the target: no tree is drafted, and all settings meet the same texts, so that their differences are
known far better than the lengths.  Times are of picks from drafted trees, all settings taking turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import seconds
from benchmarks.reporting import appended
from otspec.data import PROFILES, ProfileSource
from otspec.laws import FloatArray, IntArray, draw, law_from_logits
from otspec.paths import Model, Nested, scattered, synthetic
from otspec.paths.shape import Shape
from otspec.paths.walking import Line, length_along, target_line
from otspec.reporting.means import standard_error

CELLS = (
    "mixed:1000:2,1,1,1,1,1,1,1 mixed:1000:4,1,1,1 mixed:1000:4,1,1,1,1,1,1,1 mixed:1000:8,1,1,1,1,1,1,1 "
    "mixed:1000:1,1,4,1,1,1,1 mixed:1000:2,2,2,1 close:1000:4,1,1,1,1,1 far:1000:4,1,1,1,1,1 sharp:1000:4,1,1,1,1,1 "
    "mixed:50:4,1,1,1,1,1,1,1 mixed:20000:4,1,1,1,1,1,1,1 llama3:20000:4,1,1,1,1,1,1,1 "
    "shipped:0:4,1,1,1,1,1,1,1 shipped:0:1,1,4,1,1,1,1"
)
SETTINGS = (
    "sigma=0 sigma=0.25 sigma=0.4 sigma=0.6 sigma=0.75 sigma=1 parts=2 parts=4 parts=6 parts=12 grain=0.01 grain=0.03 "
    "grain=0.05 grain=0.1"
)
Record = dict[str, Any]
TIMED = 12
"""Trees."""


class Cell(NamedTuple):
    """Where the laws come from, and the shape of the drafts."""

    laws: str
    vocab: int
    shape: Shape

    @classmethod
    def parse(cls, text: str) -> Cell:
        """From laws:V:branching."""
        laws, vocab, branching = text.split(":")
        return cls(laws, int(vocab), Shape.of([int(children) for children in branching.split(",")]))

    def model(self, seed: int) -> Model:
        """A model of its own for every seed."""
        if self.laws in PROFILES:
            return scattered(ProfileSource(replace(PROFILES[self.laws], vocab=self.vocab)), seed, top_k=1000)
        return synthetic(self.laws, self.vocab, seed)

    def lines(self, texts: int) -> Iterator[Line]:
        """Texts of the target, each of a model, or after a prompt, of its own."""
        if self.laws == "shipped":
            yield from shipped_lines(texts, self.shape.depth)
            return
        for seed in range(texts):
            yield target_line(self.model(seed), self.shape.depth, np.random.default_rng((seed, 2)))


def shipped_lines(texts: int, length: int, batch: int = 32) -> Iterator[Line]:
    """What the shipped target says after the held-out prompts."""
    import torch

    from otspec.decode.shipped import held_out, load

    pair, rng = load(), np.random.default_rng(0)
    prompts = held_out()
    for start in range(0, texts, batch):
        read = torch.tensor([prompts[i % len(prompts)] for i in range(start, min(start + batch, texts))])
        target: list[FloatArray] = []
        draft: list[FloatArray] = []
        tokens: list[IntArray] = []
        for _ in range(length):
            with torch.no_grad():
                logits = [model(read).logits[:, -1].double().numpy() for model in (pair.target, pair.draft)]
            for name, laws, rows in zip(("target", "draft"), (target, draft), logits, strict=True):
                laws.append(np.array([law_from_logits(name, row) for row in rows]))
            tokens.append(np.array([int(draw(p, rng)) for p in target[-1]]))
            read = torch.cat([read, torch.tensor(tokens[-1])[:, None]], dim=1)
        for i in range(len(read)):
            p, q, said = (np.array([level[i] for level in laws]) for laws in (target, draft, tokens))
            yield Line(p, q, said)


def times(cell: Cell, rules: dict[str, Nested]) -> dict[str, FloatArray]:
    """Milliseconds of picks from the same trees, by setting."""
    found: dict[str, list[float]] = {name: [] for name in rules}
    if cell.laws != "shipped":
        for seed in range(TIMED):
            tree = cell.model(seed).drawn(cell.shape.branching, np.random.default_rng((seed, 1)))
            for name, rule in rules.items():
                found[name].append(1e3 * seconds(lambda rule=rule, tree=tree, seed=seed: rule.pick(tree, seed)))  # type: ignore[misc]
    return {name: np.array(values) for name, values in found.items()}


def measure(cell: Cell, rules: dict[str, Nested], texts: int) -> Iterator[Record]:
    """A record for each setting, the first of which the others are compared with."""
    lengths = np.array(
        [[length_along(rule, line, cell.shape) for rule in rules.values()] for line in cell.lines(texts)]
    )
    taken = times(cell, rules)
    for name, mine in zip(rules, lengths.T, strict=True):
        gain, first = mine - lengths[:, 0], taken[next(iter(rules))]
        yield {
            "laws": cell.laws,
            "vocab": cell.vocab,
            "branching": list(cell.shape.branching),
            "texts": texts,
            "setting": name,
            "accepted": mine.mean(),
            "error": standard_error(mine),
            "gain": gain.mean(),
            "gain_error": standard_error(gain),
            "ms": float(np.median(taken[name])) if first.size else None,
            "time": float(np.median(taken[name] / first)) if first.size else None,
        }


def shown(record: Record, first: bool) -> str:
    """A cell of the table."""
    if first:
        time = "" if record["ms"] is None else f", {record['ms']:.2f} ms"
        return f"{record['accepted']:.3f} ± {record['error']:.3f}{time}"
    time = "" if record["time"] is None else f", x {record['time']:.2f}"
    return f"{record['gain']:+.4f} ± {record['gain_error']:.4f}{time}"


def main() -> None:
    """Measure cell by cell, write records as they come, and print a table of settings by cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=CELLS, help="laws:V:branching, separated by blanks")
    parser.add_argument("--settings", default=SETTINGS, help="of Nested, separated by blanks")
    parser.add_argument("--texts", type=int, default=1000, help="per cell")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    rules = {"default": Nested()}
    for text in given.settings.split():
        values = dict(setting.split("=") for setting in text.split(","))
        rules[text] = Nested(**{k: int(v) if k == "parts" else float(v) for k, v in values.items()})  # type: ignore[arg-type]
    cells = [Cell.parse(text) for text in given.cells.split()]
    table = Table("setting", title="accepted length less the default's ± its standard error, time over the default's")
    columns = []
    for cell in cells:
        records = list(appended(measure(cell, rules, given.texts), given.out))
        columns.append([shown(record, i == 0) for i, record in enumerate(records)])
        table.add_column(f"{cell.laws} {cell.vocab or ''}\n{cell.shape.branching}")
    for name, *row in zip(rules, *columns, strict=True):
        table.add_row(name, *row)
    Console(width=20 + 32 * len(cells)).print(table)


if __name__ == "__main__":
    main()
