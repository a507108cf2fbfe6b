"""How soon an audit flags the biased rules that decoders use, and how often it flags a lossless one.

The tables are those of docs/measured/audit.md.

    python -m benchmarks.audit [--seeds 10] [--audits 300]

First every rule of `otspec.auditing.decoder_rules`: its verdict and total variation by enumeration, and the draws that
the sampled audit of the same rule takes, over several seeds.  Then false alarms: audits of rules that are lossless,
with an alpha so large that alarms can be counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

import otspec
from benchmarks.reporting import show
from otspec.auditing import Audit, AuditVerdict
from otspec.auditing.decoder_rules import BIASED, LOSSLESS, Entry, as_sampler, naive
from otspec.reporting.tables import TextTable

COARSE = 0.2
"""Resolution of the sampled audits of lossless rules, which stop only when it is reached; others have the default."""

ALPHAS = (0.2, 0.05, 0.001)


def shown_tv(audit: Audit, digits: str) -> str:
    """Total variation by enumeration, mean (largest) over the instances."""
    largest = max(one.tv for one in audit.instances)
    return f"{audit.mean('tv'):{digits}} ({largest:{digits}})" if largest > 1e-9 else f"{largest:.0e}"


def shown_draws(audits: Sequence[Audit]) -> str:
    """Draws of sampled audits, median (most)."""
    draws = [audit.outcome.draws for audit in audits]
    return f"{np.median(draws):,.0f} ({max(draws):,})"


def flagged(audits: Sequence[Audit]) -> list[Audit]:
    """Those that say not lossless."""
    return [audit for audit in audits if audit.verdict is AuditVerdict.NOT_LOSSLESS]


def exact_columns(entry: Entry) -> tuple[str, ...]:
    """Verdict, total variation, acceptance and alpha*, by enumeration."""
    audit = otspec.audit(entry.law, entry.scheme, entry.n)
    above = np.mean([one.excess > 1e-9 for one in audit.instances])
    return (
        audit.verdict,
        shown_tv(audit, ".3f"),
        f"{audit.mean('membership'):.3f}",
        f"{audit.mean('optimum'):.3f}",
        f"{above:.0%}",
    )


def sampled_columns(entry: Entry, seeds: int, resolution: float = 0.05) -> tuple[str, ...]:
    """Verdicts of sampled audits, and their draws."""
    audits = [
        otspec.audit(entry.sampler, entry.scheme, entry.n, seed=seed, resolution=resolution) for seed in range(seeds)
    ]
    return f"{len(flagged(audits))} of {seeds}", shown_draws(audits)


def rules(seeds: int) -> TextTable:
    """All rules, audited both ways."""
    rows = [(name, *exact_columns(one), *sampled_columns(one, 1, resolution=COARSE)) for name, one in LOSSLESS.items()]
    rows += [(name, *exact_columns(one), *sampled_columns(one, seeds)) for name, one in BIASED.items()]
    header = ("rule", "exact verdict", "TV", "acceptance", "alpha*", "above it", "flagged", "draws")
    note = (
        "TV to p by enumeration, mean (largest) over the default instances; acceptance: the output is a draft; alpha* "
        "of the drafts, and the share of instances on which the rule accepts more. Sampled: audits that say not "
        f"lossless, and median (most) draws until then, or until a lossless rule is known to {COARSE}."
    )
    return TextTable("Rules that decoders use, audited", header, rows, note)


def false_alarms(audits: int) -> TextTable:
    """Audits of a rule that draws from the target, whatever the drafts."""
    rows: list[tuple[str, ...]] = []
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.dirichlet(np.full(vocab, 0.7), 2)) for vocab in (2, 4, 40)]  # the last in groups
    rule = as_sampler(naive)
    for alpha in ALPHAS:
        started = time.process_time()
        found = [
            otspec.audit(
                rule, n=2, seed=seed, alpha=alpha, confidence=0.9, resolution=0.01, budget=4_000, instances=pairs
            )
            for seed in range(audits)
        ]
        alarms = len(flagged(found))
        missed = sum(any(one.tv_interval[0] > 0 for one in audit.instances) for audit in found)
        seconds = time.process_time() - started
        rows.append((f"{alpha:g}", f"{audits}", f"{alarms}", f"{alpha * audits:g}", f"{missed}", f"{seconds:.0f}"))
    header = ("alpha", "audits", "false alarms", "at most, on average", "intervals without 0 (of 90 %)", "CPU s")
    return TextTable("False alarms", header, rows, "A lossless rule, three instances, 4000 draws an audit.", labels=0)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="sampled audits of each biased rule")
    parser.add_argument("--audits", type=int, default=300, help="audits of a lossless rule, for each alpha")
    options = parser.parse_args()
    show(rules(options.seeds), false_alarms(options.audits))


if __name__ == "__main__":
    main()
