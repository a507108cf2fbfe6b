"""Plans on disk: numpy's own format for the arrays, JSON for the rest, and no code in either.

A file is an .npz archive without pickles.  ``header`` is a text, JSON of this form::

    {"format": "otspec plan", "version": 1, "otspec": "0.2.0", "root": {"object": 3}, "readonly": [0, 2],
     "objects": [{"class": "otspec.schemes.iid:IID", "fields": {"q": {"array": 0}, "n": 2, "vocab": 50}}, ...]}

``a0``, ``a1``, ... are the arrays, stored to the last bit, the `readonly` ones as such.  An object is a class of
`CLASSES` with its fields, in an order in which each refers to earlier ones only; what two objects share is stored once.
Among the fields, ``{"float": "0x1.8p-1"}`` is a number by its bits and ``{"tuple": [...]}`` a tuple; integers, texts,
truth values and null stand for themselves.
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from otspec import pickles
from otspec.errors import DataError, ProblemError

if TYPE_CHECKING:
    from otspec.plans.protocol import Plan

FORMAT, VERSION = "otspec plan", 1

PLANS = (
    "otspec.plans.coupling:Coupling",
    "otspec.plans.lossy:Lossy",
    "otspec.plans.match:Match",
    "otspec.plans.pick:Pick",
    "otspec.plans.race:Race",
    "otspec.plans.sequential:BiasedPlan",
    "otspec.plans.sequential:Sequential",
    "otspec.solvers.global_resolution.plan:Resolution",
)
"""What a file can hold."""

CLASSES = (
    *PLANS,
    "otspec.kernels.interval.exchange:Places",
    "otspec.plans.pick:PickTable",
    "otspec.plans.place_rule:PlaceRule",
    "otspec.plans.segment_rule:SegmentRule",
    "otspec.plans.sequential:FixedTests",
    "otspec.problem:Problem",
    "otspec.schemes.draft_sets:DraftSets",
    "otspec.schemes.greedy:Greedy",
    "otspec.schemes.hub_pairs:HubPairs",
    "otspec.schemes.iid:IID",
    "otspec.schemes.independent:Independent",
    "otspec.schemes.systematic:Systematic",
    "otspec.schemes.table:Table",
    "otspec.schemes.top_k:TopK",
    "otspec.schemes.without_replacement:WithoutReplacement",
    "otspec.solvers.closed_form:LastOrFixed",
    "otspec.solvers.global_resolution.plan:Solved",
    "otspec.solvers.global_resolution.systems:Split",
    "otspec.solvers.global_resolution.systems:System",
    "otspec.solvers.luce.rule:LuceRule",
    "otspec.solvers.minimum_norm_point:OrderMixtureRule",
    "otspec.solvers.release.rule:ReleaseRule",
    "otspec.solvers.rules.rsd:ShrinkingTests",
    "otspec.solvers.rules.spechub:HubTests",
)
"""What a plan can consist of: nothing else is ever made from a file."""

FORMER_CLASSES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "otspec.kernels.interval.lottery:Places": (
        "otspec.kernels.interval.exchange:Places",
        {
            "release": "share",
            "home": "exchange",
            "oldest": "first_recipient",
            "newest": "last_recipient",
            "giver": "first_donor",
            "past": "donors_end",
            "head": "first_contribution",
            "tail": "last_contribution",
            "held": "contributed",
            "pivot": "threshold",
        },
    ),
}
"""Former names of classes, as older files have them: the present name, and those of fields that were renamed."""


def save(plan: Plan, path: str | PathLike[str]) -> None:
    """Write a plan to a file that `load` reads; the format is that of the module's docstring.

    Parameters
    ----------
    plan : Plan
        Of any solver and scheme of this package.
    path : path
        Taken as it is; `.npz` is the usual suffix.

    Raises
    ------
    ProblemError
        If the plan, or something it consists of, is of a class of somebody else's.
    DataError
        If the file cannot be written.
    """
    writer = _Writer()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "otspec": importlib.import_module("otspec").__version__,
        "root": writer.encode(plan),
        "readonly": [number for number, array in enumerate(writer.arrays) if not array.flags.writeable],
        "objects": writer.objects,
    }
    buffer = io.BytesIO()
    arrays = {f"a{number}": array for number, array in enumerate(writer.arrays)}
    np.savez_compressed(buffer, header=np.array(json.dumps(header)), **arrays)  # numbers only: nothing is pickled
    try:
        Path(path).write_bytes(buffer.getvalue())
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
        If there is no such file, it is damaged, or it holds no plan of a format that is read here.

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
        content = io.BytesIO(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        with pickles.refused(), np.load(content, allow_pickle=False) as archive:
            members = {name: archive[name] for name in archive.files}
    except Exception as error:  # of a damaged file zipfile, zlib and numpy complain in a dozen ways
        raise DataError(f"{path} is not a file of a plan, or damaged: {error}") from error
    try:
        header = json.loads(str(members.pop("header")))
        kind, version = header["format"], header["version"]
        if kind == FORMAT and version == VERSION:
            return _Reader(members, header).plan(header["root"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} holds no plan: {type(error).__name__}: {error}") from error
    raise DataError(f"{path} holds {kind!r} of version {version}, and {FORMAT!r} of version {VERSION} is read here")


class _Writer:
    """Objects and arrays met so far; each is stored once."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: list[Any] = []
        self._encoded: dict[int, dict[str, int]] = {}

    def encode(self, value: Any) -> Any:
        """A value as JSON; the plan outlives the writer, so that an id stands for one object."""
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float | np.floating):
            return {"float": float(value).hex()}
        if isinstance(value, np.bool_ | np.integer):
            return value.item()
        if id(value) not in self._encoded:
            if type(value) is tuple:
                return {"tuple": [self.encode(one) for one in value]}
            self._encoded[id(value)] = self._array(value) if isinstance(value, np.ndarray) else self._object(value)
        return self._encoded[id(value)]

    def _array(self, values: Any) -> dict[str, int]:
        if values.dtype.kind not in "biuf":
            raise ProblemError(f"the plan has an array of {values.dtype}, and arrays of numbers can be saved")
        self.arrays.append(values)
        return {"array": len(self.arrays) - 1}

    def _object(self, value: Any) -> dict[str, int]:
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if name not in CLASSES:
            raise ProblemError(
                f"the plan consists of a {name}, which is no class of otspec's plans, and load makes no other from a "
                "file; save what it was solved from, or pickle the plan, if all who read it trust who wrote it"
            )
        entry = {"class": name, "fields": {field: self.encode(getattr(value, field)) for field in _fields(type(value))}}
        self.objects.append(entry)
        return {"object": len(self.objects) - 1}


