"""`otspec decode`: text of a language model, drafted by a smaller one, and what it took."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.drafters import (
    AffinityFile,
    Drafter,
    DrafterTokens,
    Frequencies,
    RouterFile,
    asked_of_drafters,
    read_counts,
)
from otspec.cli.names import DRAFT_LAWS, METHODS, listed
from otspec.cli.prompts import FORMAT, gather
from otspec.cli.sampling import (
    Device,
    DraftConfidence,
    DraftTemperature,
    DraftTopK,
    DraftTopP,
    Dtype,
    MaxNewTokens,
    Pace,
    Target,
    Temperature,
    TopK,
    TopP,
    given,
)
from otspec.errors import ProblemError
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.reporting.tables import TextTable

if TYPE_CHECKING:
    from otspec.decode import Metrics, Tuned


def decode(
    target: Target = "shipped",
    draft: Annotated[
        list[str] | None,
        typer.Option(
            help="The model that drafts, named likewise; may be repeated with --law independent, each for paths of "
            "its own.",
            show_default="shipped",
        ),
    ] = None,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT)] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; may be repeated.")] = None,
    method: Annotated[str, typer.Option(help=f"{listed(METHODS)}.")] = "multi-draft",
    paths: Annotated[int | None, options.count(help="K, independent drafted paths.", show_default="1")] = None,
    depth: Annotated[int | None, options.count(help="L, tokens of a path.", show_default="3")] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="A joint rule, or token-wise a solver, or a list of them, each for where those before fail.",
            show_default="nested for i.i.d. drafts, which is block for one path",
        ),
    ] = None,
    branching: Annotated[
        str | None, typer.Option(help="In place of paths and depth: children per node of each level, a list.")
    ] = None,
    law: Annotated[
        str | None, typer.Option(help=f"How siblings are drawn: {listed(DRAFT_LAWS)}.", show_default="iid")
    ] = None,
    drafter: Drafter = None,
    drafter_tokens: DrafterTokens = None,
    frequencies: Frequencies = None,
    router: RouterFile = None,
    affinity: AffinityFile = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="In place of all that: a file that `otspec tune` wrote.")
    ] = None,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    draft_temperature: DraftTemperature = None,
    draft_top_k: DraftTopK = None,
    draft_top_p: DraftTopP = None,
    draft_confidence: DraftConfidence = None,
    pace: Pace = None,
    max_new_tokens: MaxNewTokens = 64,
    stop: Annotated[list[str] | None, typer.Option(help="End the text after this string; may be repeated.")] = None,
    batch: Annotated[int, options.count(help="Prompts decoded together.")] = 1,
    seed: Annotated[int, options.seed(help="Of the first batch; the next has seed + 1.")] = 0,
    device: Device = None,
    dtype: Dtype = None,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Show where a step's time goes, beside the passes with nothing around them."),
    ] = False,
    json_file: Annotated[
        Path | None, options.out_file("--json", help="Also write texts and numbers, a JSON line per batch.")
    ] = None,
) -> None:
    """Go on with each prompt as the target would, and show what that took.

    By default K paths of L tokens are verified jointly (nested labels, block verification); --solver interval verifies
    them node by node by optimal transport.  All methods but typical leave the law of the text as it is.
    """
    texts = gather(prompt or [], prompts)
    import torch

    from otspec.decode.base.metrics import Metrics
    from otspec.decode.methods.catalogue import decoder, lossless, method_of, warm_up
    from otspec.decode.methods.drafting import Given
    from otspec.decode.methods.drafting import drafting as drafting_of
    from otspec.decode.models import replay
    from otspec.decode.models.head import with_head_for, without_head
    from otspec.decode.pair.loading import batch_of, encode, load_models
    from otspec.results import SolveError

    drafts = given(
        draft_temperature=draft_temperature,
        draft_top_k=draft_top_k,
        draft_top_p=draft_top_p,
        draft_confidence=draft_confidence,
    )
    said = settings = _settings(paths, depth, solver, branching, law, pace, drafts)
    asked = asked_of_drafters(
        [] if drafter is None else [drafter],
        drafter_tokens=drafter_tokens,
        frequencies=frequencies,
        router=router,
        affinity=affinity,
    )
    tuned = None if settings_file is None else _tuned(settings_file, method, {**settings, **asked})
    if tuned is not None:
        method, said = tuned.method, dict(tuned.settings)
        settings = said
    chosen = method_of(method, settings, batch)
    paced_by = _costs_in(pace)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    progress_as_ours()
    drafting = (draft or ["shipped"]) if chosen.drafts else []
    models = load_models(target, drafting, device, dtype)
    if tuned is not None:
        tuned.check_models(models.target, models.draft)
        if changes := tuned.changes(models.target, sampling):
            typer.secho(
                f"note: {settings_file} was tuned for something else: {', '.join(changes)}", fg="yellow", err=True
            )
    if drafter is not None:
        counts = read_counts(frequencies)
        known = Given(models, target, ", ".join(drafting), drafter_tokens, counts, router, affinity)
        named = drafting_of(drafter, known)
        models, said, settings = named.models, {**said, **named.said}, {**settings, **named.settings}
    if paced_by is not None:
        paced_by.check_models(models.target, models.draft)
        settings = {**settings, "pace": paced_by.pace}
    run = decoder(method, models, settings)
    rows = encode(models.tokenizer, texts)
    more = {**sampling, "max_new_tokens": max_new_tokens, **({"stop_strings": stop} if stop else {})}
    about: dict[str, Any] = {"target": target, "draft": drafting if len(drafting) > 1 else next(iter(drafting), None)}
    about |= {"method": method, "lossless": lossless(chosen, settings), **said, **sampling}
    about["max_new_tokens"] = max_new_tokens
    total, floors = Metrics(), Counter[str]()
    by_phase = {"target": models.target, "draft": models.draft}
    if models.draft is not None and models.matching is None and (kept := settings.get("draft_tokens")) is not None:
        by_phase["draft"] = with_head_for(models.draft, torch.from_numpy(kept))
    elif models.draft is not None and "draft_shortlist" in settings:
        by_phase["draft"] = without_head(models.draft)[0]
    with ExitStack() as stack:
        lines = None if json_file is None else stack.enter_context(json_file.open("w", encoding="utf-8"))
        bar = stack.enter_context(progress_bar())
        for number, start in enumerate(bar.track(range(0, len(rows), batch), description="decoding")):
            inputs = batch_of(rows[start : start + batch], models.target.device)
            try:
                if number == 0:
                    warm_up(run, inputs, sampling, max_new_tokens)
                generation = run(**inputs, **more, seed=seed + number)
            except SolveError as error:
                raise ProblemError(f"{error}. Name who takes over where it fails: --solver takes a list") from error
            new = [models.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in generation.new_tokens]
            metrics = generation.metrics
            total += metrics
            if profile:
                floors.update(replay.floors(by_phase, generation.passes))
            _show(texts[start : start + batch], new)
            if lines is not None:
                line = {**about, "seed": seed + number, "prompts": texts[start : start + batch], "texts": new}
                line |= {"new_tokens": generation.new_tokens, **metrics.record()}
                lines.write(json.dumps({**line, "block_efficiency": metrics.block_efficiency}) + "\n")
    console.rule(characters="-", style="dim")
    spelt = ", ".join(f"{name} {_spelt(value)}" for name, value in said.items())
    console.print(f"{method}{f' ({spelt})' if spelt else ''}, {'lossless' if about['lossless'] else 'LOSSY'}")
    for figure in figures(total):
        console.print(figure, highlight=False)
    if profile:
        console.print(_budget(total, floors).on_screen(console.width))


def _settings(
    paths: int | None,
    depth: int | None,
    solver: str | None,
    branching: str | None,
    law: str | None,
    pace: str | None,
    drafts: Mapping[str, float],
) -> dict[str, Any]:
    """Those settings of a method that the user gave."""
    from otspec.verification.rules.catalogue import rule

    settings = given(
        paths=paths,
        depth=depth,
        solver=None if solver is None else rule(solver),
        branching=None if branching is None else numbers("--branching", branching, repeated=True),
        law=law,
        pace=pace,
        **drafts,
    )
    if "branching" in settings and {"paths", "depth"} & settings.keys():
        raise ProblemError("--branching says how many paths there are and how deep; leave out --paths and --depth")
    return settings


def _tuned(path: Path, method: str, settings: Mapping[str, Any]) -> Tuned:
    """The file's settings, which go with none from the command line."""
    from otspec.decode import Tuned

    if settings or method != "multi-draft":
        others = ", ".join(f"--{name.replace('_', '-')}" for name in settings) or "--method"
        raise ProblemError(f"--settings says how to decode; leave out {others}")
    return Tuned.load(path)


