"""`otspec decode`: text of a language model, drafted by a smaller one, and what it took."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text as RichText

from otspec.cli.conflicts import CONFLICTS, NO_STEPS
from otspec.cli.drafters import DrafterOptions
from otspec.cli.groups import OptionsFrom, with_option_groups
from otspec.cli.options import OutFile, check_apart
from otspec.cli.prompts import ChatOptions, gather
from otspec.cli.sampling import DecodingOptions, Sampling, draft_names, sampling_of
from otspec.decode.settings import DraftSettings
from otspec.errors import ProblemError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.reporting.machine import load_average
from otspec.settings import Count, Seed, Whole, refuse
from otspec.writing import named

if TYPE_CHECKING:
    from otspec.decode import Generation, Metrics, Tuned
    from otspec.decode.base.text import StepRecord
    from otspec.decode.methods.catalogue import Method
    from otspec.decode.pair.conversations import Conversation, Turn
    from otspec.decode.pair.loading import Models


LOGPROBS = ("logprobs", "raw_logprobs", "top_logprobs")
"""Fields of a line of --json."""


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """What `otspec decode` takes."""

    target: str = "shipped"
    """The target model, whose text is written: {MODEL}"""
    draft: list[str] | None = None
    """The draft model, named in the same way, or none; with --law independent, repeat it: each drafts its own paths. By
    default {BY_TARGET}."""
    prompts: Path | None = None
    """{FORMAT}"""
    prompt: list[str] | None = None
    """A prompt; repeat the option for more of them."""
    chat: ChatOptions
    method: str = "multi-draft"
    """The method: {METHODS}."""
    drafts: Annotated[dict[str, Any], OptionsFrom(DraftSettings)]
    drafter: DrafterOptions
    settings: Path | None = None
    """A file that `otspec tune` wrote, whose settings stand in place of all these."""
    sampling: Sampling
    max_new_tokens: Count = 64
    """How many new tokens every text gets at most."""
    stop: list[str] | None = None
    """End the text after this string; repeat the option for more of them."""
    batch: Count = 1
    """How many prompts are decoded together."""
    seed: Seed = 0
    """The seed of the first batch; the next one has seed + 1."""
    place: DecodingOptions
    transcript: bool = False
    """Show in each text what every step accepted of its drafts, what it rejected, and the token that the target added;
    --json has all of it, as token ids."""
    logprobs: Whole | None = None
    """Write the target's log-probability of every new token, and of so many likeliest ones beside it, to --json, and
    show the mean."""
    json: OutFile | None = None
    """A file to which texts and numbers are written as well, a JSON line per batch."""

    def settings_of(self, way: DecodeRequest) -> dict[str, Any]:
        """The arguments of a method, but for prompts, sampling and the seed."""
        wanted = {"transcript": self.transcript, "logprobs": self.logprobs}
        passed = {f"--{name}": one for name, one in wanted.items()}
        refuse(CONFLICTS, {**passed, NO_STEPS: way.method.strategy is None}, {NO_STEPS: f"the method {way.name}"})
        chosen = {name: one for name, one in wanted.items() if one is not None and one is not False}
        return {"max_new_tokens": self.max_new_tokens, **({"stop_strings": self.stop} if self.stop else {}), **chosen}


@with_option_groups
def decode(request: DecodeOptions) -> None:
    """Go on with each prompt as the target would, or answer it, and show what that took.

    By default K paths of L tokens are verified jointly (nested labels, block verification); --solver interval verifies
    them node by node by optimal transport.  All methods but typical and
    greedy-lenience leave the law of the text as it is.
    """
    prompts = gather(request.prompt or [], request.prompts)
    check_apart([request.prompts], json=request.json)
    from otspec.decode import Metrics

    way = _way(request)
    progress_as_ours()
    request.place.use_threads(request.batch)
    loaded = _load(request, way)
    conversations = request.chat.conversations(prompts, loaded.models, request.max_new_tokens)
    text_settings, size = request.settings_of(way), request.batch
    batches = [conversations[start : start + size] for start in range(0, len(conversations), size)]
    turns = sum(max(one.count for one in own) for own in batches)
    total, scores = Metrics(), list[float]()
    with ExitStack() as stack:
        lines = None
        if request.json is not None:
            stack.enter_context(named(request.json))
            lines = stack.enter_context(request.json.open("w", encoding="utf-8"))
        bar = stack.enter_context(progress_bar())
        for one in bar.track(loaded.decode(batches, text_settings, request), turns, description="decoding"):
            generation, going = one.turn.generation, [size * one.batch + at for at in one.turn.going]
            own = [prompts[at].turns[one.turn.number] for at in going]
            total += generation.metrics
            scores += [score for of_text in generation.logprobs for score in of_text]
            texts = [loaded.text(tokens) for tokens in generation.new_tokens]
            _show(own, [_in_blocks(loaded.text, blocks) for blocks in generation.blocks] or texts)
            if lines is not None:
                about = {**loaded.about, "seed": one.seed, "prompts": own, "texts": texts}
                if turns > len(batches):
                    about |= {"conversations": going, "turn": one.turn.number}
                lines.write(json.dumps(about | _record(generation, request)) + "\n")
    console.rule(characters="-", style="dim")
    options = ", ".join(f"{name} {_text(value)}" for name, value in loaded.way.options.items())
    lossless = "lossless" if loaded.about["lossless"] else "LOSSY"
    console.print(f"{loaded.way.name}{f' ({options})' if options else ''}, {lossless}")
    for figure in figures(total):
        console.print(figure, highlight=False)
    if scores:
        console.print(f"log-probability {sum(scores) / len(scores):.4f} nats a token", highlight=False)


def _record(generation: Generation, request: DecodeOptions) -> dict[str, Any]:
    """The fields of a line of --json for a batch, after those of the request."""
    from torch import get_num_threads

    metrics = generation.metrics
    line: dict[str, Any] = {"threads": get_num_threads(), "load": load_average(), "new_tokens": generation.new_tokens}
    line |= metrics.record() | metrics.served_record()
    line["of_texts"] = [one.served_record() for one in generation.metrics_of_texts]
    if request.transcript:
        line["blocks"] = [[one._asdict() for one in blocks] for blocks in generation.blocks]
    if request.logprobs is not None:
        line |= {name: getattr(generation, name) for name in LOGPROBS}
    return {**line, "block_efficiency": metrics.block_efficiency}


class DecodeRequest(NamedTuple):
    """How to decode, before models are loaded."""

    name: str
    """The method's name."""
    method: Method
    settings: Mapping[str, Any]
    """The method's arguments."""
    options: Mapping[str, Any]
    """The same as options of the command."""
    tuned: Tuned | None = None
    """The contents of the file that it is from."""


