"""Known bugs: those that draws can see are flagged by few, by enumeration all; their correct counterparts pass."""

import itertools

import numpy as np
import pytest

import otspec
from otspec import AuditVerdict
from otspec.paths import Hierarchical, synthetic
from otspec.proofs_check.own.released import ReleasedHierarchical
from tests.auditing.known_bugs import (
    KNOWN_BUGS,
    KnownBug,
    coarse_race,
    coarse_race_law,
    tail_instance,
)
from tests.each import each

COARSE = 0.3
"""A resolution that takes a few thousand draws."""


@pytest.mark.parametrize("bug", [one for one in KNOWN_BUGS if one.seen_by_draws], ids=lambda one: one.name)
def test_what_can_be_seen_by_draws_is_flagged(bug: KnownBug) -> None:
    audit = bug.broken.drawn(budget=60_000)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert any(test.rejected for test in audit.outcome.tests)


@pytest.mark.parametrize("bug", [one for one in KNOWN_BUGS if one.broken.exact is not None], ids=lambda one: one.name)
def test_by_enumeration_all_are_flagged_and_their_counterparts_pass(bug: KnownBug) -> None:
    assert bug.broken.exact is not None
    assert bug.correct.exact is not None
    assert bug.broken.exact().verdict is AuditVerdict.NOT_LOSSLESS
    counterpart = bug.correct.exact()
    assert counterpart.verdict is AuditVerdict.LOSSLESS
    assert max(one.tv for one in counterpart.instances) <= 1e-12


@pytest.mark.parametrize("bug", [one for one in KNOWN_BUGS if one.correct.exact is None], ids=lambda one: one.name)
def test_correct_counterparts_that_are_drawn_pass(bug: KnownBug) -> None:
    assert bug.correct.drawn(resolution=COARSE).verdict is AuditVerdict.LOSSLESS


def test_what_draws_do_not_see_is_small_on_the_default_instances() -> None:
    """bfloat16 moves the output by less than the resolution, so that a sampled audit may vouch for it."""
    rounded = next(one for one in KNOWN_BUGS if "bfloat16" in one.name)
    assert not rounded.seen_by_draws
    assert rounded.broken.exact is not None
    assert 1e-4 < max(one.tv for one in rounded.broken.exact().instances) < 0.05


@each(bits=range(2, 5))
def test_the_law_of_a_coarse_race_is_that_of_all_uniforms(bits: int) -> None:
    p, q = tail_instance(2, 1.3)
    grid = (np.arange(1 << bits) + 0.5) / (1 << bits)
    law = np.zeros(3)
    for uniforms in itertools.product(grid, repeat=3):
        law[np.argmin(-np.log(uniforms) / p)] += len(grid) ** -3.0
    found = coarse_race_law(bits)(p, q, np.array([0]))
    np.testing.assert_allclose(found, [law[0], law[1:].mean(), law[1:].mean()], atol=1e-12)  # argmin favours the first


def test_a_race_of_few_bits_is_seen_on_a_tail() -> None:
    pairs = [tail_instance(400, 9.0)]
    assert otspec.audit(coarse_race(10), n=1, instances=pairs).verdict is AuditVerdict.NOT_LOSSLESS
    law = coarse_race_law(10)(*pairs[0], np.array([0]))
    assert law[0] > pairs[0][0][0]  # what the tail does not get


def test_the_released_last_step_accepts_more_than_can_be() -> None:
    """Against both the paper's own definition and the bound."""
    model = synthetic("tiny", 2, 1)
    found = [
        otspec.audit_paths(rule, 1, 3, models=[model]).instances[0] for rule in (ReleasedHierarchical(), Hierarchical())
    ]
    assert found[0].membership > found[1].membership + 1e-3
    assert found[0].tv > 1e-3
    assert found[1].tv <= 1e-12
    assert found[1].excess <= 1e-7
