"""Prompts as a user gives them: a text a line, or conversations, and how they are put to a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from otspec.errors import DataError, ProblemError
from otspec.settings import Count

if TYPE_CHECKING:
    from otspec.decode import Generation
    from otspec.decode.pair.conversations import Conversation
    from otspec.decode.pair.loading import Models

SUMMARY = "Summarize this article in one sentence."
"""The instruction that comes before an article."""
KNOWN = (
    "prompt (HumanEval), turns (Spec-Bench, EAGLE, DeepSpec, SPEED-Bench), messages (ultrachat), conversations "
    "(ShareGPT), instruction (alpaca), question (GSM8K), document (xsum), text (wikitext), adversarial "
    "or vanilla (WildJailbreak)"
)
"""For messages: the field by which each is known."""
GOES_ON = ("prompt", "text")
"""Fields with a text to go on with; others hold a user's turns."""
FIELDS = ("messages", "conversations", "prompt", "turns", "instruction", "question", "document", "text", "adversarial")
"""In the order in which they are tried: lines of ultrachat have the first turn as prompt, too."""
SHIPPED = "shipped"
"""The questions that come with the package, among names of files."""
HELD_OUT = "held-out"
"""Text of the kind that the shipped pair learnt from, among names of files of tasks."""


FIRST, ALL = "first", "all"
"""Which turns of a conversation are answered."""


class Prompt(NamedTuple):
    """A user's prompt: a text, or a conversation turn by turn."""

    turns: tuple[str, ...]
    task: str = ""
    """The task that it is of, if any."""
    spoken: bool = False
    """Whether it came as turns, and not as a text to go on with."""


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """How prompts are put to a model."""

    chat: bool | None = None
    """Whether prompts are put into the chat template of the target's tokenizer; by default where it has one, and
    prompts come as turns."""
    turns: str | None = None
    """Which turns of a conversation are answered: first, or all, each after the answers to those before; by default
    all with a chat template, else first."""
    prompt_tokens: Count | None = None
    """How many last tokens longer prompts are cut to, where each is answered alone."""

    def conversations(self, prompts: Sequence[Prompt], models: Models, new: int) -> list[Conversation]:
        """Prompts as the target reads them, each of whose answers may have so many new tokens."""
        from otspec.decode.pair.conversations import Conversation, check_lengths, conversations_of

        if self.turns not in (None, FIRST, ALL):
            raise typer.BadParameter(f"{self.turns!r}; pass {FIRST} or {ALL}", param_hint="--turns")
        spoken = all(one.spoken for one in prompts)
        template = bool(getattr(models.tokenizer, "chat_template", None)) and spoken if self.chat is None else self.chat
        first = self.turns == FIRST if self.turns else not template
        found = conversations_of(models.tokenizer, [one.turns for one in prompts], template, first)
        if self.prompt_tokens is not None:
            if any(one.count > 1 for one in found):
                raise ProblemError("--prompt-tokens cuts prompts that are answered alone; pass --turns first too")
            found = [Conversation(one.first[-self.prompt_tokens :]) for one in found]
        check_lengths(found, models, new)
        return found

    def rows(
        self,
        prompts: Sequence[Prompt],
        models: Models,
        new: int,
        sampling: Mapping[str, Any],
        *,
        answered: bool = False,
    ) -> list[list[int]]:
        """The tokens of the prompts of all turns; the target writes the answers before them, of so many tokens at most.

        If they are to be answered, each comes with its own answer, the last too.
        """
        from otspec.decode.methods.catalogue import decoder
        from otspec.decode.pair.conversations import all_prompts
        from otspec.decode.pair.loading import batch_of

        plain, seeds = decoder("vanilla", models, {}), count()

        def decode(rows: Sequence[Sequence[int]], turn: int) -> Generation:
            inputs = batch_of(rows, models.target.device)
            return plain(**inputs, **sampling, max_new_tokens=new, seed=next(seeds))

        return all_prompts(self.conversations(prompts, models, new), decode, models.tokenizer, answered)


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """Prompts of a file, or text that the shipped pair has not learnt from."""

    prompts: Path | None = None
    """{FORMAT} By default held-out text of the shipped pair."""
    chat: ChatOptions

    def read(self, target: str) -> list[Prompt] | None:
        """The prompts of the file; None for those of the shipped pair."""
        if self.prompts is None and target != "shipped":
            raise DataError(f"no prompts for {target}; pass --prompts FILE")
        return None if self.prompts is None else read_prompts(self.prompts)

    def rows(
        self, prompts: Sequence[Prompt] | None, models: Models, new: int, sampling: Mapping[str, Any]
    ) -> list[list[int]]:
        """The tokens of the prompts that `read` found, as by `ChatOptions.rows`."""
        from otspec.decode.shipped import held_out

        return held_out() if prompts is None else self.chat.rows(prompts, models, new, sampling)