def _way(request: DecodeOptions) -> DecodeRequest:
    """How to decode: by the options, or by a file that `otspec tune` wrote."""
    from otspec.decode import Tuned
    from otspec.decode.methods.catalogue import method_of

    drafts, drafter = request.drafts, request.drafter
    DraftSettings(**drafts)  # raises where two contradict
    needed = drafter.check([] if drafter.drafter is None else [drafter.drafter])
    if request.settings is None:
        method = method_of(request.method, drafts, request.batch)
        return DecodeRequest(request.method, method, drafts, drafts)
    passed = [*drafts, *(option for option in needed if option != "drafter")]  # that is a draft model, or is refused
    if passed or request.method != "multi-draft":
        others = ", ".join(f"--{option.replace('_', '-')}" for option in passed) or "--method"
        raise ProblemError(f"--settings sets how to decode; leave out {others}")
    tuned = Tuned.load(request.settings)
    settings = dict(tuned.settings)
    return DecodeRequest(tuned.method, method_of(tuned.method, settings, request.batch), settings, settings, tuned)


class Decoded(NamedTuple):
    """A turn of a batch of conversations."""

    batch: int
    """Number of the batch."""
    turn: Turn
    seed: int
    """The seed that repeats it."""


@dataclass(frozen=True)
class LoadedModels:
    """Models, and how to decode with them."""

    way: DecodeRequest
    models: Models
    about: Mapping[str, Any]
    """The first fields of each line of --json."""
    run: Callable[..., Generation]
    """Decodes a batch."""

    def decode(
        self, batches: Sequence[Sequence[Conversation]], text_settings: Mapping[str, Any], request: DecodeOptions
    ) -> Iterator[Decoded]:
        """Decode batches of conversations, turn by turn, each by a seed of its own, after a little warming up."""
        from otspec.decode.methods.catalogue import warm_up
        from otspec.decode.pair.conversations import converse, turn_seed
        from otspec.decode.pair.loading import batch_of
        from otspec.results import SolveError

        device, sampling = self.models.target.device, sampling_of(request.sampling)
        try:
            warm_up(self.run, batch_of([one.first for one in batches[0]], device), sampling, request.max_new_tokens)
            for number, own in enumerate(batches):

                def decode(rows: Sequence[Sequence[int]], turn: int, first: int = request.seed + number) -> Generation:
                    return self.run(**batch_of(rows, device), **sampling, **text_settings, seed=turn_seed(first, turn))

                for turn in converse(own, decode, self.models.tokenizer):
                    yield Decoded(number, turn, turn_seed(request.seed + number, turn.number))
        except SolveError as error:
            raise ProblemError(f"{error}. Name a solver for where it fails: --solver takes a list") from error

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        decoded: str = self.models.tokenizer.decode(tokens, skip_special_tokens=True)
        return decoded


