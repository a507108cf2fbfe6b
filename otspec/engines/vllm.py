"""vLLM's `rejection_sample` (vllm/v1/sample/rejection_sampler.py), by block verification.

Block verification accepts as many tokens of a chain as any lossless rule can on average; vLLM's own function tests
token after token.  vLLM drafts one chain per request and has no attention over trees, so trees cannot be verified
there.  Its second model runner (vllm/v1/worker/gpu), the default where it supports the model, has another function of
this name, and block verification of its own (``rejection_sample_method="block"``): this one is for the first runner.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from otspec.engines import vllm_cpu
from otspec.engines.loading import replacement
from otspec.errors import ProblemError
from otspec.extras import require

if TYPE_CHECKING:
    from otspec.engines.chains import Chains
    from otspec.engines.vllm_proposer import Proposer as Proposer

PLACEHOLDER = -1
"""In the output: no token.  Among the drafts: a token that was refused beforehand, such as by a grammar."""
MODULE = "vllm.v1.sample.rejection_sampler"
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
    logprobs: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
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
    logprobs : bool
        Whether log-probabilities come back beside the tokens; vLLM has no such argument, and takes its own from logits.

    Returns
    -------
    Tensor of int32, shape (B, max_spec_len + 1)
        The accepted tokens, the one after them, and -1 from there on.  A request whose laws hold NaN gets token 0.
    Tensor of float64, shape (B, max_spec_len + 1)
        With `logprobs` only: of these tokens, under the law that each has, which is the softmax of `target_logits`, or
        for a greedy request all on its token, 0.  NaN for a token of `bonus_token_ids`, which vLLM has drawn from
        logits that it does not hand over, in a request whose laws hold NaN, and where there is no token.

    Raises
    ------
    ProblemError
        If the shapes do not fit together, or a method is asked for that is not lossless.
    """
    if synthetic_mode or fly_window_size is not None:
        asked = "synthetic acceptance" if synthetic_mode else f"fly_window_size = {fly_window_size}"
        raise ProblemError(f"{asked} is not lossless; use rejection_sample_method='standard', or vLLM's own function")
    total, batch = draft_token_ids.shape[0], len(num_draft_tokens)
    _check_shapes(draft_token_ids, batch, cu_num_draft_tokens, draft_probs, target_logits, bonus_token_ids)
    device = target_logits.device
    bonus = bonus_token_ids.reshape(-1).long()
    if total == 0:
        alone = torch.full((batch, max_spec_len), PLACEHOLDER, dtype=torch.int32, device=device)
        out = torch.cat((bonus[:, None].to(torch.int32), alone), dim=1)
        return (out, torch.full_like(out, torch.nan, dtype=torch.float64)) if logprobs else out

    ends = cu_num_draft_tokens.long()
    starts = torch.nn.functional.pad(ends[:-1], (1, 0))
    lengths = ends - starts
    places = torch.arange(max_spec_len, device=device)
    flat = (starts[:, None] + places).clamp(max=total - 1)
    tokens = torch.where(places < lengths[:, None], draft_token_ids.long()[flat], PLACEHOLDER)
    accepted, token, known = torch.zeros_like(lengths), torch.zeros_like(lengths), None
    if not sampling_metadata.all_greedy:
        uniforms = _uniforms(num_draft_tokens, max_spec_len, sampling_metadata.generators, device)
        drawn = _random(tokens, starts, lengths, draft_probs, target_logits, uniforms, logprobs)
        accepted, token, known = drawn.accepted, drawn.token, drawn.logprobs
    if not sampling_metadata.all_random:
        best = target_logits.argmax(dim=1)[flat]
        agreed = (tokens == best).cumprod(dim=1).sum(dim=1)
        after = best.gather(1, agreed.clamp(max=max_spec_len - 1)[:, None])[:, 0]
        certain = torch.zeros_like(agreed[:, None], dtype=torch.float64)
        if sampling_metadata.temperature is not None and not sampling_metadata.all_greedy:
            greedy = sampling_metadata.temperature == 0
            agreed, after = torch.where(greedy, agreed, accepted), torch.where(greedy, after, token)
            known = None if known is None else torch.where(greedy[:, None], certain, known)
        elif logprobs:
            known = certain
        accepted, token = agreed, after

    token = torch.where(accepted == lengths, bonus, token)
    place = torch.arange(max_spec_len + 1, device=device)
    out = torch.where(place < accepted[:, None], torch.nn.functional.pad(tokens, (0, 1)), PLACEHOLDER)
    out = torch.where(place == accepted[:, None], token[:, None], out).to(torch.int32)
    if known is None:
        return out
    ours = place < torch.minimum(accepted + 1, lengths)[:, None]  # the token after a whole chain is vLLM's
    return out, torch.where(ours, known, torch.nan)


def put_in_place() -> None:
    """Let vLLM's first model runner verify by our function; calls for methods that are not lossless go to its own.

    On a CPU it also gets what `otspec.engines.vllm_cpu` has: vLLM hands over laws that are not the target's there.

    Call it before the engine starts, in each of its processes: the entry point `otspec` in the group
    `vllm.general_plugins` does, if the environment has OTSPEC_VLLM=1.  Neither it nor this module imports numba or
    another compiler before the first request: on a CPU vLLM's worker goes over all modules that are there when it has
    loaded its plug-ins, and llvmlite stops it.

    Raises
    ------
    MissingExtra
        If vLLM is not installed.
    ProblemError
        If its function takes other arguments than ours.
    """
    if os.environ.get(RUNNER) != "0":
        warnings.warn(
            f"vLLM's second model runner has a verification of its own, which otspec does not replace; {RUNNER}=0 "
            "makes sure that the first runs",
            stacklevel=2,
        )
    module = require(MODULE)
    replacement(module, "rejection_sample", rejection_sample, _is_lossless)
    vllm_cpu.mend(module)


def _is_lossless(*, synthetic_mode: bool = False, fly_window_size: int | None = None, **_: object) -> bool:
    return not synthetic_mode and fly_window_size is None


def _random(
    tokens: Tensor,
    starts: Tensor,
    lengths: Tensor,
    draft_probs: Tensor | None,
    target_logits: Tensor,
    uniforms: Tensor,
    logprobs: bool,
) -> Chains:
    """How many tokens are accepted, and the one after them, for requests that are not greedy."""
    from otspec.engines.chains import ChainLaws, verify_chains_in_rows  # at the first call: see `put_in_place`

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
    return verify_chains_in_rows(laws, tokens, counted, uniforms, logprobs=logprobs)


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
    shapes = {
        "draft_token_ids": (tokens, tokens.shape[:1]),
        "cu_num_draft_tokens": (ends, (batch,)),
        "target_logits": (target_logits, (*tokens.shape[:1], target_logits.shape[-1])),
        "bonus_token_ids": (bonus, (batch,) if bonus.dim() == 1 else (batch, 1)),
    }
    if draft_probs is not None:
        shapes["draft_probs"] = (draft_probs, shapes["target_logits"][1])
    for name, (tensor, shape) in shapes.items():
        if tuple(tensor.shape) != tuple(shape):
            raise ProblemError(
                f"{name} has shape {tuple(tensor.shape)}; {batch} requests with {tokens.shape[0]} drafted tokens need "
                f"{tuple(shape)}"
            )


def __getattr__(name: str) -> Any:
    if name == "Proposer":  # imported when vLLM asks for it: it needs transformers, and a compiler
        from otspec.engines.vllm_proposer import Proposer

        return Proposer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
