"""`otspec audit` and `otspec audit-engine`: whether a rule is lossless, and an engine's text its target's own."""

from __future__ import annotations

import inspect
import itertools
import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.settings import AuditSettings
from otspec.cli import options
from otspec.cli.conflicts import CONFLICTS, OF_PATHS, OF_POSITION
from otspec.cli.groups import OptionsFrom, with_option_groups
from otspec.cli.loading import file_of, load
from otspec.cli.names import PATH_FORMS
from otspec.cli.options import ARGUMENT, OutFile
from otspec.cli.prompts import gather
from otspec.cli.sampling import Config, say_own_config
from otspec.errors import ProblemError
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.settings import Count, refuse
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.auditing.engines import Engine, Laws, Sampling
    from otspec.auditing.report import Report


EXIT = {"lossless": 0, "no evidence": 0, "not lossless": 1, "inconclusive": 3, "cannot tell": 3}
"""Exit status by verdict."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What `otspec audit` takes."""

    rule: Annotated[str, ARGUMENT]
    """The rule: module:function, path/to/file.py:function, a class there, a solver such as kseq, or a joint rule
    such as nested."""
    scheme: str | None = None
    """The draft law: {SCHEMES}, or module:function of (q, n); by default iid."""
    n: Count | None = None
    """How many drafts each position has, by default 3."""
    paths: Count | None = None
    """How many independent paths are drafted for a rule that verifies several tokens, by default 2."""
    depth: Count | None = None
    """How many tokens a path has, by default 2."""
    branching: str | None = None
    """In their place: how many children the nodes of each level have, a list."""
    drafter: str | None = None
    """Where drafts really come from: a law as for --scheme, or module:function of (q, n, rng)."""
    shown: str | None = None
    """The q that the rule receives: module:function of q."""
    form: str | None = None
    """How the rule is called: {FORMS}; for paths {PATH_FORMS}."""
    uniforms: int | None = None
    """How many uniforms each call of a rule gets that takes them."""
    json: OutFile | None = None
    """A file to which the result is written as well."""
    settings: Annotated[dict[str, Any], OptionsFrom(AuditSettings)]


@with_option_groups
def audit(request: AuditOptions) -> None:
    """Find out whether a verification rule is lossless: whether its output has the target's law.

    A joint rule, a class with a method verify and a function of (tree, rng) or (target, draft, paths, rng) are for
    several tokens, and so is a solver with --paths, --depth or --branching, which verifies token by token.

    Exit status 0: lossless; 1: not lossless; 2: wrong input; 3: inconclusive.
    """
    from otspec.auditing import audit as run
    from otspec.auditing import audit_paths
    from otspec.auditing.rules.forms import for_paths

    names = (request.rule, request.scheme, request.drafter, request.shown)
    options.check_apart(map(file_of, names), json=request.json)
    shape = {f"--{name}": getattr(request, name) for name in ("paths", "depth", "branching")}
    joint = any(value is not None for value in shape.values()) or request.form in PATH_FORMS
    rule = _rule(request.rule, joint)
    joint = joint or (request.form is None and for_paths(rule))
    of_position = {name: getattr(request, name.lstrip("-")) for name in OF_POSITION}
    refuse(CONFLICTS, {**shape, **of_position, OF_PATHS: joint})
    with progress_bar() as bar:
        task = bar.add_task("auditing", total=None)
        settings: dict[str, Any] = request.settings | {
            "form": request.form,
            "shown": None if request.shown is None else load(request.shown),
            "progress": lambda done, most: bar.update(task, completed=done, total=most),
        }
        result: Report[Any]
        if joint:
            branching = None if request.branching is None else numbers("--branching", request.branching, repeated=True)
            result = audit_paths(rule, request.paths or 2, request.depth or 2, branching=branching, **settings)
        else:
            drafter = None if request.drafter is None else _scheme(request.drafter)
            settings |= {"drafter": drafter, "uniforms": request.uniforms}
            result = run(rule, _scheme(request.scheme or "iid"), request.n or 3, **settings)
    _conclude(result, request.json)


def _conclude(result: Report[Any], json: Path | None) -> None:
    """Show what an audit found, and exit with its status."""
    console.print(str(result), highlight=False, soft_wrap=True)
    if json is not None:
        write_text(json, result.to_json() + "\n")
    raise typer.Exit(EXIT[result.verdict])


def _rule(name: str, joint: bool) -> Any:
    """The rule of that name, one for paths if it is to be."""
    from otspec.catalogue import available
    from otspec.verification import TokenWise
    from otspec.verification.rules.catalogue import BY_PLAN, JOINT, verifier_of_paths

    solvers = [info.name for info in available()]
    if ":" not in name and not joint and name not in (*solvers, *JOINT, BY_PLAN):
        raise ProblemError(
            f"{name!r} is no solver and names no function; write module:function, path/to/file.py:function, "
            f"or one of {', '.join((*solvers, *JOINT))}"
        )
    if ":" not in name or name.partition(":")[0] in solvers:
        return name if not joint and name not in (*JOINT, BY_PLAN) else verifier_of_paths(name)
    rule = load(name)
    try:
        rule = rule() if isinstance(rule, type) else rule
    except TypeError as error:
        raise ProblemError(f"{name} cannot be made without arguments ({error}); give each a default") from error
    return TokenWise(rule) if joint and hasattr(rule, "supports") else rule


