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
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar

if TYPE_CHECKING:
    from otspec.decode.lessons.speakers import Speakers
    from otspec.decode.pair.loading import Models
    from otspec.laws import IntArray

MAGPIE = "magpie"
"""Where texts begin: what a user would ask, which the target writes as well."""


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
        str, typer.Option(help="The temperatures of one text after the other, a list; questions are always asked at 1.")
    ] = "1",
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
    models = place.load(target, None)
    asks_itself = said is None and getattr(models.tokenizer, "chat_template", None) is not None
    written = write_texts(models, said, chat, asks_itself, count, length, temperatures, seed, out)
    console.print(f"Wrote {out}: {len(written)} texts of {length} tokens", highlight=False, soft_wrap=True)


def write_texts(
    models: Models,
    prompts: list[Prompt] | None,
    chat: ChatOptions,
    asks_itself: bool,
    count: int,
    length: int,
    temperatures: list[float],
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
        return own_texts(models.target, starts, count, length, progress=tell, **settings)


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
