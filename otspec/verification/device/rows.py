"""Entries for rows of tensors: shapes are checked at once, values on the device, and then a rule is run."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.laws import as_law
from otspec.verification.rules.buckets.buckets import verify_by_buckets
from otspec.verification.rules.interval.sorted_rows import verify_by_sorting
from otspec.verification.rules.interval.truncated import verify_truncated_rows
from otspec.verification.tensors.rows import DRIFT, KERNELS, Rows, check_kernels, check_strided, runs_on

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]

RULES: dict[str, Rule] = {"sorting": verify_by_sorting, "buckets": verify_by_buckets}
WAYS = (*RULES, KERNELS)


class RowVerification(NamedTuple):
    """What comes out of the verification of B positions, as tensors on the device of the laws."""

    tokens: Tensor
    """Shape (B,), int64: the outputs; 0 in rows that are not valid."""
    accepted: Tensor
    """Shape (B,), int64: index of the accepted draft, or -1: the output is then a draw from the residual law."""
    valid: Tensor
    """Shape (B,), bool: whether the row was a problem: two laws, and drafts that q can draw.  Reading it waits for
    the device."""
    logprobs: Tensor | None = None
    """Shape (B,), float64, where requested: the target's log-probabilities of the outputs; NaN in rows not valid."""


def verify_rows(
    p: Tensor,
    q: Tensor,
    drafts: Tensor,
    rng: torch.Generator | Tensor,
    *,
    by: str | None = None,
    check: bool = False,
    logprobs: bool = False,
) -> RowVerification:
    """Verify i.i.d. drafts of B positions where they are, without waiting for the device.

    Given the same uniforms, ``by="sorting"`` puts out the tokens of `otspec.verification.reference`, save where
    rounding decides and for drafts of probability below 1e-15 or so, which may be judged by another lossless rule.

    Parameters
    ----------
    p, q : Tensor, shape (B, V)
        Target laws, and the laws that the drafts were really drawn from (after temperature, truncation and rounding to
        their type): float64, float32, bfloat16 or float16.  Each is divided by its total in float64.
    drafts : Tensor of integers, shape (B, n)
        n independent draws from each q.
    rng : torch.Generator or Tensor of float64, shape (B, n + 1, 3)
        A generator on the device of the laws, or uniform numbers in [0, 1), independent of the drafts.
    by : str, optional
        ``"sorting"``, the `interval` rule; ``"buckets"``, a rule without a sort that accepts up to 1.2e-4 less; or
        ``"triton"``, the rule by buckets in Triton.  By default the last where the laws are on a GPU and Triton is
        installed, else the first.
    check : bool
        Whether to wait for the device, and to raise an error that names the first row that is not valid.
    logprobs : bool
        Whether the target's log-probabilities of the outputs come with them: under p, which is the law of the output,
        whether it is a draft or a draw from the residual law.

    Returns
    -------
    RowVerification

    Raises
    ------
    ProblemError
        If shapes, types or devices do not fit together; with `check`, also if a row is not a problem.
    """
    _check_shapes(p, q, drafts)
    uniforms = _uniforms(rng, p, drafts)
    by = _way(by, p)
    if by == KERNELS:
        check_kernels(p)
        from otspec.verification.tensors.row_kernels import checked_rows

        target = checked_rows(p)
        found = _run_kernels(target, checked_rows(q), drafts, uniforms, logits=False)
        if check:
            _check_rows(found.valid, p, q, drafts)
        return _with_logprobs(found, target) if logprobs else found
    drafts = drafts.long()
    wide, narrow = p.double(), q.double()
    valid = _is_law(wide, p.dtype) & _is_law(narrow, q.dtype) & _can_be_drawn(narrow, drafts)
    if check:
        _check_rows(valid, p, q, drafts)
    # Rows that are not valid are worked on as well, in place of a branch: as laws that nothing can go wrong with.
    even = 1.0 / p.shape[1]
    wide = _over_total(torch.where(valid.unsqueeze(1), wide, even))
    narrow = _over_total(torch.where(valid.unsqueeze(1), narrow, even))
    tokens, accepted = RULES[by](wide, narrow, torch.where(valid.unsqueeze(1), drafts, 0), uniforms)[:2]
    return _found(tokens, accepted, valid, wide if logprobs else None)