def _costs_in(pace: str | None) -> Tuned | None:
    """The file that a pace names, if it is one."""
    from otspec.decode import Tuned

    file = None if pace is None else Path(pace)
    return Tuned.load(file) if file is not None and (file.suffix == ".json" or file.is_file()) else None


def _show(prompts: Sequence[str], texts: Sequence[str]) -> None:
    for prompt, text in zip(prompts, texts, strict=True):
        console.rule(characters="-", style="dim")
        console.print(prompt, style="dim", end="", highlight=False, soft_wrap=True)
        console.print(text, highlight=False, soft_wrap=True)


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


def _budget(metrics: Metrics, floors: Mapping[str, float]) -> TextTable:
    """Where the time of a step goes."""
    steps = max(metrics.target_calls, 1)
    spent = {phase: seconds for phase, seconds in metrics.seconds.items() if phase != "prompt"}
    whole, least = sum(spent.values()), sum(floors.values())
    rows: list[tuple[str, ...]] = [
        (
            phase,
            f"{1e3 * seconds / steps:.3f}",
            f"{seconds / whole:.1%}",
            f"{1e3 * floors[phase] / steps:.3f}" if phase in floors else "-",
        )
        for phase, seconds in spent.items()
    ]
    rows.append(("a step", f"{1e3 * whole / steps:.3f}", "", f"{1e3 * least / steps:.3f}"))
    ratio = f"a step takes {whole / least:.2f} times its floor" if least else "this method tells no passes"
    note = f"Milliseconds of a step, prompts left out. Floor: the same passes with nothing around them; {ratio}."
    return TextTable(f"Where {steps} steps go", ("phase", "ms", "share", "floor"), rows, note, labels=1)


def _spelt(value: object) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return str(value)
    return ",".join(map(_spelt, value))
