"""SGLang's two functions that verify, with their keywords, in place: one for trees, one for chains.

`tree_speculative_sampling_target_only` verifies trees of drafts that are not sampled against the target alone: draw a
token, and see whether it was drafted (`naive` in our words).  SGLang passes no law of the drafts there, so no other
rule can be lossless.  Two things differ from its own kernel: what is left of p is summed up in integers, so that ranks
agree; and no coin accepts a token of probability 0, not even one that is 0.

`chain_speculative_sampling_triton` (since 0.5.23, for ``--speculative-use-rejection-sampling``, DSpark and UNO) has the
laws that the tokens of a chain were drawn from.  Ours is block verification, whether SGLang asks for it
(``--speculative-use-block-verification``) or for a test of token after token: both are lossless, and block verification
accepts as many tokens of a chain as any lossless rule can on average.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from otspec.engines.chains import ChainLaws, verify_chains_in_rows
from otspec.engines.loading import check_arguments
from otspec.engines.walk import Coins, Filled, walk_down
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.verification.tensors.reading import check_kernels, runs_on
from otspec.verification.trees.layout import Links

MODULE = "sglang.kernels.ops.speculative.verify_sampling"
"""Where both functions have their names; one that SGLang has no kernel for on a machine is None there."""
HOOKS = "sglang.srt.plugins.hook_registry"


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
    logprobs: bool = False,
) -> Tensor | None:
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
        1 for the output to have the target law.  Below, a child of at least probability threshold_single is accepted
        at once, one of probability 0 if it is 0, and others 1 / threshold_acc times as often: that is not lossless.
    deterministic : bool
        Without effect: it always is.
    logprobs : bool
        Whether log-probabilities come back; SGLang has no such argument.

    Returns
    -------
    Tensor of float64, shape (B, D), or None
        With `logprobs` only: the target's log-probabilities of the tokens after the root and after each accepted node,
        as `predicts` has them, then NaN.
    """
    links = Links(retrive_next_token, retrive_next_sibling)
    coins = Coins(uniform_samples, uniform_samples_for_final_sampling, threshold_single, threshold_acc)
    filled = Filled(retrive_index, predicts, accept_index, accept_token_num)
    in_place = predicts.is_contiguous() and accept_index.is_contiguous()
    if in_place and runs_on(target_probs):
        check_kernels(target_probs)
        from otspec.engines.walk_kernels import walk_down_by_kernels

        walk_down_by_kernels(candidates, links, target_probs, coins, filled)
    else:
        walk_down(candidates, links, target_probs, coins, filled)
    if not logprobs:
        return None
    on_path = torch.arange(accept_index.shape[1], device=candidates.device) <= accept_token_num[:, None]
    place = torch.where(on_path, accept_index, retrive_index[:, :1]).long()
    node = (retrive_index[:, None] == place[:, :, None]).int().argmax(dim=2)
    row = torch.arange(len(node), device=node.device)[:, None]
    found = target_probs[row, node, predicts.long()[place]].double().log()
    return torch.where(on_path, found, torch.nan)


