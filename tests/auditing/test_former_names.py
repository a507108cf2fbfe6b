"""The former names of known bugs and lossy rules work, and say what they are called now."""

from __future__ import annotations

import importlib

import pytest

from otspec.auditing.known_bugs import KNOWN_BUGS

MOVED = {
    "museum": (
        *("GumbelPair", "ReleasedHierarchical", "TAIL", "always_accepts", "coarse_race", "coarse_race_law"),
        *("drawn_from", "greedy_silently", "in_bfloat16", "tail_instance", "token_wise_law"),
    ),
    "prices": ("LOSSY", "MAX_TEXTS", "lenient", "typical"),
}
RENAMED = {
    "museum": {"EXHIBITS": "KNOWN_BUGS", "Exhibit": "KnownBug", "Hung": "Audits", "SOUND_SINGLE": "CORRECT_SINGLE"},
    "prices": {"Lossy": "LossyRule", "Price": "LossyFigures", "price": "measure_texts", "token_price": "measure_token"},
}


@pytest.mark.parametrize(("former", "present"), [("museum", "known_bugs"), ("prices", "lossy_rules")])
def test_a_former_module_gives_the_present_objects_with_a_warning(former: str, present: str) -> None:
    old, new = (importlib.import_module(f"otspec.auditing.{name}") for name in (former, present))
    for name, now in (RENAMED[former] | {name: name for name in MOVED[former]}).items():
        with pytest.warns(FutureWarning, match=f"{former}.{name} is now called otspec.auditing.{present}.{now};"):
            assert getattr(old, name) is getattr(new, now)


def test_a_known_bug_knows_its_counterpart_by_the_former_name() -> None:
    with pytest.warns(FutureWarning, match=r"KnownBug.sound is now called KnownBug.correct"):
        assert KNOWN_BUGS[0].sound is KNOWN_BUGS[0].correct
