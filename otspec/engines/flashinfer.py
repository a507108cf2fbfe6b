"""`flashinfer.sampling.chain_speculative_sampling`, with its arguments and results, by block verification.

Block verification accepts as many tokens of a chain as any lossless rule can on average; flashinfer's own kernel tests
token after token.  It has no plug-ins: call `put_in_place` before anything imports the function by name.
"""

from __future__ import annotations

import torch
from torch import Tensor

from otspec.engines.chains import verify_chains
from otspec.engines.loading import replacement
from otspec.errors import ProblemError
from otspec.extras import require

MODULES = ("flashinfer.sampling", "flashinfer")
"""Where the function has its name."""


def chain_speculative_sampling(
    draft_probs: Tensor,
    draft_token_ids: Tensor,
    target_probs: Tensor,
    maybe_output_accepted_token_num: Tensor | None = None,
    maybe_output_emitted_draft_token_num: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    seed: int | None = None,
    offset: int | None = None,
    logprobs: bool = False,
) -> tuple[Tensor, ...]:
    """Verify chains of n drafted tokens.

    Parameters
    ----------
    draft_probs : Tensor, shape (B, n, V)
        The laws that the tokens were drawn from.
    draft_token_ids : Tensor of int32, shape (B, n)
    target_probs : Tensor, shape (B, n + 1, V)
    maybe_output_accepted_token_num, maybe_output_emitted_draft_token_num : Tensor of int32, shape (B,), optional
        Numbers of tokens that are added to in place, and returned.
    deterministic : bool
        Without effect: it always is.
    generator : torch.Generator, optional
        By default that of torch.
    seed, offset : int, optional
        Of a kernel's own generator: not taken here, pass a generator.
    logprobs : bool
        Whether a fourth tensor comes back; flashinfer has no such argument.

    Returns
    -------
    output_token_ids : Tensor of int32, shape (B, n + 1)
        The accepted tokens, the one after them, and -1 from there on.
    output_accepted_token_num : Tensor, shape (B,)
        How many tokens are put out, or pass a test by themselves, which they do with probability min(1, p/q); never
        fewer than those that are put out.
    output_emitted_draft_token_num : Tensor, shape (B,)
        How many drafted tokens are put out.
    output_logprobs : Tensor of float64, shape (B, n + 1)
        The target's log-probabilities of the tokens that are put out, then NaN; with `logprobs` only.

    Raises
    ------
    ProblemError
        If the shapes do not fit together, or there is a seed or an offset.

    Notes
    -----
    One coin of each place decides whether its token passes by itself, and whether the chain is accepted up to there.
    In flashinfer's own kernel, which tests token after token, all that is put out has passed.  Block verification puts
    out tokens that would not: of a chain with p/q = 1/2, then 4, it always accepts both, and both pass by themselves
    half of the time.  No coins can therefore give the number of those that pass its law and keep it above what is put
    out; a token that is put out counts here, and every other one if it passes.
    """
    batch, n = draft_token_ids.shape
    vocab = target_probs.shape[-1]
    if draft_probs.shape != (batch, n, vocab) or target_probs.shape != (batch, n + 1, vocab):
        raise ProblemError(
            f"draft_probs has shape {tuple(draft_probs.shape)} and target_probs {tuple(target_probs.shape)}; drafts of "
            f"shape ({batch}, {n}) need ({batch}, {n}, V) and ({batch}, {n + 1}, V)"
        )
    if seed is not None or offset is not None:
        raise ProblemError(f"seed is {seed} and offset {offset}; pass a torch Generator in their place")
    device = draft_probs.device
    uniforms = torch.rand((batch, n + 1), generator=generator, dtype=torch.float64, device=device)
    found = verify_chains(target_probs, draft_probs, draft_token_ids, uniforms, logprobs=logprobs)
    accepted, token = found.accepted, found.token

    drafted = draft_token_ids.long().unsqueeze(2)
    p, q = (laws[:, :n].gather(2, drafted)[:, :, 0].double() for laws in (target_probs, draft_probs))
    counts = [
        torch.zeros(batch, dtype=torch.int32, device=device) if given is None else given
        for given in (maybe_output_accepted_token_num, maybe_output_emitted_draft_token_num)
    ]
    place = torch.arange(n + 1, device=device)
    put_out = place[:n] < accepted.unsqueeze(1)
    counts[0] += (put_out | (uniforms[:, :n] * q < p)).sum(dim=1).to(counts[0].dtype)
    counts[1] += accepted.to(counts[1].dtype)
    padded = torch.nn.functional.pad(draft_token_ids.long(), (0, 1))
    ids = torch.where(place < accepted.unsqueeze(1), padded, -1)
    ids = torch.where(place == accepted.unsqueeze(1), token.unsqueeze(1), ids)
    outputs = ids.to(torch.int32), counts[0], counts[1]
    return outputs if found.logprobs is None else (*outputs, found.logprobs)


def put_in_place() -> None:
    """Let `flashinfer` and `flashinfer.sampling` have our function; calls with a seed or an offset go to their own.

    Raises
    ------
    MissingExtra
        If flashinfer is not installed.
    ProblemError
        If its function takes other arguments than ours.
    """
    for module in MODULES:
        replacement(require(module), "chain_speculative_sampling", chain_speculative_sampling, _is_drawn_by_torch)


def _is_drawn_by_torch(*, seed: object = None, offset: object = None, **_: object) -> bool:
    return seed is None and offset is None
