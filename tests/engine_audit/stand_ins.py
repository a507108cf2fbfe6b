"""Modules in the place of engines, and the texts that they write."""

from __future__ import annotations

import random
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

LAW = (0.5, 0.3, 0.2)
"""Of every token of a text."""


def put(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> ModuleType:
    """Put a module there for a test."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    for key, value in contents.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def tokens_of(seed: int, length: int) -> list[int]:
    """A text of the law."""
    return random.Random(seed).choices(range(3), LAW, k=length)
