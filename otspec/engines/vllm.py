"""vLLM's `rejection_sample` (vllm/v1/sample/rejection_sampler.py), by block verification.

Block verification accepts as many tokens of a chain as any lossless rule can on average; vLLM's own function tests
token after token.  vLLM drafts one chain per request and has no attention over trees, so trees cannot be verified
there.  Its second model runner (vllm/v1/worker/gpu), the default where it supports the model, has another function of
this name, and block verification of its own (``rejection_sample_method="block"``): this one is for the first runner.
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from otspec.errors import ProblemError
from otspec.extras import require

if TYPE_CHECKING:
    from otspec.engines.chains import Chains

PLACEHOLDER = -1
"""In the output: no token.  Among the drafts: a token that was refused beforehand, such as by a grammar."""
MODULE = "vllm.v1.sample.rejection_sampler"
SWITCH = "OTSPEC_VLLM"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


class Sampling(Protocol):
    """What is read of vLLM's `SamplingMetadata`."""

    temperature: Tensor | None
    """Shape (B,); 0 is greedy.  None if all are."""
    all_greedy: bool
    all_random: bool
    generators: dict[int, torch.Generator]
    """Of requests that have a seed of their own."""


def rejection_sample(
    draft_token_ids: Tensor,
    num_draft_tokens: list[int],
    max_spec_len: int,
    cu_num_draft_tokens: Tensor,
    draft_probs: Tensor | None,
    target_logits: Tensor,
    bonus_token_ids: Tensor,
    sampling_metadata: Sampling,
    synthetic_mode: bool = False,
    synthetic_conditional_rates: Tensor | None = None,
    use_fp64_gumbel: bool = False,
    fly_window_size: int | None = None,
    fly_entropy_threshold: float | None = None,
    fly_entropy_top_k: int = 3,
) -> Tensor:
    """Verify one chain of drafted tokens for each of B requests.

    Parameters
    ----------
    draft_token_ids : Tensor of int32, shape (N,)
        The drafted tokens of all requests, one chain after the other.  -1 is a token that was refused beforehand.  If
        its row of the target excludes a token (minus infinity among the logits) that its row of `draft_probs` has, it
        counts as such a token, drawn and refused.  Otherwise nothing was drafted: the chain ends before it.
    num_draft_tokens : list of int, length B
        How many each request has, 0 included.
    max_spec_len : int
        The most of them.
    cu_num_draft_tokens : Tensor of int32, shape (B,)
        Where each chain ends in `draft_token_ids`.
    draft_probs : Tensor, shape (N, V), optional
        The laws that the tokens were drawn from.  None if nothing was drawn, as by n-grams: the law is then all on the
        token.
    target_logits : Tensor, shape (N, V)
        Of the target before each drafted token, processed: temperature, top-k and top-p are in them.
    bonus_token_ids : Tensor, shape (B, 1) or (B,)
        What follows where all are accepted; drawn by vLLM.
    sampling_metadata : SamplingMetadata
        `temperature`, `all_greedy`, `all_random` and `generators` are read.
    synthetic_mode, synthetic_conditional_rates, fly_window_size, fly_entropy_threshold, fly_entropy_top_k
        Of methods that are not lossless: not taken here.
    use_fp64_gumbel : bool
        Without effect: nothing is drawn by Gumbel noise.

    Returns
    -------
    Tensor of int32, shape (B, max_spec_len + 1)
        The accepted tokens, the one after them, and -1 from there on.  A request whose laws hold NaN gets token 0.

    Raises
    ------
    ProblemError
        If the shapes do not fit together, or a method is asked for that is not lossless.
    """
    if synthetic_mode or fly_window_size is not None:
        method = "synthetic acceptance" if synthetic_mode else f"fly_window_size = {fly_window_size}"
        raise ProblemError(f"{method} is not lossless; use rejection_sample_method='standard', or vLLM's own function")
    total, batch = draft_token_ids.shape[0], len(num_draft_tokens)
    _check_shapes(draft_token_ids, batch, cu_num_draft_tokens, draft_probs, target_logits, bonus_token_ids)
    device = target_logits.device
    bonus = bonus_token_ids.reshape(-1).long()
    if total == 0:
        return pad(bonus[:, None], (0, max_spec_len), value=PLACEHOLDER).to(torch.int32)

    ends = cu_num_draft_tokens.long()
    starts = pad(ends[:-1], (1, 0))
    lengths = ends - starts
    place = torch.arange(max_spec_len + 1, device=device)
    flat = (starts[:, None] + place[:-1]).clamp(max=total - 1)
    tokens = torch.where(place[:-1] < lengths[:, None], draft_token_ids.long()[flat], PLACEHOLDER)
    accepted, token = torch.zeros_like(lengths), torch.zeros_like(lengths)
    if not sampling_metadata.all_greedy:
        uniforms = _uniforms(num_draft_tokens, max_spec_len, sampling_metadata.generators, device)
        drawn = _random(tokens, starts, lengths, draft_probs, target_logits, uniforms)
        accepted, token = drawn.accepted, drawn.token
    if not sampling_metadata.all_random:
        best = target_logits.argmax(dim=1)[flat]
        agreed = (tokens == best).cumprod(dim=1).sum(dim=1)
        after = best.gather(1, agreed.clamp(max=max_spec_len - 1)[:, None])[:, 0]
        greedy = torch.ones_like(agreed, dtype=torch.bool)
        if sampling_metadata.temperature is not None and not sampling_metadata.all_greedy:
            greedy = sampling_metadata.temperature == 0
        accepted, token = torch.where(greedy, agreed, accepted), torch.where(greedy, after, token)

    token = torch.where(accepted == lengths, bonus, token)
    out = torch.where(place < accepted[:, None], pad(tokens, (0, 1)), PLACEHOLDER)
    return torch.where(place == accepted[:, None], token[:, None], out).to(torch.int32)


