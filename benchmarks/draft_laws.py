"""What should be drafted, and what do the rules in use leave?  Acceptance of every draft law and published rule.

    python -m benchmarks.draft_laws [--positions 200] [--data llama3,gemma2] [--out report/draft_laws]

Every figure is a mean over the same positions, drafts truncated to the k likeliest tokens, laws on these and one token
for the rest.  An optimum is what the best rule for that draft law accepts, certified by `otspec.optimum`; a published
rule's figure is the exact probability that one of its tests accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import otspec
from benchmarks.measuring import laws_of
from benchmarks.reporting import Record, asked_for, asking, measure_and_tell
from otspec.data import Source
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.reporting.charts import Axis, line_chart
from otspec.reporting.console import progress_bar
from otspec.reporting.means import means
from otspec.reporting.pictures import picture
from otspec.reporting.style import DASHES, MARKERS, looks
from otspec.reporting.tables import TextTable
from otspec.schemes import IID, DraftScheme, Greedy, HubPairs, Systematic, TopK, WithoutReplacement

KS = (10, 100, 1000)
NS = (2, 3, 4, 8)
Make = Callable[[FloatArray, int], DraftScheme]

LAWS: dict[str, Make] = {
    "i.i.d.": IID,
    "greedy": Greedy,
    "top-n": TopK,
    "systematic": Systematic,
    "without replacement": WithoutReplacement,
    "hub pairs": lambda q, n: HubPairs(q),
}
"""Draft laws, hub pairs for n = 2 only."""

RULES = {
    "single": "i.i.d.",
    "naive": "i.i.d.",
    "rrs": "i.i.d.",
    "kseq": "i.i.d.",
    "rsd": "without replacement",
    "spechub": "hub pairs",
}
"""Published rules by their names in the registry, with the drafts they are made for."""

OF_RULES = dict(zip(RULES, (*MARKERS[1:], MARKERS[1]), strict=True))
"""Markers of the published rules; only rules of different draft laws share one."""

SERIES = (*((law, "optimum") for law in LAWS if law != "hub pairs"), *((law, rule) for rule, law in RULES.items()))
"""(draft law, rule) in the order shown; spechub is the optimum of its pairs."""


def measure(source: Source, positions: int) -> Iterator[Record]:
    """A record per position, k, n, draft law and rule; nothing where a rule does not take so many drafts."""
    with progress_bar() as bar:
        for index in bar.track(range(positions), description=source.name):
            for k in KS:
                p, q = laws_of(source.position(index), k)
                for n in NS:
                    for law, rule in SERIES:
                        acceptance = _acceptance(p, q, n, law, rule)
                        if acceptance is not None:
                            yield {
                                "data": source.name,
                                "k": k,
                                "n": n,
                                "law": law,
                                "rule": rule,
                                "position": index,
                                "acceptance": acceptance,
                            }


def _acceptance(p: FloatArray, q: FloatArray, n: int, law: str, rule: str) -> float | None:
    if law == "hub pairs" and n != 2:
        return None
    problem = Problem(p, LAWS[law](q, n))
    if rule == "optimum":
        return otspec.optimum(problem).acceptance
    plan = otspec.solve(problem, rule).plan
    assert plan is not None
    return plan.acceptance


def table(name: str, records: list[Record]) -> TextTable:
    """Mean acceptance, draft law and rule down, (k, n) across."""
    means = {key: float(np.mean(values)) for key, values in _samples(records).items()}
    rows: list[tuple[str, ...]] = []
    for law, rule in SERIES:
        cells = (means.get((k, n, law, rule)) for k in KS for n in NS)
        rows.append((law, rule, *("-" if cell is None else f"{cell:.4f}" for cell in cells)))
    header = ("drafts", "rule", *(f"({k}, {n})" for k in KS for n in NS))
    count = len({record["position"] for record in records})
    return TextTable(
        f"Acceptance by draft law and rule on {name}", header, rows, f"Mean over {count} positions; (k, n)."
    )


def _samples(records: list[Record]) -> dict[tuple[int, int, str, str], list[float]]:
    groups: dict[tuple[int, int, str, str], list[float]] = {}
    for record in records:
        groups.setdefault((record["k"], record["n"], record["law"], record["rule"]), []).append(record["acceptance"])
    return groups


def draw(records: dict[str, list[Record]], path: Path) -> None:
    """A chart per k and profile: over n, a colour per draft law, its optimum solid, published rules dashed."""
    colours = looks(LAWS)
    styles = {
        _name(law, rule): colours[law]._replace(marker=MARKERS[0])
        if rule == "optimum"
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
        for name, mine in records.items()
    ]
    picture(charts, styles, note="Means over positions, with one standard error.").save(path)


def _name(law: str, rule: str) -> str:
    return f"{law}: {rule}"


def main() -> None:
    """Measure, print, draw."""
    parser = asking("Acceptance of every draft law and published rule.", None, None)
    parser.add_argument("--out", type=Path, default=Path("report/draft_laws"), help="folder for the results")
    given = parser.parse_args()
    asked = asked_for(given.data or "llama3,gemma2", given.positions or 200, given.out)
    measure_and_tell(asked, measure, table, draw, "draft_laws.png")


if __name__ == "__main__":
    main()
