"""The nested labels of a small model."""

from __future__ import annotations

import numpy as np

from otspec.laws import FloatArray
from otspec.reporting.charts import Axis, Chart, Group, Row
from otspec.reporting.layers import areas, between, curve
from otspec.reporting.pictures import Part, Picture, sheet
from otspec.reporting.style import HUES, MARKERS, Look, paler
from otspec.verification.rules.nested.labels import Label, label_of, owned_by, whole
from otspec.verification.rules.nested.sharing import PLAIN, refine
from otspec.verification.trees.tree import Prefix

K = 3
TARGET: dict[Prefix, list[float]] = {(): [0.15, 0.35, 0.5], (0,): [0.6, 0.4], (1,): [0.3, 0.7], (2,): [0.75, 0.25]}
DRAFT: dict[Prefix, list[float]] = {(): [0.45, 0.35, 0.2], (0,): [0.5, 0.5], (1,): [0.6, 0.4], (2,): [0.5, 0.5]}


def owners() -> dict[Prefix, tuple[float, float, Label]]:
    """q(v), g(v) and the label of every prefix of one or two tokens."""
    found: dict[Prefix, tuple[float, float, Label]] = {(): (1.0, 1.0, whole())}
    for prefix in DRAFT:
        q, g, label = found[prefix]
        draft = np.array(DRAFT[prefix])
        weight = 1.0  # look-ahead only
        places = refine(np.array(TARGET[prefix]), draft, np.eye(K)[-1], label, weight, PLAIN)
        for token in range(draft.size):
            child = label_of(owned_by(places, token), places, label)
            found[(*prefix, token)] = (q * draft[token], g * places.proposal[token], child)
    return found


def density(q: float, label: Label, u: FloatArray) -> FloatArray:
    """The share of the labels at u that a prefix owns."""
    low, high = label.low[0] * label.scale, (label.low + label.length)[0] * label.scale
    inside = (u[:, None] >= low) & (u[:, None] < high)
    return q * (inside @ (label.share / (high - low)))


def draw() -> Picture:
    """The law of the largest label above, who owns the labels below, level by level."""
    found = owners()
    u = (np.arange(1000) + 0.5) / 1000
    across = Axis("label u", ends=(0, 1))
    largest = Chart("the largest label", [], across, Axis("K u^(K-1)", ends=(0, K)), curve(u, K * u ** (K - 1)), 120)
    groups = [Group("", "", [largest], columns=1)]
    parts = [Part("", {}, groups)]
    for length in (1, 2):
        mine = {prefix: node for prefix, node in found.items() if len(prefix) == length}
        styles = {_name(prefix, q, g): Look(_shade(prefix), MARKERS[0]) for prefix, (q, g, _) in mine.items()}
        base = np.zeros(u.size)
        rows: list[Row] = []
        for prefix, (q, g, label) in mine.items():
            top = base + density(q, label, u)
            rows += between(_name(prefix, q, g), u, base, top)
            base = top
        upright = Axis("share of the labels", ends=(0, 1), ticks=(0, 0.5, 1))
        chart = Chart(f"owners, level {length}", [], across, upright, areas(rows, styles, opacity=1.0), 140)
        parts.append(Part("", styles, [Group("", "", [chart], columns=1)]))
    return sheet(parts)


def _name(prefix: Prefix, q: float, g: float) -> str:
    return f"{''.join(map(str, prefix))}: q {q:.3f}, g {g:.3f}"


def _shade(prefix: Prefix) -> str:
    """The hue of the first token; with a second, half as much of it for token 1."""
    own = list(HUES)[prefix[0]]
    return paler(own, 0.5) if prefix[1:] == (1,) else own
