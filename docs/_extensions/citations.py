"""Keys of references.bib become links to the page of references, which is made from that file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from pybtex.backends.markdown import Backend
from pybtex.database import parse_file
from pybtex.style.formatting.unsrt import Style
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.application import Sphinx

BIBLIOGRAPHY = parse_file(str(Path(__file__).parents[2] / "references.bib"))
KEYS = re.compile(rf"\b({'|'.join(map(re.escape, BIBLIOGRAPHY.entries))})\b")
ADDRESS = re.compile(r"<(https?:\S+?)>|\\+url\s+(https?:\S+?)(?=[.,\\]*(?:\s|$))")
PAGE = "references"


def listed() -> str:
    """Every entry, by its key, as Markdown with an anchor that the links lead to."""
    formatted = Style().format_bibliography(BIBLIOGRAPHY)
    told = {entry.key: ADDRESS.sub(_link, entry.text.render(Backend())) for entry in formatted}
    return "\n\n".join(f"(ref-{key})=\n**{key}** — {told[key]}" for key in sorted(told))


def _link(address: re.Match[str]) -> str:
    """An address as a link, without the escapes of Markdown."""
    return f"<{(address[1] or address[2]).replace(chr(92), '')}>"


class Cite(SphinxTransform):
    """A key in running text links to its entry; code and the page of references itself stay as they are."""

    default_priority = 700

    def apply(self) -> None:
        if self.env.docname == PAGE:
            return
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.math)):
                continue
            parts = KEYS.split(text.astext())
            if len(parts) == 1:
                continue
            split: list[nodes.Node] = [nodes.Text(part) for part in parts]
            for at in range(1, len(parts), 2):
                split[at] = make_refnode(
                    self.env.app.builder, self.env.docname, PAGE, f"ref-{parts[at]}".lower(), nodes.Text(parts[at])
                )
            text.parent.replace(text, split)


def add_entries(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] += "\n" + listed()


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.connect("source-read", add_entries)
    app.add_transform(Cite)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
