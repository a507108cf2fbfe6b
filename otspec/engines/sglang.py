"""SGLang's `tree_speculative_sampling_target_only`, with its keywords, in place.

Trees of drafts that are not sampled are verified against the target alone: draw a token, and see whether it was drafted
(`naive` in our words).  SGLang passes no law of the drafts here, so no other rule can be lossless.  Two things differ
from its own kernel: what is left of p is summed up in integers, so that ranks agree; and a token of probability 0 is
never accepted, not even by a coin of 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.engines.loading import check_arguments
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.verification.tensors.fixed_point import at, first_above, running, to_units
from otspec.verification.tensors.reading import BLOCK, EXACT, kernels_for, lanes, runs_on

MODULE, FUNCTION = "sglang.kernels.ops.speculative.verify_sampling", "tree_speculative_sampling_target_only"
HOOKS = "sglang.srt.plugins.hook_registry"


class _Trees(NamedTuple):
    """The arguments that decide what comes out."""

    predicts: Tensor
    accept_index: Tensor
    accept_token_num: Tensor
    candidates: Tensor
    retrive_index: Tensor
    retrive_next_token: Tensor
    retrive_next_sibling: Tensor
    uniform_samples: Tensor
    uniform_samples_for_final_sampling: Tensor
    target_probs: Tensor
    threshold_single: float
    threshold_acc: float


def tree_speculative_sampling_target_only(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor | None = None,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Walk down each tree, and fill in the first three arguments.

    Parameters
    ----------
    predicts : Tensor of int32, shape (B * N,)
        Filled at the places of the path that is accepted: the token after each of its nodes.
    accept_index : Tensor of int32, shape (B, D)
        Filled: `retrive_index` of the root and of the accepted nodes; places beyond them are left alone.
    accept_token_num : Tensor of int32, shape (B,)
        Filled: the number of accepted nodes, without the root.
    candidates : Tensor of int64, shape (B, N)
        The token of each node; node 0 is the root.
    retrive_index : Tensor of int64, shape (B, N)
        Where each node stands in `predicts`.
    retrive_next_token, retrive_next_sibling : Tensor of int64, shape (B, N)
        First child and next sibling of each node, or -1.
    uniform_samples : Tensor, shape (B, N)
        Which child of a node is accepted, if any.
    uniform_samples_for_final_sampling : Tensor, shape (B,)
        What is drawn after the last.
    target_probs : Tensor, shape (B, N, V)
        Target laws at the nodes.
    draft_probs : Tensor, optional
        Not used, and not changed.
    threshold_single, threshold_acc : float
        1 for the output to have the target law.  Below, a child of probability threshold_single is accepted at once,
        and others 1 / threshold_acc times as often: that is not lossless.
    deterministic : bool
        Without effect: it always is.
    """
    trees = _Trees(
        predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token, retrive_next_sibling,
        uniform_samples, uniform_samples_for_final_sampling, target_probs, threshold_single, threshold_acc,
    )  # fmt: skip
    in_place = predicts.is_contiguous() and accept_index.is_contiguous()
    if in_place and runs_on(target_probs):
        _walk_by_kernels(trees)
    else:
        _walk_by_torch(trees)


def put_in_place() -> None:
    """Register our function with SGLang's hooks, which put it wherever the other was imported.

    Call it before the engine starts, in each of its processes: the entry point `otspec` in the group
    `sglang.srt.plugins` does, if the environment has OTSPEC_SGLANG=1.

    Raises
    ------
    MissingExtra
        If SGLang is not installed.
    ProblemError
        If it has no such function on this machine, or one that takes other arguments than ours.
    """
    theirs = getattr(require(MODULE), FUNCTION)
    if theirs is None:  # and the hooks would replace whatever else is None
        raise ProblemError(f"SGLang has no {FUNCTION} on this machine; otspec takes its place on CUDA only")
    check_arguments(f"{MODULE}.{FUNCTION}", theirs, tree_speculative_sampling_target_only)
    hooks = require(HOOKS)
    hooks.HookRegistry.register(f"{MODULE}.{FUNCTION}", tree_speculative_sampling_target_only, hooks.HookType.REPLACE)


