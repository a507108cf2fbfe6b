"""`otspec audit-engine`: find out whether an inference engine's text with drafts is the target's own."""

from __future__ import annotations

import inspect
import itertools
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.cli import options
from otspec.cli.groups import Of, grouped
from otspec.cli.loading import load
from otspec.cli.prompts import FORMAT, gather
from otspec.cli.sampling import OwnConfig, say_own_config
from otspec.errors import ProblemError
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.auditing.engines import Engine, Laws, Sampling

EXIT = {"no evidence": 0, "not lossless": 1, "cannot tell": 3}
"""Exit status by verdict."""

WITHOUT = "none"
"""In place of a model folder: no exact law."""

OF_TARGET = ("transformers", "otspec")
"""Engines that leave a target's own generation configuration out where they are asked to; a server is started so."""

ALL = {"all": 0, "0": 0}
"""Words for no truncation, in lists of top-k."""


@grouped
def audit_engine(
    *,
    engine: Annotated[
        str,
        typer.Argument(
            help="http, transformers, otspec, that of another package, or a function of yours that completes prompts: "
            "module:function or path/to/file.py:function."
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="The target model: shipped, or a folder as the engine takes it.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="The draft model, in the same way.")] = None,
    drafts: Annotated[int | None, options.count(help="How many tokens are drafted at once.")] = None,
    url: Annotated[str | None, typer.Option(help="Of a server that drafts.")] = None,
    plain_url: Annotated[str | None, typer.Option(help="Of the same server without drafts.")] = None,
    model: Annotated[str | None, typer.Option(help="What the server calls the model.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--set", help="Another setting of the engine, as name=value; repeat it.")
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(
            help=f"The model that tells the exact law, as transformers reads it: shipped, a folder, or {WITHOUT} to "
            "compare text with drafts with text without.",
            show_default="the target, if it is shipped or a folder of transformers",
        ),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="The type of its weights, as the engine has them.", show_default="float32")
    ] = None,
    temperature: Annotated[str, typer.Option(help="Temperatures, separated by commas; greedy is always tried.")] = "1",
    top_k: Annotated[str | None, typer.Option(help="How many tokens to keep, in a list too; all keeps all.")] = None,
    top_p: Annotated[str | None, typer.Option(help="The mass to keep, in a list too; 1 keeps all.")] = None,
    min_p: Annotated[
        str | None, typer.Option(help="The part of the largest probability to keep, in a list too; 0 keeps all.")
    ] = None,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="four short ones of our own")] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; repeat it for several.")] = None,
    json: Annotated[
        Path | None,
        options.out_file(
            "--json",
            help="A file to which the result is written as well; the texts are kept beside it, in FILE.texts.jsonl, "
            "and an audit that was interrupted goes on from there.",
        ),
    ] = None,
    own_config: OwnConfig = True,
    settings: Annotated[dict[str, Any], Of(EngineAuditSettings)],
) -> None:
    """Find out whether an inference engine's text with drafts is the target's own.

    Exit status 0: no evidence against it; 1: not lossless; 2: wrong input; 3: cannot tell.
    """
    from otspec.auditing.engines import audit_engine as run
    from otspec.auditing.engines.engine import DEFAULT_PROMPTS

    EngineAuditSettings(**settings)
    samplings = _samplings(temperature, top_k, top_p, min_p)
    texts = [one.turns[0] for one in gather(prompt or [], prompts)] if prompt or prompts else DEFAULT_PROMPTS
    given = {"target": target, "draft": draft, "drafts": drafts, "url": url, "plain_url": plain_url, "model": model}
    asked = {name: value for name, value in given.items() if value is not None} | dict(map(_setting, more or []))
    if not own_config and engine in OF_TARGET:
        asked["own_config"] = False
    progress_as_ours()
    laws = _laws(law, target, dtype, own_config)
    audited = _started(engine, asked)
    say_own_config(target or "the target", getattr(audited, "own_config", getattr(laws, "own_config", {})))
    try:
        with progress_bar() as bar:
            task = bar.add_task(f"auditing {audited.name}", total=None)
            result = run(
                audited,
                samplings,
                texts,
                laws=laws,
                store=None if json is None else json.with_name(f"{json.name}.texts.jsonl"),
                about={"settings": asked},
                progress=lambda done, most: bar.update(task, completed=done, total=most),
                **settings,
            )
    finally:
        audited.close()
    console.print(str(result), highlight=False, soft_wrap=True)
    if json is not None:
        write_text(json, result.to_json() + "\n")
    raise typer.Exit(EXIT[result.verdict])


def _started(name: str, settings: dict[str, Any]) -> Engine:
    """An adapter by its name, or what is named in a module: a function that completes, or a class of engines."""
    from otspec.auditing.engines.adapters import make, start
    from otspec.auditing.engines.adapters.function import Function

    if ":" not in name:
        return start(name, settings)
    found = load(name)
    return make(name, found, settings) if inspect.isclass(found) else Function(found, settings)


def _laws(law: str | None, target: str | None, dtype: str | None, own_config: bool) -> Laws | None:
    """The exact laws: of the model that is named, or of the target where transformers reads it."""
    from otspec.auditing.engines import ModelLaws

    name = law or _readable(target)
    return None if name is None or name == WITHOUT else ModelLaws.load(name, dtype, own_config=own_config)


def _readable(model: str | None) -> str | None:
    """The name of a model that transformers reads as it is."""
    return model if model is not None and (model == "shipped" or (Path(model) / "config.json").is_file()) else None


def _samplings(temperature: str, top_k: str | None, top_p: str | None, min_p: str | None) -> list[Sampling]:
    """Every temperature with every truncation."""
    from otspec.auditing.engines import Sampling

    lists = (
        options.numbers_of("--temperature", temperature, options.checked_temperature),
        [None] if top_k is None else [one or None for one in numbers("--top-k", top_k, ALL)],
        [None] if top_p is None else options.numbers_of("--top-p", top_p, options.checked_mass),
        [None] if min_p is None else options.numbers_of("--min-p", min_p, options.checked_probability),
    )
    return [Sampling(*values) for values in itertools.product(*lists)]


def _setting(text: str) -> tuple[str, Any]:
    """Name and value of ``name=value``: a number, true, false, or a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise ProblemError(f"--set {text!r} is no setting; write name=value")
    try:
        return name.strip(), json_module.loads(value)
    except ValueError:
        return name.strip(), value
