from __future__ import annotations

import re

import pytest

from benchmarks import audit
from otspec.auditing import decoder_rules


def test_the_tables_say_what_each_rule_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, group in (("LOSSLESS", decoder_rules.LOSSLESS), ("BIASED", decoder_rules.BIASED)):
        few = dict(list(group.items())[1:4:2])
        monkeypatch.setattr(audit, name, few)
    rows = audit.rules(seeds=2).rows
    assert [row[1] for row in rows] == ["lossless"] * 2 + ["not lossless"] * 2
    assert [row[6] for row in rows] == ["0 of 1", "0 of 1", "2 of 2", "2 of 2"]


def test_false_alarms_are_counted() -> None:
    table = audit.false_alarms(audits=4)
    assert len(table.rows) == len(audit.ALPHAS)
    for row in table.rows:
        assert re.fullmatch(r"[0-4]", row[2])
        assert int(row[2]) <= max(2, 4 * float(row[0]))
