"""SGLang's `tree_speculative_sampling_target_only`, with its keywords, in place.

Trees of drafts that are not sampled are verified against the target alone: draw a token, and see whether it was drafted
(`naive` in our words).  SGLang passes no law of the drafts here, so no other rule can be lossless.  Two things differ
from its own kernel: what is left of p is summed up in integers, so that ranks agree; and a token of probability 0 is
never accepted, not even by a coin of 0.
"""

from __future__ import annotations

from torch import Tensor

from otspec.engines.loading import check_arguments
from otspec.engines.walk import Coins, Filled, walk_down
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.verification.tensors.reading import check_kernels, runs_on
from otspec.verification.trees.layout import Links

MODULE, FUNCTION = "sglang.kernels.ops.speculative.verify_sampling", "tree_speculative_sampling_target_only"
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
