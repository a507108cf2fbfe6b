"""Commands whose options are fields of dataclasses: a field's type, default and docstring define its option."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from otspec.cli import names
from otspec.cli.names import listed
from otspec.cli.options import ARGUMENT, checking, numbers_of, of_range, words
from otspec.errors import DataError
from otspec.reporting.console import numbers
from otspec.settings import docstrings_of, range_of, summary, types_of

LISTED = "Separate several values by commas."
"""What the help of a list adds."""
Values = Mapping[str, Any]
"""The values on a command line, by the name of an option."""


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the fields of the dataclasses that a command takes into its options, as typer declares them.

    A parameter that is annotated with a dataclass stands for its fields, those of dataclasses among them too, and the
    command gets the dataclass; one annotated with an `OptionsFrom` stands for the fields of a settings class.
    """
    hints = get_type_hints(command, include_extras=True)
    parts = {
        one.name: _parts(one.name, hints[one.name], one.default, "")
        for one in inspect.signature(command).parameters.values()
    }

    def ungrouped(**values: Any) -> None:
        command(**{name: read(values) for name, (_, read) in parts.items()})

    flat = [one for parameters, _ in parts.values() for one in parameters]
    ungrouped.__name__, ungrouped.__module__ = command.__name__, command.__module__
    # Help breaks lines where the docstring does, in a narrower terminal twice, so a paragraph is one line.
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    ungrouped.__doc__ = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    ungrouped.__annotations__ = {one.name: one.annotation for one in flat}
    setattr(ungrouped, "__signature__", inspect.Signature(flat))  # noqa: B010  # mypy knows no such attribute
    return ungrouped


def _parts(name: str, kind: Any, default: Any, text: str) -> tuple[list[inspect.Parameter], Callable[[Values], Any]]:
    """The options that a parameter or a field stands for, and the function that makes its value of theirs."""
    for extra in getattr(kind, "__metadata__", ()):
        if isinstance(extra, OptionsFrom):
            return list(extra.parameters()), extra.read
    if kind is typer.Context:
        return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)], lambda values: values[name]
    if not is_dataclass(kind):
        return [_option(name, kind, default, text)], lambda values: values[name]
    assert isinstance(kind, type)
    types, texts = types_of(kind), docstrings_of(kind)
    parts = {one.name: _parts(one.name, types[one.name], _default(one), _filled(texts.get(one.name, "")))
             for one in fields(kind)}  # fmt: skip
    made: Callable[..., Any] = kind
    flat = [one for parameters, _ in parts.values() for one in parameters]
    return flat, lambda values: made(**{name: read(values) for name, (_, read) in parts.items()})


def _default(one: Field[Any]) -> Any:
    return inspect.Parameter.empty if one.default is MISSING else one.default


def _filled(text: str) -> str:
    """A docstring, with the names in braces replaced by their values in `otspec.cli.names`."""

    def found(match: re.Match[str]) -> str:
        value = getattr(names, match[1])
        return value if isinstance(value, str) else listed(value)

    return re.sub(r"\{([A-Z_]+)\}", found, text)


def _option(name: str, kind: Any, default: Any, text: str, shown: Any = None) -> inspect.Parameter:
    """An option of that name, with the first paragraph of its docstring as help; shown overrides its default there."""
    extras = [extra for one in (kind, *get_args(kind)) for extra in getattr(one, "__metadata__", ())]
    if not any(isinstance(extra, ParameterInfo) and extra is not ARGUMENT for extra in extras):
        takes, word = _plain(kind), name.strip("_").replace("_", "-")
        about: dict[str, Any] = {"help": summary(text)}
        if shown is not None:
            about["show_default"] = ("" if shown else "no-") + word if takes is bool else str(shown)
        words_ = f"--{word}/--no-{word}" if takes is bool and default is not False else f"--{word}"
        checks = next((extra for extra in extras if callable(extra)), None)
        if ARGUMENT in extras:
            made = typer.Argument(metavar=word.upper(), **about)
        elif checks is not None:
            made = typer.Option(words_, callback=checks, **about)
        else:
            made = of_range(range_of(kind), words_, **about)
        kind = Annotated[takes | None if default is None else takes, made]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _plain(kind: Any) -> Any:
    """The type without None and without what annotates it."""
    if NoneType in get_args(kind):
        kind = next(one for one in get_args(kind) if one is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


# --- settings of the library


def _rule(option: str, text: str) -> Any:
    from otspec.verification.rules.catalogue import rule

    return rule(text)


def _tree(option: str, text: str) -> str:
    """A list of choices, or that of a file, in the form of the option."""
    from otspec.verification import choices_of, tree_text

    file = Path(text)
    try:
        return tree_text(choices_of(file.read_text(encoding="utf-8") if file.is_file() else text))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{text} cannot be read as a list of choices: {error}") from error


READ: Mapping[str, Callable[[str, str], Any]] = {
    "solver": _rule,
    "branching": lambda option, text: numbers(option, text, repeated=True),
    "tree": _tree,
}
"""How settings that a command line has as text are read."""


@dataclass(frozen=True)
class OptionsFrom:
    """The options of a settings class, as in ``drafts: Annotated[dict[str, Any], OptionsFrom(DraftSettings)]``.

    Each field that has a docstring becomes an option of its name, unless it is an object that no text spells.  The
    command gets those that are given, or that have a default, by name.

    Parameters
    ----------
    settings : type
        A dataclass.
    listed : bool
        Whether each option is a list, of which the command gets all values.
    defaults : mapping
        The values of options that are not given, as a user would write them.
    only : sequence of str, optional
        The fields that are options here; by default all.
    leave_out : sequence of str
        Fields that are not.
    """

    settings: type
    listed: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] | None = None
    leave_out: Sequence[str] = ()

    def parameters(self) -> Iterator[inspect.Parameter]:
        """The options, as parameters that typer understands."""
        for one in self._fields():
            text, kind = docstrings_of(self.settings)[one.name], types_of(self.settings)[one.name]
            if one.name in READ or self.listed:
                kind = str | None
            if self.listed:
                more = " V keeps all." if _keeps_all(types_of(self.settings)[one.name]) else ""
                text = f"{summary(text)} {LISTED}{more}"
            default = self.defaults.get(one.name)
            yield _option(one.name, kind, default, text, one.default if default is None else None)

    def read(self, values: Values) -> dict[str, Any]:
        """The values that were given, by name."""
        found = {}
        for one in self._fields():
            if (value := values[one.name]) is not None:
                option = f"--{one.name.replace('_', '-')}"
                if self.listed:
                    found[one.name] = self._list(one.name, option, value)
                else:
                    found[one.name] = READ[one.name](option, value) if one.name in READ else value
        return found

    def _list(self, name: str, option: str, text: str) -> Sequence[Any]:
        """The values of a list."""
        kind = types_of(self.settings)[name]
        range_ = range_of(kind)
        if range_ is None:
            return words(text)
        if not range_.whole:
            return numbers_of(option, text, checking(range_))
        return numbers(option, text, {"V": 0, "0": 0} if _keeps_all(kind) else None)

    def _fields(self) -> list[Field[Any]]:
        types = types_of(self.settings)
        return [
            one
            for one in fields(self.settings)
            if one.name in docstrings_of(self.settings)
            and one.name not in self.leave_out
            and (self.only is None or one.name in self.only)
            and (one.name in READ or _plain(types[one.name]) in (bool, int, float, str))
        ]


def _keeps_all(kind: Any) -> bool:
    """Whether 0 stands for all, and not for none."""
    range_ = range_of(kind)
    return range_ is not None and range_.whole and range_.least == 0
