"""What is handed from room to room says its shape: arrays of functions, of compiled code, and of records."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.test_layers import ROOT, modules, room_of

ARRAY = re.compile(r"\b(?:\w*Array(?:Like)?|Tensor|Floats|Ints|NDArray)\b")
"""In an annotation: an array, or something with arrays in it such as a tuple of them."""

AXIS = r"(?:\.\.\.|\d+|\d* ?[A-Za-z](?: ?[-+*/]+ ?\w+)*)"
SHAPE = re.compile(rf"\b[Ss]hapes?\b|(?<!\w)\({AXIS}(?:,|(?:, {AXIS})+)\)")
"""In a docstring: the word, or a shape such as (V,), (..., n) or (k + 1, 2)."""

LENGTH = r"[\w']+(?: ?[-+*/]+ ?[\w']+)*"
BESIDE = re.compile(rf"{SHAPE.pattern}|\({LENGTH}(?:,|(?:, {LENGTH})+)\)|\[{LENGTH}(?:, {LENGTH})*\]")
"""In a comment beside an argument: a shape too, or one such as [num_tokens, V] or (R', PARTS * k)."""

RECORD = re.compile(r"`(?:\w+\.)*(\w+)`")
"""In such a comment: the name of a class, if it is one of ours, whose fields say their shapes."""

NUMBER = re.compile(r"\bscalars?\b")
"""In such a comment: a number.  Arguments of Triton's kernels have no annotation: it would change what is compiled."""

NUMBER_TYPE = re.compile(r"(?:int|float|bool)\b")
"""At the begin of what the list of parameters says of such an argument."""

REFERENCE = re.compile(r"\b[Aa]s (?:in|for|of) (?:every )?`")
"""An argument that another docstring describes."""

COMPILERS = {"jit", "jit_inlined", "jit_of_sums", "parallel_jit", "triton.jit", "njit"}
"""Decorators of compiled functions."""


class Function(NamedTuple):
    """A function of a module's top level, or a method of a class there."""

    module: str
    path: Path
    node: ast.FunctionDef

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.node.lineno} {self.node.name}"

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def has_arrays(self) -> bool:
        """Whether it takes arrays, or gives any."""
        annotations = [*(argument.annotation for argument in self.arguments), self.node.returns]
        return any(ARRAY.search(ast.unparse(one)) for one in annotations if one is not None)

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""

    @property
    def arguments(self) -> list[ast.arg]:
        given = self.node.args
        return [*given.posonlyargs, *given.args, *given.kwonlyargs]

    @property
    def is_compiled(self) -> bool:
        return any(ast.unparse(one).partition("(")[0] in COMPILERS for one in self.node.decorator_list)


@cache
def functions() -> tuple[Function, ...]:
    """Every function of the top level of every module, but for overloads: the function below them has a docstring."""
    return tuple(
        Function(module, path, node)
        for module, path in modules().items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and "overload" not in map(ast.unparse, node.decorator_list)
    )


@cache
def methods() -> tuple[Function, ...]:
    """The public methods of classes that other rooms import."""
    return tuple(
        Function(module, path, node)
        for module, path in modules().items()
        for record in ast.parse(path.read_text()).body
        if isinstance(record, ast.ClassDef) and (module, record.name) in shared()
        for node in record.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    )


@cache
def shared() -> frozenset[tuple[str, str]]:
    """Module and name of all that a module of another room imports: where it is defined, not where it was found."""
    return frozenset(
        origin(source, name)
        for module, path in modules().items()
        for source, name in imported(path)
        if room_of(source) != room_of(module)
    )


@cache
def imported(path: Path) -> tuple[tuple[str, str], ...]:
    """Module and name of what a file imports from modules of ours."""
    return tuple(
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in modules()
        for alias in node.names
    )


def origin(module: str, name: str) -> tuple[str, str]:
    """Where a name of a module comes from, if that module imports it itself."""
    sources = (source for source, other in imported(modules()[module]) if other == name and source != module)
    return next((origin(source, name) for source in sources), (module, name))


