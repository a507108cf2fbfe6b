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

from otspec.cli import options
from otspec.cli.drafters import DrafterOptions
from otspec.cli.groups import Of, grouped
from otspec.cli.names import METHODS, listed
from otspec.cli.prompts import FORMAT, ChatOptions, gather
from otspec.cli.sampling import DecodingOptions, Drafts, MaxNewTokens, SamplingOptions, Target, draft_names
from otspec.decode.settings import DraftSettings
from otspec.errors import ProblemError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.reporting.machine import load_average
from otspec.writing import named

if TYPE_CHECKING:
    from otspec.decode import Generation, Metrics, Tuned
    from otspec.decode.base.text import Block
    from otspec.decode.methods.catalogue import Method
    from otspec.decode.pair.conversations import Conversation, Turn
    from otspec.decode.pair.loading import Models


LOGPROBS = ("logprobs", "raw_logprobs", "top_logprobs")
"""Fields of a line of --json."""


@grouped
def decode(
    *,
    target: Target = "shipped",
    draft: Drafts = None,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT)] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; repeat the option for more of them.")] = None,
    chat: ChatOptions,
    method: Annotated[str, typer.Option(help=f"The method: {listed(METHODS)}.")] = "multi-draft",
    drafts: Annotated[dict[str, Any], Of(DraftSettings)],
    drafter: DrafterOptions,
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", help="A file that `otspec tune` wrote, whose settings stand in place of all these."),
    ] = None,
    sampling: SamplingOptions,
    max_new_tokens: MaxNewTokens = 64,
    stop: Annotated[
        list[str] | None, typer.Option(help="End the text after this string; repeat the option for more of them.")
    ] = None,
    batch: Annotated[int, options.count(help="How many prompts are decoded together.")] = 1,
    seed: Annotated[int, options.seed(help="The seed of the first batch; the next one has seed + 1.")] = 0,
    place: DecodingOptions,
    transcript: Annotated[
        bool,
        typer.Option(
            "--transcript",
            help="Show in each text what every step accepted of its drafts, what it rejected, and the token that the "
            "target added; --json keeps all of it, as token ids.",
        ),
    ] = False,
    logprobs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Keep the target's log-probability of every new token, and of so many likeliest ones beside it, in "
            "--json; shown is the mean.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        options.out_file(
            "--json", help="A file to which texts and numbers are written as well, a JSON line per batch."
        ),
    ] = None,
) -> None:
    """Go on with each prompt as the target would, or answer it, and show what that took.

    By default K paths of L tokens are verified jointly (nested labels, block verification); --solver interval verifies
    them node by node by optimal transport.  All methods but typical leave the law of the text as it is.
    """
    from torch import get_num_threads

    asked = gather(prompt or [], prompts)
    way = _way(method, drafts, drafter, settings_file, batch)
    progress_as_ours()
    place.use_threads(batch)
    session = _session(way, target, draft_names(target, draft), drafter, sampling, place)
    conversations = chat.conversations(asked, session.models, max_new_tokens)
    limits = {"max_new_tokens": max_new_tokens, **({"stop_strings": stop} if stop else {})}
    if transcript:
        if way.method.strategy is None:
            raise ProblemError(f"{way.name} tells nothing of its steps; leave out --transcript")
        limits |= {"transcript": True}
    if logprobs is not None:
        if way.method.strategy is None:
            raise ProblemError(f"{way.name} keeps no log-probabilities; leave out --logprobs")
        limits |= {"logprobs": logprobs}
    about = {**session.about, **sampling.all, "max_new_tokens": max_new_tokens}
    batches = [conversations[start : start + batch] for start in range(0, len(asked), batch)]
    turns = sum(max(one.count for one in own) for own in batches)
    total, scores = _total(), list[float]()
    with ExitStack() as stack:
        lines = None
        if json_file is not None:
            stack.enter_context(named(json_file))
            lines = stack.enter_context(json_file.open("w", encoding="utf-8"))
        bar = stack.enter_context(progress_bar())
        decoded = bar.track(session.decode(batches, sampling.all, limits, seed), turns, description="decoding")
        for one in decoded:
            number, generation = one.turn.number, one.turn.generation
            going = [batch * one.batch + at for at in one.turn.going]
            own = [asked[at].turns[number] for at in going]
            new = [session.text(tokens) for tokens in generation.new_tokens]
            total += generation.metrics
            scores += [one for own_scores in generation.logprobs for one in own_scores]
            if transcript:
                _show(own, [_in_blocks(session.text, blocks) for blocks in generation.blocks])
            else:
                _show(own, new)
            if lines is not None:
                line = {**about, "seed": one.seed, "prompts": own, "texts": new}
                if turns > len(batches):
                    line |= {"conversations": going, "turn": number}
                line |= {"threads": get_num_threads(), "load": load_average()}
                line |= {"new_tokens": generation.new_tokens, **generation.metrics.record()}
                line |= generation.metrics.served_record()
                line["of_texts"] = [one.served_record() for one in generation.metrics_of_texts]
                if transcript:
                    line["blocks"] = [[one._asdict() for one in blocks] for blocks in generation.blocks]
                if logprobs is not None:
                    line |= {name: getattr(generation, name) for name in LOGPROBS}
                lines.write(json.dumps({**line, "block_efficiency": generation.metrics.block_efficiency}) + "\n")
    console.rule(characters="-", style="dim")
    spelled = ", ".join(f"{name} {_spelled(value)}" for name, value in session.way.spelled.items())
    lossless = "lossless" if session.about["lossless"] else "LOSSY"
    console.print(f"{session.way.name}{f' ({spelled})' if spelled else ''}, {lossless}")
    for figure in figures(total):
        console.print(figure, highlight=False)
    if scores:
        console.print(f"log-probability {sum(scores) / len(scores):.4f} nats a token", highlight=False)


