"""How evidence is reported: a table for the screen, Markdown for a paper's author, JSON for a program."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otspec.errors import DataError
from otspec.proofs_check.claims import Claim, Source, Verdict
from otspec.proofs_check.evidence import Evidence
from otspec.proofs_check.search import from_plain, plain
from otspec.reporting.tables import TextTable, markdown_table

HOW_TO_READ = """\
The *margin* of an inequality is its right side minus its left side; of an equality, minus the error. A negative margin,
beyond what rounding explains, contradicts the claim. A claim *holds* if it held on every instance tried, random ones
and the worst that a search could find: that is evidence, not proof. A claim that *fails* has a short counterexample
below, which meets every stated hypothesis. *Tightness* is the largest ratio of left to right side that was seen: 1
means that the bound is attained. A *variant* is our own statement about a source, sharper, mended or altered in another
way. Nobody but us claims it, so variants are counted apart."""

Findings = Mapping[str, Evidence]
"""Evidence by the claim's id."""


def tables(sources: Sequence[Source], found: Findings) -> list[TextTable]:
    """A table per source with anything found, and one of its variants: every claim with its verdict."""
    shown = []
    header = ("claim", "statement", "verdict", "trials", "worst margin", "tightness")
    for source, evidence in _by_source(sources, found):
        stated, variants = _apart(evidence)
        for title, part in ((source.title, stated), (f"{source.title}: {VARIANTS}", variants)):
            rows: list[tuple[str, ...]] = [
                (e.claim.id, e.claim.statement, e.in_words, str(e.trials), *_figures(e)) for e in part
            ]
            if rows:
                shown.append(TextTable(title, header, rows, "", labels=3, details=frozenset({"statement"})))
    return shown


VARIANTS = "variants that it does not claim"


def summary(found: Findings) -> str:
    """What was found of what sources say, then of our variants, and whether any of it is news."""
    stated, variants = _apart(found.values())
    undecided = [evidence.claim.id for evidence in found.values() if evidence.undecided]
    surprises = [each.claim.id for each in found.values() if not each.as_expected and not each.undecided]
    all_others = "All others" if undecided else "All"
    news = f"Not as expected: {', '.join(surprises)}" if surprises else f"{all_others} as expected"
    if undecided:
        news = f"Not refuted in so few trials: {', '.join(undecided)}. {news}"
    parts = [f"{_many(stated, 'claim')} of sources: {_counted(stated)}."] if stated else []
    parts += [f"{_many(variants, 'variant')} that no source claims: {_counted(variants)}."] if variants else []
    return " ".join((*parts, f"{news}."))


def _many(evidence: Sequence[Evidence], word: str) -> str:
    return f"{len(evidence)} {word}{'' if len(evidence) == 1 else 's'}"


def _counted(evidence: Sequence[Evidence]) -> str:
    count = Counter(e.verdict for e in evidence)
    hold, fail = ("holds", "fails") if len(evidence) == 1 else ("hold", "fail")
    parts = {
        f"{hold} on all that was tried": count[Verdict.HOLDS],
        f"{hold} under a hidden assumption": count[Verdict.HIDDEN],
        fail: count[Verdict.FAILS],
    }
    return ", ".join(f"{many} {what}" for what, many in parts.items() if many)


def _apart(evidence: Iterable[Evidence]) -> tuple[list[Evidence], list[Evidence]]:
    """What sources say, and our variants of it."""
    all_of_it = list(evidence)
    return [e for e in all_of_it if not e.claim.variant_of], [e for e in all_of_it if e.claim.variant_of]


def as_json(sources: Sequence[Source], found: Findings, trials: int, seed: int) -> dict[str, Any]:
    """Everything found, with every worst instance in full, so that `replay` can repeat it."""
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
                raise DataError(
                    f"the report names claim {record['id']!r}, which this version does not have; name the "
                    "module of a claim of yours (--module)"
                )
            margin = claims[record["id"]].margin_of(from_plain(record["witness"]))
            rows.append((record["id"], f"{float(record['worst']):.3g}", f"{margin:.3g}"))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise DataError(f"this is no report of `otspec claims --json` ({error!r})") from error
    return TextTable("Worst instances, replayed", ("claim", "recorded margin", "margin now"), rows, "", labels=1)


def markdown(sources: Sequence[Source], found: Findings, command: str) -> str:
    """The report that a paper's author would want: what was checked and how, what failed, and what is true instead."""
    return _report(_by_source(sources, found), f"{summary(found)} Made by `{command}`.")


def expectations(sources: Sequence[Source]) -> str:
    """The same of what the tests expect of every claim: nothing is evaluated."""
    found = {claim.id: _expected(claim) for source in sources for claim in source.claims}
    made = f"{summary(found)} So the tests find it; `otspec claims --markdown FILE` measures margins and tightness."
    return _report(_by_source(sources, found), made)


def _expected(claim: Claim) -> Evidence:
    worst = -math.inf if claim.expected is Verdict.FAILS else math.inf
    known = None if claim.counterexample is None else -math.inf
    return Evidence(claim, trials=0, seed=0, worst=worst, witness={}, counterexample=known)


def _report(shown: Sequence[tuple[Source, Sequence[Evidence]]], made: str) -> str:
    parts = ["# Claims, checked by numbers", made, _contents(shown), HOW_TO_READ]
    for source, evidence in shown:
        stated, variants = _apart(evidence)
        parts += [f"## {source.title}", f"[{source.cite}]"]
        parts += _section(stated, "###") if stated else []
        parts += [_variants_heading(source), *_section(variants, "####")] if variants else []
        if source.unchecked:
            parts += [
                "### Not checked",
                "\n".join(f"- {u.statement} ({u.source}) {u.reason}" for u in source.unchecked),
            ]
    return "\n\n".join(parts) + "\n"


