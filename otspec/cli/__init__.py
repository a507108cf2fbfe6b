"""The `otspec` command.  Faults of the input are raised where they are found, and are one line here (`main`)."""

import sys
from typing import NoReturn

import typer

from otspec import __version__
from otspec.cli.affinity import affinity
from otspec.cli.audit import audit, audit_engine
from otspec.cli.bench import app as bench
from otspec.cli.claims import claims
from otspec.cli.decode import decode
from otspec.cli.record import record
from otspec.cli.router import router
from otspec.cli.solve import solve
from otspec.cli.solvers import solvers
from otspec.cli.texts import texts
from otspec.cli.train import train
from otspec.cli.tree import tree
from otspec.cli.tune import tune
from otspec.errors import DataError, MissingExtra, ProblemError, UnknownSolver

app = typer.Typer(
    help="Optimal transport for multi-draft speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench, name="bench")
for one in (solve, audit, audit_engine, solvers, record, affinity, claims, decode, tune, tree, texts, train, router):
    app.command()(one)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"otspec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Optimal transport for multi-draft speculative decoding."""


def main() -> None:
    """Run the command; a fault of the input, or of an output's place, is one line on stderr and exit status 2."""
    if "" not in sys.path:
        # An installed command starts without the working directory, where users' own solvers are.  At the end, so that
        # no file that happens to be there is taken for an installed module.
        sys.path.append("")
    try:
        app()
    except (DataError, MissingExtra, ProblemError, UnknownSolver) as error:
        _end(str(error))
    except FileExistsError as error:
        _end(f"{error.filename} is a file, where a folder is to go; give --out another name")
    except OSError as error:
        _end(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except MemoryError as error:
        _end(f"not enough memory{f': {error}' if str(error) else ''}; request less")
    except OverflowError as error:
        _end(f"a number is too large: {error}")


def _end(message: str) -> NoReturn:
    typer.secho(f"error: {message}", fg="red", err=True)
    sys.exit(2)
