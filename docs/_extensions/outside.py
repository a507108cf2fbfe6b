"""Files beside the folder of the pages that are pages too: a stub that links to one is replaced by its text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
PAGES = {
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "shipped_pair": "otspec/decode/shipped/README.md",
}
STANDS_FOR = {DOCS.parent / path: DOCS / f"{name}.md" for name, path in PAGES.items()}


def rebased(text: str, old: Path, new: Path) -> str:
    """Relative links of a file in one folder, as those of a page of the site in another."""

    def rewritten(link: re.Match[str]) -> str:
        path, hash_, anchor = link[1].partition("#")
        if "://" in path or not path:
            return link[0]
        led = Path(os.path.normpath(old / path))
        led = STANDS_FOR.get(led, DOCS / "index.md" if led == DOCS.parent / "README.md" else led)
        return f"]({os.path.relpath(led, new)}{hash_}{anchor})"

    return re.sub(r"\]\(([^()\s]+)\)", rewritten, text)


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    new = (DOCS / docname).parent
    if docname in PAGES:
        path = DOCS.parent / PAGES[docname]
        source[0] = rebased(path.read_text(), path.parent, new)
    else:
        source[0] = rebased(source[0], new, new)


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
