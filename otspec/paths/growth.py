"""Nested labels on a whole tree, in one compiled call: refine them node by node, and let the largest win."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.laws import FloatArray, IntArray
from otspec.paths.labels import ChildPlaces, Label, Owned, branch, coordinate, idle, label_of, owned_by, place_at, whole
from otspec.paths.sharing import Sharing, measure_places, refine


class Sharings(NamedTuple):
    """How prefixes share their labels among their children."""

    last: Sharing
    """Prefixes of L - 1 tokens."""
    above: Sharing
    """Shorter ones."""


class Grown(NamedTuple):
    """What the nodes of a tree own."""

    places: list[ChildPlaces]
    """Of each inner node."""
    owned: list[Owned]
    """What each node owns of its parent's places; of the root, nothing."""


@jit
def grow(
    parent: IntArray,
    token: IntArray,
    depth: IntArray,
    branching: IntArray,
    target: FloatArray,
    draft: FloatArray,
    sharings: Sharings,
) -> Grown:
    """Refine the labels of the leaves at every inner node of their tree; arrays as in `otspec.paths.Tree`.

    Down to the first level with several children nothing competes, and all children own all labels evenly.
    """
    nodes, inner = parent.size, draft.shape[0]
    stem = 0
    while stem < branching.size - 1 and branching[stem] == 1:
        stem += 1
    counts = np.zeros(branching[stem])
    counts[-1] = 1.0
    weight = np.ones(nodes)
    places = [idle(draft[0]) for _ in range(0)]
    owned = [Owned(np.zeros(0, dtype=np.int64), np.zeros(0))]
    label = [whole()]
    for node in range(nodes):
        level = depth[node]
        if node > 0:
            above = parent[node]
            owned.append(owned_by(places[above], token[node]))
            weight[node] = next_weight(weight[above], target[above, token[node]], places[above].proposal[token[node]])
        if node >= inner:
            continue
        if node > 0:
            label.append(whole() if level <= stem else label_of(owned[node], places[above], label[above]))
            if level > stem:
                label[node] = branch(label[node], branching[level])
        if level < stem:
            places.append(idle(draft[node]))
        else:
            sharing = sharings.last if level == branching.size - 1 else sharings.above
            places.append(refine(target[node], draft[node], counts, label[node], weight[node], sharing))
    return Grown(places, owned)


@jit
def pick_largest(
    leaf: IntArray,
    position: FloatArray,
    parent: IntArray,
    token: IntArray,
    depth: IntArray,
    branching: IntArray,
    target: FloatArray,
    draft: FloatArray,
    sharings: Sharings,
) -> tuple[int, FloatArray]:
    """The path that shows the largest label, and the proposal laws along it, shape (L, V).

    Labels are compared where paths part, in the coordinate of the node there: as absolute numbers, those of long paths
    would run together.

    Parameters
    ----------
    leaf : ndarray of int, shape (K,)
        The node where each path ends.
    position : ndarray, shape (K,)
        Its label, uniform on [0, 1] in the coordinate of that node.
    parent, token, depth, branching, target, draft
        As in `otspec.paths.Tree`, and how many children the slots of each level have.
    """
    grown = grow(parent, token, depth, branching, target, draft, sharings)
    inner = draft.shape[0]
    rank = np.full(parent.size, -1)  # of the largest label below each node: its place and the fraction of it
    fraction = np.zeros(parent.size)
    path = np.zeros(parent.size, dtype=np.int64)
    for k in range(leaf.size):
        if rank[leaf[k]] < 0 or position[k] > fraction[leaf[k]]:
            rank[leaf[k]], fraction[leaf[k]], path[leaf[k]] = 0, position[k], k
    for node in range(parent.size - 1, 0, -1):
        own = fraction[node]
        if node < inner:
            own = coordinate(grown.places[node], rank[node], fraction[node]) ** branching[depth[node]]
        place, inside = place_at(grown.owned[node], own)
        above = parent[node]
        if place > rank[above] or (place == rank[above] and inside > fraction[above]):
            rank[above], fraction[above], path[above] = place, inside, path[node]
    along = [parent[leaf[path[0]]]]
    while along[-1] > 0:
        along.append(parent[along[-1]])
    proposal = np.empty((len(along), draft.shape[1]))
    for i in range(len(along)):
        proposal[i] = grown.places[along[-1 - i]].proposal
    return path[0], proposal


class Parted(NamedTuple):
    """What the exact law of the pick is made of."""

    places: list[ChildPlaces]
    """Of each inner node."""
    label: list[Label]
    """Of length K * K, path by path: the label of a path in the coordinate of the node where another parts from it."""


@jit
def part(
    leaf: IntArray,
    parent: IntArray,
    token: IntArray,
    depth: IntArray,
    branching: IntArray,
    target: FloatArray,
    draft: FloatArray,
    sharings: Sharings,
) -> Parted:
    """Labels of all paths where they part from each other: as `pick_largest` compares them, at any depth.

    Parameters
    ----------
    leaf : ndarray of int, shape (K,)
        The node where each path ends.
    parent, token, depth, branching, target, draft
        As in `otspec.paths.Tree`, and how many children the slots of each level have.
    """
    grown = grow(parent, token, depth, branching, target, draft, sharings)
    counts = np.ones(1)
    labels = [whole() for _ in range(0)]
    for k in range(leaf.size):
        for m in range(leaf.size):
            above, other = leaf[k], leaf[m]
            while above != other:  # the later of two nodes is not the ancestor
                if above > other:
                    above = parent[above]
                else:
                    other = parent[other]
            line = [leaf[k]]
            while line[-1] != above:
                line.append(parent[line[-1]])
            label = whole()
            for i in range(len(line) - 2, -1, -1):
                places = grown.places[line[i + 1]]
                piece, used, density = (
                    np.empty_like(places.piece),
                    np.empty_like(places.used),
                    np.empty(places.size.size),
                )
                measure_places(places.size, label, counts, piece, used, density)
                label = label_of(grown.owned[line[i]], laid(places, piece, used), label)
                if i > 0:
                    label = branch(label, branching[depth[line[i]]])
            labels.append(label)
    return Parted(grown.places, labels)


@jit
def laid(places: ChildPlaces, piece: IntArray, used: FloatArray) -> ChildPlaces:
    """The same places along another label."""
    return ChildPlaces(
        places.group,
        places.owner,
        places.size,
        piece,
        used,
        places.kept,
        places.seeker,
        places.giver,
        places.amount,
        places.proposal,
    )


@jit
def next_weight(weight: float, p: float, g: float) -> float:
    """Weight of block verification one token on."""
    return weight * p / g if weight * p < g else 1.0
