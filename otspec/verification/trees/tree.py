"""Drafted paths merged into a tree, with both models' laws at its nodes: the input of a verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_generator, as_law, as_tokens, draw
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

Prefix = tuple[int, ...]
Law = Callable[[Prefix], Any]
"""Next-token probabilities, shape (V,), after a prefix: what a language model is."""


OF_TOPOLOGY = tuple(field.name for field in fields(Topology))


@dataclass(frozen=True, eq=False)
class Tree(Topology):
    """A topology with the laws after its prefixes; its tokens are positions in these laws.

    Examples
    --------
    >>> from otspec.verification import Tree
    >>> uniform = [1 / 3, 1 / 3, 1 / 3]
    >>> tree = Tree.of([[0, 1], [0, 2]], target=lambda prefix: uniform, draft=lambda prefix: uniform)
    >>> [tree.prefix(node) for node in range(tree.size)]  # what the paths share is there once
    [(), (0,), (0, 1), (0, 2)]
    """

    target: FloatArray
    """Shape (N, V): target law after each prefix."""
    draft: FloatArray
    """Shape (inner, V): draft law after each prefix of less than L tokens.  Or, of independent paths that are drafted
    by laws of their own, shape (K, L, V): the law of each token of each path."""

    @classmethod
    def with_laws(
        cls, topology: Topology, target: FloatArray, draft: FloatArray, token: IntArray | None = None
    ) -> Tree:
        """A topology with laws, shapes (N, V) and (inner, V), of which nothing is checked.

        Its tokens may be numbered anew, shape (N,).  Laws are laid out row by row, whatever they were chosen from: the
        rules are compiled for that alone.
        """
        own = {name: getattr(topology, name) for name in OF_TOPOLOGY}
        if token is not None:
            own["token"] = token
        return cls(**own, target=np.ascontiguousarray(target), draft=np.ascontiguousarray(draft))

    @classmethod
    def of(cls, paths: Any, target: Law, draft: Law, branching: Sequence[int] | None = None) -> Tree:
        """Merge paths and get from the models the laws that verification needs, once at each node.

        Parameters
        ----------
        paths : array_like of int, shape (K, L)
            Drafted paths, K, L >= 1, every token drawn from `draft` after the tokens before it.
        target, draft : callable
            Prefix, a tuple of ints, to the law of the next token, checked and scaled as in `otspec.laws.as_law`.
        branching : sequence of int, optional
            How many children each drafted token of a level has, for trees whose paths share draws: its paths are those
            to the leaves, in order.  By default they are independent, (K, 1, ..., 1).

        Raises
        ------
        ProblemError
            If the paths are not such an array, or not those of the branching, a law is not one, or a token could not
            have been drafted.
        """
        check_callable("target", target)
        check_callable("draft", draft)
        paths = as_tokens(paths)
        if paths.ndim != 2 or 0 in paths.shape or not np.issubdtype(paths.dtype, np.integer):
            raise ProblemError(
                f"paths are {paths.dtype} of shape {paths.shape}; K paths of L tokens are integers of shape (K, L)"
            )
        if paths.min() < 0:
            raise ProblemError(f"a path has token {paths.min()}; tokens are counted from 0")
        topology = Topology.merge(*slots_of(paths, branching))
        prefixes = prefixes_of(topology)
        laws = [as_law(f"target{prefix}", target(prefix)) for prefix in prefixes]
        drafts = [as_law(f"draft{prefix}", draft(prefix)) for prefix in prefixes[: topology.inner]]
        if len({law.size for law in laws + drafts}) > 1:
            raise ProblemError(
                f"laws have {sorted({law.size for law in laws + drafts})} tokens; all need one vocabulary"
            )
        for above, prefix in zip(topology.parent[1:].tolist(), prefixes[1:], strict=True):
            if not (prefix[-1] < laws[0].size and drafts[above][prefix[-1]] > 0):
                raise ProblemError(
                    f"token {prefix[-1]} after {prefix[:-1]} has draft probability 0; it was not drafted"
                )
        return cls.with_laws(topology, np.array(laws), np.array(drafts))

    def prefix(self, node: int) -> Prefix:
        """The tokens that lead to a node.

        Raises
        ------
        ProblemError
            If there is no such node.
        """
        if isinstance(node, bool) or not isinstance(node, int | np.integer) or not 0 <= node < self.size:
            raise ProblemError(f"node {node!r} of a tree; nodes run from 0, the root, to {self.size - 1}")
        return tuple(self.token[self.line(node)].tolist())


def prefixes_of(topology: Topology) -> list[Prefix]:
    """The tokens that lead to each node."""
    prefixes: list[Prefix] = [()]
    for above, token in zip(topology.parent[1:].tolist(), topology.token[1:].tolist(), strict=True):
        prefixes.append((*prefixes[above], token))
    return prefixes


def check_tree(tree: Any) -> None:
    """Refuse what is no tree with laws."""
    if not isinstance(tree, Tree):
        raise ProblemError(f"the tree is {tree!r}; pass what otspec.verification.Tree.of or Model.tree returns")


def check_callable(name: str, function: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise ProblemError(f"{name} is {function!r}; pass a function")


def check_model(model: Any) -> None:
    """Refuse what is no pair of language models."""
    if not isinstance(model, Model):
        raise ProblemError(
            f"the model is {model!r}; pass otspec.verification.Model(target, draft) of two functions of a prefix"
        )


_paths = lru_cache(maxsize=64)(Shape.paths)  # enumeration merges thousands of trees of one shape
_of = lru_cache(maxsize=64)(Shape.of)


def as_shape(branching: Sequence[int]) -> Shape:
    """The shape of a tree that drafts something."""
    if isinstance(branching, str | bytes) or not isinstance(branching, Sequence) or not len(branching):
        raise ProblemError(f"branching is {branching!r}; pass the number of children on each level, such as (1, 1, 4)")
    return Shape.of(branching)


def slots_of(paths: IntArray, branching: Sequence[int] | None) -> tuple[Shape, IntArray]:
    """The shape of a tree with these leaves, and the token of every slot but the root."""
    if branching is None:
        return _paths(*paths.shape), paths.T.ravel()
    shape = _of(as_shape(branching).branching)
    slots = shape.paths_of_slots[:, 1:]
    if slots.shape != paths.shape:
        raise ProblemError(
            f"paths have shape {paths.shape}; branching {shape.branching} has {slots.shape[0]} paths of "
            f"{slots.shape[1]} tokens"
        )
    tokens = np.empty(shape.slots - 1, dtype=np.int64)
    tokens[slots - 1] = paths
    wrong = np.argwhere(tokens[slots - 1] != paths)
    if wrong.size:
        path, level = wrong[0]
        raise ProblemError(
            f"token {level} of path {path} is {paths[path, level]}; by branching {shape.branching} the path shares "
            f"this draw with another, where it is {tokens[slots[path, level] - 1]}"
        )
    return shape, tokens


@dataclass(frozen=True)
class Model:
    """A target and a draft language model, as callables.

    Examples
    --------
    >>> from otspec.verification import Model
    >>> def target(prefix):
    ...     return [0.8, 0.2] if prefix[-1:] == (0,) else [0.4, 0.6]
    >>> model = Model(target, draft=lambda prefix: [0.5, 0.5])
    >>> tree = model.tree(model.sample(count=2, length=3, rng=1))
    >>> [tree.prefix(node) for node in range(tree.size)]
    [(), (1,), (1, 1), (1, 0), (1, 1, 0), (1, 0, 0)]
    """

    target: Law
    draft: Law

    def __post_init__(self) -> None:
        for name, law in (("target", self.target), ("draft", self.draft)):
            check_callable(name, law)

    def tree(self, paths: Any, branching: Sequence[int] | None = None) -> Tree:
        """Drafted paths, shape (K, L), with the laws that verification needs: see `Tree.of`."""
        return Tree.of(paths, self.target, self.draft, branching)

    def drawn(self, branching: Sequence[int], rng: Seed) -> Tree:
        """Draw a tree in which every node of level l has `branching[l]` children, independent draws from the draft law.

        Raises
        ------
        ProblemError
            If `branching` is empty, or as in `sample`.
        """
        shape, rng = as_shape(branching), as_generator(rng)
        prefixes: list[Prefix] = [()]
        for above in shape.parent[1:].tolist():
            before = prefixes[above]
            prefixes.append((*before, int(draw(as_law(f"draft{before}", self.draft(before)), rng))))
        return self.tree(prefixes[shape.offsets[-2] :], shape.branching)

    def sample(self, count: int, length: int, rng: Seed) -> IntArray:
        """Draft `count` independent paths, shape (count, length).

        Raises
        ------
        ProblemError
            If the numbers are not integers >= 1, or their tree is too large (`Shape.paths`), or `rng` is neither a
            generator nor a seed, or a draft law is none.
        """
        shape, rng = Shape.paths(count, length), as_generator(rng)
        count, length = shape.branching[0], shape.depth
        paths = np.empty((count, length), dtype=np.int64)
        for k in range(count):
            for i in range(length):
                prefix = tuple(paths[k, :i].tolist())
                paths[k, i] = draw(as_law(f"draft{prefix}", self.draft(prefix)), rng)
        return paths
