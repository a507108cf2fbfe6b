"""What a node with several children owns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.laws import FloatArray
from otspec.reporting.charts import Axis, Chart
from otspec.reporting.layers import areas, between, curve
from otspec.reporting.pictures import Picture, picture
from otspec.reporting.style import GREY, HUES, MARKERS, Look
from otspec.verification.rules.nested.labels import branch, label_of, owned_by, whole
from otspec.verification.rules.nested.sharing import PLAIN, refine

BRANCHING = (2, 2)
TARGET = (np.array([0.2, 0.45, 0.35]), np.array([0.3, 0.3, 0.4]))
DRAFT = (np.array([0.4, 0.4, 0.2]), np.array([0.5, 0.3, 0.2]))
NODE = 1
"""The first token of the node's prefix."""


class Node(NamedTuple):
    """A prefix of one token, with b children on a slot, at points of its children's coordinate s."""

    s: FloatArray
    """Shape (points,): middles of cells of equal length."""
    winner: FloatArray
    """Shape (points,): b s^(b-1) w(s^b), of mean 1."""
    winner_above: FloatArray
    """Shape (points,): w at t = the same numbers, of mean 1."""
    shares: FloatArray
    """Shape (V, points): q(y) k_y(s); columns sum to 1."""
    proposal: FloatArray
    """Shape (V,): g(y), as verification uses it."""
    places: FloatArray
    """Shape (V + 1,): where the places of the children, in ascending order of p/q, begin and end."""


def node(points: int = 6000) -> Node:
    """The node of the picture."""
    first, second = BRANCHING
    counts = np.eye(first)[-1]
    root = refine(TARGET[0], DRAFT[0], counts, whole(), 1.0, PLAIN)
    label = label_of(owned_by(root, NODE), root, whole())
    places = refine(TARGET[1], DRAFT[1], counts, branch(label, second), 1.0, PLAIN)

    ends = np.cumsum(label.share) / label.share.sum()
    starts = np.append(0.0, ends[:-1])

    def winner(t: FloatArray) -> FloatArray:
        piece = np.minimum(np.searchsorted(ends, t), ends.size - 1)
        inside = (t - starts[piece]) / (ends - starts)[piece]
        u = (label.low[0, piece] + inside * label.length[0, piece]) * label.scale
        return first * u ** (first - 1)

    s = (np.arange(points) + 0.5) / points
    above, below = winner(s), second * s ** (second - 1) * winner(s**second)
    owned = np.zeros((DRAFT[1].size, places.size.size))
    for token in range(DRAFT[1].size):
        mine = owned_by(places, token)
        owned[token, mine.rank] = mine.amount
    borders = np.append(0.0, np.cumsum(places.size))
    place = np.minimum(np.searchsorted(borders[1:], s), places.size.size - 1)
    shares = (owned / places.size)[:, place]
    return Node(s, below / below.mean(), above / above.mean(), shares, places.proposal, borders)


def draw() -> Picture:
    """The winner's density at the node, carried from t to s; who owns s; and the winner's density at the children."""
    found, b = node(1500), BRANCHING[1]
    styles = {
        f"y = {token}: p {TARGET[1][token]:.2f}, q {q:.2f}, g {found.proposal[token]:.2f}": Look(hue, MARKERS[0])
        for token, (q, hue) in enumerate(zip(DRAFT[1], HUES, strict=False))
    }
    s, tops = found.s, np.vstack([np.zeros(found.s.size), np.cumsum(found.shares, axis=0)])
    own, child = Axis("t: the node's own coordinate", ends=(0, 1)), Axis("s: a child's label", ends=(0, 1))
    above = Chart("w(t): the winner at the node", [], own, Axis("density", zero=True), curve(s, found.winner_above))
    power = Chart(f"t = s^{b}: from the largest child to the node", [], child, Axis("t", ends=(0, 1)), curve(s, s**b))
    for place in found.places[1:-1]:
        power += curve([place, place, 0], [0, place**b, place**b], GREY, dash=(4, 3), width=1)
    shares, worth = (
        [row for at, name in enumerate(styles) for row in between(name, s, height * tops[at], height * tops[at + 1])]
        for height in (np.ones(s.size), found.winner)
    )
    winner = Chart(f"b s^(b-1) w(s^b), b = {b}: the winner, by owner", [], child, Axis("density", zero=True), [])
    winner += areas(worth, styles, opacity=0.6) + curve(s, found.winner)
    owners = Chart("owners of s", [], child, Axis("share of s", ends=(0, 1), ticks=(0, 0.5, 1)), areas(shares, styles))
    below = Axis("t_y = T_y(s): each child's own coordinate", ends=(0, 1))
    children = Chart("w_y(t_y): the winner below each child", [], below, Axis("density", zero=True), [])
    for share, look in zip(found.shares, styles.values(), strict=True):
        density = found.winner / (share * found.winner).sum() * share.sum()
        children += curve((np.cumsum(share) / share.sum())[share > 0], density[share > 0], look.hue)
    return picture([above, power, winner, owners, children], styles)
