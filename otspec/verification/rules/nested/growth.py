"""Nested labels on a whole tree, in one compiled call: refine them node by node, and find out which is the largest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit, wide
from otspec.laws import FloatArray, IntArray
from otspec.verification.rules.nested.labels import (
    ChildPlaces,
    Label,
    Owned,
    branch,
    coordinate,
    idle,
    label_of,
    owned_by,
    place_at,
    proposal_at,
    proposal_of,
    whole,
)
from otspec.verification.rules.nested.sharing import Sharing, measure_places, refine


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
def stem_of(branching: IntArray) -> int:
    """How many levels come before the first with several children.

    Nothing competes there, and all children own all labels evenly.

    Parameters
    ----------
    branching : ndarray of int, shape (L,)
        How many children the slots of each level have.
    """
    stem = 0
    while stem < branching.size - 1 and branching[stem] == 1:
        stem += 1
    return stem


@jit
def label_below(owned: Owned, places: ChildPlaces, label: Label, level: int, branching: IntArray, stem: int) -> Label:
    """The label of any one child of a node on that level, from what the node owns of its parent's places and label.

    `branching` is as in `stem_of`, and `stem` what that returns.
    """
    if level <= stem:
        return whole()
    return branch(label_of(owned, places.size, places.piece, places.used, label), branching[level])


@jit
def share_out(
    p: FloatArray,
    q: FloatArray,
    label: Label,
    weight: float,
    level: int,
    branching: IntArray,
    stem: int,
    sharings: Sharings,
) -> ChildPlaces:
    """The places of a node on that level: `refine` with the settings of its level; the rest is as in `label_below`."""
    if level < stem:
        return idle(q)
    sharing = sharings.last if level == branching.size - 1 else sharings.above
    return refine(p, q, branching[stem], label, weight, sharing)


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
    """Refine the labels of the leaves at every inner node of their tree.

    Its arrays are those of `otspec.verification.Tree`, and how many children the slots of each level have.
    """
    inner, stem = draft.shape[0], stem_of(branching)
    weight = np.ones(inner)
    owned = [Owned(np.zeros(0, dtype=np.int64), np.zeros(0))]
    label = [whole()]
    places = [share_out(target[0], draft[0], label[0], 1.0, depth[0], branching, stem, sharings)]
    for node in range(1, parent.size):
        above, x, level = parent[node], token[node], depth[node]
        owned.append(owned_by(places[above], x))
        if node < inner:
            weight[node] = next_weight(weight[above], target[above, x], proposal_at(places[above], x))
            label.append(label_below(owned[node], places[above], label[above], level, branching, stem))
            p, q = target[node], draft[node]
            places.append(share_out(p, q, label[node], weight[node], level, branching, stem, sharings))
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

    A node is refined only if it may lead to that path.  Until it is, its labels are below the end of what it owns of
    its parent's; what it shows is the largest of them, and so the node to refine next is found from the root by what is
    shown, as the largest label itself is once all nodes on its path are refined.  What a node shows never rises, so no
    other path can win then: the outcome is, to the last bit, as if all nodes were refined.

    Labels are compared where paths part, in the coordinate of the node there: as absolute numbers, those of long paths
    would run together.

    Parameters
    ----------
    leaf : ndarray of int, shape (K,)
        The node where each path ends.
    position : ndarray, shape (K,)
        Its label, uniform on [0, 1] in the coordinate of that node.
    parent, token, depth, branching, target, draft
        As in `otspec.verification.Tree`, and how many children the slots of each level have.
    """
    nodes, stem = parent.size, stem_of(branching)
    child, sibling = np.full(nodes, -1), np.full(nodes, -1)  # the later one first
    for node in range(1, nodes):
        sibling[node], child[parent[node]] = child[parent[node]], node
    own, path = np.ones(nodes), np.full(nodes, -1)  # the largest coordinate that a node can have; whose it is
    for k in range(leaf.size):
        if path[leaf[k]] < 0 or position[k] > own[leaf[k]]:
            own[leaf[k]], path[leaf[k]] = position[k], k
    rank, fraction = np.zeros(nodes, dtype=np.int64), np.zeros(nodes)  # what it shows: a place, and a fraction of it
    best = np.full(nodes, -1)  # the child that shows most
    weight = np.ones(nodes)
    refined, owning = np.full(nodes, -1), np.full(nodes, -1)  # where in the following lists
    owned = [Owned(np.zeros(0, dtype=np.int64), np.zeros(0)) for _ in range(0)]
    label = [whole() for _ in range(0)]
    places = [idle(draft[0]) for _ in range(0)]
    while path[0] < 0:
        node = 0
        while refined[node] >= 0:
            node = best[node]
        above, level = parent[node], depth[node]
        if node > 0:
            before = refined[above]
            weight[node] = next_weight(
                weight[above], target[above, token[node]], proposal_at(places[before], token[node])
            )
            label.append(label_below(owned[owning[node]], places[before], label[before], level, branching, stem))
        else:
            label.append(whole())
        refined[node] = len(places)
        places.append(share_out(target[node], draft[node], label[-1], weight[node], level, branching, stem, sharings))
        below = child[node]
        while below >= 0:
            owning[below] = len(owned)
            owned.append(owned_by(places[-1], token[below]))
            rank[below], fraction[below] = place_at(owned[-1], own[below])
            below = sibling[below]
        while node >= 0:
            most = child[node]
            below = sibling[most]
            while below >= 0:
                if rank[below] > rank[most] or (rank[below] == rank[most] and fraction[below] > fraction[most]):
                    most = below
                below = sibling[below]
            best[node], path[node] = most, path[most]
            if node > 0:
                own[node] = coordinate(places[refined[node]], rank[most], fraction[most]) ** branching[depth[node]]
                rank[node], fraction[node] = place_at(owned[owning[node]], own[node])
            node = parent[node]
    proposal = np.empty((branching.size, draft.shape[1]))
    node = 0
    for i in range(branching.size):
        proposal[i] = proposal_of(places[refined[node]])
        node = best[node]
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
        As in `otspec.verification.Tree`, and how many children the slots of each level have.
    """
    grown = grow(parent, token, depth, branching, target, draft, sharings)
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
                piece, used = np.empty_like(places.piece), np.empty_like(places.used)
                density = np.empty(places.size.size)
                measure_places(places.size, label, wide(1), piece, used, density)
                label = label_of(grown.owned[line[i]], places.size, piece, used, label)
                if i > 0:
                    label = branch(label, branching[depth[line[i]]])
            labels.append(label)
    return Parted(grown.places, labels)


@jit
def next_weight(weight: float, p: float, g: float) -> float:
    """Weight of block verification one token on."""
    return weight * p / g if weight * p < g else 1.0
