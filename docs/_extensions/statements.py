"""A quotation that begins with "**Theorem 2**" is set as a theorem, and "Theorem 2" elsewhere on its page leads to it.

On a forge such a quotation reads as one, and the words stay plain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

KINDS = "Definition|Theorem|Lemma|Corollary"
NAMED = re.compile(rf"(?<!, )(?:{KINDS}) \d+(?!\.?\d)")  # Theorem 3.1 is one of a paper, and so is [key, Theorem 4]


class Statements(SphinxTransform):
    default_priority = 710

    def apply(self) -> None:
        anchors = {}
        for quoted in self.document.findall(nodes.block_quote):
            first = next(quoted.findall(nodes.strong), None)
            found = NAMED.match(quoted.astext())
            if not found or first is None or first.astext() != found[0]:
                continue
            kind, number = found[0].split()
            quoted["classes"] += ["statement", kind.lower()]
            anchors[found[0]] = f"{kind}-{number}".lower()
            quoted["ids"].append(anchors[found[0]])
        if anchors:
            self._link(anchors)

    def _link(self, anchors: dict[str, str]) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(
                text.parent, (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.strong)
            ):
                continue
            parts = re.split(f"({NAMED.pattern})", text.astext())
            if not any(part in anchors for part in parts):
                continue
            made: list[nodes.Node] = [
                nodes.reference("", part, internal=True, refid=anchors[part]) if part in anchors else nodes.Text(part)
                for part in parts
            ]
            text.parent.replace(text, made)


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.add_transform(Statements)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
