"""The cases of drafted paths: a small model, its drafts, and the texts that a rule is judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from otspec.auditing.outcome import PathFigures
from otspec.auditing.rules.case import draw_each
from otspec.auditing.rules.instances import HOSTILE, ORDINARY, Kind
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_law
from otspec.verification import Model, Tree, tree_bound
from otspec.verification.bounds.upper_bound import MAX_PREFIXES
from otspec.verification.reference.enumeration import number_of_trees, prefixes, text_law, trees_of
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from otspec.verification.trees.tree import Prefix, check_model, slots_of

MAX_TEXTS = 20_000
"""Texts of a model, L + 1 tokens each, whose law is written down."""

MAX_TREES = 1_000
"""Drafted trees of a model that are listed; a rule is called for each."""

FEW_TEXTS = 81
"""Texts of our own models, at most, where two tokens allow it: each text needs draws of its own."""


@dataclass(frozen=True, eq=False)
class PathCase:
    """A model, checked, with its drafts."""

    name: str
    model: Model
    """The models that are drafted from and verified against, their laws checked."""
    shape: Shape
    vocab: int
    """Number of tokens V."""
    declared: Callable[[Prefix], FloatArray] | None
    """The draft laws that the rule is shown, where they are not the model's: prefix to law, shape (V,)."""

    @cached_property
    def n(self) -> int:
        """Number of paths K."""
        return len(self.shape.paths_of_slots)

    outputs: ClassVar[str] = "texts"

    def spelt(self, output: int) -> str:
        """The tokens of the text that has this place in p."""
        return " ".join(map(str, np.unravel_index(output, (self.vocab,) * (self.length + 1))))

    @cached_property
    def length(self) -> int:
        """Drafted tokens of a path, L."""
        return self.shape.depth

    @cached_property
    def p(self) -> FloatArray:
        """Law of the texts of L + 1 tokens, shape (V**(L + 1),), in lexicographic order."""
        return text_law(self.model.target, self.vocab, self.length + 1)

    @cached_property
    def q(self) -> FloatArray:
        """Law of one drafted path, shape (V**L,)."""
        return text_law(self.model.draft, self.vocab, self.length)

    @cached_property
    def shown(self) -> FloatArray:
        """Law of one drafted path as the rule is shown it, shape (V**L,)."""
        return self.q if self.declared is None else text_law(self.declared, self.vocab, self.length)

    declared_law: ClassVar[None] = None
    """The audit draws the drafts itself."""

    @cached_property
    def after(self) -> tuple[FloatArray, FloatArray]:
        """Target and draft laws after each prefix, both of shape (prefixes, V); nothing is drafted after L tokens."""
        every = list(prefixes(self.vocab, self.length))
        target = np.array([self.model.target(prefix) for prefix in every])
        drafted = [self.model.draft(prefix) for prefix in every if len(prefix) < self.length]
        return target, np.concatenate((drafted, target[len(drafted) :]))

    @cached_property
    def _levels(self) -> IntArray:
        """The place of the first prefix of 0, 1, ... L + 1 tokens, and how many there are."""
        return np.cumsum([0, *(self.vocab**level for level in range(self.length + 2))])

    @cached_property
    def optimum(self) -> float | None:
        """The largest mean share of the L levels that a lossless rule accepts; None where the program is too large."""
        if self._levels[-2] > MAX_PREFIXES:
            return None
        return min(tree_bound(self.model, self.shape.branching) / self.length, 1.0)

    @property
    def enumerable(self) -> bool:
        """Whether its drafted trees are few enough to be listed."""
        return number_of_trees(self.vocab, self.shape, exchangeable=False) <= MAX_TREES

    def trees(self) -> Iterator[tuple[float, Tree]]:
        """Every tree that can be drafted, in every order, with its probability, as the rule sees it."""
        for chance, tree in trees_of(self.model, self.shape, exchangeable=False):
            yield chance, self._with_declared(tree)

    def drawn(self, rows: int, rng: np.random.Generator) -> tuple[list[Tree], IntArray]:
        """Draft so many trees: those that differ, as the rule sees them, and which each row has, shape (rows,)."""
        offsets, parent = self.shape.offsets, self.shape.parent
        places = np.zeros((rows, 1), dtype=np.int64)
        for level in range(self.length):
            above = places[:, parent[offsets[level + 1] : offsets[level + 2]] - offsets[level]]
            places = above * self.vocab + 1 + draw_each(self._below[1][above], rng)
        leaves, which = np.unique(places - self._levels[self.length], axis=0, return_inverse=True)
        return [self._tree(tuple(row)) for row in leaves.tolist()], which.reshape(rows)

    def texts(self, places: IntArray, rng: np.random.Generator) -> IntArray:
        """Numbers of texts of L + 1 tokens that begin with these prefixes and go on by the target: shape (rows,)."""
        places = places.copy()
        while (open_ := places < self._levels[-2]).any():
            places[open_] = places[open_] * self.vocab + 1 + draw_each(self._below[0][places[open_]], rng)
        return places - self._levels[-2]

    def passed(self, places: IntArray) -> IntArray:
        """How often prefixes, shape (rows,), have each token after each shorter prefix, shape (prefixes, V)."""
        counts = np.bincount(places, minlength=self._levels[-1])
        for last, first in pairwise(self._levels[:1:-1].tolist()):
            counts[(first - 1) // self.vocab : first] += counts[first:last].reshape(-1, self.vocab).sum(axis=1)
        return counts[1:].reshape(-1, self.vocab)

    def figures(self, measured: Mapping[str, Any]) -> PathFigures:
        """The figures of this model, from what was measured."""
        return PathFigures(name=self.name, vocab=self.vocab, optimum=self.optimum, length=self.length, **measured)

    def places_of(self, tree: Topology) -> IntArray:
        """The place of each node's prefix among all, shorter ones first, shape (N,)."""
        places = [0]
        for parent, token in zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True):
            places.append(places[parent] * self.vocab + 1 + token)
        return np.array(places)

    @cached_property
    def _below(self) -> tuple[FloatArray, ...]:
        """Cumulative laws of target and draft after each prefix, both of shape (prefixes, V)."""
        return tuple(np.cumsum(laws, axis=1) for laws in self.after)

    @cached_property
    def _tree(self) -> Callable[[tuple[int, ...]], Tree]:
        @lru_cache(maxsize=4096)
        def tree(leaves: tuple[int, ...]) -> Tree:
            paths = np.stack(np.unravel_index(leaves, (self.vocab,) * self.length), axis=1)
            topology = Topology.merge(*slots_of(paths, self.shape.branching))
            places = self.places_of(topology)
            target, draft = (laws[places] for laws in self.after)
            return self._with_declared(Tree.with_laws(topology, target, draft[: topology.inner]))

        return tree

    def _with_declared(self, tree: Tree) -> Tree:
        if self.declared is None:
            return tree
        laws = np.array([self.declared(tree.prefix(node)) for node in range(tree.inner)])
        return Tree.with_laws(tree, tree.target, laws)


