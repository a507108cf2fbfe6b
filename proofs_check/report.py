"""How evidence is told: a table for the screen, Markdown for a paper's author, JSON for a program."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from otspec.errors import DataError
from otspec.proofs_check.claim import Claim, Source, Verdict
from otspec.proofs_check.evidence import Evidence, from_plain, plain
from otspec.reporting.tables import TextTable, markdown_table

HOW_TO_READ = """\
A *margin* is the right minus the left side of an inequality, or minus the error of an equality; it is negative where a
claim is contradicted, and rounding is allowed for. What *holds* held on every instance tried, random ones and those
that a search made as bad as it could: that is evidence, not proof. What *fails* has a counterexample below, in few
digits, that meets every stated hypothesis. *Tightness* is the largest ratio seen of left to right side: 1 means that a
bound is attained."""

Findings = Mapping[str, Evidence]
"""Evidence by the claim's id."""


def tables(sources: Sequence[Source], found: Findings) -> list[TextTable]:
    """A table per source with anything found: every claim with its verdict."""
    shown = []
    for source, evidence in _by_source(sources, found):
        rows: list[tuple[str, ...]] = [
            (e.claim.id, e.claim.statement, _verdict(e), str(e.trials), *_figures(e)) for e in evidence
        ]
        header = ("claim", "statement", "verdict", "trials", "worst margin", "tightness")
        shown.append(TextTable(source.title, header, rows, "", labels=3, details=frozenset({"statement"})))
    return shown


def summary(found: Findings) -> str:
    """One sentence: how many claims hold, how many do not, and whether that is news."""
    count = Counter(evidence.verdict for evidence in found.values())
    surprises = [evidence.claim.id for evidence in found.values() if not evidence.as_expected]
    news = f"not as expected: {', '.join(surprises)}" if surprises else "all as expected"
    return (
        f"{len(found)} claims: {count[Verdict.HOLDS]} hold on all that was tried, {count[Verdict.HIDDEN]} under a "
        f"hidden assumption, {count[Verdict.FAILS]} fail; {news}."
    )


def as_json(sources: Sequence[Source], found: Findings, trials: int, seed: int) -> dict[str, Any]:
    """Everything found, with every worst instance in full, so that `replay` can look again."""
    return {
        "trials": trials,
        "seed": seed,
        "sources": [
            {
                "title": source.title,
                "cite": source.cite,
                "claims": [_record(e) for e in evidence],
                "unchecked": [vars(statement) for statement in source.unchecked],
            }
            for source, evidence in _by_source(sources, found)
        ],
    }


def replay(report: Mapping[str, Any], claims: Mapping[str, Claim]) -> TextTable:
    """Evaluate every worst instance of a JSON report anew, beside the margin that it records.

    Raises
    ------
    DataError
        If the report is not one of ours, or names a claim that this version does not know.
    """
    rows: list[tuple[str, ...]] = []
    try:
        for record in (claim for source in report["sources"] for claim in source["claims"]):
            if record["id"] not in claims:
                raise DataError(f"the report names claim {record['id']!r}, which this version does not have")
            margin = claims[record["id"]].margin_of(from_plain(record["witness"]))
            rows.append((record["id"], f"{float(record['worst']):.3g}", f"{margin:.3g}"))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise DataError(f"this is no report of `otspec claims --json` ({error!r})") from error
    return TextTable("Worst instances, replayed", ("claim", "recorded margin", "margin now"), rows, "", labels=1)


def markdown(sources: Sequence[Source], found: Findings, trials: int, seed: int) -> str:
    """The report that a paper's author would want: what was checked and how, what failed, and what is true instead."""
    parts = [
        "# Claims, checked by numbers",
        f"{summary(found)} Made by `otspec claims --trials {trials} --seed {seed}`.",
        HOW_TO_READ,
    ]
    for source, evidence in _by_source(sources, found):
        parts += [f"## {source.title}", f"[{source.cite}]", _claims_table(evidence)]
        parts += [_details(e) for e in evidence if e.verdict is not Verdict.HOLDS or not e.as_expected]
        remarks = [f"- `{e.claim.id}`: {e.claim.remark}" for e in evidence if _is_plain(e) and e.claim.remark]
        if remarks:
            parts += ["### Remarks", "\n".join(remarks)]
        if source.unchecked:
            parts += [
                "### Not checked",
                "\n".join(f"- {u.statement} ({u.source}) {u.reason}" for u in source.unchecked),
            ]
    return "\n\n".join(parts) + "\n"


def _by_source(sources: Sequence[Source], found: Findings) -> list[tuple[Source, list[Evidence]]]:
    """Each source that has evidence, with it, in the order of its claims."""
    pairs = [(source, [found[claim.id] for claim in source.claims if claim.id in found]) for source in sources]
    return [(source, evidence) for source, evidence in pairs if evidence]


def _is_plain(evidence: Evidence) -> bool:
    return evidence.verdict is Verdict.HOLDS and evidence.as_expected


def _verdict(evidence: Evidence) -> str:
    return evidence.verdict.value if evidence.as_expected else f"{evidence.verdict.value}: NOT AS EXPECTED"


def _figures(evidence: Evidence) -> tuple[str, str]:
    return f"{evidence.worst:.2g}", "" if evidence.tightest is None else f"{evidence.tightest:.4g}"


def _claims_table(evidence: Sequence[Evidence]) -> str:
    header = ("claim", "statement", "source", "verdict", "trials", "worst margin", "tightness")
    rows = [
        (f"`{e.claim.id}`", e.claim.statement, e.claim.source, _verdict(e), str(e.trials), *_figures(e))
        for e in evidence
    ]
    return markdown_table(header, rows, labels=4)


def _details(evidence: Evidence) -> str:
    claim = evidence.claim
    lines = [f"### `{claim.id}`: {_verdict(evidence)}", f"{claim.statement} ({claim.source})"]
    if claim.hypotheses:
        lines.append(f"Hypotheses: {claim.hypotheses}")
    if claim.assumption:
        lines.append(f"Hidden assumption: {claim.assumption}")
    if claim.counterexample is not None:
        kind = "Without it" if claim.assumption else "Counterexample"
        lines.append(f"{kind}, with margin {evidence.counterexample:.3g}: {_shown(plain(claim.counterexample))}")
    if evidence.verdict is Verdict.FAILS:
        lines.append(f"Found by the search, with margin {evidence.worst:.3g}: {_shown(plain(evidence.witness))}")
    if claim.remedy:
        lines.append(f"What is true instead: {claim.remedy}")
    if claim.remark:
        lines.append(claim.remark)
    return "\n\n".join(lines)


def _shown(instance: Mapping[str, Any]) -> str:
    text = json.dumps(instance)
    return f"`{text}`" if len(text) <= 600 else f"`{text[:600]}...` (whole in the JSON report)"


def _record(evidence: Evidence) -> dict[str, Any]:
    claim = evidence.claim
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "hypotheses": claim.hypotheses,
        "verdict": evidence.verdict.value,
        "as_expected": evidence.as_expected,
        "trials": evidence.trials,
        "worst": finite(evidence.worst),
        "tol": claim.tol,
        "tightest": None if evidence.tightest is None else finite(evidence.tightest),
        "witness": plain(evidence.witness),
        "assumption": claim.assumption,
        "counterexample": None if claim.counterexample is None else plain(claim.counterexample),
        "counterexample_margin": None if evidence.counterexample is None else finite(evidence.counterexample),
        "remedy": claim.remedy,
        "remark": claim.remark,
    }


def finite(value: float) -> float | str:
    """JSON knows no infinities."""
    return value if math.isfinite(value) else str(value)
