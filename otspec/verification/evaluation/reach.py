"""How deep a rule gets: P(at least d drafted tokens are accepted), for any shape, on sampled contexts.

A rule that picks a path by a law g, known along it, is judged along one text of the target, without a drafted tree:
whatever the shape, A(v) / p(v) is the least of 1 and g(u) / p(u) over the prefixes u of v, and the text is v with
probability p(v).  Other rules meet a drafted tree, whose slots draw the same tokens in all shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_law, draw
from otspec.verification.evaluation.synthetic import check_seed
from otspec.verification.evaluation.walking import Line, laws_after, reach_along
from otspec.verification.rules.protocol import PathVerifier, PickRule
from otspec.verification.trees.tree import Model, Prefix, Tree, as_shape, check_model


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

    Examples
    --------
    >>> from otspec.paths import Context, synthetic
    >>> context = Context(synthetic("mixed", vocab=50), seed=3)
    >>> context.tree((1, 1)).prefix(2) == context.tree((1, 1, 4)).prefix(2)  # shapes share their draws
    True
    """

    model: Model
    seed: int = 0

    def __post_init__(self) -> None:
        check_model(self.model)
        check_seed(self.seed)

    @cached_property
    def _written(self) -> list[tuple[FloatArray, FloatArray, int]]:
        return []

    def _rng(self, *stream: int) -> np.random.Generator:
        """Streams of their own, also where one name is another and zeros."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))

    def text(self, length: int) -> Line:
        """The first tokens of a text of the target's, with the laws along it."""
        while len(self._written) < length:
            prefix = tuple(token for *_, token in self._written)
            target, draft = laws_after(self.model, prefix)
            self._written.append((target, draft, int(draw(target, self._rng(0, len(prefix))))))
        return Line(*(np.array(each) for each in zip(*self._written[:length], strict=True)))

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

    Their sum is the accepted length.  Of a `PickRule` it is the expectation over all drafts given a text of the
    target's; of others the expectation given a drafted tree.

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

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.paths import Context, Nested, reach, synthetic
    >>> contexts = [Context(synthetic("mixed", vocab=50), seed) for seed in range(100)]
    >>> print(np.mean([reach(Nested(), context, (4, 1, 1)) for context in contexts], axis=0).round(2))
    [0.97 0.87 0.78]
    """
    shape = as_shape(branching)
    check_context(context)
    if isinstance(rule, PickRule):
        return reach_along(rule, context.text(shape.depth), shape)
    if not isinstance(rule, PathVerifier):
        raise ProblemError(f"the rule is {rule!r}; pass a verifier such as otspec.paths.Nested()")
    tree = context.tree(shape.branching)
    stops = np.bincount(tree.depth, rule.stop_law(tree).sum(axis=1), minlength=shape.depth + 1)
    return stops[::-1].cumsum()[-2::-1]
