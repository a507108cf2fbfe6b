"""How charts look, on pages and in pictures: a solver, rule or method has one colour and one marker everywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

HUES = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
}
"""The palette of Okabe and Ito, distinct in all kinds of colour vision, less its yellow, which vanishes on white."""


class Theme(NamedTuple):
    """What pictures are drawn on, and with, beside the hues."""

    paper: str
    ink: str
    """Text, and what is drawn in black on white."""
    grey: str
    """What stands back: axes, baselines."""
    faint: str
    """Grids and borders."""


RAMP = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
"""The colours of an ordered series, dark to light: viridis, in equal steps."""
RAMP_ENDS = (0.05, 0.85)
"""The part of `RAMP` that is used: what is lighter vanishes on white paper."""

LIGHT = Theme("#ffffff", "#22272e", "#6e7781", "#dfe3e8")
DARK = Theme("#15181c", "#e6e8eb", "#bcb4ac", "#30363d")


class Marker(NamedTuple):
    """A marker by its name in Vega, and as characters, filled and hollow."""

    vega: str
    glyph: str
    hollow: str


MARKERS = (
    Marker("circle", "●", "○"),
    Marker("square", "■", "□"),
    Marker("diamond", "◆", "◇"),
    Marker("triangle-up", "▲", "△"),
    Marker("triangle-down", "▼", "▽"),
    Marker("cross", "✚", "✛"),
)
DASHES = ((), (5.0, 2.0), (1.5, 1.5), (6.0, 1.5, 1.5, 1.5))
"""Lengths drawn and left out, in widths of the line: nothing left out, dashes, dots, both."""

_DOT, _SQUARE, _DIAMOND, _UP, _DOWN, _CROSS = range(len(MARKERS))
INK, GREY = "ink", "grey"
"""The two colours that a theme sets."""

KNOWN: dict[str, tuple[str, int]] = {
    # solvers
    "interval": ("blue", _DOT),
    "global resolution": ("orange", _DOT),
    "max flow": ("vermillion", _DOT),
    "slackness": ("sky", _DOT),
    "kseq": ("green", _DOT),
    "rrs": ("purple", _DOT),
    "lp": (INK, _DOT),
    "canonical": (GREY, _SQUARE),
    "submodular": ("purple", _DIAMOND),
    "distinct drafters": ("orange", _DIAMOND),
    "closed form": ("blue", _DIAMOND),
    "naive": (GREY, _UP),
    "rsd": ("purple", _UP),
    "spechub": ("sky", _UP),
    # joint rules of several paths
    "nested": ("vermillion", _SQUARE),
    "block": ("orange", _SQUARE),
    "traversal": ("sky", _SQUARE),
    "greedy multi path": ("purple", _SQUARE),
    "layer": (INK, _UP),
    "match": ("blue", _DOWN),
    # other ways to decode
    "vanilla": (GREY, _DOT),
    "generate": (INK, _SQUARE),
    "single": (GREY, _CROSS),
    "assisted": (INK, _DIAMOND),
    "assisted lookup": (INK, _CROSS),
    "prompt lookup": (GREY, _DIAMOND),
    "lookahead": (INK, _DOWN),
    "dynamic tree": ("blue", _CROSS),
    "typical": ("purple", _DOWN),
    "greedy lenience": ("orange", _DOWN),
    # draft laws
    "i.i.d.": ("blue", _DOT),
    "iid": ("blue", _DOT),
    "greedy": ("orange", _DOT),
    "top n": ("vermillion", _DOT),
    "without replacement": ("purple", _CROSS),  # the law and its solver
    "hub pairs": ("sky", _DOT),
    # drafters of a part of the vocabulary
    "as it is": (INK, _DOT),
    "whole head": (GREY, _DOT),
    "uniform": (GREY, _DOWN),
    "masked only": ("orange", _DOT),
    "tli": ("green", _CROSS),
    "rdk": ("blue", _SQUARE),
    "rdk, eq. (3)": ("vermillion", _DOT),
    "rdk, probabilities": ("purple", _UP),
    "rdk, counts": ("sky", _DOWN),
    "fr": ("blue", _DOT),
    "fr spec": ("blue", _DOT),
    "pa fr": ("orange", _DOT),
    "dynaspec": ("green", _DOT),
    # draft models that learn from their target
    "pretrained": (INK, _DOT),
    "distilled": ("sky", _SQUARE),
    "sd2": ("vermillion", _DIAMOND),
    "eagle": ("green", _UP),
    "eagle1": ("blue", _DOWN),
    "mlp": ("orange", _CROSS),
    "medusa": ("purple", _SQUARE),
    # where the time goes
    "prompt": (GREY, _DOT),
    "draft": ("orange", _DOT),
    "target": ("blue", _DOT),
    "verification": ("vermillion", _DOT),
    "rest": ("sky", _DOT),
}
"""Colour and marker by name, those that are drawn side by side apart.  Another name gets what its checksum selects."""


class Style(NamedTuple):
    """How a series is drawn."""

    hue: str
    """A key of `HUES`, `INK` or `GREY`, or a colour as ``#rrggbb``."""
    marker: Marker
    dash: tuple[float, ...] = ()
    hollow: bool = False
    """Whether its points are drawn hollow, and no line joins them: what others have printed."""

    def colour(self, theme: Theme = LIGHT) -> str:
        """The colour on the paper of a theme."""
        return colour(self.hue, theme)

    @property
    def strokes(self) -> list[float]:
        """Pixels of a line that are drawn and left out, as Vega has them."""
        return [2 * length for length in self.dash] or [1, 0]

    def fill(self) -> str:
        """The colour of a bar on white paper: paler where a line of this style has dashes."""
        return paler(self.hue, (1.0, 0.6, 0.4, 0.25)[DASHES.index(self.dash)])

    @property
    def glyph(self) -> str:
        """The marker as a character."""
        return self.marker.hollow if self.hollow else self.marker.glyph


