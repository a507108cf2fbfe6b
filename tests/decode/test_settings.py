"""The settings of decoding: each is said once, and known wherever it can be passed."""

import inspect
from dataclasses import fields

import numpy as np
import pytest

from otspec import ProblemError
from otspec.cli.bench_decode import bench_decode
from otspec.cli.decode import decode
from otspec.cli.groups import READ, OptionsFrom
from otspec.decode import DraftOptions, DraftSettings, RunOptions, RunSettings
from otspec.decode.settings import CONFLICTS, GenerateOptions
from otspec.settings import docstrings_of

OBJECTS = {"draft_tokens", "draft_kernel", "draft_shortlist"}
"""What no text spells."""
PASSED: dict[str, object] = {"tree": "0", "branching": (1,), "paths": 1, "depth": 1, "draft_confidence": 0.5}
PASSED |= {"draft_kernel": np.eye(2), "draft_tokens": [0], "draft_shortlist": object()}
"""A value of each setting that contradicts another."""


def test_typed_keywords_are_the_fields() -> None:
    drafts, run = ({one.name for one in fields(kind)} for kind in (DraftSettings, RunSettings))
    assert set(DraftOptions.__annotations__) == drafts
    assert run < set(RunOptions.__annotations__)
    assert set(GenerateOptions.__annotations__) == drafts | set(RunOptions.__annotations__)


@pytest.mark.parametrize("settings", [DraftSettings, RunSettings])
def test_every_setting_says_what_it_does(settings: type) -> None:
    assert list(docstrings_of(settings)) == [one.name for one in fields(settings)]


def test_every_setting_that_text_spells_is_an_option_of_the_commands() -> None:
    offered = {one.name for one in fields(DraftSettings)} - OBJECTS
    assert {one.name for one in OptionsFrom(DraftSettings).parameters()} == offered
    assert offered <= set(inspect.signature(decode).parameters)
    assert offered - {"branching", "tree", "law"} <= set(inspect.signature(bench_decode).parameters)
    assert set(READ) <= offered


@pytest.mark.parametrize("row", CONFLICTS, ids=lambda row: f"{row.setting}, {row.other}")
def test_settings_that_contradict_each_other_are_named_with_the_rule(row: tuple[str, ...]) -> None:
    setting, other, rule, way_out = row
    with pytest.raises(ProblemError) as error:
        DraftSettings(**{name: PASSED[name] for name in (setting, other)})  # type: ignore[arg-type]
    assert str(error.value) == f"{setting} and {other}: {rule}; {way_out}"
    for name in (setting, other):
        assert DraftSettings(**{name: PASSED[name]}).changed.keys() == {name}  # type: ignore[arg-type]