def _scheme(name: str) -> Any:
    return load(name) if ":" in name else name


WITHOUT = "none"
"""In place of a model folder: no exact law."""

OF_TARGET = ("transformers", "otspec")
"""Engines that can leave out a target's own generation configuration; a server has to be started without it."""

PYTHON = {"True": "true", "False": "false", "None": "null"}

ALL = {"all": 0, "0": 0}
"""Words for no truncation, in lists of top-k."""


@dataclass(frozen=True, kw_only=True)
class EngineAuditOptions:
    """What `otspec audit-engine` takes."""

    engine: Annotated[str, ARGUMENT]
    """http, transformers, otspec, that of another package, or a function of yours that completes prompts:
    module:function or path/to/file.py:function."""
    target: str | None = None
    """The target model: shipped, or a folder as the engine takes it."""
    draft: str | None = None
    """The draft model, in the same way."""
    drafts: Count | None = None
    """How many tokens are drafted at once."""
    url: str | None = None
    """The address of a server that drafts."""
    plain_url: str | None = None
    """The address of the same server without drafts."""
    model: str | None = None
    """The server's name for the model."""
    set_: list[str] | None = None
    """Another setting of the engine, as name=value; repeat it."""
    law: str | None = None
    """The model that gives the exact law, as transformers reads it: shipped, a folder, or none to compare text
    with drafts to text without; by default the target, if it is shipped or a folder of transformers."""
    dtype: str | None = None
    """The type of its weights, as the engine has them; by default float32."""
    temperature: str = "1"
    """Temperatures, separated by commas; greedy is always tried."""
    top_k: str | None = None
    """How many tokens to keep, in a list too; all keeps all."""
    top_p: str | None = None
    """The mass to keep, in a list too; 1 keeps all."""
    min_p: str | None = None
    """The part of the largest probability to keep, in a list too; 0 keeps all."""
    prompts: Path | None = None
    """{FORMAT} By default four short ones of our own."""
    prompt: list[str] | None = None
    """A prompt; repeat it for several."""
    json: OutFile | None = None
    """A file to which the result is written as well; the texts are stored beside it, in FILE.texts.jsonl, and an
    audit that was interrupted goes on from there."""
    config: Config
    settings: Annotated[dict[str, Any], OptionsFrom(EngineAuditSettings)]


@with_option_groups
def audit_engine(request: EngineAuditOptions) -> None:
    """Find out whether an inference engine's text with drafts is the target's own.

    Exit status 0: no evidence against it; 1: not lossless; 2: wrong input; 3: cannot tell.
    """
    from otspec.auditing.engines import audit_engine as run
    from otspec.auditing.engines.engine import DEFAULT_PROMPTS

    EngineAuditSettings(**request.settings)
    options.check_apart([request.prompts, file_of(request.engine)], json=request.json)
    own_config = request.config.get("own_config", True)
    samplings = _samplings(request.temperature, request.top_k, request.top_p, request.min_p)
    texts: Sequence[str] = DEFAULT_PROMPTS
    if request.prompt or request.prompts:
        texts = [one.turns[0] for one in gather(request.prompt or [], request.prompts)]
    named = {name: getattr(request, name) for name in ("target", "draft", "drafts", "url", "plain_url", "model")}
    settings = {name: value for name, value in named.items() if value is not None}
    settings |= dict(map(_setting, request.set_ or []))
    if not own_config and request.engine in OF_TARGET:
        settings["own_config"] = False
    progress_as_ours()
    laws = _laws(request.law, request.target, request.dtype, own_config)
    audited = _started(request.engine, settings)
    say_own_config(request.target or "the target", getattr(audited, "own_config", getattr(laws, "own_config", {})))
    try:
        with progress_bar() as bar:
            task = bar.add_task(f"auditing {audited.name}", total=None)
            result = run(
                audited,
                samplings,
                texts,
                laws=laws,
                store=None if request.json is None else request.json.with_name(f"{request.json.name}.texts.jsonl"),
                about={"settings": {name: value for name, value in settings.items() if name != "key"}},  # a secret
                progress=lambda done, most: bar.update(task, completed=done, total=most),
                **request.settings,
            )
    finally:
        audited.close()
    _conclude(result, request.json)


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
    """Name and value of ``name=value``: a number, true, false, or a word; True, False and None as Python has them."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise ProblemError(f"--set {text!r} is no setting; write name=value")
    try:
        return name.strip(), json_module.loads(PYTHON.get(value, value))
    except ValueError:
        return name.strip(), value
