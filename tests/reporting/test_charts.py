"""Charts by Altair: the grammar of Vega-Lite, scales that agree, and what a page adds."""

import pytest

pytest.importorskip("altair")

import altair as alt
from jsonschema import ValidationError  # type: ignore[import-untyped]

from otspec.reporting.charts import Axis, line_chart, rows_of
from otspec.reporting.page import answering
from otspec.reporting.style import LIGHT
from tests.each import each
from tests.reporting.examples import NAMES, STYLES, every_chart

CHARTS = every_chart()


def marks(chart: alt.LayerChart) -> list[str]:
    return [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]


@each(name=list(CHARTS))
def test_charts_and_their_pages_keep_to_the_grammar(name: str) -> None:
    chart = CHARTS[name]
    chart.to_dict()  # which Altair checks by the schema of Vega-Lite
    alt.Chart.from_dict(answering(chart))
    if name == "places":  # which is no use if it lets all pass
        with pytest.raises(ValidationError):
            alt.Chart.from_dict({**answering(chart), "layer": [{"mark": {"type": "point", "colr": "red"}}]})


def test_what_has_no_interval_bound_or_part_has_no_layers_for_them() -> None:
    plain = [{"series": name, "x": n, "y": float(n)} for name in NAMES[:3] for n in (1, 2)]
    chart = line_chart(plain, Axis("n"), Axis("y"), STYLES)
    assert marks(chart) == ["line", "point"]
    full = CHARTS["places"]
    assert marks(full) == ["rule", "line", "rule", "point", "point", "point"]
    drawn = {row["series"] for row in rows_of(full) if row.get("part")}
    assert drawn == {NAMES[1], NAMES[3]}  # a part of the data, and what others have printed


def test_a_page_hides_dims_and_tells_and_leaves_reference_lines_alone() -> None:
    spec = answering(CHARTS["dots"])
    assert spec["transform"] == [{"filter": "indexof(hidden, datum.series) < 0"}]
    assert [one["name"] for one in spec["params"]] == ["hidden", "hovered"]
    *drawn, line = spec["layer"]
    assert all(layer["encoding"]["tooltip"]["field"] == "hover" for layer in drawn)
    assert all("hovered" in layer["encoding"]["opacity"]["condition"]["test"] for layer in drawn)
    assert "hover" not in str(line)
    assert LIGHT.grey in str(line)
    assert "opacity" not in CHARTS["dots"].to_dict()["layer"][0]["encoding"]  # the chart itself is as it was
