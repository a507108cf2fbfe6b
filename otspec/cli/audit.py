"""`otspec audit`: find out whether a verification rule is lossless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from otspec.auditing.settings import AuditSettings
from otspec.cli.groups import Of, grouped
from otspec.cli.loading import load
from otspec.cli.options import ARGUMENT, OutFile
from otspec.errors import ProblemError
from otspec.reporting.console import console, progress_bar
from otspec.settings import Count
from otspec.writing import write_text

EXIT = {"lossless": 0, "not lossless": 1, "inconclusive": 3}
"""Exit status by verdict."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What `otspec audit` takes."""

    rule: Annotated[str, ARGUMENT]
    """The rule: module:function, path/to/file.py:function, or a solver such as kseq."""
    scheme: str = "iid"
    """The draft law: {SCHEMES}, or module:function of (q, n)."""
    n: Count = 3
    """How many drafts each position has."""
    drafter: str | None = None
    """Where drafts really come from: a law as for --scheme, or module:function of (q, n, rng)."""
    shown: str | None = None
    """The q that the rule is told: module:function of q."""
    form: str | None = None
    """How the rule is called: {FORMS}."""
    uniforms: int | None = None
    """How many uniforms each call of a rule gets that takes them."""
    json: OutFile | None = None
    """A file to which the result is written as well."""
    settings: Annotated[dict[str, Any], Of(AuditSettings)]


@grouped
def audit(request: AuditOptions) -> None:
    """Find out whether a verification rule is lossless: whether its output has the target's law.

    Exit status 0: lossless; 1: not lossless; 2: wrong input; 3: inconclusive.
    """
    from otspec.auditing import audit as run

    with progress_bar() as bar:
        task = bar.add_task("auditing", total=None)
        result = run(
            _rule(request.rule),
            _scheme(request.scheme),
            request.n,
            form=request.form,
            drafter=None if request.drafter is None else _scheme(request.drafter),
            shown=None if request.shown is None else load(request.shown),
            uniforms=request.uniforms,
            progress=lambda done, most: bar.update(task, completed=done, total=most),
            **request.settings,
        )
    console.print(str(result), highlight=False, soft_wrap=True)
    if request.json is not None:
        write_text(request.json, result.to_json() + "\n")
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
