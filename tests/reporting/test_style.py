"""One colour for one thing, in all pictures."""

import otspec
from otspec.extras import installed
from otspec.reporting.style import KNOWN, hue_of, known_as, styles_of


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