def read_prompts(path: Path) -> list[Prompt]:
    r"""The prompts of a file: one a line, ``\n`` in them written as JSON lines only can."""
    path = _found(path)
    numbered = _numbered(path)
    if path.suffix != ".jsonl":
        return [Prompt((line,)) for _, line in numbered]
    return [_prompt(path, number, line) for number, line in numbered]


def read_tasks(paths: Sequence[Path]) -> list[Prompt]:
    """The prompts of files of tasks, in turn from each task: the first so many are of all tasks."""
    found: dict[str, list[Prompt]] = {}
    for path in map(_found, paths):
        if str(path) == HELD_OUT:
            found[HELD_OUT] = _held_out()
            continue
        for number, line in _numbered(path):
            one = _prompt(path, number, line)
            task = one.task or path.stem
            found.setdefault(task, []).append(one._replace(task=task))
    return [one for turn in zip_longest(*found.values()) for one in turn if one is not None]


def _held_out() -> list[Prompt]:
    from otspec.decode import shipped

    tokenizer = shipped.tokenizer()
    return [Prompt((tokenizer.decode(row, skip_special_tokens=True),), HELD_OUT, True) for row in shipped.held_out()]


def gather(texts: Sequence[str], file: Path | None) -> list[Prompt]:
    """All prompts of a command."""
    prompts = [*(Prompt((text,)) for text in texts), *([] if file is None else read_prompts(file))]
    if not prompts:
        raise DataError("no prompts; pass --prompts FILE or --prompt TEXT")
    return prompts


def _found(path: Path) -> Path:
    """The file of that name, or the package's own."""
    if str(path) != SHIPPED:
        return path
    from otspec.decode import shipped

    return shipped.FOLDER / shipped.QUESTIONS


def _numbered(path: Path) -> list[tuple[int, str]]:
    if not path.is_file():
        raise DataError(f"there is no file {path}; name one with a prompt a line")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # splitlines would part JSON at characters within it
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise DataError(f"{path} holds no prompts; write one per line")
    return numbered


def _prompt(path: Path, number: int, line: str) -> Prompt:
    """The prompt of a line of JSON, in any of the known schemas."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number} is no JSON ({error})") from error
    record = record if isinstance(record, dict) else {}
    task = next((record[name] for name in ("task", "category") if isinstance(record.get(name), str)), "")
    found = turns_of(record)
    if found is None:
        raise DataError(
            f'{path}, line {number} has no prompt in a field known here: {KNOWN}; write lines such as {{"prompt": '
            '"..."}, or {"category": "math", "turns": ["..."]}'
        )
    turns, spoken = found
    return Prompt(turns, task, spoken)


def turns_of(line: Mapping[str, Any]) -> tuple[tuple[str, ...], bool] | None:
    """The turns of a line, and whether they are a user's and no text to go on with; None for an unknown schema."""
    for name in FIELDS:
        turns = _turns(line, name)
        if turns and all(isinstance(one, str) for one in turns):
            return tuple(turns), name not in GOES_ON
    return None


def _turns(line: Mapping[str, Any], name: str) -> list[Any]:
    """The turns of a line in the schema that has a field; none, or what is no text, if the line is of another."""
    value = line.get(name)
    match name:
        case "messages" | "conversations":  # of all speakers' turns, the user's
            who, what = ("role", "content") if name == "messages" else ("from", "value")
            turns = value if isinstance(value, list) and all(isinstance(one, Mapping) for one in value) else []
            return [one.get(what) for one in turns if one.get(who) in ("user", "human")]
        case "turns":
            return value if isinstance(value, list) else []
        case "instruction":
            both = [value, line.get("input", "")]
            return ["\n\n".join(filter(None, both))] if value and all(isinstance(one, str) for one in both) else []
        case "document":
            return [f"{SUMMARY}\n\n{value}"] if isinstance(value, str) else []
        case "adversarial":  # or the plain one where there is none
            return [value or line.get("vanilla")]
    return [value]
