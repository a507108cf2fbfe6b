"""From the device to the host: the laws of a step in one copy, cut down to the tokens that matter.

Two ways.  `to_host` copies laws, those of few tokens without the others, and a tree is then over all tokens that a law
at one of its nodes gives a probability.  `merged_to_host` is for drafts of few tokens: at each node the tokens that
cannot be drafted are one token to the verifier, the *rest*, which stands for one of them that is drawn apart.
docs/decoding.md has the proof that the law of the text is the same.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from otspec.decode.base.draft_laws import inverse_arrivals
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.sampling import softmax
from otspec.decode.base.transfers import to_device
from otspec.decode.models.passes.packed import as_bits
from otspec.kernels.merged_rest import split_laws, split_scores
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.verification.trees.topology import NONE

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


class MergedLaws(NamedTuple):
    """Laws on the host, the tokens that a node cannot draft merged into one: the rest."""

    token: IntArray
    """Shape (k,), or (N, k) where nodes draft different tokens: these, ascending; any where nothing is drafted."""
    draft: FloatArray
    """Shape (R, k): their draft probabilities."""
    target: FloatArray
    """Shape (N, k + 1): their target probabilities, and that of all other tokens together; (0, ..., 0, 1) where nothing
    is drafted."""
    drawn: IntArray
    """Shape (N,): one of the others, drawn from the target law on them; `NONE` where it is drawn once it is wanted."""


class MergedBySeveral(NamedTuple):
    """The same where a node has several draft laws, which draft different tokens."""

    token: IntArray
    """Shape (R, k): the tokens of each draft law, ascending."""
    draft: FloatArray
    """Shape (R, k): their draft probabilities."""
    target: FloatArray
    """Shape (R, k): their target probabilities."""
    rest: FloatArray
    """Shape (N,): target probability of all tokens that no law of the node drafts; 1 where nothing is drafted."""
    drawn: IntArray
    """Shape (N,): one of those, drawn from the target law on them."""


LawsOnHost = LawRows | MergedLaws | MergedBySeveral


def merged_to_host(laws: torch.Tensor, drafts: Drafts, generator: torch.Generator) -> LawsOnHost:
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
        over = _split_over_columns if laws.device.type == "cpu" else _over_columns
        return over(laws, drafts, drafts.columns, generator)
    if k is None or not _pays(k, vocab):
        return to_host(torch.cat((laws, drafts.over(vocab))), None)
    top = drafts.over(vocab).topk(k + 1, dim=-1)  # one more than foreseen, which shows whether that was all
    token, order = top.indices[:, :k].sort(dim=-1)
    places = (to_device(drafts.nodes, laws.device)[:, None], token)
    target = laws[places]
    laws[places] = 0.0
    mass_and_token = _mass_and_token(laws, generator)
    laws[places] = target
    draft, surplus = top.values[:, :k].gather(-1, order), top.values[:, k:]
    numbers, drafted, wanted, more, rest, drawn = _copied(token, draft, target, surplus, *mass_and_token)
    if more.any():
        return LawRows(None, torch.cat((laws, drafts.over(vocab))).cpu().numpy())
    if drafts.rows is not None:
        return MergedBySeveral(numbers.astype(np.int64), drafted, wanted, rest, drawn.astype(np.int64))
    tokens, merged = np.zeros((len(laws), k), np.int64), np.zeros((len(laws), k + 1))
    tokens[drafts.nodes], merged[drafts.nodes, :k], merged[:, k] = numbers, wanted, rest
    return MergedLaws(tokens, drafted, merged, drawn.astype(np.int64))


def _copied(*parts: torch.Tensor) -> list[FloatArray]:
    """Tensors as float64 on the host, in one copy."""
    host = torch.cat([part.double().flatten() for part in parts]).cpu().numpy()
    found = np.split(host, np.cumsum([part.numel() for part in parts[:-1]]))
    return [numbers.reshape(part.shape) for numbers, part in zip(found, parts, strict=True)]


def merged_of_scores(scores: torch.Tensor, drafts: Drafts, generator: torch.Generator) -> LawsOnHost:
    """`merged_to_host` of the softmax of scores on a CPU, shape (N, V); by a kernel where drafts are over columns.

    Truncated laws are over the columns that one of them can draft.
    """
    if drafts.support is not None and drafts.rows is None and len(drafts.laws):
        possible = drafts.laws.any(dim=0).nonzero().squeeze(1)
        columns = possible if drafts.columns is None else drafts.columns[possible]
        drafts = replace(drafts, laws=drafts.laws[:, possible], columns=columns, support=None)
    if drafts.columns is None or scores.dtype not in SCORES:
        return merged_to_host(softmax(scores), drafts, generator)
    return _split_over_columns(scores.contiguous(), drafts, drafts.columns, generator)


def drawn_of_scores(scores: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Tokens drawn from the softmax of scores on a CPU, shape (N, V), `NONE` where there is none; shape (N,)."""
    rows = scores.contiguous() if scores.dtype in SCORES else softmax(scores)
    mass, token = _split_rows(rows, np.ones(len(rows), np.bool_), NO_TOKENS, generator)
    return torch.from_numpy(np.where(np.isnan(mass[:, 0]), NONE, token))


