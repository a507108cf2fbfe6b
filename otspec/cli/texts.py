"""`otspec texts`: text that a target writes by itself, for its draft models to learn from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.groups import grouped
from otspec.cli.prompts import FORMAT, ChatOptions, Prompt, read_prompts
from otspec.cli.sampling import PlaceOptions, Target
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, progress_as_ours, progress_bar

if TYPE_CHECKING:
    from otspec.decode.lessons.speakers import Speakers
    from otspec.decode.pair.loading import Models
    from otspec.laws import IntArray

MAGPIE = "magpie"
"""Where texts begin: what a user would ask, which the target writes as well."""

AskTemperature = Annotated[
    float | None,
    options.temperature(
        help="The temperature at which the target asks itself questions; below 1 a small model writes less noise.",
        show_default="1",
    ),
]


@options.holding
@grouped
def texts(
    *,
    out: Annotated[
        Path, options.out_file(help="The .safetensors file to write; the same command with a larger --count goes on.")
    ],
    target: Target = "shipped",
    prompts: Annotated[
        Path | None,
        typer.Option(
            help=f"The prompts that the target goes on with. {FORMAT}",
            show_default="nothing: it asks itself where its tokenizer has a chat template, and else begins a text",
        ),
    ] = None,
    chat: ChatOptions,
    count: Annotated[int, options.count(help="How many texts there are to be.")] = 1024,
    length: Annotated[int, options.count(help="How many tokens each text has.", least=2)] = 256,
    temperature: Annotated[
        str,
        typer.Option(help="The temperatures of one text after the other, a list; of answers, where it asks itself."),
    ] = "1",
    ask_temperature: AskTemperature = None,
    seed: Annotated[int, options.seed(help="The seed of the texts.")] = 0,
    place: PlaceOptions,
) -> None:
    """Have a target write text for its draft models to learn from.

    Given nothing but the beginning of a user's turn, a model that was tuned to answer writes the question itself, and
    then the answer (Magpie).  `otspec train ... --texts FILE` learns from the file.  A run that is killed goes on.
    """
    if out.suffix != ".safetensors":
        raise DataError(f"{out} would not be read back; give --out a name that ends in .safetensors")
    said = None if prompts is None else read_prompts(prompts)
    temperatures = options.numbers_of("--temperature", temperature, options.checked_temperature)
    progress_as_ours()
    check_asking(ask_temperature, said is None)
    models = place.load(target, None)
    asks_itself = said is None and getattr(models.tokenizer, "chat_template", None) is not None
    check_asking(ask_temperature, asks_itself)
    written = write_texts(models, said, chat, asks_itself, count, length, temperatures, ask_temperature, seed, out)
    console.print(f"Wrote {out}: {len(written)} texts of {length} tokens", highlight=False, soft_wrap=True)


def write_texts(
    models: Models,
    prompts: list[Prompt] | None,
    chat: ChatOptions,
    asks_itself: bool,
    count: int,
    length: int,
    temperatures: list[float],
    ask_temperature: float | None,
    seed: int,
    path: Path,
) -> IntArray:
    """Texts of a target, shape (count, length), and how far it is, and how fast.

    Raises
    ------
    DataError
        If there are no prompts, and no token begins a text.
    """
    from otspec.decode.lessons.speakers import Speakers
    from otspec.decode.training import own_texts

    speakers = Speakers.of(models.tokenizer) if asks_itself else None
    starts = _starts(models, prompts, chat, speakers, length)
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    before: list[int] = []
    with progress_bar() as bar:
        task = bar.add_task("writing texts", total=count)

        def tell(done: int) -> None:
            before.append(done)
            spent, new = time.perf_counter() - begun, done - before[0]
            speed = f", {new * length / spent:.0f} tokens/s" if new else ""
            bar.update(task, completed=done, description=f"writing texts{speed}")

        settings: Any = {"seed": seed, "speakers": speakers, "temperatures": temperatures, "path": path}
        asked = 1.0 if ask_temperature is None else ask_temperature
        return own_texts(models.target, starts, count, length, ask_temperature=asked, progress=tell, **settings)


def check_asking(ask_temperature: float | None, asks_itself: bool) -> None:
    """Raise where a temperature of questions is given, and the target asks none.

    Raises
    ------
    ProblemError
        Naming the way out.
    """
    if ask_temperature is not None and not asks_itself:
        raise ProblemError(
            "--ask-temperature is for texts whose questions the target asks itself, by its chat template and without "
            "--prompts; leave it out"
        )


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
