"""Draw what a node with several children owns: ``python -m benchmarks.branching_picture docs/branching_node.png``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from otspec.laws import FloatArray
from otspec.reporting.plotting import picture
from otspec.reporting.style import HUES, LIGHT
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


def draw(path: Path) -> None:
    """The winner's density at the node, carried from t to s; who owns s; and the winner's density at the children."""
    found, b = node(), BRANCHING[1]
    colours = list(HUES.values())
    with picture(path, 10, 7) as figure:
        grid = figure.add_gridspec(3, 3, height_ratios=(3, 2.2, 1.4), width_ratios=(1.2, 3, 2.4))
        above, power, key, worth, owners, children = map(
            figure.add_subplot, (grid[0, 0], grid[0, 1], grid[0, 2], grid[1, 1], grid[2, 1], grid[1:, 2])
        )
        above.plot(found.winner_above, found.s, color=LIGHT.ink)
        above.set_xlim(found.winner_above.max() * 1.1, 0)
        above.set_xlabel("w(t): the winner")
        above.set_ylabel("t: the node's own coordinate")
        power.plot(found.s, found.s**b, color=LIGHT.ink)
        power.set_title(f"t = $s^b$, b = {b}: from the largest child to the node")
        for s in found.places[1:-1]:
            power.plot([s, s, 0], [0, s**b, s**b], color=LIGHT.grey, linewidth=0.8, linestyle="--")
        worth.plot(found.s, found.winner, color=LIGHT.ink)
        worth.set_ylabel(r"$b\,s^{b-1}\,w(s^b)$: the winner")
        base = np.zeros(found.s.size)
        for token, share in enumerate(found.shares):
            q, g = DRAFT[1][token], found.proposal[token]
            worth.fill_between(
                found.s,
                found.winner * base,
                found.winner * (base + share),
                color=colours[token],
                alpha=0.6,
                linewidth=0,
            )
            owners.fill_between(found.s, base, base + share, color=colours[token], alpha=0.85, linewidth=0)
            base = base + share
            children.plot(
                np.cumsum(share) / share.sum(),
                found.winner / (share * found.winner).sum() * share.sum(),
                color=colours[token],
                label=f"y = {token}: p {TARGET[1][token]:.2f}, q {q:.2f}, g {g:.2f}",
            )
        owners.set_ylabel("owners of s")
        owners.set_xlabel("s: a child's label among what the node owns")
        children.set_xlabel(r"$t_y = T_y(s)$: each child's own coordinate")
        children.set_title(r"$w_y(t_y)$: the winner below each child")
        key.axis("off")
        key.legend(*children.get_legend_handles_labels(), loc="center", frameon=False)
        for axis in (power, worth, owners, children):
            axis.set_xlim(0, 1)
        for axis in (above, power, owners):
            axis.set_ylim(0, 1)
        for axis in (worth, children):
            axis.set_ylim(0)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description="The labels of a node with several children.")
    parser.add_argument("path", type=Path)
    draw(parser.parse_args().path)


if __name__ == "__main__":
    main()
