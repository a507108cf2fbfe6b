"""Triton's interpreter without what it does over and over, which takes most of its time."""

import dataclasses
import functools
import inspect
import sys
from typing import Any


def speed_up() -> None:
    """Have the interpreter, where it is imported, look up once what it looks up at every step.

    It makes its language one of numpy not only when a kernel is launched, but at every call of a function inside it,
    and finds all as the launch has left it.  It also adds and multiplies 32-bit integers twice, to see whether one is
    too large: of that a wrong place in memory would tell, which is compared.
    """
    interpreter: Any = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None or hasattr(interpreter._patch_lang, "__wrapped__"):
        return
    interpreter._patch_lang = once_a_launch(interpreter)
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def once_a_launch(interpreter: Any) -> Any:
    """Its patching of the language, which leaves alone what is patched already."""
    patch, languages = interpreter._patch_lang, (interpreter.tl, interpreter.tl.core)
    patched: set[str] = set()

    @functools.cache
    def seen_by(function: Any) -> set[str]:
        modules = filter(inspect.ismodule, function.__globals__.values())
        return {module.__name__ for module in modules if module in languages}

    def restore(scope: Any) -> None:
        patched.clear()
        type(scope).restore(scope)

    @functools.wraps(patch)
    def patch_the_rest(function: Any) -> Any:
        wanted, launched = seen_by(function), not patched
        scope = interpreter._LangPatchScope() if wanted <= patched else patch(function)
        patched.update(wanted)
        if launched:
            scope.restore = functools.partial(restore, scope)
        return scope

    return patch_the_rest