def described(function: Function, argument: ast.arg) -> bool:
    """Whether the list of parameters, or a comment on the argument's own line, says what shape an argument has."""
    comment = function.path.read_text().splitlines()[argument.lineno - 1].partition("#")[2]
    texts = [entry.text for entry in entries(function.doc) if argument.arg in entry.names]
    if argument.annotation is None and (NUMBER.search(comment) or any(map(NUMBER_TYPE.match, texts))):
        return True
    if BESIDE.search(comment) or not records().isdisjoint(RECORD.findall(comment)):
        return True
    return any(SHAPE.search(text) or REFERENCE.search(text) for text in texts)


@cache
def records() -> frozenset[str]:
    """The names of all classes of ours that are named tuples or dataclasses."""
    return frozenset(
        node.name
        for path in modules().values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and is_record(node)
    )


class Entry(NamedTuple):
    """An entry of the list of parameters: some names, and what is said of them."""

    names: frozenset[str]
    text: str


def entries(doc: str) -> Iterator[Entry]:
    """The entries under Parameters; names that follow without a text of their own share that of the next."""
    _, _, section = doc.partition("Parameters\n----------\n")
    section = re.split(r"\n\n?(?=\w+\n-+\n)", section)[0]
    names: set[str] = set()
    text = ""
    for line in section.splitlines():
        if line and not line.startswith(" "):
            if text.count("\n"):
                yield Entry(frozenset(names), text)
                names, text = set(), ""
            head, _, kind = line.partition(" : ")
            names |= {name.strip().lstrip("*") for name in head.split(",")}
            text += kind
        else:
            text += f"\n{line}"
    yield Entry(frozenset(names), text)


def unsaid_by(function: Function) -> list[str]:
    """The arguments of a compiled function that have a shape, or may have one, which nobody says."""
    return [
        argument.arg for argument in function.arguments if needs_shape(argument) and not described(function, argument)
    ]


def needs_shape(argument: ast.arg) -> bool:
    """Whether an argument is an array, or anything: named tuples say the shapes of their fields themselves."""
    if argument.annotation is None:
        return True
    annotation = ast.unparse(argument.annotation)
    return annotation == "Any" or bool(ARRAY.search(annotation))


def test_compiled_functions_say_the_shape_of_every_argument() -> None:
    compiled = [one for one in functions() if one.is_compiled]
    assert len(compiled) > 150
    wrong = [f"{one.place}: {', '.join(unsaid)}" for one in compiled if (unsaid := unsaid_by(one))]
    assert not wrong, "\n".join(wrong)


def test_functions_that_other_rooms_import_say_a_shape() -> None:
    across = [one for one in functions() if (one.module, one.name) in shared()]
    assert len(across) > 50
    wrong = [one.place for one in across if one.has_arrays and not SHAPE.search(one.doc)]
    assert not wrong, "\n".join(wrong)


def test_methods_of_classes_that_other_rooms_import_say_a_shape() -> None:
    """A method without a docstring says what that of its base says."""
    wrong = [method.place for method in methods() if method.doc and method.has_arrays and not SHAPE.search(method.doc)]
    assert not wrong, "\n".join(wrong)


def test_fields_of_records_say_their_shape() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{field.lineno} {record.name}.{ast.unparse(field.target)}"
        for path in modules().values()
        for record in ast.parse(path.read_text()).body
        if isinstance(record, ast.ClassDef) and is_record(record)
        for field, after in zip(record.body, [*record.body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign) and ARRAY.search(ast.unparse(field.annotation))
        if not SHAPE.search(text_of(after)) and not is_parameter(ast.unparse(field.target), record)
    ]
    assert not wrong, "\n".join(wrong)


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a named tuple or a dataclass."""
    bases, decorators = map(ast.unparse, node.bases), map(ast.unparse, node.decorator_list)
    return "NamedTuple" in bases or any(one.startswith("dataclass") for one in decorators)


def text_of(node: ast.stmt | None) -> str:
    """The text below a field."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def is_parameter(name: str, record: ast.ClassDef) -> bool:
    """Whether the class says the shape of a field among its parameters."""
    return any(name in one.names and SHAPE.search(one.text) for one in entries(ast.get_docstring(record) or ""))
