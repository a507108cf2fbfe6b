"""From the device to the host: the laws of a step in one copy, cut down to the tokens that matter.

Two ways.  `to_host` copies laws, those of few tokens without the others, and a tree is then over all tokens that a law
at one of its nodes gives a probability.  `merged_to_host` is for drafts of few tokens: at each node the tokens that
cannot be drafted are one token to the verifier, the *rest*, which stands for one of them that was drawn beforehand.
docs/decoding.md has the proof that the law of the text is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from otspec.decode.base.draft_laws import inverse_arrivals
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.sampling import softmax
from otspec.decode.base.transfers import to_device
from otspec.decode.models.passes.packed import as_bits
from otspec.kernels.merged_rest import split_laws, split_scores
from otspec.laws import FloatArray, IntArray, as_laws
from otspec.verification import Tree
from otspec.verification.trees.topology import NONE, Topology

FEW = 64
"""Drafts of so many tokens are sorted out in no time; of more only where they are less than a quarter of all, or it
would take longer than it saves."""
SCORES = torch.bfloat16, torch.float32  # those that a kernel takes
NO_TOKENS: IntArray = np.empty(0, np.int64)


class LawRows(NamedTuple):
    """Laws on the host, of which only some tokens may be stored, the others having probability 0."""

    token: IntArray | None
    """Shape (R, k); None where k = V and all are stored."""
    probability: FloatArray
    """Shape (R, k)."""


def to_host(laws: torch.Tensor, support: int | None) -> LawRows:
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
            return LawRows(token[:, :-1].astype(np.int64), probability[:, :-1])
    return LawRows(None, laws.cpu().double().numpy())


class ReducedLaws(NamedTuple):
    """Laws on the host, the tokens that a node cannot draft merged into one; R draft laws, N nodes."""

    token: IntArray
    """Shape (R, k): the tokens of each draft law, ascending."""
    draft: FloatArray
    """Shape (R, k): their draft probabilities."""
    target: FloatArray
    """Shape (R, k): their target probabilities."""
    rest: FloatArray
    """Shape (N,): target probability of all other tokens together; 1 after the last level, where nothing is drafted."""
    drawn: IntArray
    """Shape (N,): one of those, drawn from the target law on them."""


def merged_to_host(laws: torch.Tensor, drafts: Drafts, generator: torch.Generator) -> ReducedLaws | LawRows:
    """Copy what verification needs of the laws to the host, k numbers a node: one synchronisation.

    All laws come whole where drafts are not of few tokens, or, with a second one, of more than foreseen.

    Parameters
    ----------
    laws : Tensor, shape (N, V)
        Target laws at the nodes of all trees, one tree after the other; float64.
    drafts : Drafts
    generator : torch.Generator
        Draws the token that each rest stands for.
    """
    vocab, k = laws.shape[1], drafts.support
    if drafts.columns is not None and not _pays(drafts.support, drafts.laws.shape[1]):
        return _over_columns(laws, drafts, drafts.columns, generator)
    if k is None or not _pays(k, vocab):
        return to_host(torch.cat((laws, drafts.over(vocab))), None)
    top = drafts.over(vocab).topk(k + 1, dim=-1)  # one more than foreseen, which shows whether that was all
    token, order = top.indices[:, :k].sort(dim=-1)
    draft, surplus = top.values[:, :k].gather(-1, order), top.values[:, k:]
    places = (to_device(drafts.nodes, laws.device)[:, None], token)
    target = laws[places]
    laws[places] = 0.0
    rest, drawn = _mass_and_token(laws, generator)
    laws[places] = target
    parts = [part.double().flatten() for part in (token, draft, target, surplus, rest, drawn)]
    host = torch.cat(parts).cpu().numpy()
    found = np.split(host, np.cumsum([part.numel() for part in parts[:-1]]))
    if found[3].any():
        return LawRows(None, torch.cat((laws, drafts.over(vocab))).cpu().numpy())
    by_node = [part.reshape(len(token), k) for part in found[:3]]
    return ReducedLaws(by_node[0].astype(np.int64), by_node[1], by_node[2], found[4], found[5].astype(np.int64))


def merged_of_scores(scores: torch.Tensor, drafts: Drafts, generator: torch.Generator) -> ReducedLaws | LawRows:
    """`merged_to_host` of the softmax of scores on a CPU, shape (N, V); by a kernel where drafts are over columns."""
    if drafts.columns is None or _pays(drafts.support, drafts.laws.shape[1]) or scores.dtype not in SCORES:
        return merged_to_host(softmax(scores), drafts, generator)
    return _split_over_columns(scores.contiguous(), drafts, drafts.columns, generator)


def _pays(support: int | None, vocab: int) -> bool:
    """Whether it is worth while to sort out so many tokens of so many."""
    return support is not None and support + 1 < vocab and not (support > FEW and 4 * support >= vocab)


def _over_columns(laws: torch.Tensor, drafts: Drafts, columns: torch.Tensor, generator: torch.Generator) -> ReducedLaws:
    """As `merged_to_host`, where all draft laws are over the same tokens: nothing is to be sorted out.

    The target's laws are used up: what can be drafted at a node is no longer in them.
    """
    if laws.device.type == "cpu":
        return _split_over_columns(laws, drafts, columns, generator)
    nodes = to_device(drafts.nodes, laws.device)
    inner = laws.index_select(0, nodes)
    target = inner.index_select(1, columns)
    laws.index_copy_(0, nodes, inner.index_fill_(1, columns, 0.0))
    rest, drawn = _mass_and_token(laws, generator)
    parts = [part.double().flatten() for part in (columns, drafts.laws, target, rest, drawn)]
    host = torch.cat(parts).cpu().numpy()
    token, draft, wanted, mass, token_of_rest = np.split(host, np.cumsum([part.numel() for part in parts[:-1]]))
    shape = tuple(drafts.laws.shape)
    tokens = np.broadcast_to(token.astype(np.int64), shape)
    return ReducedLaws(tokens, draft.reshape(shape), wanted.reshape(shape), mass, token_of_rest.astype(np.int64))


def _split_over_columns(
    rows: torch.Tensor, drafts: Drafts, columns: torch.Tensor, generator: torch.Generator
) -> ReducedLaws:
    """The same on a CPU; of laws in float64, or of scores of `SCORES`."""
    split = _split_on_host(rows, drafts.nodes, columns.numpy(), generator)
    return ReducedLaws(np.broadcast_to(columns.numpy(), split[0].shape), drafts.laws.numpy(), *split)


def _split_on_host(
    rows: torch.Tensor, nodes: IntArray, columns: IntArray, generator: torch.Generator
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Probabilities of columns at nodes, and the mass and a token of what is left of every law, if laws, used up."""
    target, rest, drawn = np.empty((len(nodes), len(columns))), np.empty(len(rows)), np.empty(len(rows), np.int64)
    uniform = torch.rand(len(rows), dtype=torch.float64, generator=generator).numpy()
    split: Any = split_laws if rows.dtype == torch.float64 else split_scores
    numbers = as_bits(rows) if rows.dtype == torch.bfloat16 else rows.numpy()
    split(numbers, nodes, columns, uniform, target, rest, drawn)
    return target, rest, drawn