def verify_logits(
    target_logits: Tensor,
    draft_logits: Tensor,
    drafts: Tensor,
    rng: torch.Generator | Tensor,
    *,
    temperature: float | Tensor = 1.0,
    by: str | None = None,
    check: bool = False,
    logprobs: bool = False,
) -> RowVerification:
    """`verify_rows` for logits, whose softmax is taken in float64.

    Parameters
    ----------
    target_logits, draft_logits : Tensor, shape (B, V)
        -inf masks a token.  The drafts have to come from this softmax: from one that was rounded, pass its law.
    drafts : Tensor of integers, shape (B, n)
    rng : torch.Generator or Tensor of float64, shape (B, n + 1, 3)
    temperature : float or Tensor, shape (B,)
        Divides the logits of both.  0 means greedy: all mass on the largest logit, the first one at a tie.
    by : str, optional
        As in `verify_rows`.
    check, logprobs : bool
        As in `verify_rows`; log-probabilities are those at the temperature.

    Returns
    -------
    RowVerification
        A row whose logits hold NaN or +inf, or nothing but -inf, is not valid.

    Raises
    ------
    ProblemError
        As `verify_rows`.
    """
    _check_shapes(target_logits, draft_logits, drafts, ("target_logits", "draft_logits"))
    if isinstance(temperature, Tensor):
        if temperature.shape != target_logits.shape[:1]:
            raise ProblemError(
                f"temperature has shape {tuple(temperature.shape)}; pass one number, or one for each row"
            )
        heat = temperature.to(target_logits.device, torch.float64)[:, None]
    elif isinstance(temperature, Real) and not isinstance(temperature, bool) and 0 <= temperature < math.inf:
        heat = torch.full((1, 1), temperature, dtype=torch.float64, device=target_logits.device)
    else:
        raise ProblemError(f"temperature is {temperature!r}; it must be finite and >= 0 (0 means greedy)")
    by = _way(by, target_logits)
    if by == KERNELS and not check:
        heat = heat.expand(target_logits.shape[0], 1)[:, 0].contiguous()
        uniforms = _uniforms(rng, target_logits, drafts)
        check_kernels(target_logits)
        from otspec.verification.tensors.row_kernels import read_logits

        target, draft = (read_logits(logits, heat) for logits in (target_logits, draft_logits))
        valid = (target.high.abs() < torch.inf) & (draft.high.abs() < torch.inf) & (heat >= 0) & (heat < torch.inf)
        found = _run_kernels(Rows(target, valid), Rows(draft, valid), drafts, uniforms, logits=True)
        return _with_logprobs(found, Rows(target, valid), logits=True) if logprobs else found
    laws = law_of_logits(target_logits, heat), law_of_logits(draft_logits, heat)
    return verify_rows(*laws, drafts, rng, by=by, check=check, logprobs=logprobs)


def verify_truncated(
    p: Tensor,
    support: Tensor,
    q: Tensor,
    drafts: Tensor,
    rng: torch.Generator | Tensor,
    *,
    check: bool = False,
    logprobs: bool = False,
) -> RowVerification:
    """`verify_rows` for drafts that were truncated to k tokens: a problem of size k, and one running sum over V.

    Parameters
    ----------
    p : Tensor, shape (B, V)
        Target laws, whole.
    support : Tensor of integers, shape (B, k)
        The tokens that may be drafted.
    q : Tensor, shape (B, k)
        Their probabilities.  Those of 0 pad a shorter list, with any tokens: a repeated one counts once.  A row that
        holds a token twice, both with a probability, is not valid.
    drafts : Tensor of integers, shape (B, n)
        Drafted tokens.
    rng : torch.Generator or Tensor of float64, shape (B, n + 1, 3)
    check, logprobs : bool
        As in `verify_rows`.

    Returns
    -------
    RowVerification

    Raises
    ------
    ProblemError
        As `verify_rows`.
    """
    if p.ndim != 2 or q.ndim != 2 or support.shape != q.shape or q.shape[0] != p.shape[0]:
        raise ProblemError(
            f"p has shape {tuple(p.shape)}, support {tuple(support.shape)} and q {tuple(q.shape)}; "
            "they need (B, V), (B, k) and (B, k)"
        )
    _check_shapes(p, p, drafts)
    _check_shapes(q, q, drafts, ("q", "q"))
    uniforms = _uniforms(rng, p, drafts)
    support, drafts = support.long(), drafts.long()
    again = _again(support, q > 0)
    matches = (drafts[:, :, None] == support[:, None, :]) & ~again[:, None, :]
    slots = matches.to(torch.int8).argmax(dim=2)
    listed = matches.any(dim=2).all(dim=1) & ((support >= 0) & (support < p.shape[1])).all(dim=1)
    twice = again & (q > 0)
    listed &= ~twice.any(dim=1)
    target, draft = p.double(), q.double()
    valid = _is_law(target, p.dtype) & _is_law(draft, q.dtype) & _can_be_drawn(draft, slots) & listed
    if check:
        _check_rows(_is_law(target, p.dtype), p, p, drafts)
        _check_support(support, twice, p.shape[1])
        _check_rows(_is_law(draft, q.dtype), q, q, drafts)
        if not valid.all():
            row = int((~valid).int().argmax())
            raise ProblemError(
                f"drafts[{row}] is {drafts[row].tolist()}, and support[{row}] lacks one of these, or has it with "
                "probability 0; drafts are token ids, drawn from that row of support"
            )
    support = torch.where(valid.unsqueeze(1), support, torch.arange(q.shape[1], device=p.device))
    again &= valid.unsqueeze(1)
    target = _over_total(torch.where(valid.unsqueeze(1), target, 1.0 / p.shape[1]))
    draft = torch.where(valid.unsqueeze(1), draft, 1.0 / q.shape[1])
    tokens, accepted = verify_truncated_rows(
        target, support, again, _over_total(draft), torch.where(valid.unsqueeze(1), slots, 0), uniforms
    )
    return _found(tokens, accepted, valid, target if logprobs else None)


