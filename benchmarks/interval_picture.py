"""Draw the places and exchanges of a small example: ``python -m benchmarks.interval_picture docs/interval.png``."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import otspec
from otspec.kernels.interval.picking import contribution_to
from otspec.laws import FloatArray
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from otspec.reporting.plotting import picture
from otspec.reporting.style import HUES, LIGHT
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


def draw(path: Path) -> None:
    """Places with their owners below, what they are worth above."""
    plan = otspec.solve(otspec.Problem(TARGET, IID(DRAFT, N)), "interval").plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, PlaceRule)
    places = plan.rule.places
    size, order = places.size, places.order
    ends = np.append(0.0, np.cumsum(size))
    shares = owners(plan.rule)
    colours = list(HUES.values())
    with picture(path, 8.5, 6) as figure:
        (worth, strip) = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        u = np.linspace(0, 1, 300)
        worth.plot(u, N * u ** (N - 1), color=LIGHT.grey, label=r"$n u^{n-1}$")
        for j, token in enumerate(order):
            span = ends[j : j + 2]
            density = (span[1] ** N - span[0] ** N) / size[j]
            label = {"label": "density of the place"} if j == 0 else {}
            worth.plot(span, [density] * 2, color=LIGHT.ink, linewidth=1.5, **label)
            label = {"label": "g/q of its token"} if j == 0 else {}
            worth.plot(
                span, [plan.proposal[token] / size[j]] * 2, color=colours[token], linewidth=4, alpha=0.8, **label
            )
            base = 0.0
            for rank in [j, *(other for other in range(order.size) if other != j)]:
                share = shares[j, rank]
                strip.bar(
                    span[0],
                    share,
                    size[j],
                    base,
                    align="edge",
                    color=colours[order[rank]],
                    edgecolor=LIGHT.paper,
                    lw=0.6,
                )
                base += share
            strip.text(span.mean(), 1.03, f"token {token}", ha="center", va="bottom")
            if places.share[j] > 0:
                strip.plot(span, [shares[j, j]] * 2, color=LIGHT.ink, linewidth=0.8, linestyle=":")
        for h in range(places.contributed.size):
            members = [rank for rank in range(order.size) if contribution_to(places, h, rank) > 0]
            worth.plot(
                [ends[members[0]], ends[members[-1] + 1]],
                [places.threshold[h]] * 2,
                color=LIGHT.ink,
                linestyle="--",
                lw=1,
                label="threshold of the exchange",
            )
        for cut in ends[places.block]:
            for axes in (worth, strip):
                axes.axvline(cut, color=LIGHT.ink, linewidth=1.2)
        worth.set_ylabel("mean of $n u^{n-1}$")
        worth.set_xlim(0, 1)
        worth.set_ylim(0)
        worth.legend(fontsize=9, loc="upper left")
        strip.set_ylim(0, 1.15)
        strip.set_yticks([0, 0.5, 1])
        strip.set_ylabel("owners of the place")
        strip.set_xlabel("u: places in ascending order of p/q, sizes q; upright lines part the blocks")


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description="Places and exchanges of a small example.")
    parser.add_argument("path", type=Path)
    draw(parser.parse_args().path)


if __name__ == "__main__":
    main()
