"""`otspec texts`: text that a target writes by itself, for its draft models to learn from."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from otspec.cli import options
from otspec.cli.conflicts import CONFLICTS, NO_QUESTIONS
from otspec.cli.groups import with_option_groups
from otspec.cli.options import OutFile
from otspec.cli.prompts import ChatOptions, Prompt, read_prompts
from otspec.cli.sampling import PlaceOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.settings import Count, Range, Seed, Temperature, refuse

if TYPE_CHECKING:
    from otspec.decode.distillation.self_chat import Speakers
    from otspec.decode.pair.loading import Models
    from otspec.laws import IntArray

MAGPIE = "magpie"
"""Texts that begin with a user's question, which the target writes as well."""


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """How a target writes texts."""

    chat: ChatOptions
    length: Annotated[int, Range(2, math.inf, "pass an integer >= 2", whole=True)] | None = None
    """How many tokens each text has; by default 256."""
    ask_temperature: Temperature | None = None
    """The temperature at which the target writes the questions; below 1 a small model writes less noise; by default
    1."""


@dataclass(frozen=True, kw_only=True)
class TextsOptions:
    """What `otspec texts` takes."""

    out: OutFile
    """The .safetensors file to write; the same command with a larger --count goes on."""
    target: str = "shipped"
    """The target model, whose text is written: {MODEL}"""
    prompts: Path | None = None
    """The prompts that the target goes on with. {FORMAT} By default none: it writes questions too where its
    tokenizer has a chat template, and else begins a text."""
    writing: WritingOptions
    count: Count = 1024
    """How many texts there are to be at least; `otspec train` holds 64 of them out."""
    temperature: str = "1"
    """The temperatures of one text after the other, a list; of answers, where it writes the questions."""
    seed: Seed = 0
    """The seed of the texts."""
    place: PlaceOptions


@with_option_groups
@options.holding
def texts(request: TextsOptions) -> None:
    """Have a target write text for its draft models to learn from.

    Given nothing but the beginning of a user's turn, a model that was tuned to answer writes the question itself, and
    then the answer (Magpie).  `otspec train ... --texts FILE` learns from the file.  A run that is killed goes on.
    """
    if request.out.suffix != ".safetensors":
        raise DataError(f"{request.out} would not be read back; give --out a name that ends in .safetensors")
    prompts = None if request.prompts is None else read_prompts(request.prompts)
    temperatures = options.numbers_of("--temperature", request.temperature, options.checked_temperature)
    progress_as_ours()
    from otspec.decode.distillation.texts import read_texts

    refuse(CONFLICTS, {"--ask-temperature": request.writing.ask_temperature, NO_QUESTIONS: prompts is not None})
    models = request.place.load(request.target, None)
    questions = prompts is None and getattr(models.tokenizer, "chat_template", None) is not None
    refuse(CONFLICTS, {"--ask-temperature": request.writing.ask_temperature, NO_QUESTIONS: not questions})
    written = write_texts(
        request.writing, request.seed, models, prompts, questions, request.count, temperatures, request.out
    )
    held = len(read_texts(request.out, models.target))
    more = f"; with the rest of its batch the file holds {held}" if held > request.count else ""
    message = f"Wrote {request.out}: {len(written)} texts of {written.shape[1]} tokens{more}"
    console.print(message, highlight=False, soft_wrap=True)


def write_texts(
    writing: WritingOptions,
    seed: int,
    models: Models,
    prompts: list[Prompt] | None,
    questions: bool,
    count: int,
    temperatures: list[float],
    path: Path,
) -> IntArray:
    """Texts of a target, shape (count, length), with its own questions or not; shows progress and speed."""
    from otspec.decode.distillation.self_chat import Speakers
    from otspec.decode.training import own_texts

    length, speakers = writing.length or 256, Speakers.of(models.tokenizer) if questions else None
    starts = _starts(models, prompts, writing.chat, speakers, length)
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    before: list[int] = []
    with progress_bar() as bar:
        task = bar.add_task("writing texts", total=count)

        def show(done: int) -> None:
            before.append(done)
            spent, new = time.perf_counter() - begun, done - before[0]
            speed = f", {new * length / spent:.0f} tokens/s" if new else ""
            bar.update(task, completed=done, description=f"writing texts{speed}")

        settings: Any = {"seed": seed, "speakers": speakers, "temperatures": temperatures, "path": path}
        temperature = 1.0 if writing.ask_temperature is None else writing.ask_temperature
        return own_texts(models.target, starts, count, length, ask_temperature=temperature, progress=show, **settings)


def _starts(
    models: Models, prompts: list[Prompt] | None, chat: ChatOptions, speakers: Speakers | None, length: int
) -> list[list[int]]:
    if prompts is not None:
        return chat.rows(prompts, models, length, {"temperature": 1.0})
    if speakers is not None:
        return [list(speakers.opening)]
    begin = models.tokenizer.bos_token_id
    if begin is None:
        raise DataError("no token begins a text of the target; pass --prompts FILE")
    return [[begin]]