def _load(request: DecodeOptions, way: DecodeRequest) -> LoadedModels:
    """Load the models and the drafter."""
    from otspec.decode.methods.catalogue import METHODS, decoder, lossless
    from otspec.decode.methods.drafting import drafting
    from otspec.decode.models.own_config import own_config
    from otspec.verification.rules.catalogue import spelt

    target, drafter = request.target, request.drafter
    names = draft_names(target, request.draft) if way.method.drafts else []  # a drafter may bring its own, too
    models = request.place.load(target, names)
    if drafter.drafter is not None:
        found = drafting(drafter.drafter, drafter.request(models, target, ", ".join(names), drafter.drafter_tokens))
        models = found.models
        if way.tuned is not None and found.settings:
            raise ProblemError("--settings sets how to decode; leave out --drafter")
        way = way._replace(settings={**way.settings, **found.settings}, options={**way.options, **found.options})
    way = way._replace(options={name: spelt(value) for name, value in way.options.items()})
    sampling = sampling_of(request.sampling)
    if way.tuned is not None:
        way.tuned.check_models(models.target, models.draft)
        if changes := ", ".join(way.tuned.changes(models.target, sampling)):
            typer.secho(f"note: {request.settings} was tuned for something else: {changes}", fg="yellow", err=True)
    if way.method.drafts and models.draft is None:
        raise ProblemError(
            f"{way.name} drafts with a model, and there is none for {target}; pass --draft, or a --method without one: "
            f"{', '.join(name for name, one in METHODS.items() if not one.drafts)}"
        )
    about = {
        "target": target,
        "draft": names if len(names) > 1 else next(iter(names), None),
        "method": way.name,
        "lossless": lossless(way.method, way.settings),
        **way.options,
        "own_config": own_config(models.target, greedy=sampling["temperature"] == 0),
        **sampling,
        "max_new_tokens": request.max_new_tokens,
    }
    return LoadedModels(way, models, about, decoder(way.name, models, way.settings))


def _in_blocks(decode: Callable[[Sequence[int]], str], blocks: Sequence[StepRecord]) -> RichText:
    """A text, step by step: green what was accepted, struck out the first of what was rejected, then the new token."""
    shown = RichText()
    for block in blocks:
        shown.append(decode(block.accepted), "green")
        if block.rejected:
            shown.append(f"[{decode(block.rejected[0])}]", "red strike")
        shown.append(decode([block.token]), "bold")
    return shown


def _show(prompts: Sequence[str], texts: Sequence[str | RichText]) -> None:
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


def _text(value: object) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return str(value)
    return ",".join(map(_text, value))