class Way(NamedTuple):
    """How to decode, before models are loaded."""

    name: str
    """Of the method."""
    method: Method
    settings: Mapping[str, Any]
    """What the method takes."""
    spelled: Mapping[str, Any]
    """The same in the words of the command."""
    tuned: Tuned | None = None
    """What the file held that it is from."""
    file: Path | None = None
    paced_by: Tuned | None = None
    """The file that has the costs of its pace."""


def _way(name: str, drafts: Mapping[str, Any], drafter: DrafterOptions, settings_file: Path | None, batch: int) -> Way:
    """How to decode: as the options say, or as a file does that `otspec tune` wrote."""
    from otspec.decode import Tuned
    from otspec.decode.methods.catalogue import method_of

    if "branching" in drafts and {"paths", "depth"} & drafts.keys():
        raise ProblemError("--branching says how many paths there are and how deep; leave out --paths and --depth")
    asked = drafter.check([] if drafter.drafter is None else [drafter.drafter])
    if settings_file is None:
        return Way(name, method_of(name, drafts, batch), drafts, drafts, paced_by=_costs_in(drafts.get("pace")))
    said = [*drafts, *(option for option in asked if option != "drafter")]  # which is a draft model, or is refused
    if said or name != "multi-draft":
        others = ", ".join(f"--{option.replace('_', '-')}" for option in said) or "--method"
        raise ProblemError(f"--settings says how to decode; leave out {others}")
    tuned = Tuned.load(settings_file)
    settings = dict(tuned.settings)
    return Way(tuned.method, method_of(tuned.method, settings, batch), settings, settings, tuned, settings_file)


def _costs_in(pace: str | None) -> Tuned | None:
    """The file that a pace names, if it is one."""
    from otspec.decode import Tuned

    file = None if pace is None else Path(pace)
    return Tuned.load(file) if file is not None and (file.suffix == ".json" or file.is_file()) else None


class Decoded(NamedTuple):
    """A turn of a batch of conversations."""

    batch: int
    """Number of the batch."""
    turn: Turn
    seed: int
    """What repeats it."""


