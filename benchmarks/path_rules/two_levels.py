"""What nested labels have over picking level by level, on trees of two levels: small models, exactly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import typer

from benchmarks.path_rules.grid import in_short, verifier_of
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import pivot
from otspec.laws import FloatArray, IntArray
from otspec.paths import Model, Nested, PickRule, PickThenBlock, synthetic
from otspec.reporting.tables import TextTable
from otspec.verification.rules.nested.labels import whole
from otspec.verification.rules.nested.sharing import PLAIN, refine
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix

VOCABULARIES = (3, 8, 20)
SHAPES = ((2, 2), (4, 2), (3, 3), (4, 4), (9, 1))


class OwnChildren:
    """Picks a child of the picked slot, level by level, and forgets that other slots may have drawn the same prefix."""

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path; laws have shape (L, V), tokens (L,)."""
        laws = zip(target, draft, shape.branching, strict=True)
        return np.array([refine(p, q, np.eye(b)[-1], whole(), 1.0, PLAIN).proposal for p, q, b in laws])


def two_levels(trees: Annotated[int, typer.Option(min=1, help="Models of each size.")] = 100, out: Out = None) -> None:
    """Picking level by level, and nested labels, on trees of two levels: small models, exactly."""
    answer(TWO_LEVELS, measure(trees), out)


def measure(models: int) -> Iterator[Record]:
    """A record for every size, shape and rule."""
    rules: dict[str, PickRule] = {
        "own children": OwnChildren(),
        "pick then block": PickThenBlock(),
        "nested, sigma = 0": Nested(sigma=0.0),
    }
    for vocab, branching in itertools.product(VOCABULARIES, SHAPES):
        shape = Shape(branching)
        for name, rule in rules.items():
            accepted = [mean_length(rule, synthetic("tiny", vocab, seed), shape) for seed in range(models)]
            place = {"vocab": vocab, "branching": list(branching), "verifier": name}
            yield {**place, "accepted": float(np.mean(accepted))}


def mean_length(rule: PickRule, model: Model, shape: Shape) -> float:
    """Mean accepted length over all drafts: the sum of A(vx) = min(A(v) p(x|v), g(vx)) over all prefixes."""
    vocab = np.size(model.target(()))
    seen: dict[Prefix, float] = {}
    for above in itertools.product(range(vocab), repeat=shape.depth - 1):
        path = (*above, 0)  # the last token decides nothing
        target = np.array([model.target(path[:i]) for i in range(shape.depth)])
        draft = np.array([model.draft(path[:i]) for i in range(shape.depth)])
        proposal = rule.along(target, draft, np.array(path), shape)
        g = kept = 1.0
        for i, (p, law) in enumerate(zip(target, proposal, strict=True)):
            below = np.minimum(kept * p, g * law)
            if i == shape.depth - 1:
                seen[path] = float(below.sum())
            else:
                kept, g = float(below[path[i]]), g * float(law[path[i]])
                seen[path[: i + 1]] = kept
    return sum(seen.values())


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Rules by shapes."""
    place = {"V": lambda r: str(r["vocab"]), "branching": lambda r: in_short(r["branching"])}
    show = "Mean accepted length, exact."
    return [pivot("Two levels", records, place, verifier_of, lambda r: f"{r['accepted']:.3f}", show)]


TWO_LEVELS = Question("two-levels", [two_levels], ("vocab", "branching", "verifier"), tables)