def _mass_and_token(laws: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The totals of rows of weights, shape (N, V), and a token drawn from each in proportion to them, shape (N,) both.

    On a device in two stages, blocks of tokens and tokens of a block, so that 2 sqrt(V) clocks are drawn a row and not
    V.  A row without any weight gives some token.
    """
    if laws.device.type == "cpu":
        _, mass, token = _split_on_host(laws, NO_TOKENS, NO_TOKENS, generator)
        return torch.from_numpy(mass), torch.from_numpy(token)
    vocab = laws.shape[1]
    width = math.isqrt(vocab - 1) + 1
    blocks = vocab // width
    sums = laws[:, : blocks * width].unflatten(1, (blocks, width)).sum(dim=-1)
    if blocks * width < vocab:
        sums = torch.cat((sums, laws[:, blocks * width :].sum(dim=-1, keepdim=True)), dim=-1)
    block = inverse_arrivals(sums, generator).argmax(dim=-1, keepdim=True)
    tokens = block * width + torch.arange(width, device=laws.device)
    weights = laws.gather(-1, tokens.clamp(max=vocab - 1)).masked_fill(tokens >= vocab, 0.0)
    inside = inverse_arrivals(weights, generator).argmax(dim=-1, keepdim=True)
    return sums.sum(dim=-1), tokens.gather(-1, inside).squeeze(-1)


class CompactTree(NamedTuple):
    """A tree over the tokens that matter at its nodes."""

    tree: Tree
    tokens: IntArray
    """Shape (N, V'): vocabulary ids of the tokens that the laws of each node are over; `NONE` where it has fewer."""


def compact_trees(drafts: Drafts, laws: LawRows | ReducedLaws) -> list[CompactTree]:
    """Trees for verification.

    Parameters
    ----------
    drafts : Drafts
    laws : LawRows or ReducedLaws
        Rows are the target laws at the nodes of all trees, one tree after the other, then the draft laws; a tree is
        then over the tokens to which one of its laws gives a probability.
    """
    if isinstance(laws, LawRows):
        return _over_possible(drafts, laws)
    return _over_drafted(drafts, laws) if drafts.rows is None else _over_drafted_by_several(drafts, drafts.rows, laws)


def _over_drafted(drafts: Drafts, laws: ReducedLaws) -> list[CompactTree]:
    """Trees over k + 1 tokens a node: those that it can draft, and the rest as the last."""
    count, k = laws.rest.size, laws.token.shape[1]
    after = drafts.nodes
    tokens = np.full((count, k + 1), NONE)
    starts = np.cumsum([0, *(tree.size for tree in drafts.trees[:-1])])
    inner = np.concatenate([at + np.arange(tree.inner) for at, tree in zip(starts, drafts.trees, strict=True)])
    target, draft = np.zeros((count, k + 1)), np.zeros((inner.size, k + 1))
    tokens[after, :k], tokens[:, k] = laws.token, laws.drawn
    target[after, :k], target[:, k] = laws.target, laws.rest
    drafted = np.searchsorted(inner, after)
    draft[drafted, :k] = laws.draft
    draft[np.setdiff1d(np.arange(inner.size), drafted), k] = 1.0  # where nothing is, a law that is never looked at
    target, draft = as_laws("target", target), as_laws("draft", draft)
    found, node, above = [], 0, 0
    for tree in drafts.trees:
        own, ends = tokens[node : node + tree.size], (node + tree.size, above + tree.inner)
        places = (own[tree.parent[1:]] == tree.token[1:, None]).argmax(axis=1)  # the first, so never the rest
        laws_of_tree = target[node : ends[0]], draft[above : ends[1]]
        found.append(CompactTree(Tree.with_laws(tree, *laws_of_tree, np.append(NONE, places)), own))
        node, above = ends
    return found


def _over_drafted_by_several(drafts: Drafts, rows: Sequence[IntArray], laws: ReducedLaws) -> list[CompactTree]:
    """The same where a node has several draft laws: it keeps the tokens of all of them."""
    found, first = [], 0
    target_laws, draft_laws = laws.target, as_laws("draft", laws.draft)
    for tree, own in zip(drafts.trees, rows, strict=True):
        after = [np.unique(own[tree.node[:, :-1] == node]) for node in range(tree.inner)]
        kept = [np.unique(laws.token[mine]) for mine in after]
        width = max(tokens.size for tokens in kept)
        tokens = np.full((tree.size, width + 1), NONE)
        target, draft = np.zeros((tree.size, width + 1)), np.zeros((*own.shape, width + 1))
        tokens[:, -1], target[:, -1] = (part[first : first + tree.size] for part in (laws.drawn, laws.rest))
        for node, (mine, apart) in enumerate(zip(after, kept, strict=True)):
            tokens[node, : apart.size] = apart
            for row in mine.tolist():
                places = np.searchsorted(apart, laws.token[row])
                target[node, places] = target_laws[row]
                path, level = np.nonzero(own == row)
                draft[path[:, None], level[:, None], places] = draft_laws[row]
        places = (tokens[tree.parent[1:]] == tree.token[1:, None]).argmax(axis=1)
        numbered = np.append(NONE, places)
        found.append(CompactTree(Tree.with_laws(tree, as_laws("target", target), draft, numbered), tokens))
        first += tree.size
    return found


def _over_possible(drafts: Drafts, laws: LawRows) -> list[CompactTree]:
    found, node, inner = [], 0, sum(tree.size for tree in drafts.trees)
    for at, tree in enumerate(drafts.trees):
        places: IntArray | None = None
        if drafts.rows is None:
            mine = np.arange(inner, inner + tree.drafted_after.size)
            inner += mine.size
            if mine.size < tree.inner:  # where nothing is drafted, a law that is never looked at
                places = np.zeros(tree.inner, dtype=np.int64)
                places[tree.drafted_after] = np.arange(mine.size)
        else:
            each, inverse = np.unique(drafts.rows[at], return_inverse=True)
            mine, places = inner + each, inverse.reshape(drafts.rows[at].shape)
        own = np.concatenate((np.arange(node, node + tree.size), mine))
        found.append(_local(tree, *_narrow(laws, own), places))
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
    tokens = np.unique(stored)
    laws = np.zeros((own.size, tokens.size))
    laws[np.nonzero(possible)[0], np.searchsorted(tokens, stored)] = probability[possible]
    return tokens, laws


def _local(tree: Topology, tokens: IntArray, laws: FloatArray, places: IntArray | None) -> CompactTree:
    target, draft = as_laws("target", laws[: tree.size]), as_laws("draft", laws[tree.size :])
    numbered = np.searchsorted(tokens, tree.token)
    numbered[0] = NONE
    draft = draft if places is None else draft[places]
    return CompactTree(Tree.with_laws(tree, target, draft, numbered), np.broadcast_to(tokens, (tree.size, tokens.size)))
