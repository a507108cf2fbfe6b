"""What audits report beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from otspec.auditing.outcome import Figures, Finding, WorstCase
from otspec.auditing.rules.answers import Invalid
from otspec.auditing.rules.case import Case


def of_invalid(invalid: Invalid) -> Finding:
    """The finding of an output that is not a token, or of a law that is not one."""
    where = "" if invalid.case is None else f"on {invalid.case.name!r}"
    where += "" if invalid.drafts is None else f", drafts {invalid.drafts.tolist()}"
    return Finding(f"{where}: {invalid.message}" if where else invalid.message, bias=True)


def of_mutations(mutations: Mapping[str, Case]) -> list[Finding]:
    """The findings of arguments that the rule wrote to, each with the case on which that was first seen."""
    return [
        Finding(f"the rule writes to its argument {name} (seen on {case.name!r}); copy it first", bias=False)
        for name, case in mutations.items()
    ]


def of_excess(figures: Sequence[Figures], tol: float) -> list[Finding]:
    """The finding of acceptance above that of any lossless rule, by more than `tol`: it proves a bias by itself."""
    excess = np.array([one.excess for one in figures])
    above = int((excess > tol).sum())
    if above == 0:
        return []
    more = f"on {above} of {len(figures)} instances, by up to {excess.max():.4f}"
    return [Finding(f"it accepts more than any lossless rule can: {more} {figures[0].ceiling}", bias=True)]


def of_drafts(figures: Sequence[Figures], tol: float) -> list[Finding]:
    """The finding of drafts that come from another law than the one declared to the rule, by more than `tol`."""
    off = np.array([one.drafts_tv for one in figures if one.drafts_tv is not None])
    if off.size == 0 or off.max() <= tol:
        return []
    by = f"off by {off.mean():.4f} on average, at most {off.max():.4f}, in total variation"
    return [Finding(f"the drafts do not have the law declared to the rule: {by}", bias=False)]


def of_refusals(refusals: Sequence[str], cases: int) -> list[Finding]:
    """The finding of instances that a solver does not take, with the reason for the first."""
    if not refusals:
        return []
    return [Finding(f"refused on {len(refusals)} of {cases} instances: {refusals[0]}", bias=False)]


def witness(case: Case, seed: int, output: Any, invalid: Invalid | None = None) -> WorstCase:
    """All that is needed to see a case again; `output` has the shape of the case's p, or is empty."""
    drafts = None if invalid is None or invalid.drafts is None else invalid.drafts.tolist()
    shown = np.asarray(output, dtype=np.float64).tolist()
    return WorstCase(case.name, case.p.tolist(), case.q.tolist(), case.shown.tolist(), case.n, seed, shown, drafts)
