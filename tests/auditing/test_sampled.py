"""Rules that can only be drawn from: flagged early, passed with an interval, and how often alarms are false."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import otspec
from otspec import AuditVerdict
from otspec.auditing.rules import instances
from otspec.auditing.rules.case import TEXT, Sample, draw_each
from otspec.auditing.rules.position_cases import Drafting, PositionCase
from otspec.auditing.rules.positions import Position
from otspec.auditing.rules.sequential import SequentialAudit
from otspec.auditing.rules.tally import MAX_CELLS, Tally, cells_of
from otspec.auditing.settings import AuditSettings, no_progress
from tests.auditing import decoder_rules as rules
from tests.auditing.decoder_rules import as_sampler
from tests.each import each
from tests.oracles import Floats, Ints

COARSE = 0.2
"""A resolution that takes some 10 000 draws in all."""


def test_one_impossible_token_is_proof() -> None:
    def rule(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        return int(rng.choice(p.size, p=p)) if p.all() or rng.random() < 0.95 else int(p.argmin())

    audit = otspec.audit(rule)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert any("emits tokens of p = 0" in one.message for one in audit.findings)
    assert audit.outcome.tests[0].evidence == np.inf
    assert '"evidence": "inf"' in audit.to_json()  # JSON knows no infinity


def test_more_acceptance_than_the_optimum_is_evidence_by_itself() -> None:
    # Whatever is accepted looks like p here: the output is p, but for the drafts it is told.
    case = Drafting.of("iid", None, None).case(instances.Instance("one", [0.5, 0.5], [0.9, 0.1]), 1)
    tally = Tally(case, simultaneous=False)
    tokens = np.tile([[0, 1]], (200, 1))
    tally.add(Sample(tokens, np.array([0, 400]), None))  # every draft accepted, half of each token
    assert tally.against_law() > 30
    assert tally.law.tolist() == [0.5, 0.5]
    # What may miss at the first look, half of all, is spent in halves: on the hits, and on the distance, which is 0.
    for missed in (0.1 / 2 / 2, 0.1 / 6 / 2):
        tally.update(0.1)
        assert tally.figures is not None
        radii = np.array([tally.figures.membership_error, tally.figures.tv_interval[1] - 0.5 / np.sqrt(400)])
        assert np.exp(-2 * 400 * radii**2) == pytest.approx(missed)


def test_reused_noise_shows_in_pairs_only() -> None:
    rule = as_sampler(rules.rsd)
    audit = otspec.audit(rule, "without_replacement", drafter=rules.ReusedNoise())
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert "consecutive outputs are independent" in audit.reason
    assert any("is noise used twice?" in one.message for one in audit.findings)
    law, _, drafter = audit.outcome.tests
    assert not law.rejected
    assert not drafter.rejected
    fresh = otspec.audit(rule, "without_replacement", drafter=rules.ReusedNoise(refresh=True), resolution=COARSE)
    assert fresh.verdict is AuditVerdict.LOSSLESS
    unseen = otspec.audit(rule, "without_replacement", drafter=rules.ReusedNoise(), pairs=False, budget=3000)
    assert [test.name for test in unseen.outcome.tests] == ["law", "drafter"]


class Late:
    """A lossless rule but for its noise, which comes back so many calls later."""

    def __init__(self, lag: int) -> None:
        self.lag = lag
        self.coins: list[float] = []

    def __call__(self, p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        calls = len(self.coins)
        again = calls // self.lag % 2 == 1
        self.coins.append(self.coins[calls - self.lag] if again else rng.random())
        return rules.draw(p, self.coins[-1])


@each(lag=(1, 2, 3, 4, 6, 13, 64))
def test_noise_that_comes_back_is_seen_at_many_lags(lag: int) -> None:
    audit = otspec.audit(Late(lag))
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert "outputs are independent draws" in audit.reason
    assert audit.outcome.draws < 20_000


def test_a_bias_within_groups_is_seen_and_what_is_known_of_groups_is_said() -> None:
    (large,) = [one for one in instances.to_sample(0, 3, None) if one.name == "heavy tail, V = 1000"]
    cells = cells_of(large.p, large.q)
    first = np.array([np.flatnonzero(cells == cell)[0] for cell in range(cells.max() + 1)])

    def collapsing(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        return int(first[cells[rules.draw(p, rng.random())]])

    audit = otspec.audit(collapsing, instances=[large[1:]])
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert audit.outcome.draws < 5000
    assert (audit.instances[0].tv_interval[0], audit.instances[0].tv_tokens) == (0, 1)  # of groups, and of tokens
    lossless = otspec.audit(as_sampler(rules.naive), instances=[large[1:]], resolution=COARSE)
    assert lossless.verdict is AuditVerdict.LOSSLESS
    assert lossless.instances[0].tv_tokens > COARSE
    assert "; of groups of tokens on 1 of 1 instances, where V > 32: token by token, within " in lossless.reason


@each(pairs=(False, True), drafter=(False, True))
def test_the_alarm_is_split_among_the_tests(pairs: bool, drafter: bool) -> None:
    chosen = (lambda q, n, rng=None, more=None: rng.choice(q.size, n, p=q)) if drafter else None
    audit = otspec.audit(as_sampler(rules.naive), pairs=pairs, drafter=chosen, alpha=0.01, budget=3000)
    tests = audit.outcome.tests
    assert audit.drafts == ("<lambda>, declared iid" if drafter else "iid")
    assert [test.name for test in tests] == ["law", *["pairs"] * pairs, *["drafter"] * drafter]
    assert all(test.threshold == pytest.approx(np.log(len(tests) / 0.01)) for test in tests)


def test_a_drafter_of_another_law_is_found_out_and_need_not_be_a_bias() -> None:
    def truncated(q: Floats, n: int, rng: np.random.Generator) -> Ints:
        return rng.choice(q.size, n, p=rules.top(q, 3))

    naive = as_sampler(rules.naive)
    lossless = otspec.audit(naive, drafter=truncated, resolution=COARSE)
    assert lossless.verdict is AuditVerdict.LOSSLESS
    assert any("the drafts do not have the declared law" in one.message for one in lossless.findings)
    audit = otspec.audit(as_sampler(rules.rrs), drafter=truncated)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert audit.mean("optimum") is None
    repeats = otspec.audit(
        naive, "without_replacement", drafter=lambda q, n, rng: rng.choice(q.size, n, p=q), budget=3000
    )
    assert repeats.outcome.tests[-1].evidence == np.inf  # a tuple that cannot be


def test_a_position_that_is_rounded_up_to_the_total_draws_a_token_that_can_be_drawn() -> None:
    largest: Any = SimpleNamespace(random=lambda shape: np.full(shape, np.nextafter(1.0, 0.0)))
    cumulative = np.array([[0.0, 5e-324, 5e-324], [0.25, 0.5, 0.5]])
    assert draw_each(cumulative, largest).tolist() == [1, 1]


def test_vocabularies_have_two_tokens_more_than_drafts_and_large_ones_are_grouped() -> None:
    for name in ("uniform", "point target"):
        assert max(one.p.size for one in instances.small(0, 5, None) if one.name.startswith(name)) == 7
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(1000, 0.3), 2)
    p[:100] = 0.0
    cells = cells_of(p / p.sum(), q)
    assert set(cells[:100]).isdisjoint(cells[100:])
    assert cells.max() + 1 <= MAX_CELLS
    for law in (p, q):  # the likeliest of both stand alone
        assert (np.bincount(cells)[cells[np.argsort(-law)[:8]]] == 1).all()
    assert np.array_equal(cells_of(p[100:120], q[100:120]), np.arange(20))
    assert np.unique(cells).size == cells.max() + 1


class IdealPosition(Position):
    """A lossless rule whose draws cost nothing, on drafts of a custom drafter, so that all three tests run."""

    def __init__(self, instances: Sequence[tuple[Floats, Floats]], settings: AuditSettings) -> None:
        about = {"form": None, "shown": None, "logits": None, "uniforms": None}
        rule, drafter = (lambda p, q, drafts, rng: 0), (lambda q, n, rng: None)
        super().__init__(rule, "iid", drafter=drafter, instances=instances, settings=settings, **about)
        self.rng = np.random.default_rng(settings.seed)
        self.simultaneous = bool(self.rng.integers(2))

    def sample(self, cases: Sequence[PositionCase], texts: int) -> list[Sample]:
        drawn = []
        for case in cases:
            tokens = self.rng.choice(case.vocab, (texts, TEXT), p=case.p)
            drafts = self.rng.choice(case.vocab, (texts, TEXT, case.n), p=case.q)
            hits = (drafts == tokens[..., None]).any(axis=-1)
            drawn.append(Sample(tokens, np.bincount(hits.ravel(), minlength=2), None, case.places_of(drafts[:, 0])))
        return drawn


def test_false_alarms_are_as_rare_as_promised() -> None:
    # Alpha is large, so that alarms can be counted.
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.dirichlet(np.full(size, 0.7), 2)) for size in (2, 3, 5, 40)]
    alpha, audits, outcomes = 0.2, 60, []
    for seed in range(audits):
        settings = AuditSettings(2, seed=seed, alpha=alpha, confidence=0.9, resolution=0.1, budget=20_000)
        subject = IdealPosition(pairs, settings)
        outcomes.append(SequentialAudit(subject, subject.user_cases, settings).run(no_progress))
    assert all([test.name for test in outcome.tests] == ["law", "pairs", "drafter"] for outcome in outcomes)
    alarms = sum(any(test.rejected for test in outcome.tests) for outcome in outcomes)
    assert alarms <= alpha * audits
    missed = sum(any(one.tv_interval[0] > 0 for one in outcome.instances) for outcome in outcomes)
    assert missed <= 0.1 * audits
    assert sum(outcome.verdict is AuditVerdict.LOSSLESS for outcome in outcomes) >= 0.8 * audits
