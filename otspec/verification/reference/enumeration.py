"""The exact law of what a verifier puts out, by enumeration of all drafts of small models."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count, as_law
from otspec.schemes import DraftScheme
from otspec.verification.rules.protocol import PathVerifier
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from otspec.verification.trees.tree import Law, Model, Prefix, Tree, as_shape, check_model, prefixes_of, slots_of

MAX_TREES = 1_000_000


@dataclass(frozen=True, eq=False)
class PathLaw:
    """What a verifier does over all drafts of K paths of L tokens.

    Examples
    --------
    >>> from otspec.verification import Block, path_law, synthetic
    >>> law = path_law(Block(), synthetic("tiny", vocab=2), 1, 2)  # one path of two tokens
    >>> law.output.shape, law.deviation < 1e-9
    ((2, 2, 2), True)
    >>> print(f"{law.accepted[(0,)]:.3f} + {law.accepted[(1,)]:.3f} + ... = {law.mean_accepted:.3f}")
    0.127 + 0.582 + ... = 1.259
    """

    output: FloatArray
    """Joint law of the first L + 1 tokens, shape (V,) * (L + 1): what it puts out, continued by the target model."""
    target: FloatArray
    """The target's own, same shape."""
    accepted: dict[Prefix, float]
    """A(v): P(the accepted prefix is v or goes on from v)."""

    @property
    def deviation(self) -> float:
        """L1 distance of the two laws, in [0, 2]: 0 means lossless."""
        return float(np.abs(self.output - self.target).sum())

    @property
    def mean_accepted(self) -> float:
        """Mean number of accepted tokens."""
        return sum(chance for prefix, chance in self.accepted.items() if prefix)


def path_law(verifier: PathVerifier, model: Model, count: int, length: int) -> PathLaw:
    """Enumerate all drafts of `count` paths of `length` tokens.

    Raises
    ------
    ProblemError
        If there are more than `MAX_TREES` of them, or an argument is of another type.

    Examples
    --------
    >>> from otspec.verification import TokenWise, path_law, synthetic
    >>> law = path_law(TokenWise("interval"), synthetic("tiny", vocab=2), 2, 2)
    >>> law.deviation < 1e-9  # of the law of its texts from the target's: lossless
    True
    """
    if not isinstance(verifier, PathVerifier):
        raise ProblemError(f"the verifier is {verifier!r}; pass one such as otspec.verification.Nested()")
    check_model(model)
    return law_over(drafted_trees(model, count, length, verifier.exchangeable), verifier, model, length)


def tree_law(verifier: PathVerifier, model: Model, branching: Sequence[int]) -> PathLaw:
    """`path_law` of trees in which every node of level l has `branching[l]` children, all drawn independently.

    Raises
    ------
    ProblemError
        As `path_law`, and if `branching` is no sequence of integers >= 1.

    Examples
    --------
    >>> from otspec.verification import Nested, synthetic, tree_law
    >>> model = synthetic("tiny", vocab=2)
    >>> law = tree_law(Nested(), model, (1, 2))  # one token, then two that may follow it
    >>> law.deviation < 1e-9
    True
    """
    if not isinstance(verifier, PathVerifier):
        raise ProblemError(f"the verifier is {verifier!r}; pass one such as otspec.verification.Nested()")
    check_model(model)
    shape = as_shape(branching)
    return law_over(trees_of(model, shape, verifier.exchangeable), verifier, model, shape.depth)


def law_over(trees: Iterable[tuple[float, Tree]], verifier: PathVerifier, model: Model, length: int) -> PathLaw:
    """`path_law` for any way to draft: the trees that can occur, of paths of `length` tokens, with probabilities."""
    stop: dict[Prefix, FloatArray] = {}
    for probability, tree in trees:
        for prefix, law in zip(prefixes_of(tree), probability * verifier.stop_law(tree), strict=True):
            stop[prefix] = stop.get(prefix, 0.0) + law
    model = checked(model)
    vocab = model.target(()).size
    output, target = np.zeros((vocab,) * (length + 1)), np.ones((vocab,) * (length + 1))
    accepted = dict.fromkeys(prefixes(vocab, length), 0.0)
    for prefix, law in stop.items():
        for i in range(len(prefix) + 1):
            accepted[prefix[:i]] += float(law.sum())
    for prefix in prefixes(vocab, length):
        target[prefix] *= _shaped(model.target(prefix), length - len(prefix))
    for prefix, law in stop.items():
        following = np.ones((vocab,) * (length - len(prefix) + 1)) * _shaped(law, length - len(prefix))
        for more in prefixes(vocab, length - len(prefix)):
            if more:
                following[more] *= _shaped(model.target(prefix + more), length - len(prefix) - len(more))
        output[prefix] += following
    return PathLaw(output, target, accepted)


def prefixes(vocab: int, length: int) -> Iterator[Prefix]:
    """All prefixes of at most `length` tokens, shorter ones first."""
    for size in range(length + 1):
        yield from itertools.product(range(vocab), repeat=size)


def text_law(law: Law, vocab: int, length: int) -> FloatArray:
    """Law of the first `length` tokens of what a language model writes, shape (V**length,), in lexicographic order."""
    joint = np.ones(1)
    for level in range(length):
        below = [law(prefix) for prefix in itertools.product(range(vocab), repeat=level)]
        joint = (joint[:, None] * np.array(below)).ravel()
    return joint


