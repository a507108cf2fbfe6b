"""What should be drafted for real models?  Optimal acceptance by draft law on the pair that comes with the package.

Drafts i.i.d., greedy [hu2025towards] and without replacement, truncated to the k likeliest tokens, temperature 1.  The
picture is the training curve of the pair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.comparing import compared
from benchmarks.draft_laws.grid import DISTINCT, IID_DRAFTS, OPTIMUM, acceptances
from benchmarks.questions import Data, Out, Positions, Question, answer, over
from benchmarks.reporting import Record
from benchmarks.tables import by_data, pivot
from otspec.laws import FloatArray
from otspec.reporting.charts import SERIES, Axis, line_chart
from otspec.reporting.means import grouped
from otspec.reporting.pictures import Picture, picture
from otspec.reporting.style import MARKERS, Look
from otspec.reporting.tables import TextTable

KS = (10, 100, 0)
"""Draft tokens kept; 0 is the whole vocabulary."""
NS = (1, 2, 3, 4)
LAWS = (IID_DRAFTS, "greedy", DISTINCT)


def shipped(data: Data = "shipped", positions: Positions = 256, out: Out = None) -> None:
    """Optimal acceptance by draft law on recorded logits."""
    series = [(law, OPTIMUM) for law in LAWS]
    answer(SHIPPED, over(data, positions, partial(acceptances, ks=KS, ns=NS, series=series)), out)


def tell(name: str, records: Sequence[Record]) -> TextTable:
    """Means by k and n, and what other laws have over i.i.d. drafts."""
    cells = [
        {"k": k, "n": n, "law": law, **figures}
        for (k, n), mine in grouped(records, lambda record: (record["k"], record["n"])).items()
        for law, figures in compared(_by_law(mine), (IID_DRAFTS,), "acceptance").items()
    ]
    gap = max(record["bound"] - record["acceptance"] for record in records)
    count = len({record["position"] for record in records})
    return pivot(
        f"Optimal acceptance on {name}",
        cells,
        {"k": lambda record: str(record["k"] or "V"), "n": lambda record: str(record["n"])},
        lambda record: str(record["law"]),
        _shown,
        f"Mean over {count} positions, bounds within {gap:.0e}; brackets: points over i.i.d., standard error.",
    )


def _by_law(records: Sequence[Record]) -> dict[str, FloatArray]:
    laws = grouped(records, lambda record: str(record["law"]))
    return {law: np.array([one["acceptance"] for one in mine]) for law, mine in laws.items()}


def _shown(record: Record) -> str:
    gain, error = record["gains"][IID_DRAFTS]
    brackets = "" if record["law"] == IID_DRAFTS else f" ({100 * gain:+.2f} ± {100 * error:.2f})"
    return f"{record['acceptance']:.4f}{brackets}"


LOSSES = {
    "train_loss": ("target, training text", Look("blue", MARKERS[0])),
    "target_loss": ("target, held-out text", Look("orange", MARKERS[0])),
    "draft_loss": ("draft, held-out text", Look("green", MARKERS[0])),
}
"""What the curve of the training run holds, and how it is drawn."""


def curve(records: Sequence[Record]) -> Picture:
    """Losses and single-draft acceptance over the steps of the training run, whatever was measured."""
    from otspec.decode.shipped import FOLDER

    points = [json.loads(line) for line in (FOLDER / "curve.jsonl").read_text().splitlines()]
    styles = dict(LOSSES.values())
    losses = [{SERIES: text, "x": one["step"], "y": one[name]} for name, (text, _) in LOSSES.items() for one in points]
    draft = LOSSES["draft_loss"][0]
    accepted = [{SERIES: draft, "x": one["step"], "y": one["acceptance"]} for one in points]
    charts = [
        line_chart(rows, Axis("step", ticks=range(0, 4000, 1000)), Axis(what), styles, pointed=False)
        for rows, what in ((losses, "loss, nats per token"), (accepted, "single-draft acceptance"))
    ]
    return picture(charts, styles)


SHIPPED = Question("shipped", [shipped], ("data", "k", "n", "law", "position"), by_data(tell), curve)