@dataclass(frozen=True)
class Session:
    """Models that are loaded, and how to decode with them."""

    way: Way
    models: Models
    about: Mapping[str, Any]
    """What the lines of --json begin with."""
    run: Callable[..., Generation]
    """Decodes a batch."""

    def decode(
        self,
        batches: Sequence[Sequence[Conversation]],
        sampling: Mapping[str, Any],
        limits: Mapping[str, Any],
        seed: int,
    ) -> Iterator[Decoded]:
        """Decode batches of conversations, turn by turn, each by a seed of its own, after a little warming up."""
        from otspec.decode.methods.catalogue import warm_up
        from otspec.decode.pair.conversations import converse, turn_seed
        from otspec.decode.pair.loading import batch_of
        from otspec.results import SolveError

        device = self.models.target.device
        first = batch_of([one.first for one in batches[0]], device)
        try:
            warm_up(self.run, first, sampling, limits["max_new_tokens"])
            for number, own in enumerate(batches):

                def decode(rows: Sequence[Sequence[int]], turn: int, first: int = seed + number) -> Generation:
                    return self.run(**batch_of(rows, device), **sampling, **limits, seed=turn_seed(first, turn))

                for turn in converse(own, decode, self.models.tokenizer):
                    yield Decoded(number, turn, turn_seed(seed + number, turn.number))
        except SolveError as error:
            raise ProblemError(f"{error}. Name who takes over where it fails: --solver takes a list") from error

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens spell."""
        decoded: str = self.models.tokenizer.decode(tokens, skip_special_tokens=True)
        return decoded


def _session(
    way: Way,
    target: str,
    draft: Sequence[str],
    drafter: DrafterOptions,
    sampling: SamplingOptions,
    place: DecodingOptions,
) -> Session:
    """Load the models, and what drafts."""
    from otspec.decode.methods.catalogue import METHODS, decoder, lossless
    from otspec.decode.methods.drafting import drafting
    from otspec.decode.models.own_config import own_config

    names = list(draft) if way.method.drafts else []  # a drafter may bring its own, too
    models = place.load(target, names)
    if drafter.drafter is not None:
        found = drafting(drafter.drafter, drafter.request(models, target, ", ".join(names), drafter.drafter_tokens))
        models = found.models
        if way.tuned is not None and found.settings:
            raise ProblemError("--settings says how to decode; leave out --drafter")
        way = way._replace(settings={**way.settings, **found.settings}, spelled={**way.spelled, **found.spelled})
    if way.tuned is not None:
        way.tuned.check_models(models.target, models.draft)
        if changes := way.tuned.changes(models.target, sampling.all):
            typer.secho(f"note: {way.file} was tuned for something else: {', '.join(changes)}", fg="yellow", err=True)
    if way.method.drafts and models.draft is None:
        raise ProblemError(
            f"{way.name} drafts with a model, and there is none for {target}; pass --draft, or a --method without one: "
            f"{', '.join(name for name, one in METHODS.items() if not one.drafts)}"
        )
    if way.paced_by is not None:
        way.paced_by.check_models(models.target, models.draft)
        way = way._replace(settings={**way.settings, "pace": way.paced_by.pace})
    about = {
        "target": target,
        "draft": names if len(names) > 1 else next(iter(names), None),
        "method": way.name,
        "lossless": lossless(way.method, way.settings),
        **way.spelled,
        "own_config": own_config(models.target, greedy=sampling.temperature == 0),
    }
    return Session(way, models, about, decoder(way.name, models, way.settings))


def _total() -> Metrics:
    from otspec.decode import Metrics

    return Metrics()


def _in_blocks(spelled: Callable[[Sequence[int]], str], blocks: Sequence[Block]) -> RichText:
    """A text, step by step: green what was accepted, struck out the first of what was rejected, then the new token."""
    shown = RichText()
    for block in blocks:
        shown.append(spelled(block.accepted), "green")
        if block.rejected:
            shown.append(f"[{spelled(block.rejected[0])}]", "red strike")
        shown.append(spelled([block.token]), "bold")
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


def _spelled(value: object) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return str(value)
    return ",".join(map(_spelled, value))