def drafted_trees(model: Model, count: int, length: int, exchangeable: bool) -> Iterator[tuple[float, Tree]]:
    """Every drafted tree with its probability, in one order of the paths only where their order does not matter.

    Raises
    ------
    ProblemError
        If there are more than `MAX_TREES` of them.
    """
    count, length = as_count("count", count), as_count("length", length)
    model = checked(model)
    vocab = model.target(()).size
    many = math.comb(vocab**length + count - 1, count) if exchangeable else vocab ** (length * count)
    if many > MAX_TREES:
        raise ProblemError(
            f"{count} paths of {length} tokens over {vocab} make more than {MAX_TREES} trees; take fewer"
        )
    chances: dict[Prefix, float] = {(): 1.0}
    for prefix in prefixes(vocab, length - 1):
        for token, q in enumerate(model.draft(prefix).tolist()):
            chances[(*prefix, token)] = chances[prefix] * q
    leaves = [prefix for prefix in prefixes(vocab, length) if len(prefix) == length and chances[prefix] > 0]
    tree = _merging(model)
    if exchangeable:
        for paths in itertools.combinations_with_replacement(leaves, count):
            orders = math.factorial(count) // math.prod(map(math.factorial, Counter(paths).values()))
            if chance := orders * math.prod(chances[path] for path in paths):  # 0: tiny probabilities underflow
                yield chance, tree(paths)
    else:
        for paths in itertools.product(leaves, repeat=count):
            if chance := math.prod(chances[path] for path in paths):
                yield chance, tree(paths)


def number_of_trees(vocab: int, shape: Shape, exchangeable: bool) -> int:
    """How many trees of a shape there are over `vocab` tokens; siblings in one order if orders do not matter.

    Above `MAX_TREES` it is some number that is not larger.
    """
    many = 1
    for children in reversed(shape.branching):
        if many <= MAX_TREES:  # else it soon has millions of digits
            many = math.comb(vocab * many + children - 1, children) if exchangeable else (vocab * many) ** children
    return many


def trees_of(model: Model, shape: Shape, exchangeable: bool) -> Iterator[tuple[float, Tree]]:
    """`drafted_trees` of a shape: every tree with its probability, siblings in one order where orders do not matter.

    Raises
    ------
    ProblemError
        If there are more than `MAX_TREES` of them.
    """
    model = checked(model)
    vocab = model.target(()).size
    many = number_of_trees(vocab, shape, exchangeable)
    if many > MAX_TREES:
        raise ProblemError(
            f"branching {shape.branching} over {vocab} tokens makes more than {MAX_TREES} trees; take fewer"
        )

    def below(prefix: Prefix) -> list[tuple[float, list[Prefix]]]:
        """All that can hang below a prefix: its probability, and the leaves in order."""
        if len(prefix) == shape.depth:
            return [(1.0, [prefix])]
        law = model.draft(prefix).tolist()
        child = [(q * chance, leaves) for x, q in enumerate(law) if q > 0 for chance, leaves in below((*prefix, x))]
        children, found = shape.branching[len(prefix)], []
        every = range(len(child))
        orders: Iterable[tuple[int, ...]] = itertools.product(every, repeat=children)
        for those in itertools.combinations_with_replacement(every, children) if exchangeable else orders:
            chance = math.prod(child[i][0] for i in those)
            if exchangeable:
                chance *= math.factorial(children) // math.prod(map(math.factorial, Counter(those).values()))
            if chance:  # 0: tiny probabilities underflow
                found.append((chance, [leaf for i in those for leaf in child[i][1]]))
        return found

    tree = _merging(model)
    for chance, leaves in below(()):
        yield chance, tree(leaves, shape.branching)


def branching_trees(
    model: Model, scheme: Callable[[FloatArray], DraftScheme], length: int
) -> Iterator[tuple[float, Tree]]:
    """Every tree whose inner nodes have the distinct children that a scheme draws there, with its probability.

    Parameters
    ----------
    model : Model
    scheme : callable
        Draft law q, shape (V,), to the scheme of a node's children.
    length : int
        L.
    """

    def grow(grown: list[Prefix], level: int) -> Iterator[tuple[float, list[Prefix]]]:
        if level == length:
            yield 1.0, grown
            return
        supports = [scheme(model.draft(prefix)).support() for prefix in grown]
        for rows in itertools.product(*(range(len(support.probabilities)) for support in supports)):
            chance = math.prod(float(support.probabilities[r]) for support, r in zip(supports, rows, strict=True))
            below = [
                (*prefix, token)
                for prefix, support, r in zip(grown, supports, rows, strict=True)
                for token in support.drafts[r].tolist()
            ]
            for more, leaves in grow(below, level + 1):
                yield chance * more, leaves

    model = checked(model)
    tree = _merging(model)
    for chance, leaves in grow([()], 0):
        yield chance, tree(leaves)


def checked(model: Model) -> Model:
    """A model whose laws are checked, each once, on first use."""
    vocab = as_law("target()", model.target(())).size

    @cache
    def law(name: str, prefix: Prefix) -> FloatArray:
        found = as_law(f"{name}{prefix}", getattr(model, name)(prefix))
        if found.size != vocab:
            raise ProblemError(f"laws have {sorted((vocab, found.size))} tokens; all need one vocabulary")
        return found

    return Model(partial(law, "target"), partial(law, "draft"))


def _merging(model: Model) -> Callable[..., Tree]:
    """`Model.tree` of paths that the model drafts, whose laws are checked and not once more for each tree."""

    def tree(paths: Sequence[Prefix], branching: Sequence[int] | None = None) -> Tree:
        topology = Topology.merge(*slots_of(np.array(paths), branching))
        after = prefixes_of(topology)
        target, draft = map(model.target, after), map(model.draft, after[: topology.inner])
        return Tree.with_laws(topology, np.array(list(target)), np.array(list(draft)))

    return tree


def _shaped(law: FloatArray, following: int) -> FloatArray:
    """A law of the first of 1 + `following` tokens, as an array that broadcasts over the rest."""
    return np.reshape(law, (-1,) + (1,) * following)
