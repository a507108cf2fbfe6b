"""One colour for one thing, in all pictures, told apart by all kinds of colour vision."""

import itertools

import numpy as np
import pytest

import otspec
from otspec.extras import installed
from otspec.laws import FloatArray
from otspec.reporting.style import (
    DARK,
    GREY,
    HUES,
    INK,
    KNOWN,
    LIGHT,
    Theme,
    colour,
    hue_of,
    known_as,
    ordered,
    styles_of,
)

VISIONS = {
    "ordinary": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What linear red, green and blue become: Machado, Oliveira and Fernandes (2009), severity 1."""


def linear(shade: str) -> FloatArray:
    parts = np.array([int(shade[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: FloatArray) -> FloatArray:
    """CIELAB, white of D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb.clip(0, 1)
    x, y, z = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_no_two_colours_look_alike(vision: str, theme: Theme) -> None:
    seen = {hue: lab(np.asarray(VISIONS[vision]) @ linear(colour(hue, theme))) for hue in (*HUES, INK, GREY)}
    apart = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in itertools.combinations(seen, 2)}
    nearest = min(apart, key=apart.__getitem__)
    assert apart[nearest] > 10, (nearest, apart[nearest])  # 2 is a just noticeable difference


def _own() -> list[str]:
    """Solvers but those that other tests have registered in this process."""
    return [info.name for info in otspec.available() if not info.name.startswith("test_")]


def test_everything_that_is_measured_has_a_colour_of_its_own_choosing() -> None:
    names = _own()
    if installed("torch") and installed("transformers"):
        from otspec.decode.base.metrics import Metrics
        from otspec.decode.methods.catalogue import METHODS
        from otspec.verification.rules.catalogue import JOINT

        names += [*JOINT, *(name for name in METHODS if name != "multi-draft"), *Metrics().seconds]
    assert [name for name in names if known_as(name) not in KNOWN] == []


def test_a_name_keeps_its_colour_with_settings_notes_and_company() -> None:
    for label in ("max_flow", "max_flow:engine=igraph", "max_flow (lossy)", "max_flow/kseq", "token-wise max_flow"):
        assert hue_of(label) == "vermillion", label
    assert hue_of("block, K = 1, L = 8") == hue_of("block (one path)") == hue_of("block")
    assert hue_of("greedy_multi_path") == hue_of("greedy multi-path")
    assert hue_of("RDK, eq. (3)") != hue_of("RDK, logits, tau = 1") == hue_of("RDK")
    assert known_as("my_package.rules:First:tol=1e-9") == "my package.rules:first"
    assert known_as("my_package.rules:Second") == "my package.rules:second"
    everybody = styles_of(_own())
    for name, style in everybody.items():
        assert styles_of([name])[name] == style, name

    # Another name has the same colour in every process.
    assert [hue_of(name) for name in ("mine", "yours", "theirs")] == ["orange", "sky", "green"]


def test_series_of_a_picture_differ_in_more_than_their_dashes() -> None:
    spellings = [spelling for info in otspec.available() for spelling in (info.name, *info.variants)]
    found = styles_of([*spellings, "mine", "yours"])
    assert len({(style.hue, style.marker) for style in found.values()}) == len(found)
    assert len({found["max_flow"].dash, found["max_flow:engine=igraph"].dash}) == 2


def test_an_ordered_series_runs_from_dark_to_light() -> None:
    found = list(ordered(["a", "b", "c", "d", "e"]).values())
    light = [float(linear(style.colour()) @ [0.2126, 0.7152, 0.0722]) for style in found]
    assert light == sorted(light)
    assert all(one.dash != other.dash for one, other in itertools.pairwise(found))
    assert max(light) < 0.7 < 1.0  # none vanishes on white paper
    assert ordered(["alone"])["alone"].colour().startswith("#")
