"""`otspec tree`: the static tree with the most expected accepted tokens, by a drafter's measured accuracies."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.cli import options
from otspec.cli.drafters import DrafterOptions
from otspec.cli.groups import with_option_groups
from otspec.cli.options import OutFile
from otspec.cli.prompts import PromptOptions
from otspec.cli.sampling import DecodingOptions, PairOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.settings import Count, Seed, Temperature
from otspec.writing import write_text


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """What `otspec tree` takes."""

    pair: PairOptions
    drafter: DrafterOptions
    text: PromptOptions
    size: Count = 16
    """How many tokens the tree has."""
    depth: Count = 4
    """How many levels it has at most."""
    ranks: Count = 8
    """How many children a node has at most."""
    max_new_tokens: Count = 64
    """How many new tokens every text gets at most."""
    temperature: Temperature = 0.0
    """The temperature of the texts that the drafter is measured on."""
    seed: Seed = 0
    """The seed of the texts."""
    place: DecodingOptions
    out: OutFile | None = None
    """A file to which the list is written as well."""


@with_option_groups
def tree(request: TreeOptions) -> None:
    """Find the static tree with the most expected accepted tokens, by a drafter's accuracies, as Medusa does.

    The target goes on with each prompt; the command counts, by depth and rank, how often the drafter's i-th likeliest
    token is the text's, and makes the tree of the nodes whose products of these are the largest.  `otspec decode
    --tree` takes what is printed, and the file.
    """
    if (nodes := sum(request.ranks**level for level in range(1, min(request.depth, request.size) + 1))) < request.size:
        raise DataError(
            f"--size {request.size}, and there are {nodes} nodes of {request.depth} levels and {request.ranks} ranks; "
            "pass a smaller --size, or a larger --depth or --ranks"
        )
    drafters = request.drafter.check([] if request.drafter.drafter is None else [request.drafter.drafter])
    options.check_apart([request.text.prompts], out=request.out)
    prompts = request.text.read(request.pair.target)
    if not drafters:
        request.pair.check_drafts("a tree is of what one drafts")
    from otspec.decode.methods.drafting import Drafting, drafting
    from otspec.decode.recording.accuracies import TOGETHER, accuracies
    from otspec.verification import best_choices, tree_text

    progress_as_ours()
    request.place.use_threads(TOGETHER)
    made = Drafting(request.pair.load(request.place))
    if request.drafter.drafter is not None:
        wanted = request.drafter.request(made.models, *request.pair.names, request.drafter.drafter_tokens)
        made = drafting(request.drafter.drafter, wanted)
    models = made.models
    rows = request.text.rows(prompts, models, request.max_new_tokens, {"temperature": request.temperature})
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=len(rows))
        found = accuracies(
            models,
            rows,
            depth=request.depth,
            ranks=request.ranks,
            new=request.max_new_tokens,
            temperature=request.temperature,
            seed=request.seed,
            settings=made.settings,
            progress=lambda texts: bar.advance(task, texts),
        )
    choices = best_choices(found, request.size)
    for level, row in enumerate(found.tolist(), start=1):
        console.print(f"depth {level}: {' '.join(f'{one:.3f}' for one in row)}", highlight=False, soft_wrap=True)
    gain = sum(float(found[range(len(one)), one].prod()) for one in choices)
    console.print(f"{request.size} tokens, of which {gain:.2f} are expected to be accepted", highlight=False)
    console.print(f"--tree {tree_text(choices)}", highlight=False, soft_wrap=True)
    if request.out is not None:
        write_text(request.out, tree_text(choices) + "\n")
