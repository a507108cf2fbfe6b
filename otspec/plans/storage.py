"""Plans on disk: an .npz archive of numpy's with an array for every field of the plan, and no code.

The field ``rule`` of the plan is the array ``plan.rule``, or, where it is an object, ``plan.rule@`` is the name of its
class and ``plan.rule.share`` one of its fields; ``@`` also means None, a tuple's length, or where the same object is.
"""

from __future__ import annotations

import importlib
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from otspec import pickles
from otspec.errors import DataError, ProblemError

if TYPE_CHECKING:
    from otspec.plans.protocol import Plan

HOME = "otspec."
"""Where all classes are that a file can name: no other is ever made from one."""


def save(plan: Plan, path: str | PathLike[str]) -> None:
    """Write a plan of a solver of this package to a file that `load` reads; the path is taken as it is.

    Raises
    ------
    ProblemError
        If the plan, or an object that it holds, is of a class of another package.
    DataError
        If the file cannot be written.
    """
    arrays: dict[str, Any] = {}
    _flatten("plan", plan, arrays, {})
    arrays["readonly"] = np.array([name for name, array in arrays.items() if not array.flags.writeable], dtype=str)
    try:
        with open(path, "wb") as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error


def load(path: str | PathLike[str]) -> Plan:
    """Read a plan that `save` wrote: its conditional laws are those of the plan that was saved, to the last bit.

    No code of the file is run.  The plan measures itself again, so gap and deviation are true of what was read; but its
    arrays are taken as they are, and a file that somebody made up can crash the compiled code that reads them.

    Parameters
    ----------
    path : path

    Raises
    ------
    DataError
        If there is no such file, it is damaged, or it holds no plan of this version.

    Examples
    --------
    >>> import tempfile
    >>> import otspec
    >>> plan = otspec.solve(otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))).plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan.save(f"{folder}/plan.npz")
    ...     back = otspec.plans.load(f"{folder}/plan.npz")
    >>> back.acceptance == plan.acceptance
    True
    """
    try:
        with open(path, "rb") as file, pickles.refused(), np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        for name in arrays.pop("readonly"):
            arrays[str(name)].flags.writeable = False
        plan = _built("plan", arrays, {})
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # of a damaged file zipfile, zlib and numpy complain in a dozen ways
        raise DataError(f"{path} is not a file of a plan of this version, or damaged: {error}") from error
    if not hasattr(type(plan), "output_law"):
        raise DataError(f"{path} holds a {type(plan).__name__}, and no plan")
    return plan


def _flatten(at: str, value: Any, arrays: dict[str, Any], met: dict[int, str]) -> None:
    """Add a value and all that it consists of; `met` has the places of objects that are shared."""
    kind = type(value)
    if id(value) in met:
        arrays[f"{at}@"] = np.array(f"={met[id(value)]}")
        return
    if isinstance(value, np.ndarray | np.generic | bool | int | float | str):
        arrays[at] = np.asarray(value)
        if arrays[at].dtype.kind not in ("U" if kind is str else "biuf"):
            raise ProblemError(f"the plan has an array of {arrays[at].dtype}, and arrays of numbers can be saved")
    elif value is None or kind is tuple:
        arrays[f"{at}@"] = np.array("None" if value is None else f"tuple {len(value)}")
        for number, one in enumerate(value or ()):
            _flatten(f"{at}.{number}", one, arrays, met)
    elif kind.__module__.startswith(HOME) and (is_dataclass(kind) or issubclass(kind, tuple)):
        arrays[f"{at}@"] = np.array(f"{kind.__module__}:{kind.__qualname__}")
        for name in _fields(kind):
            _flatten(f"{at}.{name}", getattr(value, name), arrays, met)
    else:
        raise ProblemError(
            f"the plan consists of a {kind.__module__}:{kind.__qualname__}, which is no class of otspec's plans, and "
            "load makes no other from a file; save what it was solved from, or pickle the plan, if all who read it "
            "trust who wrote it"
        )
    if isinstance(value, np.ndarray) or is_dataclass(kind):
        met[id(value)] = at


def _built(at: str, arrays: dict[str, Any], made: dict[str, Any]) -> Any:
    """Rebuild a value as pickle would, without constructors: those round again what was rounded once."""
    if f"{at}@" not in arrays:
        return made.setdefault(at, arrays[at] if arrays[at].ndim else arrays[at].item())
    text = str(arrays[f"{at}@"])
    if text == "None" or text.startswith("="):
        return None if text == "None" else made[text[1:]]
    if text.startswith("tuple "):
        return tuple(_built(f"{at}.{number}", arrays, made) for number in range(int(text.removeprefix("tuple "))))
    module, _, name = text.partition(":")
    kind: Any = getattr(importlib.import_module(module), name) if module.startswith(HOME) else None
    if not (isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, tuple))):
        raise TypeError(f"{text} is no class of otspec's plans")
    content = {field: _built(f"{at}.{field}", arrays, made) for field in _fields(kind)}
    if not is_dataclass(kind):
        return kind(**content)
    made[at] = object.__new__(kind)
    for field, value in content.items():
        object.__setattr__(made[at], field, value)
    return made[at]


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """The names of the fields of a dataclass or a named tuple."""
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else kind._fields
