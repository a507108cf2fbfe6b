"""How deep a rule gets: P(at least d drafted tokens are accepted), for any shape, on sampled contexts.

A rule that picks a path by a law g, known along it, is judged along one text of the target, without a drafted tree:
whatever the shape, A(v) / p(v) is the least of 1 and g(u) / p(u) over the prefixes u of v, and the text is v with
probability p(v).  Other rules meet a drafted tree, whose slots draw the same tokens in all shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_law, draw
from otspec.paths.protocol import PathVerifier
from otspec.paths.shape import Shape
from otspec.paths.synthetic import check_seed
from otspec.paths.tree import Model, Prefix, Tree, as_shape, check_model


@runtime_checkable
class Along(Protocol):
    """A rule that picks a path by a law that is known along it, and block-verifies it."""

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path, whatever the other paths are."""


class Text(NamedTuple):
    """Tokens that the target wrote, and both models' laws before each."""

    tokens: IntArray
    """Shape (L,)."""
    target: FloatArray
    """Shape (L, V)."""
    draft: FloatArray
    """Shape (L, V)."""


@dataclass(frozen=True, eq=False)
class Context:
    """A place in a text where drafting begins: the models from there on, and what is drawn from them.

    All that is drawn follows from the seed, so that shapes and rules are compared on the same draws.

    Parameters
    ----------
    model : Model
        From the tokens after the context to the laws of the next.
    seed : int

    Raises
    ------
    ProblemError
        If the model is none, or the seed no integer >= 0.
    """

    model: Model
    seed: int = 0

    def __post_init__(self) -> None:
        check_model(self.model)
        check_seed(self.seed)

    @cached_property
    def _written(self) -> list[tuple[int, FloatArray, FloatArray]]:
        return []

    def _rng(self, *stream: int) -> np.random.Generator:
        """Streams of their own, also where one name is another and zeros."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))

    def text(self, length: int) -> Text:
        """The first tokens of a text of the target's."""
        while len(self._written) < length:
            prefix = tuple(token for token, _, _ in self._written)
            target, draft = as_law("target", self.model.target(prefix)), as_law("draft", self.model.draft(prefix))
            token = int(draw(target, self._rng(0, len(prefix))))
            self._written.append((token, target, draft))
        return Text(*(np.array(each) for each in zip(*self._written[:length], strict=True)))

    def tree(self, branching: Sequence[int]) -> Tree:
        """A drafted tree.  What a slot draws follows from the seed, its prefix and which child it is on each level."""
        shape = as_shape(branching)
        prefixes: list[Prefix] = [()]
        place: list[Prefix] = [()]
        for level, children in enumerate(shape.branching):
            for above in range(shape.offsets[level], shape.offsets[level + 1]):
                law = as_law("draft", self.model.draft(prefixes[above]))
                for child in range(children):
                    place.append((*place[above], child))
                    prefixes.append((*prefixes[above], int(draw(law, self._rng(1, *place[-1])))))
        return self.model.tree(prefixes[shape.offsets[-2] :], shape.branching)


def check_context(context: Any) -> None:
    """Refuse what is no context."""
    if not isinstance(context, Context):
        raise ProblemError(f"the context is {context!r}; pass an otspec.paths.Context of a model")


def reach(rule: PathVerifier, context: Context, branching: Sequence[int]) -> FloatArray:
    """P(at least 1, ..., L drafted tokens are accepted), shape (L,), from one draw: unbiased over contexts' draws.

    Their sum is the accepted length.  Of a rule with `Along.along` it is the expectation over all drafts given a text
    of the target's; of others the expectation given a drafted tree.

    Parameters
    ----------
    rule : PathVerifier
    context : Context
    branching : sequence of int
        How many children the slots of each level have.

    Raises
    ------
    ProblemError
        If the rule is no verifier of paths, the context is none, or `branching` is no sequence of integers >= 1, or
        empty.
    """
    shape = as_shape(branching)
    check_context(context)
    if isinstance(rule, Along):
        return reach_along(rule, context.text(shape.depth), shape)
    if not isinstance(rule, PathVerifier):
        raise ProblemError(f"the rule is {rule!r}; pass a verifier such as otspec.paths.Nested()")
    tree = context.tree(shape.branching)
    stops = np.bincount(tree.depth, rule.stop_law(tree).sum(axis=1), minlength=shape.depth + 1)
    return stops[::-1].cumsum()[-2::-1]


def reach_along(rule: Along, text: Text, shape: Shape) -> FloatArray:
    """`reach` given a text of the target's.

    With a = A(v) / p(v) and r = g(v) / p(v) at the text's prefix v, the sum of A(vx) over x is p(v) times that of
    min(a p(x|v), r g(x|v)), for block verification has A(vx) = min(A(v) p(x|v), g(vx)).  Nothing is accepted after a
    token that cannot be drafted.
    """
    drafted = text.draft[np.arange(text.tokens.size), text.tokens] > 0
    depth = text.tokens.size if drafted.all() else int(np.argmin(drafted)) + 1
    target, draft, tokens = text.target[:depth], text.draft[:depth], text.tokens[:depth].copy()
    tokens[-1] = draft[-1].argmax()  # it decides nothing
    found = np.zeros(text.tokens.size)
    accepted = ratio = 1.0
    for i, g in enumerate(rule.along(target, draft, tokens, shape)):
        found[i] = np.minimum(accepted * target[i], ratio * g).sum()
        if i < depth - 1:
            ratio *= g[tokens[i]] / target[i, tokens[i]]
            accepted = min(accepted, ratio)
    return found
