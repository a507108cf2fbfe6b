"""What should be drafted for real models?  Optimal acceptance by draft law on the pair that comes with the package.

    python -m benchmarks.shipped [--positions 256] [--data shipped] [--out report/shipped_laws]

Drafts i.i.d., greedy [hu2025towards] and without replacement, truncated to the k likeliest tokens, temperature 1.  Also
draws the training curve of the pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import otspec
from benchmarks.measuring import laws_of
from benchmarks.reporting import Record, measure_and_tell, options
from otspec.data import Source
from otspec.decode.shipped import FOLDER
from otspec.laws import FloatArray
from otspec.reporting.charts import SERIES, Axis, line_chart
from otspec.reporting.console import progress_bar
from otspec.reporting.means import standard_error
from otspec.reporting.pictures import picture
from otspec.reporting.style import MARKERS, Look
from otspec.reporting.tables import TextTable
from otspec.schemes import IID, DraftScheme, Greedy, WithoutReplacement

KS = (10, 100, 0)
"""Draft tokens kept; 0 is the whole vocabulary."""
NS = (1, 2, 3, 4)
LAWS: dict[str, Callable[[FloatArray, int], DraftScheme]] = {
    "i.i.d.": IID,
    "greedy": Greedy,
    "without replacement": WithoutReplacement,
}


def measure(source: Source, positions: int) -> Iterator[Record]:
    """A record per position, k, n and draft law; one draft is the same for all laws, so only the first has it."""
    with progress_bar() as bar:
        for index in bar.track(range(positions), description=source.name):
            for k in KS:
                p, q = laws_of(source.position(index), k)
                for law, make in LAWS.items():
                    for n in NS if law == "i.i.d." else NS[1:]:
                        best = otspec.optimum(otspec.Problem(p, make(q, n)))
                        record = {"data": source.name, "k": k, "law": law, "n": n, "position": index}
                        yield record | {"acceptance": best.acceptance, "bound": best.bound}


def table(name: str, records: list[Record]) -> TextTable:
    """Means by k and n, and what other laws have over i.i.d. drafts, with the standard error of that difference."""

    def values(k: int, law: str, n: int) -> FloatArray:
        return np.array([r["acceptance"] for r in records if (r["k"], r["law"], r["n"]) == (k, law, n)])

    rows: list[tuple[str, ...]] = []
    for k in KS:
        for n in NS:
            iid = values(k, "i.i.d.", n)
            gains = [values(k, law, n) - iid if n > 1 else None for law in list(LAWS)[1:]]
            cells = ["-" if gain is None else _compared(iid, gain) for gain in gains]
            rows.append((str(k or "V"), str(n), f"{iid.mean():.4f}", *cells))
    gap = max(record["bound"] - record["acceptance"] for record in records)
    count = len({record["position"] for record in records})
    note = f"Mean over {count} positions, bounds within {gap:.0e}; brackets: points over i.i.d., standard error."
    return TextTable(f"Optimal acceptance on {name}", ("k", "n", *LAWS), rows, note)


def _compared(base: FloatArray, gain: FloatArray) -> str:
    error = standard_error(gain)
    return f"{(base + gain).mean():.4f} ({100 * gain.mean():+.2f} ± {100 * error:.2f})"


LOSSES = {
    "train_loss": ("target, training text", Look("blue", MARKERS[0])),
    "target_loss": ("target, held-out text", Look("orange", MARKERS[0])),
    "draft_loss": ("draft, held-out text", Look("green", MARKERS[0])),
}
"""What the curve of the training run holds, and how it is drawn."""


def draw_curve(path: Path) -> None:
    """Losses and single-draft acceptance over the steps of the training run."""
    points = [json.loads(line) for line in (FOLDER / "curve.jsonl").read_text().splitlines()]
    styles = dict(LOSSES.values())
    losses = [{SERIES: text, "x": one["step"], "y": one[name]} for name, (text, _) in LOSSES.items() for one in points]
    draft = LOSSES["draft_loss"][0]
    accepted = [{SERIES: draft, "x": one["step"], "y": one["acceptance"]} for one in points]
    charts = [
        line_chart(rows, Axis("step", ticks=range(0, 4000, 1000)), Axis(what), styles, pointed=False)
        for rows, what in ((losses, "loss, nats per token"), (accepted, "single-draft acceptance"))
    ]
    picture(charts, styles).save(path)


def main() -> None:
    """Measure, print, draw."""
    asked = options("Optimal acceptance by draft law on recorded logits.", "shipped", 256, "report/shipped_laws")
    measure_and_tell(asked, measure, table, lambda records, path: draw_curve(path), "shipped.png")


if __name__ == "__main__":
    main()
