"""Charts of every sort, of made figures."""

import altair as alt

from otspec.reporting.charts import HOVER, Axis, bar_chart, column_chart, diagram, dot_chart, hover_text, line_chart
from otspec.reporting.layers import band, behind, curve, histogram, line_at, points, shaded, words
from otspec.reporting.means import SERIES, Row
from otspec.reporting.style import RAMP, Style, styles_of

NAMES = ("interval", "max_flow:engine=igraph", "lp", "paper: General LP")
STYLES = {**styles_of(NAMES[:3]), NAMES[3]: Style("ink", styles_of(NAMES)["lp"].marker, hollow=True)}
PLACES = ("10", "100", "V")


def rows(over: tuple[str, ...] | tuple[int, ...]) -> list[Row]:
    """A lower bound, a figure over a part of the data, one without an interval, and one of others."""
    found: list[Row] = []
    for number, name in enumerate(NAMES):
        for at, x in enumerate(over):
            y = 1.5 ** (number + at)
            ends = {"low": 0.9 * y, "high": 1.2 * y} if number else {"low": None, "high": None}
            marks = {"open": number == 2 and at == 2, "part": number == 1 and at == 0}
            found.append({SERIES: name, "x": x, "y": y, HOVER: hover_text(name, y=y), **ends, **marks})
    return found


def lying() -> list[Row]:
    return [
        {SERIES: name, "y": f"{name}, K = 2", "x": 1.0 + number, "low": 0.5 + number, "high": 2.0 + number}
        for number, name in enumerate(NAMES)
    ]


def of_layers() -> alt.LayerChart:
    """Of layers alone."""
    block = {"x": 0.2, "x2": 0.8, "y": 2.0, "y2": 3.0, "shade": -4.0}
    drawn = [curve([0, 0.5, 1], [0, 1, 3]), points([0.1, 0.2], [1, 2]), histogram([1, 2], [0.0, 0.5, 1.0])]
    made = diagram(Axis("u", ends=(0, 1)), Axis("density", ends=(0, 3)), drawn, "diagram")
    made += shaded([block], "log10 of M", (-9, 0), RAMP)
    made = behind([band(1.0, 1.2)], made) + line_at(y=1.0, label="a tenth")
    return made + words([{"x": 0.5, "y": 1, "text": "token 0"}])


def every_chart() -> dict[str, alt.LayerChart]:
    """By name."""
    share = Axis("acceptance", form=".0%")
    levels, over = Axis("time, ms", log=10), Axis("drafts n", log=2, ticks=(1, 2, 4), falling=True)
    parts = [{SERIES: row[SERIES], "y": row["y"], "x": row["x"], "part": part} for row in lying() for part in STYLES]
    pale = [{**row, "pale": row["x"] == "V"} for row in rows(PLACES)]
    return {
        "places": line_chart(rows(PLACES), Axis("k", places=PLACES), levels, STYLES, "over k"),
        "numbers": line_chart(rows((1, 2, 4)), over, share, STYLES) + line_at(x=2, label="here"),
        "points": line_chart(rows((1, 2, 4)), Axis("n"), Axis("y", zero=True), STYLES, joined=False, height=100),
        "columns": column_chart(pale, Axis("laws", places=PLACES), Axis("accepted tokens"), STYLES),
        "dots": dot_chart(lying(), Axis("times as fast"), STYLES, "over generate") + line_at(x=1.0),
        "bars": bar_chart(parts, Axis("ms per token"), STYLES, "the fastest first"),
        "diagram": of_layers(),
    }