class _Reader:
    """Rebuilds objects as pickle would, without their constructors: those round again what was rounded once."""

    def __init__(self, members: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        self.arrays = [members[f"a{number}"] for number in range(len(members))]
        for number in header["readonly"]:
            self.arrays[number].flags.writeable = False
        self.objects: list[Any] = []
        self.names: list[str] = []
        for entry in map(_renamed, header["objects"]):
            self.objects.append(self._object(entry))
            self.names.append(entry["class"])

    def plan(self, root: Mapping[str, int]) -> Plan:
        """The object that is the plan."""
        if self.names[root["object"]] not in PLANS:
            raise TypeError(f"{self.names[root['object']]} is no plan")
        plan: Plan = self.objects[root["object"]]
        return plan

    def decode(self, value: Any) -> Any:
        """A value from JSON."""
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "float":
            return float.fromhex(content)
        if kind == "tuple":
            return tuple(self.decode(one) for one in content)
        return {"array": self.arrays, "object": self.objects}[kind][content]

    def _object(self, entry: Mapping[str, Any]) -> Any:
        if entry["class"] not in CLASSES:
            raise TypeError(f"{entry['class']} is no class of otspec's plans")
        module, name = entry["class"].split(":")
        made: type[Any] = getattr(importlib.import_module(module), name)
        content = {field: self.decode(value) for field, value in entry["fields"].items()}
        if list(content) != list(_fields(made)):
            raise TypeError(f"{entry['class']} has other fields in this version")
        if not is_dataclass(made):
            return made(**content)
        instance = object.__new__(made)
        for field, value in content.items():
            object.__setattr__(instance, field, value)
        return instance


def _renamed(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object of a file under the present names of its class and its fields."""
    if entry["class"] not in FORMER_CLASSES:
        return entry
    name, renamed = FORMER_CLASSES[entry["class"]]
    return {"class": name, "fields": {renamed.get(field, field): value for field, value in entry["fields"].items()}}


def _fields(made: type[Any]) -> tuple[str, ...]:
    """The names of the fields of a dataclass or a named tuple."""
    return tuple(one.name for one in fields(made)) if is_dataclass(made) else made._fields
