"""The engines' own sources, where they are at hand: arguments are what ours are, and are called where we think.

    pip download --no-deps --dest wheels flashinfer-python sglang vllm
    OTSPEC_ENGINE_WHEELS=wheels python -m pytest tests/engines/test_signatures.py

The wheels are read, not installed; an engine that is installed is read where it lies.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from otspec.engines import flashinfer, sglang, vllm
from tests.each import each

WHEELS = "OTSPEC_ENGINE_WHEELS"


def source(name: str) -> str:
    """The text of a file of an engine: from a folder of wheels, or of what was unpacked from them, or as installed."""
    engine = name.partition("/")[0]
    folder = os.environ.get(WHEELS)
    if folder:
        if (Path(folder) / name).exists():
            return (Path(folder) / name).read_text()
        for wheel in sorted(Path(folder).glob(f"{engine}*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                return archive.read(name).decode()
    spec = importlib.util.find_spec(engine)
    if spec is None or spec.origin is None:
        pytest.skip(f"no sources of {engine}; {WHEELS} names a folder with its wheel")
    return (Path(spec.origin).parents[1] / name).read_text()


def function(name: str, called: str) -> ast.FunctionDef:
    """A function of a module, not one inside another."""
    (found,) = (
        node for node in ast.parse(source(name)).body if isinstance(node, ast.FunctionDef) and node.name == called
    )
    return found


def arguments(made: ast.FunctionDef) -> dict[str, Any]:
    """Names in their order, with their defaults."""
    assert made.args.vararg is made.args.kwarg is None
    names = [one.arg for one in (*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs)]
    assert not made.args.kwonlyargs
    given = [ast.literal_eval(default) for default in made.args.defaults]
    return dict(zip(names, [inspect.Parameter.empty] * (len(names) - len(given)) + given, strict=True))


PLACES: dict[str, tuple[str, Callable[..., Any]]] = {
    "flashinfer": ("flashinfer/sampling.py", flashinfer.chain_speculative_sampling),
    "sglang": ("sglang/kernels/ops/speculative/sampling.py", sglang.tree_speculative_sampling_target_only),
    "vllm": ("vllm/v1/sample/rejection_sampler.py", vllm.rejection_sample),
}


@pytest.mark.parametrize("engine", PLACES)
def test_arguments_are_what_the_engine_passes(engine: str) -> None:
    file, ours = PLACES[engine]
    theirs = arguments(function(file, ours.__name__))
    mine = {name: one.default for name, one in inspect.signature(ours).parameters.items()}
    assert list(mine)[: len(theirs)] == list(theirs)  # an older version may lack the last ones
    # What they may leave out, we do without too, and with the same value.
    assert {name: mine[name] for name, default in theirs.items() if default is not inspect.Parameter.empty} == {
        name: default for name, default in theirs.items() if default is not inspect.Parameter.empty
    }


def calls(tree: ast.AST, called: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == called
    ]


def test_vllm_looks_its_function_up_when_it_calls_it() -> None:
    file = vllm.MODULE.replace(".", "/") + ".py"
    (sampler,) = (
        node
        for node in ast.parse(source(file)).body
        if isinstance(node, ast.ClassDef) and node.name == "RejectionSampler"
    )
    (call,) = calls(sampler, "rejection_sample")
    taken = list(inspect.signature(vllm.rejection_sample).parameters)
    assert len(call.args) <= len(taken)
    assert {keyword.arg for keyword in call.keywords} <= set(taken[len(call.args) :])
    assert "PLACEHOLDER_TOKEN_ID: tl.constexpr = -1" in source(file)
    assert '"vllm.general_plugins"' in source("vllm/plugins/__init__.py")
    assert vllm.RUNNER in source("vllm/envs.py")


def test_sglang_takes_its_function_from_where_ours_is_put() -> None:
    file = sglang.MODULE.replace(".", "/") + ".py"
    assert sglang.FUNCTION in {
        name.asname or name.name
        for node in ast.walk(ast.parse(source(file)))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert '"sglang.srt.plugins"' in source("sglang/srt/plugins/__init__.py")
    for user in ("eagle_utils", "dflash_utils"):
        tree = ast.parse(source(f"sglang/srt/speculative/{user}.py"))
        assert any(
            isinstance(node, ast.ImportFrom)
            and node.module == sglang.MODULE
            and sglang.FUNCTION in {name.name for name in node.names}
            for node in tree.body
        )
    (registry,) = (
        node
        for node in ast.parse(source(sglang.HOOKS.replace(".", "/") + ".py")).body
        if isinstance(node, ast.ClassDef) and node.name == "HookRegistry"
    )
    (register,) = (node for node in registry.body if isinstance(node, ast.FunctionDef) and node.name == "register")
    assert [one.arg for one in register.args.args] == ["cls", "target", "hook", "hook_type"]


def test_sglang_passes_the_keywords_that_we_take() -> None:
    tree = ast.parse(source("sglang/srt/speculative/eagle_utils.py"))
    (call,) = calls(tree, "sampling_fn")
    assert [keyword.arg for keyword in call.keywords] == list(
        inspect.signature(sglang.tree_speculative_sampling_target_only).parameters
    )


@each(module=flashinfer.MODULES)
def test_flashinfer_has_its_function_under_these_names(module: str) -> None:
    file = "flashinfer/__init__.py" if module == "flashinfer" else "flashinfer/sampling.py"
    names = {
        name.asname or name.name
        for node in ast.parse(source(file)).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    } | {node.name for node in ast.parse(source(file)).body if isinstance(node, ast.FunctionDef)}
    assert "chain_speculative_sampling" in names