def colour(hue: str, theme: Theme = LIGHT) -> str:
    """A hue, or ink or grey, on the paper of a theme; a colour as it is."""
    return hue if hue.startswith("#") else {**HUES, INK: theme.ink, GREY: theme.grey}[hue]


def ordered(labels: Sequence[str]) -> dict[str, Style]:
    """How an ordered series is drawn, as over k, n or temperatures: from dark to light, neighbours in other dashes."""
    first, last = RAMP_ENDS
    step = (last - first) / max(len(labels) - 1, 1)
    return {
        label: Style(_along(RAMP, first + at * step), MARKERS[_DOT], DASHES[at % 2]) for at, label in enumerate(labels)
    }


def paler(hue: str, share: float) -> str:
    """A colour with so much of its hue, and white paper for the rest."""
    return _along((LIGHT.paper, colour(hue)), share)


def _along(shades: Sequence[str], share: float) -> str:
    """The colour at a share, in [0, 1], of the way from the first shade to the last."""
    place = share * (len(shades) - 1)
    at = min(math.floor(place), len(shades) - 2)
    part = place - at
    mixed = ((1 - part) * one + part * other for one, other in zip(_rgb(shades[at]), _rgb(shades[at + 1]), strict=True))
    return "#" + "".join(f"{round(one):02x}" for one in mixed)


def _rgb(shade: str) -> list[int]:
    return [int(shade[at : at + 2], 16) for at in (1, 3, 5)]


def hue_of(label: str) -> str:
    """The one colour of what a label names, see `known_as`: a key of `HUES`, or `INK` or `GREY`."""
    return _preferred(known_as(label))[0]


def known_as(label: str) -> str:
    """The name in a label, less settings, notes and fallbacks; its letters small, its words parted by spaces.

    >>> known_as("max_flow:engine=igraph"), known_as("token-wise interval"), known_as("block (one path), K = 1, L = 8")
    ('max flow', 'interval', 'block')
    """
    whole = label.replace("_", " ").replace("-", " ").strip().lower()
    for cut in (whole, whole.partition(" (")[0], ", ".join(whole.split(", ")[:2])):
        if cut in KNOWN:
            return cut
    name = whole.removeprefix("token wise ").partition(" (")[0].partition("/")[0].partition(", ")[0]
    module, _, rest = name.partition(":")
    return f"{module}:{rest.partition(':')[0]}" if "." in module and rest else module


def styles_of(labels: Iterable[str]) -> dict[str, Style]:
    """How the series of a picture are drawn, by label.

    Series of one name (such as a solver with several settings) have one colour, and differ in dashes and markers.
    """
    found: dict[str, Style] = {}
    names: Counter[str] = Counter()
    taken: set[tuple[str, int]] = set()
    for label in labels:
        name = known_as(label)
        hue, first = _preferred(name)
        markers = [(first + step) % len(MARKERS) for step in range(len(MARKERS))]
        marker = next((one for one in markers if (hue, one) not in taken), first)
        taken.add((hue, marker))
        found[label] = Style(hue, MARKERS[marker], DASHES[names[name] % len(DASHES)])
        names[name] += 1
    return found


def _preferred(name: str) -> tuple[str, int]:
    if name in KNOWN:
        return KNOWN[name]
    number = crc32(name.encode())  # the same in every process, as hash() is not
    return list(HUES)[number % len(HUES)], number // len(HUES) % len(MARKERS)
