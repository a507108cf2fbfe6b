from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from benchmarks import device_audit
from otspec import AuditVerdict, ProblemError
from otspec.extras import installed
from otspec.verification.device import RowVerification, verify_rows
from otspec.verification.rules.buckets import buckets, cut

CPU = torch.device("cpu")


def test_every_rule_is_audited() -> None:
    fast = [name for name, entry in device_audit.ENTRIES.items() if not entry.slow]
    table = device_audit.audited(fast, 3000, 1400, CPU)
    assert [row[0] for row in table.rows] == fast
    for row in table.rows:
        assert row[1:3] == ("no evidence of bias", "2,996")  # two to a text, as many on each of 14 instances
    assert buckets.BITS == 12  # as it was


def test_slow_rules_are_audited_with_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for name in ("TILE", "POINTS"):
        monkeypatch.setattr(cut, name, 32)  # of 26 coarse buckets
    entries = device_audit.ENTRIES
    # A row of 12 000 buckets takes Triton's interpreter a second: that rule is for a GPU.
    slow = {"buckets": 50, **({"coarse-triton": 20} if installed("triton") else {})}
    for name, draws in slow.items():
        audit = device_audit.audit_of(entries[name], draws, CPU, [([0.5, 0.3, 0.2], [0.2, 0.2, 0.6])])
        assert audit.verdict is not AuditVerdict.NOT_LOSSLESS
        assert audit.outcome.draws == draws
    assert {*slow, "coarse-triton", "triton"} == {name for name, entry in entries.items() if entry.slow}


def test_a_rule_that_is_not_lossless_is_told() -> None:
    def first(p: Tensor, q: Tensor, drafts: Tensor, uniforms: Tensor) -> RowVerification:
        right = verify_rows(p, q, drafts, uniforms)
        return right._replace(tokens=torch.where(right.accepted < 0, drafts[:, 0], right.tokens))

    audit = device_audit.audit_of(device_audit.Entry(first), 20_000, CPU)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(ProblemError, match=re.escape("no rule 'magic'; known: sorting, truncated, coarse-buckets")):
        device_audit.asked("sorting, magic")
