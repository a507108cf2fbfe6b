"""The settings of decoding: each is spelled once, and known wherever it can be passed."""

import inspect
from dataclasses import fields
from typing import get_args

import numpy as np

from otspec.auditing.settings import AuditSettings
from otspec.cli.bench_decode import bench_decode
from otspec.cli.decode import decode
from otspec.cli.groups import KINDS, Of
from otspec.decode import DraftOptions, DraftSettings, RunOptions, RunSettings
from otspec.decode.settings import GenerateOptions


def test_typed_keywords_are_the_fields() -> None:
    drafts, run = ({one.name for one in fields(kind)} for kind in (DraftSettings, RunSettings))
    assert set(DraftOptions.__annotations__) == drafts
    assert run < set(RunOptions.__annotations__)
    assert set(GenerateOptions.__annotations__) == drafts | set(RunOptions.__annotations__)


def test_every_setting_that_is_an_option_is_one_of_the_command() -> None:
    offered = {one.name for one in fields(DraftSettings) if one.metadata.get("help")}
    assert offered <= set(inspect.signature(decode).parameters)
    assert offered - {"branching", "tree", "law"} <= set(inspect.signature(bench_decode).parameters)
    assert {one.metadata["kind"] for one in fields(DraftSettings) if one.metadata} <= set(KINDS)


def test_options_say_what_they_take() -> None:
    options = {one.name: one.annotation for one in Of(DraftSettings).parameters()}
    assert get_args(get_args(options["depth"])[0]) == (int, type(None))
    assert get_args(options["law"])[0] == str | None  # what is not given is left out
    assert {one.name for one in Of(AuditSettings, leave_out=("seed",)).parameters()} == {
        one.name for one in fields(AuditSettings) if one.metadata and one.name != "seed"
    }


def test_a_seed_of_numpy_is_one() -> None:
    assert RunSettings.split({"seed": np.int64(3)})[0].seed == 3