def _contents(shown: Sequence[tuple[Source, Sequence[Evidence]]]) -> str:
    """A table of contents: for each source what it says, and apart from that our variants."""
    verdicts = ("hold", "hidden assumption", "fail")
    rows = []
    for source, evidence in shown:
        stated, variants = _apart(evidence)
        ours = f"[{len(variants)}](#{_anchor(_variants_heading(source))})" if variants else "0"
        title = f"[{source.title}](#{_anchor(source.title)})"
        rows.append((title, str(len(stated)), *_verdicts(stated), ours, *_verdicts(variants)))
    stated, variants = _apart([e for _, evidence in shown for e in evidence])
    rows.append(("together", str(len(stated)), *_verdicts(stated), str(len(variants)), *_verdicts(variants)))
    return markdown_table(("source", "claims", *verdicts, "our variants", *verdicts), rows, labels=1)


def _verdicts(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    count = Counter(e.verdict for e in evidence)
    return tuple(str(count[verdict]) for verdict in (Verdict.HOLDS, Verdict.HIDDEN, Verdict.FAILS))


def _variants_heading(source: Source) -> str:
    return f"### Variants, not claimed in {source.cite}"


def _anchor(heading: str) -> str:
    """Where a heading can be linked to, as GitHub names it."""
    return re.sub(r"[^\w -]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def _section(evidence: Sequence[Evidence], level: str) -> list[str]:
    """A table, details of all that does not simply hold, and remarks on the rest."""
    parts = [_claims_table(evidence)]
    parts += [_details(e, level) for e in evidence if not _is_plain(e)]
    remarks = [f"- `{e.claim.id}`: {e.claim.remark}" for e in evidence if _is_plain(e) and e.claim.remark]
    return [*parts, f"{level} Remarks", "\n".join(remarks)] if remarks else parts


def _by_source(sources: Sequence[Source], found: Findings) -> list[tuple[Source, list[Evidence]]]:
    """Each source that has evidence, with it, in the order of its claims."""
    pairs = [(source, [found[claim.id] for claim in source.claims if claim.id in found]) for source in sources]
    return [(source, evidence) for source, evidence in pairs if evidence]


def _is_plain(evidence: Evidence) -> bool:
    return evidence.verdict is Verdict.HOLDS and evidence.as_expected


def _figures(evidence: Evidence) -> tuple[str, str]:
    return f"{evidence.worst:.2g}", "" if evidence.tightest is None else f"{evidence.tightest:.4g}"


def _claims_table(evidence: Sequence[Evidence]) -> str:
    header: tuple[str, ...] = ("claim", "statement", "source", "verdict")
    rows: list[tuple[str, ...]] = [(f"`{e.claim.id}`", e.claim.statement, e.claim.source, e.in_words) for e in evidence]
    if any(e.trials for e in evidence):
        header += ("trials", "worst margin", "tightness")
        rows = [(*row, str(e.trials), *_figures(e)) for row, e in zip(rows, evidence, strict=True)]
    return markdown_table(header, rows, labels=4)


def _details(evidence: Evidence, level: str) -> str:
    claim = evidence.claim
    lines = [f"{level} `{claim.id}`: {evidence.in_words}", f"{claim.statement} ({claim.source})"]
    if claim.variant_of:
        lines.append(f"Ours, beside: {claim.variant_of}")
    if claim.hypotheses:
        lines.append(f"Hypotheses: {claim.hypotheses}")
    if claim.assumption:
        lines.append(f"Hidden assumption: {claim.assumption}")
    if claim.counterexample is not None:
        kind = "Without it" if claim.assumption else "Counterexample"
        margin = f", with margin {evidence.counterexample:.3g}" if evidence.trials else ""
        lines.append(f"{kind}{margin}: {_shown(plain(claim.counterexample))}")
    if evidence.verdict is Verdict.FAILS and evidence.trials:
        lines.append(f"Found by the search, with margin {evidence.worst:.3g}: {_shown(plain(evidence.witness))}")
    if claim.remedy:
        lines.append(f"What is true instead: {claim.remedy}")
    if claim.remark:
        lines.append(claim.remark)
    return "\n\n".join(lines)


def _shown(instance: Mapping[str, Any]) -> str:
    text = json.dumps(instance)
    return f"`{text}`" if len(text) <= 600 else f"`{text[:600]}...` (whole in the JSON report)"


def stated(claim: Claim) -> dict[str, Any]:
    """What is known of a claim before it is checked, as JSON carries it."""
    names = ("id", "statement", "source", "variant_of", "hypotheses", "assumption", "remedy", "remark")
    known = None if claim.counterexample is None else plain(claim.counterexample)
    return {name: getattr(claim, name) for name in names} | {"counterexample": known}


def _record(evidence: Evidence) -> dict[str, Any]:
    claim = evidence.claim
    return stated(claim) | {
        "verdict": evidence.verdict.value,
        "as_expected": evidence.as_expected,
        "trials": evidence.trials,
        "worst": finite(evidence.worst),
        "tol": claim.tol,
        "tightest": None if evidence.tightest is None else finite(evidence.tightest),
        "witness": plain(evidence.witness),
        "counterexample_margin": None if evidence.counterexample is None else finite(evidence.counterexample),
    }


def finite(value: float) -> float | str:
    """JSON knows no infinities."""
    return value if math.isfinite(value) else str(value)
