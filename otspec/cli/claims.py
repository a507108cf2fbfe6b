"""`otspec claims`: the papers' claims, checked by numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from otspec.cli.conflicts import CONFLICTS, INSTEAD
from otspec.cli.groups import with_option_groups
from otspec.cli.loading import load_module
from otspec.cli.options import OutFile
from otspec.cli.run_folder import run_record
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, progress_bar
from otspec.reporting.tables import TextTable
from otspec.settings import Count, Seed, refuse
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.proofs_check import Challenge, Claim, Evidence, Source


@dataclass(frozen=True, kw_only=True)
class ClaimsOptions:
    """What `otspec claims` takes."""

    claim: list[str] | None = None
    """Check only this claim, or those that match, as 'rdk-*' does."""
    module: str | None = None
    """Check claims of yours instead: package.module or path/to/file.py, with CLAIMS in it."""
    trials: Count = 1000
    """How many instances a cheap claim is tried on; costly claims get fewer."""
    seed: Seed = 0
    """The seed of the instances; the same seed gives the same ones."""
    json_: OutFile | None = None
    """A file to write all findings to, for --replay."""
    markdown: OutFile | None = None
    """A file to write a report to."""
    replay: Path | None = None
    """Evaluate anew only the worst instances of a file that --json wrote."""
    list_: bool = False
    """List the claims with what we expect of them, and check none; --json has their counterexamples, too."""
    show: str | None = None
    """Show one claim: its statement, source, counterexample and remedy; check none."""
    power: bool = False
    """Check the searches: they have to refute mutations of the claims, which are all false."""


@with_option_groups
def claims(request: ClaimsOptions) -> None:
    """Check the papers' claims by numbers: what holds, what needs an unstated assumption, what fails and where.

    The exit status is 1 if a verdict is not the one that we expect, unless there were too few trials to refute a claim;
    with --power, if a mutation is not refuted.  docs/check_a_theorem.md says how to add claims of yours.
    """
    from otspec.proofs_check import CLAIMS, SOURCES, check, report

    instead = (request.replay, request.list_, request.show, request.power)
    files = {"--json": request.json_, "--markdown": request.markdown}
    refuse(CONFLICTS, dict(zip(INSTEAD, instead, strict=True)) | files)
    sources = SOURCES if request.module is None else (_written_in(request.module),)
    known = CLAIMS if request.module is None else {each.id: each for source in sources for each in source.claims}
    if request.show is not None:
        if request.show not in known:
            raise typer.BadParameter(_unknown(known, request.show), param_hint="--show")
        console.print(_described(known[request.show]), highlight=False, soft_wrap=True)
        return
    if request.list_:
        wanted = _chosen(known, request.claim or ["*"])
        console.print(_listed(wanted).on_screen(console.width))
        if request.json_ is not None:
            _write_json(request.json_, [report.stated(each) | {"expected": each.expected} for each in wanted])
        return
    if request.replay is not None:
        console.print(report.replay(_read(request.replay), known).on_screen(console.width))
        return
    wanted = _chosen(known, request.claim or ["*"])
    if request.power:
        _challenge(wanted, request)
        return
    found: dict[str, Evidence] = {}
    with progress_bar() as bar:
        for each in bar.track(wanted, description="checking"):
            found[each.id] = check(each, request.trials, request.seed)
    for table in report.tables(sources, found):
        console.print(table.on_screen(console.width))
    console.print(report.summary(found))
    if request.markdown is not None:
        write_text(request.markdown, report.markdown(sources, found, run_record()["command"]))
    if request.json_ is not None:
        _write_json(request.json_, report.as_json(sources, found, request.trials, request.seed))
    if not all(evidence.as_expected or evidence.undecided for evidence in found.values()):
        raise typer.Exit(1)


def _write_json(path: Path, found: object) -> None:
    try:
        text = json.dumps(found, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{path} is not written: {error}; instances hold arrays, numbers and words") from error
    write_text(path, text + "\n")


def _written_in(name: str) -> Source:
    """The claims of a user's module: those in its `CLAIMS`, or else all at its top level."""
    from otspec.proofs_check import CLAIMS, Claim, Source
    from otspec.proofs_check.claims import claims_of

    module = load_module(name)
    if getattr(module, "CLAIMS", CLAIMS) is not CLAIMS:  # ours, imported, are none of the module's
        if not isinstance(module.CLAIMS, Iterable):
            raise ProblemError(f"CLAIMS of {name} is {module.CLAIMS!r}; make it a list of otspec.proofs_check.Claim")
        found = list(module.CLAIMS)
    else:
        found = list(claims_of(module))
    if not found:
        raise ProblemError(
            f"{name} has no claims; give it a list CLAIMS of otspec.proofs_check.Claim, or name one at its top level"
        )
    for each in found:
        if not isinstance(each, Claim):
            raise ProblemError(f"CLAIMS of {name} holds {each!r}, which is no otspec.proofs_check.Claim; make it one")
    again = [each for each, times in Counter(each.id for each in found).items() if times > 1]
    if again:
        raise ProblemError(f"{name} has several claims with the id {again[0]!r}; give each an id of its own")
    return Source(name, name, tuple(found))


