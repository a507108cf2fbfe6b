"""Pages of source code lead back to where a name is described.

viewcode takes all names of a module to be described under one module: the first that any of them is described under.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

BACK = re.compile(r'(?<=class="viewcode-back" href=")([^"#]*?)([^"#/]+)\.html#otspec(\.[^"]+)')


def lead_back(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    if not pagename.startswith("_modules/") or "body" not in context:
        return
    objects = app.env.get_domain("py").objects  # type: ignore[attr-defined]  # of the domain of Python

    def described(match: re.Match[str]) -> str:
        folder, page, name = match.groups()
        known = (one for one, entry in objects.items() if entry.docname.endswith(page) and one.endswith(name))
        return f"{folder}{page}.html#{next(known, 'otspec' + name)}"

    context["body"] = BACK.sub(described, context["body"])


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.connect("html-page-context", lead_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