def chain_speculative_sampling_triton(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor | None,
    retrive_next_sibling: Tensor | None,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float,
    threshold_acc: float,
    deterministic: bool,
    *,
    block_verification: bool = False,
    logprobs: bool = False,
) -> Tensor | None:
    """Verify each chain by block verification, and fill in the first three arguments.

    Parameters
    ----------
    predicts : Tensor of int32, shape (B * N,)
        Filled at the places of the root and of the accepted tokens: the token after each.
    accept_index : Tensor of int32, shape (B, N)
        Filled: `retrive_index` of the root and of the accepted tokens; places beyond them are left alone.
    accept_token_num : Tensor of int32, shape (B,)
        Filled: the number of accepted tokens, without the root.
    candidates : Tensor of int64, shape (B, N)
        The tokens of each chain; the first is the root, and was not drafted.
    retrive_index : Tensor of int64, shape (B, N)
        Where each token stands in `predicts`.
    retrive_next_token, retrive_next_sibling : Tensor, optional
        Not used: a chain goes from place to place.
    uniform_samples : Tensor, shape (B, N - 1) or wider
        Whether the first drafted token, the first two, ... are accepted.
    uniform_samples_for_final_sampling : Tensor, shape (B,)
        What is drawn after the last.
    target_probs : Tensor, shape (B, N, V)
        Target laws after each token.
    draft_probs : Tensor, shape (B, N - 1, V) or longer
        The laws that the drafted tokens were drawn from.  A chain ends before a row that is no law (all 0, NaN): what
        is drawn there is the target's.
    threshold_single, threshold_acc : float
        Without effect, as in SGLang's own.
    deterministic : bool
        Without effect: it always is.
    block_verification : bool
        Without effect: it always is.
    logprobs : bool
        Whether log-probabilities come back; SGLang has no such argument.

    Returns
    -------
    Tensor of float64, shape (B, N), or None
        With `logprobs` only: the target's log-probabilities of the tokens after the root and after each accepted one,
        then NaN.

    Raises
    ------
    ProblemError
        If the shapes do not fit together.
    """
    rows, slots = candidates.shape
    drafted, vocab = slots - 1, target_probs.shape[-1]
    _check_shapes(rows, slots, accept_index, uniform_samples, target_probs, draft_probs)
    tokens, draft = candidates[:, 1:].long(), draft_probs[:, :drafted]
    mass = draft.sum(dim=2, dtype=torch.float64)
    known = (draft >= 0).all(dim=2) & (mass > 0) & (mass < torch.inf)
    coins = (uniform_samples[:, :drafted], uniform_samples_for_final_sampling[:, None])
    place = torch.arange(rows * slots, device=candidates.device).view(rows, slots)
    laws = ChainLaws(
        target_probs.reshape(-1, vocab),
        place,
        draft.reshape(-1, vocab),
        place.flatten()[: rows * drafted].view(rows, -1),
    )
    lengths = known.cumprod(dim=1).sum(dim=1)
    found = verify_chains_in_rows(laws, tokens, lengths, torch.cat(coins, dim=1).double(), logprobs=logprobs)

    place, accepted = place[:1] % slots, found.accepted[:, None]
    accept_token_num.copy_(found.accepted)
    accept_index.copy_(torch.where(place <= accepted, retrive_index.to(accept_index.dtype), accept_index))
    after = torch.where(place < accepted, torch.nn.functional.pad(tokens, (0, 1)), found.token[:, None])
    # What is not on the path writes what the root writes, so that nothing else changes.
    on_path = torch.where(place <= accepted, place, 0)
    predicts.scatter_(
        0, retrive_index.gather(1, on_path).flatten().long(), after.gather(1, on_path).flatten().to(predicts.dtype)
    )
    return found.logprobs


def _check_shapes(
    rows: int, slots: int, accept_index: Tensor, uniforms: Tensor, target_probs: Tensor, draft_probs: Tensor
) -> None:
    vocab = target_probs.shape[-1]
    exact = {"accept_index": (accept_index, (rows, slots)), "target_probs": (target_probs, (rows, slots, vocab))}
    long_enough = {"uniform_samples": (uniforms, (rows,)), "draft_probs": (draft_probs, (rows, vocab))}
    for name, (tensor, shape) in exact.items():
        if tuple(tensor.shape) != shape:
            raise ProblemError(
                f"{name} has shape {tuple(tensor.shape)}; candidates of shape {(rows, slots)} need {shape}"
            )
    for name, (tensor, shape) in long_enough.items():
        if tuple(tensor.shape[:1] + tensor.shape[2:]) != shape or tensor.shape[1] < slots - 1:
            needed = (rows, slots - 1, *shape[1:])
            raise ProblemError(
                f"{name} has shape {tuple(tensor.shape)}; candidates of shape {(rows, slots)} need {needed}, or "
                "more in the second place"
            )


FUNCTIONS: tuple[Callable[..., Tensor | None], ...] = (
    tree_speculative_sampling_target_only,
    chain_speculative_sampling_triton,
)
"""Ours, by SGLang's names."""


def put_in_place() -> None:
    """Register our functions with SGLang's hooks, which put them wherever the others were imported.

    Call it before the engine starts, in each of its processes: the entry point `otspec` in the group
    `sglang.srt.plugins` does, if the environment has OTSPEC_SGLANG=1.  A function that SGLang does not have is left
    out: that for trees off CUDA, that for chains before 0.5.23.

    Raises
    ------
    MissingExtra
        If SGLang is not installed.
    ProblemError
        If it has neither function on this machine, or one that takes other arguments than ours.
    """
    module = require(MODULE)
    theirs: dict[Callable[..., Tensor | None], Callable[..., Any]] = {
        # None is left out: the hooks would replace whatever else is None.
        ours: own
        for ours in FUNCTIONS
        if (own := getattr(module, ours.__name__, None)) is not None
    }
    if not theirs:
        names = " nor ".join(ours.__name__ for ours in FUNCTIONS)
        raise ProblemError(f"SGLang has neither {names} on this machine; leave otspec out there")
    for ours, own in theirs.items():
        check_arguments(f"{MODULE}.{ours.__name__}", own, ours)
    hooks = require(HOOKS)
    for ours in theirs:
        hooks.HookRegistry.register(f"{MODULE}.{ours.__name__}", ours, hooks.HookType.REPLACE)
