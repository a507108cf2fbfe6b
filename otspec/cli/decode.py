"""`otspec decode`: text of a language model, drafted by a smaller one, and what it took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli.prompts import FORMAT, gather
from otspec.errors import ProblemError
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.results import SolveError

if TYPE_CHECKING:
    from otspec.decode import Metrics

METHODS = "multi-draft, vanilla, single, block, prompt-lookup, typical or assisted"
MODEL = "shipped, a folder written by save_pretrained, or a name on the hub."
DTYPE = "auto (as saved), float32, float64, bfloat16 or float16; on the CPU float32 unless told otherwise."
DEVICE = "cpu, cuda, cuda:1, ...; a GPU if there is one."


def decode(
    target: Annotated[str, typer.Option(help=f"The model whose text it is: {MODEL}")] = "shipped",
    draft: Annotated[str, typer.Option(help="The model that drafts, named likewise.")] = "shipped",
    prompts: Annotated[Path | None, typer.Option(help=FORMAT)] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; may be repeated.")] = None,
    method: Annotated[str, typer.Option(help=f"{METHODS}.")] = "multi-draft",
    paths: Annotated[int | None, typer.Option(help="K, independent drafted paths.", show_default="4")] = None,
    depth: Annotated[int | None, typer.Option(help="L, tokens of a path.", show_default="8")] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="A joint rule, or token-wise a solver, or a list of them, each for where those before fail.",
            show_default="nested for independent paths",
        ),
    ] = None,
    branching: Annotated[
        str | None, typer.Option(help="In place of paths and depth: children per node of each level, a list.")
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(help="How siblings are drawn: iid, without_replacement, greedy or top_k.", show_default="iid"),
    ] = None,
    temperature: Annotated[float, typer.Option(help="Of both models; 0 is greedy.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Keep the k likeliest tokens of both models.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Keep the likeliest tokens of this mass.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Of every text.", min=1)] = 64,
    stop: Annotated[list[str] | None, typer.Option(help="End the text after this string; may be repeated.")] = None,
    batch: Annotated[int, typer.Option(help="Prompts decoded together.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Of the first batch; the next has seed + 1.", min=0)] = 0,
    device: Annotated[str | None, typer.Option(help=DEVICE)] = None,
    dtype: Annotated[str | None, typer.Option(help=DTYPE)] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write texts and numbers, a JSON line per batch.")
    ] = None,
) -> None:
    """Go on with each prompt as the target would, and show what that took.

    By default K paths of L tokens are verified jointly (nested labels, block verification); --solver interval verifies
    them node by node by optimal transport.  All methods but typical leave the law of the text as it is.
    """
    texts = gather(prompt or [], prompts)
    from otspec.decode.methods.catalogue import decoder, lossless, method_of, rule, warm_up
    from otspec.decode.metrics import Metrics
    from otspec.decode.models.loading import batch_of, encode, load_models

    given: dict[str, Any] = {
        "paths": paths,
        "depth": depth,
        "solver": None if solver is None else rule(solver),
        "branching": None if branching is None else numbers("--branching", branching, repeated=True),
        "law": law,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    if "branching" in settings and {"paths", "depth"} & settings.keys():
        raise ProblemError("--branching says how many paths there are and how deep; leave out --paths and --depth")
    chosen = method_of(method, settings, batch)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    progress_as_ours()
    models = load_models(target, draft if chosen.drafts else None, device, dtype)
    run = decoder(method, models, settings)
    rows = encode(models.tokenizer, texts)
    more = {**sampling, "max_new_tokens": max_new_tokens, **({"stop_strings": stop} if stop else {})}
    about: dict[str, Any] = {"target": target, "draft": draft if chosen.drafts else None, "method": method}
    about |= {"lossless": lossless(chosen, settings), **settings, **sampling, "max_new_tokens": max_new_tokens}
    total = Metrics()
    with ExitStack() as stack:
        lines = None if json_file is None else stack.enter_context(json_file.open("w", encoding="utf-8"))
        bar = stack.enter_context(progress_bar())
        for number, start in enumerate(bar.track(range(0, len(rows), batch), description="decoding")):
            inputs = batch_of(rows[start : start + batch], models.target.device)
            try:
                if number == 0:
                    warm_up(run, inputs, sampling)
                generation = run(**inputs, **more, seed=seed + number)
            except SolveError as error:
                raise ProblemError(f"{error}. Name who takes over where it fails: --solver takes a list") from error
            new = [models.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in generation.new_tokens]
            metrics = generation.metrics
            total += metrics
            for before, after in zip(texts[start : start + batch], new, strict=True):
                console.rule(characters="-", style="dim")
                console.print(before, style="dim", end="", highlight=False, soft_wrap=True)
                console.print(after, highlight=False, soft_wrap=True)
            if lines is not None:
                line = {**about, "seed": seed + number, "prompts": texts[start : start + batch], "texts": new}
                line |= {"new_tokens": generation.new_tokens, **metrics.record()}
                lines.write(json.dumps({**line, "block_efficiency": metrics.block_efficiency}) + "\n")
    console.rule(characters="-", style="dim")
    named = ", ".join(f"{name} {_spelt(value)}" for name, value in settings.items())
    console.print(f"{method}{f' ({named})' if named else ''}, {'lossless' if about['lossless'] else 'LOSSY'}")
    for figure in figures(total):
        console.print(figure, highlight=False)


def figures(metrics: Metrics) -> list[str]:
    """The numbers of a run, in words."""
    accepted = " ".join(f"{share:.2f}" for share in metrics.acceptance)
    seconds = ", ".join(f"{phase} {spent:.2f}" for phase, spent in metrics.seconds.items())
    return [
        f"block efficiency {metrics.block_efficiency:.3f} tokens per target call "
        f"({metrics.tokens} tokens, {metrics.sequence_steps} steps)",
        *([f"drafts accepted to depth 1, 2, ...: {accepted}"] if accepted else []),
        f"seconds: {seconds}; {metrics.tokens / metrics.wall:.1f} tokens/s",
    ]


def _spelt(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
