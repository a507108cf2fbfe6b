"""From the device to the host: the laws of a step in one copy, cut down to the tokens that have a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from otspec.laws import FloatArray, IntArray, as_law
from otspec.paths import Tree
from otspec.paths.topology import NONE, Topology


class Rows(NamedTuple):
    """Laws on the host, of which only some tokens may be stored, the others having probability 0."""

    token: IntArray | None
    """Shape (R, k); None where k = V and all are stored."""
    probability: FloatArray
    """Shape (R, k)."""


def to_host(laws: torch.Tensor, support: int | None) -> Rows:
    """Copy laws, shape (R, V), to the host: one synchronisation, two where a law is wider than foreseen.

    Parameters
    ----------
    support : int, optional
        How many tokens a law is expected to have at most, ties aside; None for all.
    """
    if support is not None and 2 * (support + 1) < laws.shape[1]:
        top = laws.topk(support + 1, dim=-1)  # one more than foreseen, which shows whether that was all
        probability, token = torch.stack((top.values.double(), top.indices.double())).cpu().numpy()
        if not probability[:, -1].any():
            return Rows(token[:, :-1].astype(np.int64), probability[:, :-1])
    return Rows(None, laws.cpu().double().numpy())


def widest(*supports: int | None) -> int | None:
    """How many tokens any of several laws has at most; None where one of them has all."""
    counted = [support for support in supports if support is not None]
    return max(counted, default=None) if len(counted) == len(supports) else None


class LocalTree(NamedTuple):
    """A tree over the tokens that matter at its nodes."""

    tree: Tree
    tokens: IntArray
    """Vocabulary ids of the tree's tokens."""


def local_trees(trees: Sequence[Topology], laws: Rows) -> list[LocalTree]:
    """Trees for verification, each over the tokens to which a law at one of its nodes gives a probability.

    Parameters
    ----------
    laws : Rows
        Target laws at the nodes of all trees, one tree after the other, then the draft laws at their inner nodes.
    """
    found, node, inner = [], 0, sum(tree.size for tree in trees)
    for tree in trees:
        own = np.concatenate((np.arange(node, node + tree.size), np.arange(inner, inner + tree.inner)))
        found.append(_local(tree, *_narrow(laws, own)))
        node, inner = node + tree.size, inner + tree.inner
    return found


def _narrow(rows: Rows, own: IntArray) -> tuple[IntArray, FloatArray]:
    """The tokens that some of these rows give a probability, shape (V',), and the rows over them, (len(own), V')."""
    probability = rows.probability[own]
    possible = probability != 0  # NaN is kept, for `as_law` to name
    if rows.token is None:
        tokens = np.flatnonzero(possible.any(axis=0))
        return tokens, probability[:, tokens]
    stored = rows.token[own][possible]
    tokens = np.unique(stored)
    laws = np.zeros((own.size, tokens.size))
    laws[np.nonzero(possible)[0], np.searchsorted(tokens, stored)] = probability[possible]
    return tokens, laws


def _local(tree: Topology, tokens: IntArray, laws: FloatArray) -> LocalTree:
    target = np.array([as_law("target", law) for law in laws[: tree.size]])
    draft = np.array([as_law("draft", law) for law in laws[tree.size :]])
    numbered = replace(tree, token=np.append(NONE, np.searchsorted(tokens, tree.token[1:])))
    return LocalTree(Tree.with_laws(numbered, target, draft), tokens)
