"""`otspec audit`: is a verification rule lossless."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.loading import load
from otspec.cli.names import FORMS, SCHEMES
from otspec.errors import ProblemError
from otspec.reporting.console import console, progress_bar

EXIT = {"lossless": 0, "not lossless": 1, "inconclusive": 3}
"""Status by verdict."""


def audit(
    rule: Annotated[str, typer.Argument(help="module:function, path/to/file.py:function, or a solver, as kseq.")],
    scheme: Annotated[
        str, typer.Option(help=f"Draft law: {', '.join(SCHEMES)}, or module:function of (q, n).")
    ] = "iid",
    n: Annotated[int, options.count("--n", help="Drafts per position.")] = 3,
    drafter: Annotated[
        str | None, typer.Option(help="Where drafts really come from: as --scheme, or module:function of (q, n, rng).")
    ] = None,
    shown: Annotated[str | None, typer.Option(help="The q that the rule is told: module:function of q.")] = None,
    form: Annotated[str | None, typer.Option(help=f"How the rule is called: {', '.join(FORMS)}.")] = None,
    method: Annotated[str, typer.Option(help="exact, sampled, or auto: exact where possible.")] = "auto",
    uniforms: Annotated[int | None, typer.Option(help="Uniforms for each call of a rule that takes them.")] = None,
    pairs: Annotated[bool, typer.Option(help="Test whether consecutive outputs are independent.")] = True,
    budget: Annotated[int, typer.Option(help="Calls of a rule that is sampled, at most.")] = 1_000_000,
    alpha: Annotated[float, typer.Option(help="Bound on the probability of a false alarm.")] = 1e-3,
    confidence: Annotated[float, typer.Option(help="Of the intervals of the total variation.")] = 0.99,
    resolution: Annotated[float, typer.Option(help="Total variation that a sampled rule has to be known to.")] = 0.05,
    tol: Annotated[float, typer.Option(help="Total variation that an enumerated rule may be off.")] = 1e-9,
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop then, and say how far it came; read between calls of the rule.")
    ] = None,
    seed: Annotated[int, options.seed(help="Same seed, same audit.")] = 0,
    json: Annotated[Path | None, options.out_file("--json", help="Also write the result to this file.")] = None,
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
            seed=seed,
            form=form,
            drafter=None if drafter is None else _scheme(drafter),
            shown=None if shown is None else load(shown),
            method=method,
            uniforms=uniforms,
            pairs=pairs,
            budget=budget,
            alpha=alpha,
            confidence=confidence,
            resolution=resolution,
            tol=tol,
            max_seconds=max_seconds,
            progress=lambda done, most: bar.update(task, completed=done, total=most),
        )
    console.print(str(result), highlight=False, soft_wrap=True)
    if json is not None:
        json.write_text(result.to_json() + "\n")
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
