"""What should be drafted, and what do the rules in use leave?  Acceptance of every draft law and published rule.

Every figure is a mean over the same positions, drafts truncated to the k likeliest tokens, laws on these and one token
for the rest.  An optimum is what the best rule for that draft law accepts, certified by `otspec.optimum`; a published
rule's figure is the exact probability that one of its tests accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.draft_laws.grid import MADE_FOR, OPTIMUM, SCHEMES, acceptances
from benchmarks.questions import Data, Out, Positions, Question, answer, over
from benchmarks.reporting import Record
from benchmarks.tables import by_data, pivot
from otspec.reporting.charts import Axis, line_chart
from otspec.reporting.means import grouped, means
from otspec.reporting.pictures import Picture, picture
from otspec.reporting.style import DASHES, MARKERS, looks
from otspec.reporting.tables import TextTable

KS = (10, 100, 1000)
NS = (2, 3, 4, 8)
SERIES = (*((law, OPTIMUM) for law in SCHEMES if law != "hub pairs"), *((law, rule) for rule, law in MADE_FOR.items()))
"""(draft law, rule) in the order shown; spechub is the optimum of its pairs."""
OF_RULES = dict(zip(MADE_FOR, (*MARKERS[1:], MARKERS[1]), strict=True))
"""Markers of the published rules; only rules of different draft laws share one."""


def laws(data: Data = "llama3,gemma2", positions: Positions = 200, out: Out = None) -> None:
    """Acceptance of every draft law with its optimum and with the published rules."""
    answer(LAWS, over(data, positions, partial(acceptances, ks=KS, ns=NS, series=SERIES)), out)


def tell(name: str, records: Sequence[Record]) -> TextTable:
    """Mean acceptance, draft law and rule down, (k, n) across."""
    cells = grouped(records, lambda record: (record["k"], record["n"], record["law"], record["rule"]))
    means_of = [{**mine[0], "mean": np.mean([one["acceptance"] for one in mine])} for mine in cells.values()]
    count = len({record["position"] for record in records})
    return pivot(
        f"Acceptance by draft law and rule on {name}",
        means_of,
        {"drafts": lambda record: str(record["law"]), "rule": lambda record: str(record["rule"])},
        lambda record: f"({record['k']}, {record['n']})",
        lambda record: f"{record['mean']:.4f}",
        f"Mean over {count} positions; (k, n).",
    )


def draw(records: Sequence[Record]) -> Picture:
    """A chart per k and profile: over n, a colour per draft law, its optimum solid, published rules dashed."""
    colours = looks(SCHEMES)
    styles = {
        _name(law, rule): colours[law]._replace(marker=MARKERS[0])
        if rule == OPTIMUM
        else colours[law]._replace(marker=OF_RULES[rule], dash=DASHES[1])
        for law, rule in SERIES
    }
    charts = [
        line_chart(
            means([r for r in mine if r["k"] == k], x="n", y="acceptance", series=lambda r: _name(r["law"], r["rule"])),
            Axis("drafts n", ticks=NS),
            Axis("acceptance"),
            styles,
            f"{name}, k = {k}",
        )
        for k in KS
        for name, mine in grouped(records, lambda record: str(record["data"])).items()
    ]
    return picture(charts, styles, note="Means over positions, with one standard error.")


def _name(law: str, rule: str) -> str:
    return f"{law}: {rule}"


LAWS = Question("laws", [laws], ("data", "k", "n", "law", "rule", "position"), by_data(tell), draw)