def _pays(support: int | None, vocab: int) -> bool:
    """Whether it is worth while to sort out so many tokens of so many."""
    return support is not None and support + 1 < vocab and not (support > FEW and 4 * support >= vocab)


def _over_columns(laws: torch.Tensor, drafts: Drafts, columns: torch.Tensor, generator: torch.Generator) -> MergedLaws:
    """As `merged_to_host`, where all draft laws are over the same tokens: nothing is to be sorted out.

    The target's laws are used up: what can be drafted at a node is no longer in them.
    """
    nodes = to_device(drafts.nodes, laws.device)
    inner = laws.index_select(0, nodes)
    target = laws.new_zeros(len(laws), len(columns) + 1)
    target[nodes, :-1] = inner.index_select(1, columns)
    laws.index_copy_(0, nodes, inner.index_fill_(1, columns, 0.0))
    target[:, -1], drawn = _mass_and_token(laws, generator)
    token, draft, merged, rest = _copied(columns, drafts.laws, target, drawn)
    return MergedLaws(token.astype(np.int64), draft, merged, rest.astype(np.int64))


def _split_over_columns(
    rows: torch.Tensor, drafts: Drafts, columns: torch.Tensor, generator: torch.Generator
) -> MergedLaws:
    """The same on a CPU; of laws in float64, or of scores of `SCORES`.  Where nothing is drafted, nothing is drawn."""
    wanted = np.zeros(len(rows), np.bool_)
    wanted[drafts.nodes] = True
    return MergedLaws(columns.numpy(), drafts.laws.numpy(), *_split_rows(rows, wanted, columns.numpy(), generator))


def _split_rows(
    rows: torch.Tensor, wanted: BoolArray, columns: IntArray, generator: torch.Generator
) -> tuple[FloatArray, IntArray]:
    """`target` and `drawn` as in `MergedLaws`, from rows on a CPU: laws, which are used up, or scores of `SCORES`."""
    target, drawn = np.empty((len(rows), len(columns) + 1)), np.empty(len(rows), np.int64)
    uniform = torch.rand(len(rows), dtype=torch.float64, generator=generator).numpy()
    split: Any = split_laws if rows.dtype == torch.float64 else split_scores
    numbers = as_bits(rows) if rows.dtype == torch.bfloat16 else rows.numpy()
    split(numbers, wanted, columns, uniform, target, drawn)
    return target, drawn


def _mass_and_token(laws: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The totals of rows of weights, shape (N, V), and a token drawn from each in proportion to them, shape (N,) both.

    On a device in two stages, blocks of tokens and tokens of a block, so that 2 sqrt(V) clocks are drawn a row and not
    V.  A row without any weight gives some token.
    """
    if laws.device.type == "cpu":
        mass, token = _split_rows(laws, np.ones(len(laws), np.bool_), NO_TOKENS, generator)
        return torch.from_numpy(mass[:, 0]), torch.from_numpy(token)
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
