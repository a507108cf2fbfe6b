"""`otspec tree`: the static tree of a drafter of which the most tokens are expected to be accepted, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.cli.drafters import DrafterOptions
from otspec.cli.groups import grouped
from otspec.cli.prompts import FORMAT, ChatOptions, read_prompts
from otspec.cli.sampling import DecodingOptions, MaxNewTokens, PairOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.writing import write_text


@grouped
def tree(
    *,
    pair: PairOptions,
    drafter: DrafterOptions,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    chat: ChatOptions,
    size: Annotated[int, options.count(help="How many tokens the tree has.")] = 16,
    depth: Annotated[int, options.count(help="How many levels it has at most.")] = 4,
    ranks: Annotated[int, options.count(help="How many children a node has at most.")] = 8,
    max_new_tokens: MaxNewTokens = 64,
    temperature: Annotated[
        float, options.temperature(help="The temperature of the texts that the drafter is measured on.")
    ] = 0.0,
    seed: Annotated[int, options.seed(help="The seed of the texts.")] = 0,
    place: DecodingOptions,
    out: Annotated[Path | None, options.out_file("--out", help="A file to which the list is written as well.")] = None,
) -> None:
    """Find the static tree that a drafter's accuracies promise the most of, as Medusa does.

    The target goes on with each prompt; by depth and rank it is counted how often the drafter's i-th likeliest token is
    the text's, and the tree is made of the nodes whose products of these are the largest.  `otspec decode --tree` takes
    what is printed, and the file.
    """
    asked = drafter.check([] if drafter.drafter is None else [drafter.drafter])
    said = None if prompts is None else read_prompts(prompts)
    if said is None and pair.target != "shipped":
        raise DataError(f"no prompts for {pair.target}; pass --prompts FILE")
    if not asked:
        pair.check_drafts("a tree is of what one drafts")
    from otspec.decode.methods.drafting import Drafting, drafting
    from otspec.decode.recording.accuracies import TOGETHER, accuracies
    from otspec.decode.shipped import held_out
    from otspec.paths import best_choices, spelled

    progress_as_ours()
    place.use_threads(TOGETHER)
    made = Drafting(pair.load(place))
    if drafter.drafter is not None:
        request = drafter.request(made.models, *pair.names, drafter.drafter_tokens)
        made = drafting(drafter.drafter, request)
    models = made.models
    rows = held_out() if said is None else chat.rows(said, models, max_new_tokens, {"temperature": temperature})
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=len(rows))
        found = accuracies(
            models,
            rows,
            depth=depth,
            ranks=ranks,
            new=max_new_tokens,
            temperature=temperature,
            seed=seed,
            settings=made.settings,
            progress=lambda texts: bar.advance(task, texts),
        )
    choices = best_choices(found, size)
    for level, row in enumerate(found.tolist(), start=1):
        console.print(f"depth {level}: {' '.join(f'{one:.3f}' for one in row)}", highlight=False, soft_wrap=True)
    gain = sum(float(found[range(len(one)), one].prod()) for one in choices)
    console.print(f"{size} tokens, of which {gain:.2f} are expected to be accepted", highlight=False)
    console.print(f"--tree {spelled(choices)}", highlight=False, soft_wrap=True)
    if out is not None:
        write_text(out, spelled(choices) + "\n")