def _walk_by_kernels(trees: _Trees) -> None:
    predicts, accept_index, number, candidates, index, child, sibling, coins, coin, target_probs, *thresholds = trees
    kernels_for(target_probs)  # says what is missing
    from otspec.engines import walk_kernels as kernels

    (rows, nodes), vocab, device = candidates.shape, target_probs.shape[2], candidates.device
    chunks = -(-vocab // BLOCK)
    probs = target_probs.contiguous()
    last, place, refusals, accepted = torch.empty((4, rows), dtype=torch.int64, device=device)
    refused = torch.empty((rows, nodes), dtype=torch.int64, device=device)
    kernels.walk[(rows,)](
        probs, *(part.contiguous() for part in (candidates, index, child, sibling, coins)), *thresholds,
        predicts, accept_index, accepted, last, place, refused, refusals, vocab, accept_index.shape[1] - 1,
        NODES=nodes, **EXACT,
    )  # fmt: skip
    number.copy_(accepted)
    given = (probs, last, refused, refusals)
    rest, whole = torch.empty((2, rows, chunks), dtype=torch.float64, device=device)
    kernels.sum_left[(rows, chunks)](*given, rest, whole, vocab, NODES=nodes, BLOCK=BLOCK, **EXACT)
    left, total = rest.sum(dim=1), whole.sum(dim=1)
    spent = ~(left > 0)  # every token was refused, by rounding
    scale = 1.0 / torch.where(spent, total, left)
    sums = torch.empty((rows, chunks), dtype=torch.int64, device=device)
    drawn_from = (*given, scale, spent.view(torch.int8))
    kernels.count_left[(rows, chunks)](*drawn_from, sums, vocab, NODES=nodes, BLOCK=BLOCK, **EXACT)
    kernels.draw_left[(rows,)](
        *drawn_from, sums, coin.contiguous(), place, predicts, vocab, chunks,
        NODES=nodes, BLOCK=BLOCK, LANES=lanes(chunks), **EXACT,
    )  # fmt: skip


def _walk_by_torch(trees: _Trees) -> None:
    (
        predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token, retrive_next_sibling,
        uniform_samples, uniform_samples_for_final_sampling, target_probs, threshold_single, threshold_acc,
    ) = trees  # fmt: skip
    rows, nodes = candidates.shape
    deepest = accept_index.shape[1] - 1
    zero = torch.zeros((rows, 1), dtype=torch.int64, device=candidates.device)
    parent, child, accepted, place = zero, at(retrive_next_token, zero), zero, at(retrive_index, zero)
    passed = torch.zeros((rows, 1), dtype=torch.float64, device=candidates.device)
    left = target_probs[:, 0].double()
    accept_index[:, :1] = place.to(accept_index.dtype)
    for _ in range(nodes - 1):  # no node is looked at twice
        open_ = (child >= 0) & (accepted < deepest)
        node = child.clamp(min=0)
        token = at(candidates, node)
        chance = _rows(target_probs, parent).gather(1, token)
        passed = torch.where(open_, passed + chance, passed)
        coin = at(uniform_samples, parent).double()
        taken = open_ & ((coin * threshold_acc < passed) | (chance >= threshold_single)) & (chance > 0)
        refused = open_ & ~taken
        left = torch.where(refused, left.scatter(1, token, 0.0), left)

        _put(predicts, place, token, taken)
        accepted = accepted + taken
        place = torch.where(taken, at(retrive_index, node), place)
        accept_index.scatter_(1, accepted, torch.where(taken, place.to(accept_index.dtype), at(accept_index, accepted)))
        left = torch.where(taken, _rows(target_probs, node), left)
        passed = torch.where(taken, 0.0, passed)
        parent = torch.where(taken, node, parent)
        child = torch.where(taken, at(retrive_next_token, node), child)
        child = torch.where(refused, at(retrive_next_sibling, node), child)
    accept_token_num.copy_(accepted[:, 0])
    whole = _rows(target_probs, parent)
    rest = left.sum(dim=1, keepdim=True)  # 0: every token was refused, by rounding
    sums = running(to_units(torch.where(rest > 0, left / rest, whole / whole.sum(dim=1, keepdim=True))))
    total = sums[:, -1:]
    drawn = (uniform_samples_for_final_sampling.double().unsqueeze(1) * total).to(torch.int64)
    token = first_above(sums, torch.minimum(drawn, total - 1)).clamp(max=left.shape[1] - 1)
    _put(predicts, place, token, torch.ones_like(place, dtype=torch.bool))


def _rows(laws: Tensor, node: Tensor) -> Tensor:
    """The law at one node of each tree, float64, shape (B, V)."""
    return laws.gather(1, node.unsqueeze(2).expand(-1, 1, laws.shape[2]))[:, 0].double()


def _put(flat: Tensor, place: Tensor, value: Tensor, where: Tensor) -> None:
    """Write one value of each row at its place in a flat tensor."""
    index = place[:, 0]
    flat.scatter_(0, index, torch.where(where[:, 0], value[:, 0].to(flat.dtype), flat.gather(0, index)))
