"""Draw the nested labels of a small model: ``python -m benchmarks.paths_picture docs/nested_labels.png``."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from otspec.laws import FloatArray
from otspec.reporting.plotting import picture
from otspec.reporting.style import HUES, LIGHT
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


def draw(path: Path) -> None:
    """The law of the largest label above, who owns the labels below, level by level."""
    found = owners()
    colours = list(HUES.values())
    u = (np.arange(4000) + 0.5) / 4000
    with picture(path, 8.5, 7) as figure:
        (worth, first, second) = figure.subplots(3, 1, sharex=True, height_ratios=(2, 2, 2))
        worth.plot(u, K * u ** (K - 1), color=LIGHT.ink)
        worth.set_ylabel(r"$K u^{K-1}$: largest label")
        worth.set_ylim(0)
        for axes, length in ((first, 1), (second, 2)):
            base = np.zeros(u.size)
            for prefix, (q, g, label) in found.items():
                if len(prefix) == length:
                    share = density(q, label, u)
                    shade = 0.85 if length == 1 else (0.95, 0.5)[prefix[1]]
                    name = "".join(map(str, prefix))
                    axes.fill_between(
                        u,
                        base,
                        base + share,
                        color=colours[prefix[0]],
                        alpha=shade,
                        linewidth=0,
                        label=f"{name}: q {q:.3f}, g {g:.3f}",
                    )
                    base = base + share
            axes.set_ylim(0, 1)
            axes.set_yticks([0, 0.5, 1])
            axes.set_ylabel(f"owners, level {length}")
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        second.set_xlim(0, 1)
        second.set_xlabel("label u")


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description="Nested labels of a small model.")
    parser.add_argument("path", type=Path)
    draw(parser.parse_args().path)


if __name__ == "__main__":
    main()