def _challenge(wanted: Sequence[Claim], request: ClaimsOptions) -> None:
    """Try the mutations of claims."""
    from otspec.proofs_check import challenges, power_report

    found: list[Challenge] = []
    with progress_bar() as bar:
        for each in bar.track(wanted, description="challenging"):
            found += challenges(each, request.trials, request.seed)
    console.print(power_report.table(found).on_screen(console.width))
    console.print(power_report.summary(found, wanted))
    if request.json_ is not None:
        _write_json(request.json_, power_report.as_json(found, request.trials, request.seed))
    if request.markdown is not None:
        write_text(request.markdown, power_report.markdown(found, wanted, run_record()["command"]))
    if not all(each.refuted for each in found):
        raise typer.Exit(1)


def _chosen(claims: Mapping[str, Claim], patterns: list[str]) -> list[Claim]:
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in claims):
            raise typer.BadParameter(_unknown(claims, pattern), param_hint="--claim")
    return [each for name, each in claims.items() if any(fnmatch(name, pattern) for pattern in patterns)]


def _unknown(claims: Mapping[str, Claim], pattern: str) -> str:
    near = get_close_matches(pattern, claims, n=3) or sorted(claims)[:3]
    return f"no claim matches {pattern!r}; there are {len(claims)}, among them {', '.join(near)}"


def _listed(wanted: Sequence[Claim]) -> TextTable:
    rows: list[tuple[str, ...]] = [
        (each.id, each.statement, each.expected.value + (", a variant" if each.variant_of else ""), each.source)
        for each in wanted
    ]
    note = (
        "What we expect, before any check; `otspec claims --show ID` shows all of one, `--claim ID` checks it. A "
        "variant is ours: its source does not claim it."
    )
    return TextTable(f"{len(rows)} claims", ("claim", "statement", "expected", "source"), rows, note, labels=4)


def _described(claim: Claim) -> str:
    """All that is known of a claim before it is checked, a paragraph each."""
    from otspec.proofs_check.search import plain

    without = "Without the assumption" if claim.assumption else "Counterexample"
    parts = {
        "": f"{claim.id}: {claim.statement}",
        "Source": claim.source,
        "Not claimed there, a variant of": claim.variant_of,
        "Hypotheses": claim.hypotheses,
        "Verdict": claim.expected.value,
        "Hidden assumption": claim.assumption,
        without: "" if claim.counterexample is None else _instance(claim, plain(claim.counterexample)),
        "What is true instead": claim.remedy,
        "Remark": claim.remark,
        "Mutations, which are false": " ".join(mutation.statement for mutation in claim.mutations),
    }
    return "\n\n".join(f"{name}: {text}" if name else text for name, text in parts.items() if text)


def _instance(claim: Claim, shown: object) -> str:
    assert claim.counterexample is not None
    return f"{json.dumps(shown)}, with margin {claim.margin_of(claim.counterexample):.3g}"


def _read(path: Path) -> dict[str, object]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # bytes that are not text are a ValueError too
        raise DataError(f"{path} cannot be read as JSON of `otspec claims --json`: {error}") from error