def plug_in() -> None:
    """Let vLLM's first model runner verify by our function, if the environment has OTSPEC_VLLM=1.

    It is the entry point `otspec` of the group `vllm.general_plugins`, loaded in each of vLLM's processes.  Calls
    for methods that are not lossless go to vLLM's own function.  Neither this nor the module imports numba or another
    compiler before the first request: on a CPU vLLM's worker goes over all modules that are there when it has loaded
    its plug-ins, and llvmlite stops it.

    Raises
    ------
    MissingExtra
        If vLLM is not installed.
    ProblemError
        If the variable is neither 0 nor 1, or vLLM's function takes other arguments than ours.
    """
    value = os.environ.get(SWITCH, "")
    if value not in ("", "0", "1"):
        raise ProblemError(f"the environment has {SWITCH}={value}; it is 1 to use otspec, and 0 or nothing not to")
    if value != "1":
        return
    if os.environ.get(RUNNER) != "0":
        warnings.warn(f"{RUNNER}=0 makes sure that vLLM's first model runner runs, where ours verifies", stacklevel=2)
    module = require(MODULE)
    theirs = module.rejection_sample
    if getattr(theirs, "__otspec__", False):
        return
    _check_arguments(theirs)
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def either(*positional: Any, **named: Any) -> Any:
        call = signature.bind(*positional, **named)
        call.apply_defaults()
        lossy = call.arguments.get("synthetic_mode") or call.arguments.get("fly_window_size") is not None
        return theirs(*positional, **named) if lossy else rejection_sample(**call.arguments)

    either.__otspec__ = True  # type: ignore[attr-defined]
    module.rejection_sample = either  # type: ignore[attr-defined]


def _check_arguments(theirs: Callable[..., Any]) -> None:
    """Refuse a version whose arguments are not the first of ours; it may lack the last, which have defaults."""
    ours, expected = inspect.signature(rejection_sample).parameters, list(inspect.signature(theirs).parameters)
    missing = [one.name for one in list(ours.values())[len(expected) :] if one.default is inspect.Parameter.empty]
    if expected != list(ours)[: len(expected)] or missing:
        raise ProblemError(
            f"{MODULE}.rejection_sample takes {', '.join(expected)} in this version, and otspec's {', '.join(ours)}; "
            f"use a version that docs/vllm.md names, or unset {SWITCH}"
        )


def _random(
    tokens: Tensor, starts: Tensor, lengths: Tensor, draft_probs: Tensor | None, target_logits: Tensor, uniforms: Tensor
) -> Chains:
    """How many tokens are accepted, and the one after them, for requests that are not greedy."""
    from otspec.engines.chains import ChainLaws, verify_chains_in_rows  # at the first call: see `plug_in`

    counted = (tokens != PLACEHOLDER).cumprod(dim=1).sum(dim=1)
    if draft_probs is not None:
        # What a grammar refuses was drawn all the same, and its row of the target excludes it.  Where the row excludes
        # nothing that could be drawn, -1 fills up a chain that has ended, as after the last token of a grammar.
        row = (starts + counted).clamp(max=target_logits.shape[0] - 1)
        refused = ((target_logits[row] == -torch.inf) & (draft_probs[row] > 0)).any(dim=1)
        counted = torch.where(refused, lengths, counted)
    place = torch.arange(tokens.shape[1] + 1, device=tokens.device)
    last = (lengths - 1).clamp(min=0)[:, None]  # after a whole chain vLLM has drawn the token itself
    row = (starts[:, None] + torch.minimum(place, last)).clamp(max=target_logits.shape[0] - 1)
    laws = ChainLaws(target_logits, row, draft_probs, row[:, :-1], logits=True)
    return verify_chains_in_rows(laws, tokens, counted, uniforms)


def _uniforms(counts: list[int], longest: int, generators: dict[int, torch.Generator], device: torch.device) -> Tensor:
    """Shape (B, longest + 1): to accept, and in the last column to draw; n + 1 of a seeded request are its own."""
    uniforms = torch.rand((len(counts), longest + 1), dtype=torch.float64, device=device)
    for request, generator in generators.items():
        n = counts[request]
        if n > 0:
            own = torch.rand(n + 1, dtype=torch.float64, device=device, generator=generator)
            uniforms[request, :n], uniforms[request, -1] = own[:n], own[n]
    return uniforms


def _check_shapes(
    tokens: Tensor, batch: int, ends: Tensor, draft_probs: Tensor | None, target_logits: Tensor, bonus: Tensor
) -> None:
    laws = (*tokens.shape[:1], target_logits.shape[-1])
    shapes = {
        "draft_token_ids": (tokens, laws[:1]),
        "cu_num_draft_tokens": (ends, (batch,)),
        "target_logits": (target_logits, laws),
        "draft_probs": (target_logits if draft_probs is None else draft_probs, laws),
        "bonus_token_ids": (bonus, (batch,) if bonus.dim() == 1 else (batch, 1)),
    }
    for name, (tensor, shape) in shapes.items():
        if tuple(tensor.shape) != shape:
            needs = f"{batch} requests with {tokens.shape[0]} drafted tokens need {tuple(shape)}"
            raise ProblemError(f"{name} has shape {tuple(tensor.shape)}; {needs}")
