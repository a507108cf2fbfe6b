"""The places and exchanges of a small example."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import otspec
from otspec.kernels.interval.picking import contribution_to
from otspec.laws import FloatArray
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from otspec.reporting.charts import SERIES, Axis, Chart
from otspec.reporting.layers import cells, curve, line_at, segments, words
from otspec.reporting.pictures import Picture, picture
from otspec.reporting.style import GREY, HUES, INK, MARKERS, Look
from otspec.schemes import IID

TARGET = np.array([0.06, 0.10, 0.09, 0.17, 0.30, 0.28])
DRAFT = np.array([0.20, 0.20, 0.12, 0.18, 0.22, 0.08])
N = 3


def owners(rule: PlaceRule) -> FloatArray:
    """Share of each place (row) that belongs to each token (column), both by rank; rows and size-weighted columns."""
    places = rule.places
    k = places.order.size
    shares = np.diag(1.0 - places.share)
    for h in range(places.contributed.size):
        parts = np.array([contribution_to(places, h, rank) for rank in range(k)])
        shares += np.outer(parts / places.size, parts / places.contributed[h])
    return shares


TOKENS = {f"token {token}": Look(hue, MARKERS[0]) for token, hue in enumerate(HUES)}


def draw() -> Picture:
    """What places are worth above, their owners below."""
    plan = otspec.solve(otspec.Problem(TARGET, IID(DRAFT, N)), "interval").plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, PlaceRule)
    ends = np.append(0.0, np.cumsum(plan.rule.places.size))
    cuts = [float(cut) for cut in ends[plan.rule.places.block] if 0 < cut < 1]
    blocks = [layer for cut in cuts for layer in line_at(x=cut, hue=INK, dash=())]
    across = Axis("u: places in ascending order of p/q, sizes q; upright lines part the blocks", ends=(0, 1))
    charts = [_worth(plan, plan.rule, ends) + blocks, _strip(plan.rule, ends) + blocks]
    note = (
        "Above: the density of the largest point, n u^(n-1); its mean over each place, thin; g/q of the place, "
        "thick; the threshold of the exchange, dashed."
    )
    return picture([replace(chart, x=across) for chart in charts], TOKENS, columns=1, note=note)


def _worth(plan: Pick, rule: PlaceRule, ends: FloatArray) -> Chart:
    """Density of every place, what its token is worth, and the threshold of each exchange."""
    places, u = rule.places, np.linspace(0, 1, 200)
    upright = Axis("density of the largest point", ends=(0, 3.15))
    chart = Chart("", [], Axis(), upright, [])
    chart += curve(u, N * u ** (N - 1), GREY)
    for at, token in enumerate(places.order):
        span = ends[at : at + 2]
        density = (span[1] ** N - span[0] ** N) / places.size[at]
        chart += curve(span, [density] * 2)
        worth = float(plan.proposal[token] / places.size[at])
        chart += segments([{SERIES: f"token {token}", "x": span[0], "x2": span[1], "y": worth}], TOKENS, width=5)
    for h in range(places.contributed.size):
        members = [rank for rank in range(places.order.size) if contribution_to(places, h, rank) > 0]
        chart += curve([ends[members[0]], ends[members[-1] + 1]], [places.threshold[h]] * 2, dash=(4, 3), width=1)
    return chart


def _strip(rule: PlaceRule, ends: FloatArray) -> Chart:
    """Who owns every place: its own token below, to the dotted line, and what it shares above."""
    places, shares = rule.places, owners(rule)
    rows, names = [], []
    chart = Chart("", [], Axis(), Axis("owners of the place", ends=(0, 1.1), ticks=(0, 0.5, 1)), [], height=170)
    for at, token in enumerate(places.order):
        ranks = [at, *(rank for rank in range(places.order.size) if rank != at)]
        tops = np.append(0.0, np.cumsum(shares[at, ranks]))
        span = {"x": float(ends[at]), "x2": float(ends[at + 1])}
        rows += [
            {SERIES: f"token {places.order[rank]}", **span, "y": low, "y2": high}
            for rank, low, high in zip(ranks, tops[:-1].tolist(), tops[1:].tolist(), strict=True)
        ]
        names.append({"x": float(ends[at : at + 2].mean()), "y": 1.05, "text": f"token {token}"})
    chart += cells(rows, TOKENS) + words(names)
    for at in np.flatnonzero(places.share > 0).tolist():
        chart += curve(ends[at : at + 2], [shares[at, at]] * 2, dash=(1, 2), width=1)
    return chart