def _found(tokens: Tensor, accepted: Tensor, valid: Tensor, target: Tensor | None) -> RowVerification:
    """What comes out, shape (B,) each, with log-probabilities where laws are given, shape (B, V)."""
    found = RowVerification(torch.where(valid, tokens, 0), torch.where(valid, accepted, -1), valid)
    if target is None:
        return found
    of_outputs = target.gather(1, found.tokens[:, None])[:, 0].log()
    return found._replace(logprobs=torch.where(valid, of_outputs, torch.nan))


def _again(support: Tensor, likely: Tensor) -> Tensor:
    """Entries, shape (B, k), whose token stands in the row already; one that can be drafted stands before others."""
    key = support * 2 + ~likely
    order = key.sort(dim=1, stable=True).indices
    there = support.gather(1, order)
    repeated = torch.nn.functional.pad(there[:, 1:] == there[:, :-1], (1, 0))
    return torch.zeros_like(repeated).scatter(1, order, repeated)


def _check_support(support: Tensor, twice: Tensor, vocab: int) -> None:
    """Name the first row with what is no token, or a token twice, both with a probability; waits for the device."""
    if (wrong := support[(support < 0) | (support >= vocab)]).numel():
        raise ProblemError(f"support holds {wrong[0].item()}; token ids run from 0 to {vocab - 1}")
    if twice.any():
        row = int(twice.any(dim=1).int().argmax())
        raise ProblemError(
            f"support[{row}] is {support[row].tolist()}, and holds a token twice with a probability; add them up"
        )


def _run_kernels(target: Rows, draft: Rows, drafts: Tensor, uniforms: Tensor, *, logits: bool) -> RowVerification:
    from otspec.verification.rules.token_wise.walk_kernels import verify_rows_by_kernels

    return RowVerification(*verify_rows_by_kernels(target, draft, drafts.long(), uniforms, logits))


def _with_logprobs(found: RowVerification, target: Rows, logits: bool = False) -> RowVerification:
    row = torch.arange(len(found.tokens), device=found.tokens.device)
    of_outputs = target.logprobs_at(row, found.tokens, logits)
    return found._replace(logprobs=torch.where(found.valid, of_outputs, torch.nan))


def law_of_logits(logits: Tensor, temperature: Tensor) -> Tensor:
    """Softmax of rows, shape (B, V), in float64, at temperatures of shape (B, 1) or (1, 1); NaN where there is none."""
    scores = logits.double()
    highest = scores.max(dim=1, keepdim=True)
    weights = ((scores - highest.values) / temperature).exp()
    weights = torch.where(temperature >= 0, weights / weights.sum(dim=1, keepdim=True), torch.nan)
    greedy = torch.zeros_like(scores).scatter_(1, highest.indices, 1.0)
    greedy = torch.where(highest.values.abs() < torch.inf, greedy, torch.nan)
    return torch.where(temperature == 0, greedy, weights)


