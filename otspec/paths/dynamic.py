"""Shapes chosen while drafting: after each token of a stem, draft one more, or let the tree branch and how.

The choice may look at the text, at the stem's tokens and at the draft laws along it: every rule then stays lossless
(`docs/paths.md`).  It may not look at siblings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import cast

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count, as_law
from otspec.paths.enumeration import PathLaw, law_over, trees_of
from otspec.paths.protocol import PathVerifier, PickRule
from otspec.paths.reach import Context
from otspec.paths.shape import Shape
from otspec.paths.tree import Model, Prefix, Tree, check_callable, check_model
from otspec.paths.walking import reach_along

Choice = Callable[[Prefix, Sequence[FloatArray]], Sequence[int] | None]
"""From the tokens of a stem and the draft laws before each of them and after the last, to the branching below the stem,
or to None for one more token of the stem."""


@dataclass(frozen=True)
class Confident:
    """A stem for as long as the draft is sure of itself, then as many levels of paths as a budget has left.

    Parameters
    ----------
    least : float
        The stem goes on while the likeliest next token has this draft probability or more.
    paths : int
        K, from there on.
    budget : int
        Drafted tokens at most, K or more.
    deepest : int
        Levels at most.

    Raises
    ------
    ProblemError
        If a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.paths import Confident
    >>> choose = Confident(least=0.5, paths=2, budget=5)
    >>> sure, unsure = np.array([0.9, 0.1, 0.0]), np.array([0.4, 0.3, 0.3])
    >>> print(choose((), [sure]))  # one more token of the stem
    None
    >>> print(choose((0,), [sure, unsure]))  # two paths of two tokens, for the four that are left
    (2, 1)
    """

    least: float
    paths: int
    budget: int
    deepest: int = 16

    def __post_init__(self) -> None:
        if isinstance(self.least, bool) or not isinstance(self.least, Real) or not cast(float, self.least) >= 0:
            raise ProblemError(f"least is {self.least!r}; it is a probability, above 1 for no stem at all")
        for name in ("paths", "budget", "deepest"):
            object.__setattr__(self, name, as_count(name, getattr(self, name)))
        if self.budget < self.paths:
            raise ProblemError(f"the budget is {self.budget}, and one level of {self.paths} paths takes more")

    def __call__(self, tokens: Prefix, laws: Sequence[FloatArray]) -> Sequence[int] | None:
        """Go on while the draft is sure, and there is room for a level of paths after the next token."""
        stem = len(tokens)
        room = min(self.deepest - stem, self.budget - stem)
        if laws[-1].max() >= self.least and self.budget - stem - 1 >= self.paths and self.deepest - stem > 1:
            return None
        levels = min((self.budget - stem) // self.paths, room)
        return (self.paths, *(1,) * (levels - 1))


def chosen_along(choice: Choice, tokens: Sequence[int], draft: FloatArray) -> tuple[int, ...]:
    """The shape that is drafted where the stem is the beginning of a text, draft laws along it of shape (L, V).

    Raises
    ------
    ProblemError
        If the stem is as long as the text, or nothing is drafted.
    """
    for stem in range(len(draft)):
        below = choice(tuple(tokens[:stem]), list(draft[: stem + 1]))
        if below is not None:
            return _chosen(stem, below)
    raise ProblemError(f"the stem is longer than {len(draft)} tokens; let the choice end it")


def _chosen(stem: int, below: Sequence[int]) -> tuple[int, ...]:
    if isinstance(below, str) or not isinstance(below, Sequence):
        raise ProblemError(f"the choice answers {below!r}; it has to answer None, or a branching such as (4, 1)")
    shape = Shape.of((*(1,) * stem, *below))
    if not shape.depth:
        raise ProblemError("the choice drafts nothing; let it draft one token at least")
    return shape.branching


def chosen_tree(choice: Choice, context: Context, deepest: int) -> Tree:
    """A drafted tree of the shape that is chosen, of at most so many levels; slots draw as in `Context.tree`."""
    stem = context.tree((1,) * deepest)
    prefix = stem.prefix(int(stem.node[0, -1]))
    laws = np.array([as_law("draft", context.model.draft(prefix[:i])) for i in range(deepest)])
    return context.tree(chosen_along(choice, prefix, laws))


def chosen_reach(rule: PickRule, choice: Choice, context: Context, deepest: int) -> FloatArray:
    """`reach` of a rule that picks a path, shape (deepest,), where the shape is chosen while drafting."""
    text = context.text(deepest)
    branching = chosen_along(choice, text.tokens.tolist(), text.draft)
    found = np.zeros(deepest)
    found[: len(branching)] = reach_along(rule, context.text(len(branching)), Shape(branching))
    return found


def chosen_law(rule: PathVerifier, choice: Choice, model: Model, deepest: int) -> PathLaw:
    """`tree_law` of trees whose shapes are chosen while drafting, of at most so many levels.

    Raises
    ------
    ProblemError
        As `tree_law`, or if the rule cannot verify, or the choice drafts nothing or goes deeper.

    Examples
    --------
    >>> from otspec.paths import Confident, Nested, chosen_law, synthetic
    >>> choice = Confident(least=0.6, paths=2, budget=3)
    >>> law = chosen_law(Nested(), choice, synthetic("tiny", vocab=2), deepest=2)
    >>> law.deviation < 1e-9  # shapes that depend on the draft laws do no harm
    True
    """
    if not isinstance(rule, PathVerifier):
        raise ProblemError(f"the rule is {rule!r}; pass a verifier such as otspec.paths.Nested()")
    check_model(model)
    check_callable("choice", choice)
    return law_over(_chosen_trees(choice, model, as_count("deepest", deepest), rule.exchangeable), rule, model, deepest)


def _chosen_trees(choice: Choice, model: Model, deepest: int, exchangeable: bool) -> Iterator[tuple[float, Tree]]:
    """Every tree with its probability."""
    stems: list[tuple[float, Prefix, list[FloatArray]]] = [(1.0, (), [])]
    while stems:
        chance, prefix, before = stems.pop()
        laws = [*before, as_law("draft", model.draft(prefix))]
        below = choice(prefix, laws)
        if below is None:
            if len(prefix) + 1 >= deepest:
                raise ProblemError(f"the stem is longer than {deepest - 1} tokens; let the choice end it")
            stems += [(chance * q, (*prefix, x), laws) for x, q in enumerate(laws[-1].tolist()) if q > 0]
            continue
        shape = Shape.of(_chosen(len(prefix), below))
        if shape.depth > deepest:
            raise ProblemError(f"the choice makes {shape.depth} levels; at most {deepest} are asked for")
        if not below:
            yield chance, model.tree([prefix], shape.branching)
            continue
        after = Model(_after(model.target, prefix), _after(model.draft, prefix))
        for more, tree in trees_of(after, Shape(shape.branching[len(prefix) :]), exchangeable):
            leaves = [(*prefix, *tree.prefix(int(node))) for node in tree.node[:, -1]]
            yield chance * more, model.tree(leaves, shape.branching)


def _after(law: Callable[[Prefix], FloatArray], prefix: Prefix) -> Callable[[Prefix], FloatArray]:
    """The law after a prefix and more."""
    return lambda more: law((*prefix, *more))
