"""Known bugs: those that draws can see are flagged by few, by enumeration all; their correct counterparts pass."""

from functools import cache

import pytest

from otspec import Audit, AuditVerdict
from tests.auditing.known_bugs import KNOWN_BUGS, KnownBug, Run

COARSE = 0.3
"""A resolution that takes a few thousand draws."""


@cache
def by_enumeration(exact: Run | None) -> Audit:
    """Several bugs have one counterpart."""
    assert exact is not None
    return exact()


@pytest.mark.parametrize("bug", [one for one in KNOWN_BUGS if one.seen_by_draws], ids=lambda one: one.name)
def test_what_can_be_seen_by_draws_is_flagged(bug: KnownBug) -> None:
    audit = bug.broken.drawn(budget=60_000)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert any(test.rejected for test in audit.outcome.tests)


@pytest.mark.parametrize("bug", [one for one in KNOWN_BUGS if one.broken.exact is not None], ids=lambda one: one.name)
def test_by_enumeration_all_are_flagged_and_their_counterparts_pass(bug: KnownBug) -> None:
    assert by_enumeration(bug.broken.exact).verdict is AuditVerdict.NOT_LOSSLESS
    counterpart = by_enumeration(bug.correct.exact)
    assert counterpart.verdict is AuditVerdict.LOSSLESS
    assert max(one.tv for one in counterpart.instances) <= 1e-12


@pytest.mark.parametrize("bug", [one for one in KNOWN_BUGS if one.correct.exact is None], ids=lambda one: one.name)
def test_correct_counterparts_that_are_drawn_pass(bug: KnownBug) -> None:
    assert bug.correct.drawn(resolution=COARSE).verdict is AuditVerdict.LOSSLESS