def _check_shapes(p: Tensor, q: Tensor, drafts: Tensor, names: tuple[str, str] = ("p", "q")) -> None:
    for name, law in zip(names, (p, q), strict=True):
        if not isinstance(law, Tensor) or law.dtype not in DRIFT:
            what = law.dtype if isinstance(law, Tensor) else type(law).__name__
            raise ProblemError(f"{name} is {what}; pass a tensor of floats, shape (B, V)")
        check_strided(name, law)
    if p.ndim != 2 or p.shape != q.shape or p.shape[1] == 0:
        raise ProblemError(
            f"{names[0]} has shape {tuple(p.shape)} and {names[1]} {tuple(q.shape)}; both need one shape (B, V)"
        )
    if not isinstance(drafts, Tensor) or drafts.ndim != 2 or drafts.shape[0] != p.shape[0] or drafts.shape[1] == 0:
        found = tuple(drafts.shape) if isinstance(drafts, Tensor) else type(drafts).__name__
        raise ProblemError(f"drafts are {found}; pass a tensor of shape ({p.shape[0]}, n), n >= 1")
    if drafts.dtype.is_floating_point or drafts.dtype.is_complex or drafts.dtype == torch.bool:
        raise ProblemError(f"drafts are {drafts.dtype}; token ids are integers")
    check_strided("drafts", drafts)
    if not p.device == q.device == drafts.device:
        raise ProblemError(
            f"the laws are on {p.device} and {q.device}, the drafts on {drafts.device}; move them to one"
        )


def uniforms_of(rng: Any, shape: tuple[int, ...], device: torch.device, what: str) -> Tensor:
    """The uniforms that are handed over for rows or trees of tensors, or as many from a generator.

    Parameters
    ----------
    rng : torch.Generator, or Tensor of float64 of that shape
    shape : tuple of int
    device : torch.device
    what : str
        "rows" or "trees", for messages.

    Raises
    ------
    ProblemError
        If it is neither.
    """
    if isinstance(rng, torch.Generator):
        return torch.rand(shape, generator=rng, dtype=torch.float64, device=device)
    if not isinstance(rng, Tensor):
        raise ProblemError(f"rng is {rng!r}; {what} of tensors take a torch.Generator, or uniforms of shape {shape}")
    if tuple(rng.shape) != shape or rng.dtype != torch.float64 or rng.device != device:
        raise ProblemError(
            f"the uniforms are {rng.dtype} of shape {tuple(rng.shape)} on {rng.device}; these {what} need "
            f"torch.float64 of shape {shape} on {device} (24 bits of a float32 are too few for rare tokens)"
        )
    return rng


def _uniforms(rng: Any, p: Tensor, drafts: Tensor) -> Tensor:
    return uniforms_of(rng, (*drafts.shape[:1], drafts.shape[1] + 1, 3), p.device, "rows")


def _way(by: str | None, law: Tensor) -> str:
    if by is None:
        return KERNELS if runs_on(law) else "sorting"
    if by not in WAYS:
        raise ProblemError(f"by is {by!r}; known: {', '.join(WAYS)}")
    return by


def _is_law(law: Tensor, dtype: torch.dtype) -> Tensor:
    """Whether rows are laws up to what the type they came in may be off, shape (B,); NaN is never right."""
    return (law >= 0).all(dim=1) & _is_total(dtype, law.sum(dim=1))


def _is_total(dtype: torch.dtype, total: Tensor) -> Tensor:
    return (total - 1).abs() <= DRIFT[dtype]


def _can_be_drawn(q: Tensor, drafts: Tensor) -> Tensor:
    inside = (drafts >= 0) & (drafts < q.shape[1])
    return (inside & (q.gather(1, drafts.clamp(0, q.shape[1] - 1)) > 0)).all(dim=1)


def _over_total(law: Tensor) -> Tensor:
    return law * (1.0 / law.sum(dim=1, keepdim=True))


def _check_rows(valid: Tensor, p: Tensor, q: Tensor, drafts: Tensor) -> None:
    """Name what is wrong with the first row that is not valid; waits for the device."""
    if valid.all():
        return
    row = int((~valid).int().argmax())
    for name, laws in (("p", p), ("q", q)):
        if not _is_law(laws[row : row + 1].double(), laws.dtype).item():
            as_law(f"{name}[{row}]", laws[row])
    ids = drafts[row].tolist()
    if min(ids) < 0 or max(ids) >= q.shape[1]:
        raise ProblemError(
            f"drafts[{row}] is {ids}; token ids run from 0 to {q.shape[1] - 1}, and q holds each of them"
        )
    raise ProblemError(f"drafts[{row}] is {ids}, and holds a token whose draft probability is 0")
