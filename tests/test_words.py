"""A term used in a public name stands in the glossary, or is the literature's."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from tests.test_layers import ROOT, modules

OURS = (
    *("law", "slot", "node", "rows", "stem", "share", "swap", "label", "grain", "bin", "line", "links", "layout"),
    *("breakpoint", "bucket", "stage", "frontier", "mass", "score", "reach", "place", "rank"),
    *("exchange", "contribution", "donor", "recipient", "threshold", "release", "race", "gap", "deviation"),
    *("commit", "steered", "features", "workspace", "spelling", "dealt", "foreign", "matching", "kept", "shortlist"),
    *("budget", "cluster", "router", "ahead", "lesson", "course", "kind", "candidate", "family", "plain", "pace"),
    *("pacer", "goodput", "rest", "floor", "ending", "valid", "identity", "claim", "instance", "witness"),
    *("margin", "verdict", "remedy", "mutation", "power", "subject", "cases", "context", "topology"),
)
"""Words that mean something of their own here, in names that others see."""

GONE = {
    "settle": "commit, or finish",
    "fed": "EAGLE-style",
    "lean": "fused forward pass",
    "giver": "donor",
    "seeker": "recipient",
    "stake": "contribution",
    "enlist": "queue",
    "grant": "allocate",
    "pivot": "threshold",
    "heir": "largest child",
    "rival": "competing sibling",
    "signs": "features",
    "hear": "observe",
    "menu": "shapes",
    "selector": "pace",
    "exhibit": "known bug",
    "museum": "known bugs",
    "twin": "reference, or correct counterpart",
    "sound": "valid",
    "lottery": "exchange",
    "lotteries": "exchanges",
}
"""Words that were private, and what is said in their place."""


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def names() -> Iterator[tuple[str, str]]:
    """Module and name of every public function, class, method and field."""
    for module, path in modules().items():
        if module.startswith("benchmarks"):
            continue
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            yield module, node.name
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                name = part.name if isinstance(part, ast.FunctionDef) else None
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    name = part.target.id
                if name is not None and not name.startswith("_"):
                    yield module, name


@cache
def public() -> dict[str, set[str]]:
    """By each word the names that it is in."""
    found = defaultdict[str, set[str]](set)
    for module, name in names():
        for word in words_of(name):
            found[word].add(f"{module}.{name}")
    return dict(found)


def terms() -> set[str]:
    """The words of the glossary's bold terms."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    bold = re.findall(r"\*\*(.+?)\*\*", text)
    italic = re.findall(r"(?<!\*)\*([\w -]+)\*(?!\*)|`(\w+)`", text)
    return {word.lower() for term in (*bold, *("".join(pair) for pair in italic)) for word in re.findall(r"\w+", term)}


def test_words_of_ours_are_in_the_glossary() -> None:
    known = terms()
    used = [word for word in OURS if any(form in public() for form in (word, f"{word}s", f"{word}es"))]
    assert len(used) > 60
    missing = {
        word: sorted(public().get(word) or public()[f"{word}s"])[:2]
        for word in used
        if not known & {word, f"{word}s", word.removesuffix("s")}
    }
    assert not missing


def test_words_that_are_gone_are_in_no_public_name() -> None:
    left = {name: f"say {instead}" for word, instead in GONE.items() for name in public().get(word, ())}
    assert not left
