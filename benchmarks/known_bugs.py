"""What the audit says of known bugs, how soon, and what gives them away: a table of docs/measured/audit.md.

    python -m benchmarks.known_bugs [--seeds 5] [--budget 1000000]

Every known bug of `otspec.auditing.known_bugs` and its correct counterpart: total variation by enumeration where the
rule gives its law, and sampled audits with default settings over several seeds, with the draws until they said "not
lossless".
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.audit import flagged, shown_draws, shown_tv
from benchmarks.reporting import show
from otspec.auditing import Audit, AuditVerdict
from otspec.auditing.known_bugs import KNOWN_BUGS, KnownBug
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable

HEADER = ("known bug", "reported", "TV", "flagged", "draws", "what betrays it", "correct counterpart")


def betrayed_by(audit: Audit) -> str:
    """The figure that speaks most against a rule, in words."""
    if audit.verdict is not AuditVerdict.NOT_LOSSLESS:
        return f"nothing: TV at most {max(one.tv_interval[1] for one in audit.instances):.3f}"
    if any("tokens of p = 0" in finding.message for finding in audit.findings):
        return "tokens of p = 0"
    test = max((test for test in audit.outcome.tests if test.rejected), key=lambda test: test.evidence)
    figures = next(one for one in audit.instances if one.name == test.largest)
    if test.name == "pairs":
        return f"pairs, on {test.largest}"
    if figures.excess > 0 and figures.optimum is not None:
        return f"accepts {figures.membership:.3f}, at most {figures.optimum:.3f}, on {test.largest}"
    return f"output law, TV {figures.tv:.3f} on {test.largest}"


def row(bug: KnownBug, seeds: int, budget: int) -> tuple[str, ...]:
    """One line of the table: `seeds` sampled audits of at most `budget` draws each."""
    tv = "-" if bug.broken.exact is None else shown_tv(bug.broken.exact(), ".2g")  # of a rule that gives its law
    assert bug.broken.drawn is not None
    audits = [bug.broken.drawn(seed=seed, budget=budget) for seed in range(seeds)]
    found = flagged(audits)
    correct = bug.correct.exact or bug.correct.drawn
    assert correct is not None
    return (
        bug.name,
        bug.reported or "-",
        tv,
        f"{len(found)} of {seeds}",
        shown_draws(found or audits),
        betrayed_by((found or audits)[0]),
        str(correct().verdict),
    )


def rows(seeds: int, budget: int) -> Iterator[tuple[str, ...]]:
    """All lines, each shown as soon as it is known."""
    for bug in KNOWN_BUGS:
        found = row(bug, seeds, budget)
        console.print(" | ".join(found), highlight=False, soft_wrap=True)
        yield found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="sampled audits of each known bug")
    parser.add_argument("--budget", type=int, default=1_000_000, help="draws of each, at most")
    options = parser.parse_args()
    note = (
        "TV to p by enumeration, mean (largest) over the instances. Sampled: audits that say not lossless, and median "
        "(most) draws until then, or until they vouch for the rule."
    )
    show(TextTable("Known bugs, audited", HEADER, list(rows(options.seeds, options.budget)), note, labels=2))


if __name__ == "__main__":
    main()
