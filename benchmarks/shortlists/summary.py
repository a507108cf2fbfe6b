"""Means of the records, in tables and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.reporting import Record
from benchmarks.shortlists.drafting import DEPTH, FAMILIES, FLOOR, FULL, ORACLE, RDK, SHARES
from otspec.laws import FloatArray
from otspec.reporting.charts import Axis, line_chart
from otspec.reporting.layers import band, behind, line_at
from otspec.reporting.means import SERIES, Row, standard_error
from otspec.reporting.pictures import picture
from otspec.reporting.style import styles_of
from otspec.reporting.tables import TextTable


def _length(record: Record, figure: str) -> float:
    """Accepted tokens of a draft, in the mean given the drafts."""
    return float(record["accepted"] if figure == "block" else np.dot(record["rates"], record["reached"]))


class Summary:
    """Means of the records, with standard errors across held-out rows; times relative to the whole head."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._by_row: dict[tuple[str, int], dict[int, list[Record]]] = {}
        self._seconds: dict[tuple[str, int], list[float]] = {}
        for one in records:
            if "timed" in one:
                self._seconds.setdefault((one["timed"], one["share"]), []).append(one["seconds"])
            else:
                rows = self._by_row.setdefault((one["drafter"], one["share"]), {})
                rows.setdefault(one["row"], []).append(one)
        self.keys = sorted((key for key in self._by_row if key[0] != ORACLE), key=lambda key: key[1])

    def mean(self, key: tuple[str, int], figure: str) -> tuple[float, float]:
        """Of a number."""
        sums = [[one[figure] for one in mine] for mine in self._by_row[key].values()]
        return ratio(np.array([sum(mine) for mine in sums]), np.array([len(mine) for mine in sums]))

    def size(self, key: tuple[str, int]) -> float:
        """Mean shortlist over all positions."""
        sizes = [one["sizes"] for mine in self._by_row[key].values() for one in mine]
        return float(np.mean(sizes))

    def rate(self, key: tuple[str, int], position: int) -> tuple[float, float]:
        """Acceptance of a single draft at a position that was reached."""
        rows = self._by_row[key].values()
        accepted = [sum(one["rates"][position] * one["reached"][position] for one in mine) for mine in rows]
        reached = [sum(one["reached"][position] for one in mine) for mine in rows]
        return ratio(np.array(accepted), np.array(reached))

    def efficiency(self, key: tuple[str, int]) -> tuple[float, float]:
        """Tokens per call of the target, by block verification."""
        found, error = self.mean(key, "accepted")
        return 1.0 + found, error

    def gain(self, name: str, over: str, shares: Sequence[int], figure: str = "block") -> tuple[float, float]:
        """How many more tokens per call than another drafter, in the mean of the shares, with the error across rows.

        By block verification, or by a rule for single tokens: of that the mean given the drafts varies less.
        """
        differences = np.mean(
            [self._gains(name, share, figure) - self._gains(over, share, figure) for share in shares], 0
        )
        return float(differences.mean()), standard_error(differences)

    def _gains(self, name: str, share: int, figure: str) -> FloatArray:
        """Mean accepted length of every row."""
        return np.array(
            [np.mean([_length(one, figure) for one in m]) for _, m in sorted(self._by_row[name, share].items())]
        )

    def draft(self, key: tuple[str, int]) -> float:
        """Seconds of a draft of `DEPTH` tokens."""
        return float(np.median(self._seconds[key]))

    def head(self, key: tuple[str, int]) -> float:
        """What of that is not there without a head."""
        return self.draft(key) - self.draft((FLOOR, 1))

    def speed(self, key: tuple[str, int]) -> float:
        """Tokens a second, verification left out."""
        return self.efficiency(key)[0] / (self.draft(key) + self.draft(("target", 1)))


