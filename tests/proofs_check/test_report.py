"""What is told of evidence: nothing hidden, and every instance there to replay."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from otspec import proofs_check
from otspec.errors import DataError
from otspec.proofs_check import CLAIMS, Source, Unchecked, Verdict, check, report
from tests.proofs_check.test_evidence import FALSE, TRUE, overlap_above_half

EQUAL = {"p": np.array([0.5, 0.5]), "q": np.array([0.5, 0.5])}
HIDDEN = replace(FALSE, id="hidden", draw=lambda rng: EQUAL, assumption="The laws are equal.", remedy="")
SURPRISE = replace(TRUE, id="surprise", margin=overlap_above_half)
VARIANT = replace(FALSE, id="variant", variant_of="false")
PAPER = Source(
    "A paper: on it", "key2020", (TRUE, FALSE, HIDDEN, VARIANT), (Unchecked("It is fast.", "section 9", "No data."),)
)
OTHER = Source("Another", "key2021", (SURPRISE,))
SOURCES = (PAPER, OTHER)
FOUND = {claim.id: check(claim, 30) for source in SOURCES for claim in source.claims}


def test_markdown_names_every_claim_with_its_counterexample_and_what_is_true_instead() -> None:
    text = report.markdown(SOURCES, FOUND, "otspec claims")
    assert all(f"`{name}`" in text for name in FOUND)
    words = ("They may be disjoint.", '"p": [1.0, 0.0]', "The laws are equal.", "It is fast. (section 9) No data.")
    assert all(one in text for one in words)
    assert "4 claims of sources: 1 hold on all that was tried, 1 hold under a hidden assumption, 2 fail." in text


def test_variants_are_counted_and_told_apart() -> None:
    assert "1 variant that no source claims: 1 fails." in report.summary(FOUND)
    said, variants, _ = report.tables(SOURCES, FOUND)
    assert [row[0] for row in said.rows] == ["true", "false", "hidden"]
    assert [row[0] for row in variants.rows] == ["variant"]
    assert "does not claim" in variants.title
    records = {claim["id"]: claim for claim in report.as_json(SOURCES, FOUND, 30, 0)["sources"][0]["claims"]}
    assert (records["variant"]["variant_of"], records["false"]["variant_of"]) == ("false", "")


def test_worst_instances_replay_from_json() -> None:
    stored = json.loads(json.dumps(report.as_json(SOURCES, FOUND, 30, 0), allow_nan=False))
    table = report.replay(stored, {claim.id: claim for source in SOURCES for claim in source.claims})
    assert [row[0] for row in table.rows] == list(FOUND)
    assert all(recorded == now for _, recorded, now in table.rows)


def test_a_claim_of_another_version_is_refused_by_name() -> None:
    stored = report.as_json(SOURCES, FOUND, 30, 0)
    with pytest.raises(DataError, match="'hidden', which this version"):
        report.replay(stored, {"true": TRUE, "false": FALSE})


def test_what_is_expected_of_every_claim_is_told_without_a_search() -> None:
    shown = report.expectations(proofs_check.SOURCES)
    assert "All as expected. So the tests find it;" in shown
    rows = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", shown, re.MULTILINE))
    assert rows == {name: claim.expected.value for name, claim in CLAIMS.items()}
    failing = [claim for claim in CLAIMS.values() if claim.expected is Verdict.FAILS and claim.counterexample]
    assert shown.count("\nCounterexample: `{") == len(failing)
    assert "Found by the search" not in shown
    assert "worst margin" not in shown
