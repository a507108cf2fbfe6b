"""The settings of audits are spelled in one class: keywords, options of the command and what a result repeats."""

import dataclasses
import inspect
import pickle
from typing import get_args, get_type_hints

import pytest

import otspec
from otspec import ProblemError
from otspec.auditing import AuditOptions, AuditSettings
from otspec.cli.audit import audit as command
from otspec.paths import Block, synthetic

FIELDS = {one.name: one for one in dataclasses.fields(AuditSettings)}


def test_keywords_are_the_fields_and_have_their_types() -> None:
    types = get_type_hints(AuditSettings)
    assert types.pop("n") is int
    assert get_type_hints(AuditOptions) == types


def test_options_of_the_command_are_the_fields_with_a_help_text() -> None:
    parameters = inspect.signature(command).parameters
    shown = [name for name, one in FIELDS.items() if "help" in one.metadata]
    assert shown == list(parameters)[-len(shown) :]
    assert set(FIELDS) - set(shown) == {"n"}
    for name in shown:
        option = get_args(parameters[name].annotation)[1]
        assert parameters[name].default == FIELDS[name].default
        assert option.help == FIELDS[name].metadata["help"]
        if name == "seed":
            assert option.min == 0


def test_both_functions_take_the_same_settings() -> None:
    given: AuditOptions = {"seed": 3, "alpha": 0.01, "resolution": 0.3, "method": "sampled", "pairs": False}
    position = otspec.audit(otspec.verify, n=2, **given)
    tree = otspec.audit_paths(Block(), 2, 1, models=[synthetic("tiny", 2, 0)], **given)
    for audit in (position, tree):
        assert audit.settings == AuditSettings(2, **given)
        assert [test.name for test in audit.outcome.tests] == ["law"]
        assert audit.outcome.method == "sampled"
        assert [audit.as_dict()[name] for name in ("seed", "alpha", "resolution")] == [3, 0.01, 0.3]


def test_a_result_repeats_what_its_figures_depend_on() -> None:
    data = otspec.audit("kseq", n=2).as_dict()
    settings = ["n", "seed", "alpha", "confidence", "resolution", "tol", "budget", "max_seconds"]
    assert list(data)[: 3 + len(settings)] == ["rule", "form", "drafts", *settings]
    assert data["method"] == "exact"


@pytest.mark.parametrize("call", [otspec.audit, otspec.audit_paths])
def test_an_unknown_keyword_is_an_error_that_names_the_settings(call: object) -> None:
    assert callable(call)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'bugdet'; the settings are seed, alpha"):
        call("naive", bugdet=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'count_of_paths'"):
        call("naive", count_of_paths=3)


def test_the_drafts_of_a_tree_are_no_setting_of_the_call() -> None:
    with pytest.raises(TypeError, match=r"audit_paths\(\) got an unexpected keyword argument 'n'"):
        otspec.audit_paths(Block(), n=3)  # type: ignore[call-arg]


def test_a_result_survives_a_pickle_whatever_progress_was() -> None:
    audit = otspec.audit("kseq", n=2, progress=lambda done, most: None)
    again = pickle.loads(pickle.dumps(audit))
    assert str(again) == str(audit)
    assert again.settings == audit.settings


def test_settings_are_frozen_and_checked() -> None:
    settings = AuditSettings(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.alpha = 0.5  # type: ignore[misc]
    with pytest.raises(ProblemError, match="budget is 0; pass an integer >= 1"):
        dataclasses.replace(settings, budget=0)
