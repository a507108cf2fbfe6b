"""The page of all claims, docs/claims.md, is written from their registry; git does not keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from otspec.proofs_check import SOURCES, report

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def write(app: Sphinx) -> None:
    page, text = Path(app.srcdir) / "claims.md", report.expectations(SOURCES)
    if not page.exists() or page.read_text() != text:  # an unchanged page is not read again
        page.write_text(text)


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
