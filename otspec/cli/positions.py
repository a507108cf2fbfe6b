"""`otspec positions`: positions of a profile as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.cli.names import PROFILES
from otspec.errors import DataError
from otspec.reporting.console import console, progress_bar


@options.holding
def positions(
    profile: Annotated[str, typer.Argument(help=f"The profile: one of {', '.join(PROFILES)}.")],
    out: Annotated[Path, options.out_file(help="The .npz file to write.")],
    count: Annotated[int, typer.Option("--positions", help="How many positions to write.", min=1)] = 8,
    seed: Annotated[
        int, options.seed(help="The seed of synthetic positions; the same seed gives the same positions.")
    ] = 0,
) -> None:
    """Write positions of a profile (float32 logits of target and draft) in the format that `otspec solve` reads."""
    from otspec.data import NAMES, check_positions, open_source, write_npz

    if profile not in NAMES:
        raise DataError(f"no profile {profile!r}; known: {', '.join(NAMES)}")
    if out.suffix != ".npz":
        raise DataError(f"{out} would not be read back; give --out a name that ends in .npz")
    source = open_source(profile, seed)
    check_positions(source, count)
    with progress_bar() as bar:
        write_npz(out, map(source.position, bar.track(range(count), description="generating")))
    console.print(f"{out}: {count} positions of {profile}, V = {source.vocab}")
