"""`otspec audit`: find out whether a verification rule is lossless."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.auditing.settings import AuditSettings
from otspec.cli import options
from otspec.cli.groups import Of, grouped
from otspec.cli.loading import load
from otspec.cli.names import FORMS, SCHEMES
from otspec.errors import ProblemError
from otspec.reporting.console import console, progress_bar
from otspec.writing import write_text

EXIT = {"lossless": 0, "not lossless": 1, "inconclusive": 3}
"""Exit status by verdict."""


@grouped
def audit(
    *,
    rule: Annotated[
        str, typer.Argument(help="The rule: module:function, path/to/file.py:function, or a solver such as kseq.")
    ],
    scheme: Annotated[
        str, typer.Option(help=f"The draft law: {', '.join(SCHEMES)}, or module:function of (q, n).")
    ] = "iid",
    n: Annotated[int, options.count("--n", help="How many drafts each position has.")] = 3,
    drafter: Annotated[
        str | None,
        typer.Option(help="Where drafts really come from: a law as for --scheme, or module:function of (q, n, rng)."),
    ] = None,
    shown: Annotated[str | None, typer.Option(help="The q that the rule is told: module:function of q.")] = None,
    form: Annotated[str | None, typer.Option(help=f"How the rule is called: {', '.join(FORMS)}.")] = None,
    uniforms: Annotated[
        int | None, typer.Option(help="How many uniforms each call of a rule gets that takes them.")
    ] = None,
    json: Annotated[
        Path | None, options.out_file("--json", help="A file to which the result is written as well.")
    ] = None,
    settings: Annotated[dict[str, Any], Of(AuditSettings)],
) -> None:
    """Find out whether a verification rule is lossless: whether its output has the target's law.

    Exit status 0: lossless; 1: not lossless; 2: wrong input; 3: inconclusive.
    """
    from otspec.auditing import audit as run

    with progress_bar() as bar:
        task = bar.add_task("auditing", total=None)
        result = run(
            _rule(rule),
            _scheme(scheme),
            n,
            form=form,
            drafter=None if drafter is None else _scheme(drafter),
            shown=None if shown is None else load(shown),
            uniforms=uniforms,
            progress=lambda done, most: bar.update(task, completed=done, total=most),
            **settings,
        )
    console.print(str(result), highlight=False, soft_wrap=True)
    if json is not None:
        write_text(json, result.to_json() + "\n")
    raise typer.Exit(EXIT[result.verdict])


def _rule(name: str) -> Any:
    from otspec.catalogue import available

    solvers = [info.name for info in available()]
    if name.partition(":")[0] in solvers:
        return name
    if ":" not in name:
        raise ProblemError(
            f"{name!r} is no solver and names no function; write module:function, path/to/file.py:function, "
            f"or one of {', '.join(solvers)}"
        )
    return load(name)


def _scheme(name: str) -> Any:
    return load(name) if ":" in name else name
