"""Trees for verification, over the tokens that matter at their nodes, from the laws of a step on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from otspec.decode.base.drafts import Drafts
from otspec.decode.verify.laws import LawRows, LawsOnHost, MergedBySeveral, MergedLaws
from otspec.laws import FloatArray, IntArray, as_laws, distinct, scale_laws
from otspec.verification import Tree
from otspec.verification.trees.topology import NONE, Topology


class CompactTree(NamedTuple):
    """A tree over the tokens that matter at its nodes."""

    tree: Tree
    tokens: IntArray
    """Shape (N, k): vocabulary ids of the tokens that the laws of each node are over; `NONE` where it has fewer."""
    drawn: IntArray | None = None
    """Shape (N,): what the rest stands for, which is one token more, the last; None where there is no rest."""

    def token(self, node: int, place: int) -> int:
        """The vocabulary id of a token at a node; `NONE` of a rest that nothing is drawn from yet."""
        if self.drawn is not None and place == self.tokens.shape[1]:
            return int(self.drawn[node])
        return int(self.tokens[node, place])


def compact_trees(drafts: Drafts, laws: LawsOnHost) -> list[CompactTree]:
    """Trees for verification.

    Parameters
    ----------
    drafts : Drafts
    laws : LawRows, MergedLaws or MergedBySeveral
        Rows are the target laws at the nodes of all trees, one tree after the other, then the draft laws; a tree is
        then over the tokens to which one of its laws gives a probability.
    """
    if isinstance(laws, LawRows):
        return _over_possible(drafts, laws)
    return _over_drafted(drafts, laws) if isinstance(laws, MergedLaws) else _over_drafted_by_several(drafts, laws)


def _over_drafted(drafts: Drafts, laws: MergedLaws) -> list[CompactTree]:
    """Trees over k + 1 tokens a node: those that it can draft, and the rest as the last."""
    target, draft = scale_laws("target", laws.target), _with_rest(laws.draft)
    tokens, found, first = np.broadcast_to(laws.token, target[:, :-1].shape), [], 0
    for tree, rows in zip(drafts.trees, _rows_of_trees(drafts), strict=True):
        nodes = slice(first, first := first + tree.size)
        own = tokens[nodes]
        below = zip(tree.parent[1:], tree.token[1:], strict=True)
        places = np.array([NONE, *(np.searchsorted(own[above], token) for above, token in below)])
        whole = Tree.with_laws(tree, target[nodes], draft[rows], places)
        found.append(CompactTree(whole, own, laws.drawn[nodes]))
    return found


def _with_rest(laws: FloatArray) -> FloatArray:
    """Draft laws, shape (R, k), over the rest too; the last is of the rest alone, for where nothing is drafted."""
    count, k = laws.shape
    draft = np.zeros((count + 1, k + 1))
    draft[:count, :k], draft[count, k] = laws, 1.0
    return scale_laws("draft", draft)


def _rows_of_trees(drafts: Drafts) -> Iterator[IntArray | slice]:
    """The rows of `laws` that inner nodes of each tree have, or its paths; -1 where nothing is drafted after a node."""
    if drafts.rows is not None:
        yield from drafts.rows
        return
    first = 0
    for tree in drafts.trees:
        rows = slice(first, first := first + tree.drafted_after.size)
        if tree.drafted_after.size == tree.inner:
            yield rows
        else:
            found = np.full(tree.inner, -1)
            found[tree.drafted_after] = np.arange(rows.start, rows.stop)
            yield found


def _over_drafted_by_several(drafts: Drafts, laws: MergedBySeveral) -> list[CompactTree]:
    """The same where a node has several draft laws: it has the tokens of all of them."""
    found, first = [], 0
    target_laws, draft_laws = laws.target, as_laws("draft", laws.draft)
    for tree, own in zip(drafts.trees, drafts.rows or (), strict=True):
        after = [np.unique(own[tree.node[:, :-1] == node]) for node in range(tree.inner)]
        drafted = [np.unique(laws.token[mine]) for mine in after]
        width = max(tokens.size for tokens in drafted)
        nodes = slice(first, first := first + tree.size)
        tokens = np.full((tree.size, width), NONE)
        target, draft = np.zeros((tree.size, width + 1)), np.zeros((*own.shape, width + 1))
        target[:, -1] = laws.rest[nodes]
        for node, (mine, apart) in enumerate(zip(after, drafted, strict=True)):
            tokens[node, : apart.size] = apart
            for row in mine.tolist():
                places = np.searchsorted(apart, laws.token[row])
                target[node, places] = target_laws[row]
                path, level = np.nonzero(own == row)
                draft[path[:, None], level[:, None], places] = draft_laws[row]
        numbered = np.append(NONE, (tokens[tree.parent[1:]] == tree.token[1:, None]).argmax(axis=1))
        whole = Tree.with_laws(tree, scale_laws("target", target), draft, numbered)
        found.append(CompactTree(whole, tokens, laws.drawn[nodes]))
    return found


def _over_possible(drafts: Drafts, laws: LawRows) -> list[CompactTree]:
    found, node, inner = [], 0, sum(tree.size for tree in drafts.trees)
    for tree, rows in zip(drafts.trees, _rows_of_trees(drafts), strict=True):
        drafted = np.arange(inner, len(laws.probability))[rows]
        mine, places = np.unique(drafted, return_inverse=True)
        own = np.concatenate((np.arange(node, node + tree.size), mine))
        found.append(_local(tree, *_narrow(laws, own), places.reshape(drafted.shape)))
        node += tree.size
    return found


def _narrow(rows: LawRows, own: IntArray) -> tuple[IntArray, FloatArray]:
    """The tokens that some of these rows give a probability, shape (V',), and the rows over them, (len(own), V')."""
    probability = rows.probability if own.size == len(rows.probability) else rows.probability[own]
    if rows.token is None and probability.all():
        return np.arange(probability.shape[1]), probability
    possible = probability != 0  # NaN is kept, for `as_law` to name
    if rows.token is None:
        seen = possible.any(axis=0)
        return np.flatnonzero(seen), probability[:, seen]
    stored = rows.token[own][possible]
    tokens = distinct(stored)
    laws = np.zeros((own.size, tokens.size))
    laws[np.nonzero(possible)[0], np.searchsorted(tokens, stored)] = probability[possible]
    return tokens, laws


def _local(tree: Topology, tokens: IntArray, laws: FloatArray, places: IntArray) -> CompactTree:
    target, draft = as_laws("target", laws[: tree.size]), as_laws("draft", laws[tree.size :])
    numbered = np.append(NONE, np.searchsorted(tokens, tree.token[1:]))
    whole = Tree.with_laws(tree, target, draft[places], numbered)
    return CompactTree(whole, np.broadcast_to(tokens, (tree.size, tokens.size)))
