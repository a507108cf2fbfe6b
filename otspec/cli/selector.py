"""`otspec selector`: what foretells which shape to draft, trained on text that the target writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.cli.prompts import FORMAT, read_prompts
from otspec.cli.sampling import Device, Draft, Dtype, MenuOf, Target, menu_in
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar


def selector(
    out: Annotated[Path, options.out_file("--out", help="The file to write, JSON.")],
    target: Target = "shipped",
    draft: Draft = "shipped",
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    menu: MenuOf = None,
    temperature: Annotated[str, typer.Option(help="Of the texts, a list; above 0.")] = "1",
    max_new_tokens: Annotated[int, options.count(help="Of every text.")] = 96,
    positions: Annotated[int, options.count(help="Places of the texts that are learnt from, about.")] = 4000,
    seed: Annotated[int, options.seed(help="Of the texts, and of the places.")] = 0,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Learn which shape of tree pays after which text, for `otspec decode --selector FILE`.

    The target writes a text after each prompt; what nested labels accept of each shape there follows from both models'
    laws.
    """
    temperatures = options.numbers_of("--temperature", temperature, options.checked_temperature)
    shapes = None if menu is None else menu_in(menu)
    texts = None if prompts is None else read_prompts(prompts)
    if texts is None and target != "shipped":
        raise DataError(f"no prompts for {target}; pass --prompts FILE")
    progress_as_ours()
    from otspec.decode import train_selector
    from otspec.decode.models.loading import encode, load_models
    from otspec.decode.pacing.menu import USUAL
    from otspec.decode.shipped import held_out

    models = load_models(target, draft, device, dtype)
    assert models.draft is not None  # the command always names one
    with progress_bar() as bar:
        task = bar.add_task("reading texts", total=None)
        made = train_selector(
            models.target,
            models.draft,
            held_out() if texts is None else encode(models.tokenizer, texts),
            menu=USUAL if shapes is None else shapes,
            temperatures=temperatures,
            max_new_tokens=max_new_tokens,
            positions=positions,
            seed=seed,
            progress=lambda done, of: bar.update(task, total=of, completed=done),
        )
    made.save(out)
    about = made.about
    told = f"{len(made.menu)} shapes, learnt from {about['positions']} places of {about['texts']} texts"
    console.print(f"Wrote {out}: {told}", highlight=False, soft_wrap=True)
