"""`otspec generate`: positions of a calibrated profile as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli.console import console, progress_bar
from otspec.data import PROFILES, ProfileSource, check_positions, write_npz
from otspec.errors import DataError


def generate(
    profile: Annotated[str, typer.Argument(help=f"One of {', '.join(PROFILES)}.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    positions: Annotated[int, typer.Option(help="How many.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Same seed, same positions.")] = 0,
) -> None:
    """Write synthetic positions (float32 logits of target and draft) in the format that `otspec solve` reads."""
    if profile not in PROFILES:
        raise DataError(f"no profile {profile!r}; known: {', '.join(PROFILES)}")
    if out.suffix != ".npz":
        raise DataError(f"{out} would not be read back; give --out a name that ends in .npz")
    source = ProfileSource(PROFILES[profile], seed)
    count = check_positions(source, positions)
    with progress_bar() as bar:
        write_npz(out, map(source.position, bar.track(range(count), description="generating")))
    console.print(f"{out}: {positions} positions of {profile}, V = {PROFILES[profile].vocab}")
