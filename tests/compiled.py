"""Compiled code as plain Python, which checks what numba does not: that no index lies outside its array."""

from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher


def run_in_python(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Have all compiled functions of a module run uncompiled until the test is over."""
    compiled = {name: value for name, value in vars(module).items() if isinstance(value, Dispatcher)}
    assert compiled, f"{module.__name__} compiles nothing"
    for name, function in compiled.items():
        monkeypatch.setattr(module, name, function.py_func)
