"""What the audit says of the bugs in its museum, how soon, and what gives them away.

    python -m benchmarks.museum [--seeds 5] [--budget 1000000]

Every exhibit of `otspec.auditing.museum` and its sound twin: total variation by enumeration where the rule tells its
law, and sampled audits with default settings over several seeds, with the draws until they said "not lossless".
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from otspec.auditing import Audit, AuditVerdict
from otspec.auditing.museum import EXHIBITS, Exhibit, Hung
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable

HEADER = ("exhibit", "reported", "TV", "flagged", "draws", "what betrays it", "sound twin")


def exact_tv(hung: Hung) -> str:
    """Total variation by enumeration, mean (largest) over the instances."""
    if hung.exact is None:
        return "-"
    audit = hung.exact()
    largest = max(one.tv for one in audit.instances)
    return f"{audit.mean('tv'):.2g} ({largest:.2g})" if largest > 1e-9 else f"{largest:.0e}"


def betrayed_by(audit: Audit) -> str:
    """The figure that speaks most against a rule."""
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


def row(exhibit: Exhibit, seeds: int, budget: int) -> tuple[str, ...]:
    """One line of the table."""
    tv = exact_tv(exhibit.broken)
    assert exhibit.broken.drawn is not None
    audits = [exhibit.broken.drawn(seed=seed, budget=budget) for seed in range(seeds)]
    flagged = [audit for audit in audits if audit.verdict is AuditVerdict.NOT_LOSSLESS]
    draws = [audit.outcome.draws for audit in flagged or audits]
    twin = exhibit.sound.exact or exhibit.sound.drawn
    assert twin is not None
    return (
        exhibit.name,
        exhibit.reported or "-",
        tv,
        f"{len(flagged)} of {seeds}",
        f"{np.median(draws):,.0f} ({max(draws):,})",
        betrayed_by((flagged or audits)[0]),
        str(twin().verdict),
    )


def rows(seeds: int, budget: int) -> Iterator[tuple[str, ...]]:
    """All lines, each shown as soon as it is known."""
    for exhibit in EXHIBITS:
        found = row(exhibit, seeds, budget)
        console.print(" | ".join(found), highlight=False, soft_wrap=True)
        yield found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="sampled audits of each exhibit")
    parser.add_argument("--budget", type=int, default=1_000_000, help="draws of each, at most")
    options = parser.parse_args()
    note = (
        "TV to p by enumeration, mean (largest) over the instances. Sampled: audits that say not lossless, and median "
        "(most) draws until then, or until they vouch for the rule."
    )
    table = TextTable("The audit's museum", HEADER, list(rows(options.seeds, options.budget)), note, labels=2)
    console.print(table.on_screen(console.width))


if __name__ == "__main__":
    main()
