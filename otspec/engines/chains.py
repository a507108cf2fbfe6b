"""Block verification [sun2024block] of one chain per row, for engines that draft one.

The figures are those of `otspec.verification.Block`; nothing here waits for the device.  On a GPU Triton's kernels go
over the laws; elsewhere no more than one law of each chain is held at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.device.rows import law_of_logits
from otspec.verification.rules.block.tensors import verify_path
from otspec.verification.tensors.rows import Rows, check_kernels, rows_of, runs_on
from otspec.verification.trees.batch import Line


class Chains(NamedTuple):
    """What comes out of the verification of B chains."""

    accepted: Tensor
    """Shape (B,), int64: how many of the drafted tokens are accepted."""
    token: Tensor
    """Shape (B,), int64: the token after them; 0 in rows that are not valid."""
    valid: Tensor
    """Shape (B,), bool: whether all laws of the row are laws: no NaN, nothing negative, some mass."""


class ChainLaws(NamedTuple):
    """The laws of B chains of at most L tokens, as rows of tensors; they need not be divided by their totals."""

    target: Tensor
    """Shape (R, V): laws, or logits."""
    target_row: Tensor
    """Shape (B, L + 1), int64: the target's after 0 to L tokens; any row beyond the end of a chain."""
    draft: Tensor | None
    """Shape (R', V): the laws that the tokens were really drawn from; None if each is all on its token."""
    draft_row: Tensor
    """Shape (B, L), int64."""
    logits: bool = False
    """Whether `target` holds logits."""


def verify_chains(
    target: Tensor, draft: Tensor, tokens: Tensor, uniforms: Tensor, *, kernels: bool | None = None
) -> Chains:
    """Accept the longest prefix that block verification allows, and draw the token after it.

    Parameters
    ----------
    target : Tensor, shape (B, L + 1, V)
        Target laws after 0 to L of the drafted tokens.
    draft : Tensor, shape (B, L, V)
        The laws that the tokens were really drawn from.
    tokens : Tensor of integers, shape (B, L)
        Drafted tokens.  One that is no token, or has q = 0, is never accepted.
    uniforms : Tensor of float64, shape (B, L + 1)
        Numbers in [0, 1): whether the first token, the first two, ... are accepted, and what is drawn after them.
    kernels : bool, optional
        Whether Triton's kernels do it; by default where the laws are on a GPU, and Triton is installed.
    """
    rows, length = tokens.shape
    place = torch.arange(rows * (length + 1), device=tokens.device)
    laws = ChainLaws(
        target.flatten(0, 1),
        place.view(rows, length + 1),
        draft.flatten(0, 1),
        place[: rows * length].view(rows, length),
    )
    whole = torch.full((rows,), length, dtype=torch.int64, device=tokens.device)
    return verify_chains_in_rows(laws, tokens, whole, uniforms, kernels=kernels)


def verify_chains_in_rows(
    laws: ChainLaws, tokens: Tensor, lengths: Tensor, uniforms: Tensor, *, kernels: bool | None = None
) -> Chains:
    """`verify_chains` for chains of several lengths, whose laws are rows.

    Parameters
    ----------
    laws : ChainLaws
    tokens : Tensor of integers, shape (B, L)
        Drafted tokens, of which the first few of each row count.
    lengths : Tensor of int64, shape (B,)
        How many of them.  A chain of length 0 is a draw from its law at place 0.
    uniforms : Tensor of float64, shape (B, L + 1)
    kernels : bool, optional
        As in `verify_chains`.
    """
    by_kernels = runs_on(laws.target) if kernels is None else kernels
    verify = _verify_by_kernels if by_kernels else _verify_by_torch
    return verify(laws, tokens.long(), lengths, uniforms)


def _verify_by_kernels(laws: ChainLaws, tokens: Tensor, lengths: Tensor, uniforms: Tensor) -> Chains:
    check_kernels(laws.target)
    from otspec.verification.rules.block.path_kernels import PathUniforms, verify_path_by_kernels

    target = _logits(laws.target) if laws.logits else _rows(laws.target)
    draft = None if laws.draft is None else _rows(laws.draft)
    place = torch.arange(tokens.shape[1] + 1, device=tokens.device)
    valid = (target.valid[laws.target_row] | (place > lengths[:, None])).all(dim=1)
    if draft is not None:
        valid = valid & (draft.valid[laws.draft_row] | (place[:-1] >= lengths[:, None])).all(dim=1)
    line = Line(tokens, tokens, lengths, laws.target_row, laws.draft_row, tokens)  # of no tree: no slots, no places
    found = verify_path_by_kernels(line, target, draft, PathUniforms.in_rows(uniforms), logits=laws.logits)
    return Chains(torch.where(valid, found.length, 0), torch.where(valid, found.token, 0), valid)


def _rows(law: Tensor) -> Rows:
    from otspec.verification.tensors.row_kernels import totals_of

    total = totals_of(law)
    return rows_of(law, total, _is_mass(total))


def _logits(logits: Tensor) -> Rows:
    from otspec.verification.tensors.row_kernels import read_logits

    read = read_logits(logits, torch.ones(logits.shape[0], dtype=torch.float64, device=logits.device))
    return Rows(read, read.high.abs() < torch.inf)


def _is_mass(total: Tensor) -> Tensor:
    return (total > 0) & (total < torch.inf)


def _verify_by_torch(laws: ChainLaws, tokens: Tensor, lengths: Tensor, uniforms: Tensor) -> Chains:
    valid = torch.ones_like(lengths, dtype=torch.bool)

    def both(place: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal valid
        p, q, right = _laws_at(laws, tokens, place, place >= lengths)
        valid = valid & (right | (place > lengths))
        return p, q

    both(lengths)  # looked at even where nobody draws from it
    found = verify_path(both, tokens, lengths, uniforms)
    return Chains(torch.where(valid, found.length, 0), torch.where(valid, found.token, 0), valid)


def _laws_at(laws: ChainLaws, tokens: Tensor, place: Tensor, ended: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both laws at a place of each chain, and whether they are laws: even ones in their place where they are not.

    The second is not looked at where a chain has ended.
    """
    place = place[:, None]
    p = laws.target[laws.target_row.gather(1, place)[:, 0]]
    p = law_of_logits(p, torch.ones_like(p[:1, :1], dtype=torch.float64)) if laws.logits else p.double()
    last = place.clamp(max=tokens.shape[1] - 1)
    if laws.draft is None:
        drafted = tokens.gather(1, last)
        token = (drafted >= 0) & (drafted < p.shape[1])
        q = torch.zeros_like(p).scatter_(1, drafted.clamp(0, p.shape[1] - 1), token.double())
    else:
        q = laws.draft[laws.draft_row.gather(1, last)[:, 0]].double()
    totals = p.sum(dim=1, keepdim=True), q.sum(dim=1, keepdim=True)
    known = [(law >= 0).all(dim=1, keepdim=True) & _is_mass(total) for law, total in zip((p, q), totals, strict=True)]
    right = known[0] & (known[1] | ended[:, None])
    even = 1.0 / p.shape[1]
    p, q = (torch.where(one, law / total, even) for one, law, total in zip(known, (p, q), totals, strict=True))
    return p, q, right[:, 0]
