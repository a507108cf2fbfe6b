"""`otspec verify`: the papers' claims, checked by numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli import options
from otspec.errors import DataError
from otspec.reporting.console import console, progress_bar

if TYPE_CHECKING:
    from otspec.proofs_check import Claim, Evidence


def verify(
    claim: Annotated[list[str] | None, typer.Option(help="Only this claim, or those that match, as 'rdk-*'.")] = None,
    trials: Annotated[int, typer.Option(help="Instances of a cheap claim; costly claims get fewer.", min=1)] = 1000,
    seed: Annotated[int, options.seed(help="Same seed, same instances.")] = 0,
    json_file: Annotated[Path | None, options.out_file("--json", help="Write all that was found, to replay.")] = None,
    markdown_file: Annotated[Path | None, options.out_file("--markdown", help="Write a report to read.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Only evaluate anew the worst instances of such a file.")] = None,
) -> None:
    """Check the papers' claims by numbers: what holds, what needs an unsaid assumption, what fails and where.

    Exit status 1 if a verdict is not the one that we expect.
    """
    from otspec.proofs_check import CLAIMS, SOURCES, check, report

    if replay is not None:
        console.print(report.replay(_read(replay), CLAIMS).on_screen(console.width))
        return
    wanted = _chosen(CLAIMS, claim or ["*"])
    found: dict[str, Evidence] = {}
    with progress_bar() as bar:
        for each in bar.track(wanted, description="checking"):
            found[each.id] = check(each, trials, seed)
    for table in report.tables(SOURCES, found):
        console.print(table.on_screen(console.width))
    console.print(report.summary(found))
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(SOURCES, found, trials, seed), indent=1, allow_nan=False) + "\n")
    if markdown_file is not None:
        markdown_file.write_text(report.markdown(SOURCES, found, trials, seed))
    if not all(evidence.as_expected for evidence in found.values()):
        raise typer.Exit(1)


def _chosen(claims: Mapping[str, Claim], patterns: list[str]) -> list[Claim]:
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in claims):
            near = get_close_matches(pattern, claims, n=3) or sorted(claims)[:3]
            raise typer.BadParameter(
                f"no claim matches {pattern!r}; there are {len(claims)}, among them {', '.join(near)}",
                param_hint="--claim",
            )
    return [each for name, each in claims.items() if any(fnmatch(name, pattern) for pattern in patterns)]


def _read(path: Path) -> dict[str, object]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # bytes that are not text are a ValueError too
        raise DataError(f"{path} cannot be read as JSON of `otspec claims --json`: {error}") from error
