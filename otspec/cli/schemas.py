"""What a line of JSON asks, in the schemas that benchmarks and data sets are published in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]

SUMMARY = "Summarize this article in one sentence."
"""What is asked of an article, before it."""
KNOWN = (
    "prompt (HumanEval), turns (Spec-Bench, EAGLE, DeepSpec, SPEED-Bench), messages (ultrachat), conversations "
    "(ShareGPT), instruction (alpaca), question (GSM8K), document (xsum), text (wikitext), adversarial "
    "or vanilla (WildJailbreak)"
)
"""For messages: the field by which each is known."""


def asked(line: Line) -> tuple[tuple[str, ...], bool] | None:
    """The turns of a line, and whether they are spoken to a model or a text to go on with; None of a schema unknown."""
    for turns, spoken in _SCHEMAS:
        if found := turns(line):
            return found, spoken
    return None


def _prompt(line: Line) -> tuple[str, ...]:
    """HumanEval, and whoever writes such lines."""
    return _texts([line.get("prompt")])


def _turns(line: Line) -> tuple[str, ...]:
    """Spec-Bench, EAGLE, DeepSpec and SPEED-Bench: the turns as they are."""
    return _texts(line.get("turns"))


def _messages(line: Line) -> tuple[str, ...]:
    """ultrachat and ShareGPT: what the user says of what all say."""
    for name, who, what in (("messages", "role", "content"), ("conversations", "from", "value")):
        said = line.get(name)
        if isinstance(said, Sequence) and said and all(isinstance(one, Mapping) for one in said):
            return _texts([one.get(what) for one in said if one.get(who) in ("user", "human")])
    return ()


def _instruction(line: Line) -> tuple[str, ...]:
    """alpaca: an instruction, and what it is about if it says so."""
    both = _texts([line.get("instruction"), line.get("input", "")])
    return ("\n\n".join(filter(None, both)),) if both and both[0] else ()


def _question(line: Line) -> tuple[str, ...]:
    """GSM8K."""
    return _texts([line.get("question")])


def _article(line: Line) -> tuple[str, ...]:
    """xsum: `SUMMARY` of it."""
    return tuple(f"{SUMMARY}\n\n{one}" for one in _texts([line.get("document")]))


def _text(line: Line) -> tuple[str, ...]:
    """wikitext."""
    return _texts([line.get("text")])


def _jailbreak(line: Line) -> tuple[str, ...]:
    """WildJailbreak: the adversarial prompt, or the plain one where there is none."""
    return _texts([line.get("adversarial") or line.get("vanilla")])


_SCHEMAS: tuple[tuple[Callable[[Line], tuple[str, ...]], bool], ...] = (
    (_messages, True),  # lines of ultrachat have the first turn as prompt, too
    (_prompt, False),
    (_turns, True),
    (_instruction, True),
    (_question, True),
    (_article, True),
    (_text, False),
    (_jailbreak, True),
)


def _texts(found: Any) -> tuple[str, ...]:
    """The same if it is a list of texts, else none."""
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else ()
