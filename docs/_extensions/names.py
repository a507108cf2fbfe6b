"""Names in code font become links: `otspec.solve` to its place in the API, a claim's id to its row in the claims."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

from otspec.proofs_check import CLAIMS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE = "claims"


class Names(SphinxTransform):
    default_priority = 720

    def apply(self) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext()
            if isinstance(literal.parent, (nodes.reference, nodes.title, addnodes.pending_xref)):
                continue
            if name in CLAIMS and self.env.docname == PAGE and isinstance(literal.parent.parent, nodes.entry):
                literal["ids"].append(f"claim-{name}".lower())
            elif name in CLAIMS:
                link = make_refnode(
                    self.env.app.builder, self.env.docname, PAGE, f"claim-{name}".lower(), literal.deepcopy()
                )
                literal.parent.replace(literal, link)
            elif re.fullmatch(r"otspec(\.\w+)+(\(\))?", name):
                link = addnodes.pending_xref(
                    "",
                    literal.deepcopy(),
                    refdomain="py",
                    reftype="obj",
                    reftarget=name.removesuffix("()"),
                    refdoc=self.env.docname,
                )
                literal.parent.replace(literal, link)


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.add_transform(Names)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