def case_of(name: str, model: Model, shape: Shape, shown: Callable[[FloatArray], Any] | None) -> PathCase:
    """Check a model, and set its drafts up."""
    check_model(model)
    vocab = as_law("target()", model.target(())).size
    if vocab ** (shape.depth + 1) > MAX_TEXTS:
        raise ProblemError(
            f"{vocab} tokens and L = {shape.depth} make {vocab ** (shape.depth + 1):,} texts of L + 1 tokens, and an "
            f"audit counts at most {MAX_TEXTS:,}; take fewer"
        )
    target, draft = (_checked(name, law, vocab) for name, law in (("target", model.target), ("draft", model.draft)))
    declared = None if shown is None else _checked("shown", lambda prefix: shown(draft(prefix).copy()), vocab)
    return PathCase(name, Model(target, draft), shape, vocab, declared)


def _checked(role: str, law: Callable[[Prefix], Any], vocab: int) -> Callable[[Prefix], FloatArray]:
    """A law that is called once at each prefix, and checked: shape (vocab,)."""

    @cache
    def checked(prefix: Prefix) -> FloatArray:
        try:
            values = law(prefix)
        except ProblemError:
            raise
        except Exception as error:
            raise ProblemError(f"{role}{prefix} raises {type(error).__name__}: {error}") from error
        found = as_law(f"{role}{prefix}", values)
        if found.size != vocab:
            raise ProblemError(f"{role}{prefix} has {found.size} tokens, target() has {vocab}")
        return found

    return checked


def own_models(seed: int, length: int, kinds: Iterable[str]) -> Iterator[tuple[str, Model]]:
    """Models over 2 and 3 tokens whose laws after every prefix are of one kind of the audit's own instances."""
    every = ORDINARY | HOSTILE
    sizes = [2, 3] if 3 ** (length + 1) <= FEW_TEXTS else [2]
    for kind in kinds:
        for vocab in sizes:
            yield f"{kind}, V = {vocab}", _model(every[kind], vocab, (seed, list(every).index(kind), vocab))


def _model(kind: Kind, vocab: int, seed: tuple[int, ...]) -> Model:
    @cache
    def pair(prefix: Prefix) -> tuple[FloatArray, FloatArray]:
        return kind(np.random.default_rng((*seed, len(prefix), *prefix)), vocab)

    return Model(lambda prefix: pair(prefix)[0], lambda prefix: pair(prefix)[1])
