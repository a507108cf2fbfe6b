"""Examples in docstrings print what they say."""

from __future__ import annotations

import pytest

import otspec.engine_audit
from otspec.engine_audit.adapters.function import Function
from otspec.testing import assert_lossless
from tests.examples import has_example, told_by

PUBLIC = {name: getattr(otspec.engine_audit, name) for name in otspec.engine_audit.__all__}
PUBLIC |= {"Function": Function, "assert_lossless": assert_lossless}
SHOWN = [name for name, found in PUBLIC.items() if has_example(found)]


def test_what_is_called_first_has_an_example() -> None:
    assert {"audit_engine", "audit_texts", "assert_lossless", "Function", "Sampling", "EngineAudit"} <= set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_prints_what_it_says(name: str) -> None:
    assert told_by(PUBLIC[name]) == ""
