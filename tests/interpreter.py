"""Triton's interpreter without what it does over and over, which takes most of its time."""

import dataclasses
import functools
import inspect
import sys
from typing import Any


def speed_up() -> None:
    """Have the interpreter, where it is imported, look up once what it looks up at every step.

    It makes types anew for every value, and its language one of numpy not only when a kernel is launched, but at every
    call of a function inside it, and finds all as the launch has left it.  It also adds and multiplies 32-bit integers
    twice, to see whether one is too large: of that a wrong place in memory would tell, which is compared.
    """
    interpreter: Any = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None or hasattr(interpreter._patch_lang, "__wrapped__"):
        return
    interpreter._patch_lang = once_a_launch(interpreter)
    remember_types(interpreter)
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def remember_types(interpreter: Any) -> None:
    """Make a type once: what a block and a tensor have of it, and which one of numpy's it is."""
    core, semantic = interpreter.tl.core, type(interpreter.interpreter_semantic)
    make_block, make_tensor = core.block_type.__init__, core.tensor.__init__
    find_numpy_type, broadcast = interpreter._get_np_dtype, semantic.broadcast_impl_value
    of_blocks: dict[Any, dict[str, Any]] = {}
    of_tensors: dict[str, dict[str, Any]] = {}
    of_numpy: dict[str, Any] = {}

    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        key = (element_ty.name, *(getattr(size, "value", size) for size in shape))
        if key not in of_blocks:
            make_block(self, element_ty, shape)
            of_blocks[key] = vars(self).copy()
        vars(self).update(of_blocks[key])

    def init_tensor(self: Any, handle: Any, of: Any) -> None:
        if of.name not in of_tensors:
            make_tensor(self, handle, of)
            of_tensors[of.name] = vars(self).copy()
        vars(self).update(of_tensors[of.name], handle=handle)

    def remembered_numpy_type(of: Any) -> Any:
        name = of.scalar.name
        if name not in of_numpy:
            of_numpy[name] = find_numpy_type(of)
        return of_numpy[name]

    def broadcast_what_differs(self: Any, left: Any, right: Any) -> Any:
        return (left, right) if left.type.name == right.type.name else broadcast(self, left, right)

    core.block_type.__init__, core.tensor.__init__ = init_block, init_tensor
    interpreter._get_np_dtype, semantic.broadcast_impl_value = remembered_numpy_type, broadcast_what_differs


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
