"""Commands that take their options in groups: a dataclass of options, or a settings class that is spelled elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from otspec.cli.options import (
    checked_mass,
    checked_probability,
    checked_temperature,
    count,
    mass,
    numbers_of,
    probability,
    seed,
    temperature,
    words,
)
from otspec.errors import DataError
from otspec.reporting.console import numbers

FIXED = "fixed"
"""All steps drafting alike, in a list of paces."""


@dataclass(frozen=True)
class Kind:
    """What an option takes, alone and in a list."""

    type: Any
    option: Callable[..., Any] = typer.Option
    """Makes it, from its default and its help."""
    read: Callable[[str, Any], Any] = lambda option, value: value
    """From the name of the option and what typer has read, to the value."""
    listed: Callable[[str, str], Sequence[Any]] = lambda option, text: words(text)
    """From the name and the text of a list, to the values."""
    note: str = "Separate several values by commas."
    """What the help of a list adds."""


def _rule(option: str, spelling: str) -> Any:
    from otspec.verification.rules.catalogue import rule

    return rule(spelling)


def _paces(option: str, text: str) -> list[str | None]:
    for word in words(text):
        if word not in (FIXED, "goodput"):
            raise typer.BadParameter(f"{word!r} is no pace; write a list of {FIXED}, goodput", param_hint=option)
    return [None if word == FIXED else word for word in words(text)]


def _tree(text: str) -> str:
    """A list of choices, or that of a file, as it is spelled."""
    from otspec.paths import choices_of, spelled

    file = Path(text)
    try:
        return spelled(choices_of(file.read_text(encoding="utf-8") if file.is_file() else text))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{text} cannot be read as a list of choices: {error}") from error


KINDS: Mapping[str, Kind] = {
    "count": Kind(int, count, listed=numbers),
    "count or 0": Kind(
        int,
        lambda **settings: count(least=0, **settings),
        listed=lambda option, text: numbers(option, text, {"V": 0, "0": 0}),
        note="Separate several values by commas; V keeps all.",
    ),
    "counts": Kind(str, read=lambda option, text: numbers(option, text, repeated=True)),
    "mass": Kind(float, mass, listed=lambda option, text: numbers_of(option, text, checked_mass)),
    "probability": Kind(float, probability, listed=lambda option, text: numbers_of(option, text, checked_probability)),
    "temperature": Kind(float, temperature, listed=lambda option, text: numbers_of(option, text, checked_temperature)),
    "seed": Kind(int, seed),
    "rule": Kind(str, read=_rule),
    "pace": Kind(
        str,
        listed=_paces,
        note=f"Separate several values by commas; {FIXED} drafts all L tokens, and files are not taken.",
    ),
    "tree": Kind(str, read=lambda option, text: _tree(text)),
    "seconds": Kind(float),
    "word": Kind(str),
}
"""By the names that settings have for them."""


@dataclass(frozen=True)
class Of:
    """The options of a settings class: ``drafts: Annotated[dict[str, Any], Of(DraftSettings)]`` of a `grouped` command.

    Each field of the dataclass whose metadata has a ``help`` text becomes an option of its name, so that a setting is
    spelled in its class only.  The command gets those that are given, or that have a default, by name.

    Parameters
    ----------
    settings : type
        A dataclass.
    listed : bool
        Whether each option is a list, of which the command gets all values.
    defaults : mapping
        What stands for options that are not given, as the user would write it.
    leave_out : sequence of str
        Fields that are no options here.
    """

    settings: type
    listed: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)
    leave_out: Sequence[str] = ()

    def parameters(self) -> Iterator[inspect.Parameter]:
        """The options, as parameters that typer understands."""
        for one in self._fields():
            known = self._kind(one)
            default = self.defaults.get(one.name, None if one.metadata.get("shown") else one.default)
            more: dict[str, Any] = {"help": one.metadata["help"]}
            if default is None and one.metadata.get("shown"):
                more["show_default"] = one.metadata["shown"]
            if self.listed:
                takes, made = str, typer.Option(**{**more, "help": f"{more['help']} {known.note}"})
            else:
                takes, made = known.type, known.option(**more)
            yield _parameter(one.name, Annotated[takes if default is not None else takes | None, made], default)

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What was given, by name."""
        found = {}
        for one in self._fields():
            if (value := values[one.name]) is None:
                continue
            known = self._kind(one)
            option = f"--{one.name.replace('_', '-')}"
            found[one.name] = known.listed(option, value) if self.listed else known.read(option, value)
        return found

    @staticmethod
    def _kind(one: Field[Any]) -> Kind:
        """What an option takes: what the field says, or what its default is."""
        named = one.metadata.get("kind")
        return KINDS[named] if named else Kind(type(one.default))

    def _fields(self) -> list[Field[Any]]:
        return [one for one in fields(self.settings) if one.metadata.get("help") and one.name not in self.leave_out]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take its options in groups.

    A parameter that is annotated with a dataclass stands for its fields, each an option, and the command gets the
    dataclass; one with an `Of` among its annotations stands for the fields of a settings class.
    """
    hints = get_type_hints(command, include_extras=True)
    flat: list[inspect.Parameter] = []
    readers: dict[str, tuple[list[str], Callable[[dict[str, Any]], Any]]] = {}
    for one in inspect.signature(command).parameters.values():
        hint = hints[one.name]
        settings = next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Of)), None)
        if settings is not None:
            mine = list(settings.parameters())
            readers[one.name] = [each.name for each in mine], settings.read
        elif is_dataclass(hint):
            types = get_type_hints(hint, include_extras=True)
            mine = [_parameter(each.name, types[each.name], each.default) for each in fields(hint)]
            readers[one.name] = [each.name for each in mine], partial(_made, hint)
        else:
            mine = [_parameter(one.name, hint, one.default)]
        flat += mine

    def ungrouped(**values: Any) -> None:
        groups = {}
        for name, (names, read) in readers.items():
            groups[name] = read({each: values.pop(each) for each in names})
        command(**values, **groups)

    ungrouped.__name__, ungrouped.__doc__, ungrouped.__module__ = command.__name__, command.__doc__, command.__module__
    ungrouped.__annotations__ = {one.name: one.annotation for one in flat}
    setattr(ungrouped, "__signature__", inspect.Signature(flat))  # noqa: B010  # mypy knows no such attribute
    return ungrouped


def _made(group: Any, values: dict[str, Any]) -> Any:
    return group(**values)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