def tables(summary: Summary) -> list[TextTable]:
    """By drafter and size; and what no drafter can have."""
    whole, rows = (FULL, 1), []
    for key in summary.keys:
        name, share = key
        rate = [f"{summary.rate(key, at)[0]:.3f} ± {summary.rate(key, at)[1]:.3f}" for at in range(DEPTH)]
        more = "-" if name in (FULL, "FR-Spec") else _shown(summary.gain(name, "FR-Spec", [share]))
        rows.append(
            (
                name if share == 1 else f"{name}, 1/{share}",
                f"{summary.size(key):.0f}",
                *rate,
                "{:.3f} ± {:.3f}".format(*summary.efficiency(key)),
                more,
                f"{summary.head(key) / summary.head(whole):.2f}",
                f"{summary.draft(key) / summary.draft(whole):.2f}",
                f"{summary.speed(key) / summary.speed(whole):.2f}",
            )
        )
    header = (
        *("drafter", "mean shortlist", *(f"position {at + 1}" for at in range(DEPTH))),
        *("tokens a call", "over FR-Spec", "head", "draft pass", "speed"),
    )
    core = summary.draft((FLOOR, 1)) / DEPTH
    note = (
        f"One path of {DEPTH} tokens, temperature 1, ± standard error across held-out rows.  Positions: acceptance of "
        "a single draft where those before it were accepted.  Tokens a call: block verification.  Head (with softmax, "
        "and router or kernel), draft pass and speed (of drafting and the target's pass) are relative to the whole "
        f"head: {1e3 * summary.head(whole) / DEPTH:.2f} of {1e3 * summary.draft(whole) / DEPTH:.2f} ms a pass; without "
        f"a head {1e3 * core:.2f} ms, the target {1e3 * summary.draft(('target', 1)):.2f} ms."
    )
    pairs = [(name, other) for at, name in enumerate(FAMILIES) for other in FAMILIES[:at]]
    gains = [
        (f"{name} over {other}", *(_shown(summary.gain(name, other, SHARES, figure)) for figure in ("block", "single")))
        for name, other in pairs
    ]
    together = "Differences in the mean of all shares, by block verification and by a rule for single tokens."
    best = [
        (
            f"1/{share}",
            *("{:.3f} ± {:.3f}".format(*summary.mean((ORACLE, share), figure)) for figure in ("best", "rate")),
        )
        for share in SHARES
    ]
    why = (
        "At the first position, on a shortlist of the target's likeliest tokens: their mass, which the best draft law "
        "accepts [zhang2025dynaspec, Lemma 2], and what the draft model's law accepts when cut to them."
    )
    return [
        TextTable("Shortlists", header, rows, note, labels=1),
        TextTable("Tokens a call", ("drafters", "block", "token by token"), gains, together, labels=1),
        TextTable("What no drafter knows", ("tokens", "best law", "draft model's law"), best, why, labels=1),
    ]


def _shown(figure: tuple[float, float]) -> str:
    return "{:+.3f} ± {:.3f}".format(*figure)


def draw(summary: Summary, path: Path) -> None:
    """Tokens a call over the size of the shortlist, and acceptance by position at the largest budgets."""
    styles = styles_of((*FAMILIES, FULL, RDK))
    kernel, whole = (RDK, SHARES[0]), (FULL, 1)
    rows = [
        _row(name, summary.size((name, share)), summary.efficiency((name, share)))
        for name in FAMILIES
        for share in SHARES
    ]
    rows.append(_row(RDK, summary.size(("FR-Spec", SHARES[0])), summary.efficiency(kernel)))
    efficiency, error = summary.efficiency(whole)
    sizes = Axis("mean shortlist, tokens", log=2, form=".0f")
    whole_head = [band(efficiency - error, efficiency + error), line_at(y=efficiency, label=FULL, align="left")]
    drawn = line_chart(rows, sizes, Axis(f"tokens a call, L = {DEPTH}"), styles, "block verification")
    tokens = behind(whole_head, drawn)
    places = [str(place + 1) for place in range(DEPTH)]
    rates = [
        _row(name, places[place], summary.rate(key, place))
        for name, key in ((FULL, whole), *((name, (name, SHARES[0])) for name in FAMILIES))
        for place in range(DEPTH)
    ]
    positions = Axis("position of the draft", places=places, apart=0.6)
    title = f"shortlists of 1/{SHARES[0]} of the tokens"
    single = line_chart(rates, positions, Axis("acceptance of a single draft"), styles, title)
    picture([tokens, single], styles, note="Means, with one standard error across held-out rows.").save(path)


def _row(series: str, x: float | str, figure: tuple[float, float]) -> Row:
    """A mean with one standard error to both sides."""
    mean, error = figure
    return {SERIES: series, "x": x, "y": mean, "low": mean - error, "high": mean + error}


def ratio(sums: FloatArray, of: FloatArray) -> tuple[float, float]:
    """Ratio of two sums over prompts, and its standard error across them to first order.

    Parameters
    ----------
    sums, of : array, shape (prompts,)

    Returns
    -------
    tuple of float
        The error is NaN for fewer than two prompts.
    """
    found = float(sums.sum() / of.sum())
    if of.size < 2:
        return found, float("nan")
    return found, float((sums - found * of).std(ddof=1) / of.mean() / np.sqrt(of.size))
