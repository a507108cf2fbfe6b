"""Docstrings are written for a reader of the code: a star as in H*, or a bar as in |T|, is no markup there.

Nor is what stands before a colon in the docstring of a setting its type, which napoleon reads in the first line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

OUTSIDE_CODE = re.compile(r"(?<![\\*`])([*|])(?=[^`]*(?:`[^`]*`[^`]*)*$)")


def escape(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    example = False
    for at, line in enumerate(lines):
        example = bool(line.strip()) and (example or ">>>" in line)
        if not example:
            lines[at] = OUTSIDE_CODE.sub(r"\\\1", line)
    if what == "attribute":
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.connect("autodoc-process-docstring", escape, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
