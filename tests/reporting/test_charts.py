"""Charts as data: the grammar of Vega-Lite, scales that agree, and what a page adds."""

from typing import Any

import pytest

from otspec.reporting.charts import SCHEMA, Axis, Chart, Group, ends_of, line_chart
from otspec.reporting.layers import band
from otspec.reporting.page import answering
from otspec.reporting.pictures import Part, sheet
from otspec.reporting.style import LIGHT, looks
from tests.each import each
from tests.reporting.examples import NAMES, STYLES, every_chart, rows

CHARTS = every_chart()
CHANNELS = ("x", "y", "color", "shape", "strokeDash", "opacity")


def faults(spec: dict[str, Any]) -> str:
    """What Altair's schema of Vega-Lite has against a chart; a misspelt word would be passed over in silence."""
    altair: Any = pytest.importorskip("altair")
    try:
        altair.Chart.from_dict({"$schema": SCHEMA, **spec})
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


@each(name=list(CHARTS))
def test_charts_keep_to_the_grammar(name: str) -> None:
    chart = CHARTS[name]
    assert faults(chart.spec) == ""
    assert faults(answering(chart)) == ""
    layer = {**chart.spec["layer"][0], "mark": {**chart.spec["layer"][0]["mark"], "colr": "red"}}
    assert faults({**chart.spec, "layer": [layer]})


def test_sheets_keep_to_the_grammar_and_charts_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [Group("All", "What they are.", list(CHARTS.values())), Group("", "", [CHARTS["dots"]], columns=1)]
    assert faults(sheet([Part("One", STYLES, groups), Part("", {}, groups)]).spec) == ""
    monkeypatch.setattr("otspec.extras.installed", lambda package: False)
    assert len(every_chart()) == len(CHARTS)


@each(name=list(CHARTS))
def test_layers_of_a_chart_agree_on_their_scales(name: str) -> None:
    layers = CHARTS[name].spec["layer"]
    for letter in ("x", "y"):
        placed = [layer["encoding"][letter] for layer in layers if letter in layer["encoding"]]
        found = [{key: one[key] for key in ("type", "scale", "title")} for one in placed if "value" not in one]
        assert all(one == found[0] for one in found)


def test_what_has_no_interval_bound_or_part_has_no_layers_for_them() -> None:
    plain = [{"series": name, "x": n, "y": float(n)} for name in NAMES[:3] for n in (1, 2)]
    chart = line_chart(plain, Axis("n"), Axis("y"), STYLES)
    assert [layer["mark"]["type"] for layer in chart.layers] == ["line", "point"]
    full = CHARTS["places"]
    assert [layer["mark"]["type"] for layer in full.layers] == ["rule", "line", "rule", "point", "point", "point"]
    drawn = {row["series"] for row in full.rows if row.get("part")}
    assert drawn == {NAMES[1], NAMES[3]}  # a part of the data, and what others have printed


def test_a_page_hides_dims_and_tells_and_leaves_reference_lines_alone() -> None:
    spec = answering(CHARTS["dots"])
    assert spec["transform"] == [{"filter": "indexof(hidden, datum.series) < 0"}]
    assert [one["name"] for one in spec["params"]] == ["hidden", "hovered"]
    *marks, line = spec["layer"]
    assert all(layer["encoding"]["tooltip"]["field"] == "hover" for layer in marks)
    assert all("hovered" in layer["encoding"]["opacity"]["condition"]["test"] for layer in marks)
    assert line["mark"]["color"] == LIGHT.grey
    assert not {"opacity", "tooltip"} & line["encoding"].keys()
    assert "opacity" not in CHARTS["dots"].spec["layer"][0]["encoding"]  # the chart itself is as it was


def test_more_is_drawn_above_or_below() -> None:
    chart: Chart = CHARTS["numbers"]
    assert [layer["mark"]["type"] for layer in chart.layers[-2:]] == ["rule", "text"]
    assert (band(1.0, 2.0) + chart).layers == [*band(1.0, 2.0), *chart.layers]


def test_columns_of_one_hue_differ_in_their_shade() -> None:
    styles = looks(["nested", "nested, sigma = 0", "nested, sigma = 1"])
    assert len({look.colour() for look in styles.values()}) == 1
    assert len({look.fill() for look in styles.values()}) == 3


def test_shared_ends_hold_all_figures() -> None:
    for log in (0, 10):
        ends = ends_of(rows(("10", "100")), log)
        assert ends is not None
        low, high = ends
        seen = [row[name] for row in rows(("10", "100")) for name in ("low", "y", "high") if row[name] is not None]
        assert low < min(seen)
        assert max(seen) < high
        assert low > 0 or not log
    assert ends_of([]) is None
    assert ends_of([{"y": 1.0, "low": None, "high": None}]) is None
