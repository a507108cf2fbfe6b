"""`otspec record`: laws of a pair of models along the target's own text, as a file of positions or drafted trees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.cli.groups import grouped
from otspec.cli.prompts import FORMAT, ChatOptions, read_prompts
from otspec.cli.sampling import DecodingOptions, PairOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar


@options.holding
@grouped
def record(
    *,
    out: Annotated[Path, options.out_file(help="The .safetensors file to write.")],
    pair: PairOptions,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    chat: ChatOptions,
    positions: Annotated[
        int, options.count("--positions", help="How many positions or trees to record, spread over the prompts.")
    ] = 256,
    paths: Annotated[
        int | None,
        options.count(
            help="How many paths the tree has that is drafted at each position.", show_default="positions alone"
        ),
    ] = None,
    depth: Annotated[
        int | None, options.count(help="How many tokens each path has.", show_default="positions alone")
    ] = None,
    top_k: Annotated[
        int | None,
        options.count(
            help="Keep the draft model's k likeliest tokens and the mass of the rest: enough for drafts of top-k k or "
            "fewer at temperature 1, and for nothing else. For trees: draft from the k likeliest, and keep these.",
            show_default="all tokens",
        ),
    ] = None,
    rest_at: Annotated[
        str,
        typer.Option(
            help="With --top-k, for positions: the temperatures that the mass of the rest is kept at, a list; what is "
            "solved later is solved at one of them."
        ),
    ] = "1",
    store: Annotated[
        str,
        typer.Option(
            help="The type that laws are stored in: float16, bfloat16 or float32; the file says how far that is off."
        ),
    ] = "float16",
    max_new_tokens: Annotated[int, options.count(help="How many tokens a text has after its prompt, at most.")] = 32,
    temperature: Annotated[
        float, options.temperature(help="The temperature of the texts; for trees, that of both models' laws as well.")
    ] = 1.0,
    seed: Annotated[int, options.seed(help="The seed of the texts and of the places in them.")] = 0,
    batch: Annotated[int, options.count(help="How many texts of a prompt are written together.")] = 8,
    place: DecodingOptions,
) -> None:
    """Record the laws of a pair of models in a file, which --data and `otspec solve` read without any model.

    The target goes on with each prompt, and at a random place of that text both models' next-token logits are kept.
    With --paths and --depth a tree is drafted there, and both models' laws at its nodes are kept: see `otspec bench
    paths`.  The header of the file says where they are from: models and fingerprints, prompts, seed, versions, and the
    error of storing.  A run that is killed goes on from OUT.part when the same command is given again.
    """
    if out.suffix != ".safetensors":
        raise DataError(f"{out} would not be read back; give --out a name that ends in .safetensors")
    if out.exists():
        raise DataError(f"{out} is there already; delete it, or give --out another name")
    if (paths is None) != (depth is None):
        raise DataError("trees have both --paths and --depth; pass the other one too, or neither to record positions")
    said = None if prompts is None else read_prompts(prompts)
    if said is None and pair.target != "shipped":
        raise DataError(f"no prompts for {pair.target}; pass --prompts FILE")
    pair.check_drafts("laws of two are recorded")
    temperatures = options.numbers_of("--rest-at", rest_at, options.checked_temperature)
    from otspec.decode.recording.positions import Recording
    from otspec.decode.recording.positions import record as recorded
    from otspec.decode.recording.trees import TreeRecording
    from otspec.decode.shipped import held_out

    progress_as_ours()
    place.use_threads(batch)
    models = pair.load(place)
    given = (
        models,
        pair.names,
        held_out() if said is None else chat.rows(said, models, max_new_tokens, {"temperature": temperature}),
        positions,
        max_new_tokens,
        temperature,
        seed,
        store,
        top_k,
        batch,
        temperatures,
    )
    recording = Recording(*given) if paths is None or depth is None else TreeRecording(*given, paths, depth)
    with progress_bar() as bar:
        task = bar.add_task("recording", total=positions)
        about = recorded(recording, out, lambda rows: bar.advance(task, rows))
    error = about["error_of_storing"]
    whole = "all tokens" if top_k is None else f"the {top_k} likeliest drafts and the mass of the rest"
    what = "positions" if paths is None else f"trees of {paths} x {depth} tokens, laws"
    console.print(
        f"{out}: {positions} {what} of {whole}, V = {about['vocab']}; one draft is accepted with probability "
        f"{about['acceptance']:.4f}; as {store} a law of the target is off by at most {error['target_l1_max']:.1e} "
        f"(L1), of the draft model by {error['draft_l1_max']:.1e}, that acceptance at a position by "
        f"{error['acceptance_max']:.1e}",
        highlight=False,
        soft_wrap=True,
    )
