"""Block verification of paths in Triton: two passes over their laws, and small kernels between and after them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.block.tensors import Accepted
from otspec.verification.rules.groups.launch import of_groups
from otspec.verification.tensors.reading import BLOCK, EXACT, Rows, kernels_for, lanes, read_law, read_scaled, spread

SETTLED = 16, 8
"""So many levels of a path are settled at once, of which a program reads so many chunks at once: a thread has one."""


class PathLaws(NamedTuple):
    """The laws of B paths of at most L tokens, as rows of tensors."""

    target: Rows
    target_row: Tensor
    """Shape (B, L + 1), int64: the target's law after 0 to L tokens; any row beyond the end of a path."""
    draft: Rows | None
    """None if nothing was drawn: the law of a token is then all on it."""
    draft_row: Tensor
    """Shape (B, L), int64: the law of each token."""
    logits: bool = False
    """Whether the target's values are logits."""
    factor: Tensor | None = None
    """Shape (F, k + 1): what the draft laws are multiplied by, for the groups of tokens."""
    factor_row: Tensor | None = None
    """Shape (B, L), int64."""


class Dealt(NamedTuple):
    """Uniform numbers of B paths: where those of its levels are, and that of the token after them."""

    uniforms: Tensor
    """Float64, from that of the first level of the first path on."""
    stride: int
    """From path to path."""
    step: int
    """From level to level."""
    last: int
    """From the first of a path to that of the token."""

    @classmethod
    def in_rows(cls, uniforms: Tensor) -> Dealt:
        """Of shape (B, L + 1)."""
        count = uniforms.shape[1]
        return cls(uniforms.contiguous(), count, 1, count - 1)


def totals_of(law: Tensor) -> Tensor:
    """Sums of rows, float64, shape (R,), in one pass; NaN where a row holds NaN or a negative number."""
    return _totals_of_chunks(law.contiguous()).sum(dim=1)


def checked_rows(law: Tensor, drift: float) -> Rows:
    """Rows of probabilities; sound are those whose total is 1 up to a drift, without negative numbers and NaN."""
    law = law.contiguous()
    sums = _totals_of_chunks(law)
    rows, chunks = sums.shape
    scale = torch.empty(rows, dtype=torch.float64, device=law.device)
    sound = torch.empty(rows, dtype=torch.int8, device=law.device)
    _kernels(law).settle_totals[(rows,)](sums, scale, sound, chunks, DRIFT=drift, LANES=lanes(chunks), **EXACT)
    return Rows(read_scaled(law, scale), sound.view(torch.bool))


def _totals_of_chunks(law: Tensor) -> Tensor:
    rows, vocab = law.shape
    chunks = -(-vocab // BLOCK)
    sums = torch.empty((rows, chunks), dtype=torch.float64, device=law.device)
    _kernels(law).sum_law[(rows, chunks)](law, sums, vocab, BLOCK=BLOCK, **EXACT)
    return sums


def rows_of(law: Tensor, total: Tensor, sound: Tensor) -> Rows:
    """Rows of probabilities, given their totals; those that are not sound have none."""
    return Rows(read_law(law, torch.where(sound, total, 1.0)), sound)


def verify_path_by_kernels(laws: PathLaws, tokens: Tensor, length: Tensor, dealt: Dealt) -> Accepted:
    """`otspec.verification.rules.block.tensors.verify_path` for laws in rows.

    Parameters
    ----------
    laws : PathLaws
    tokens : Tensor of int64, shape (B, L)
    length : Tensor of int64, shape (B,)
    dealt : Dealt
    """
    paths, levels = tokens.shape
    values, device = laws.target.read.values, tokens.device
    kernels, vocab = _kernels(values), values.shape[1]
    chunks = -(-vocab // BLOCK)
    draft = laws.target if laws.draft is None else laws.draft  # in place of what is not read
    factor, factor_row = laws.factor, laws.factor_row
    if factor is None or factor_row is None:
        factor, factor_row = dealt.uniforms, tokens
    weights = torch.empty((paths, levels + 1), dtype=torch.float64, device=device)
    rows = (part.contiguous() for part in (laws.target_row, laws.draft_row, factor_row, tokens, length))
    given = (*spread(laws.target), *spread(draft), factor.contiguous(), *rows, weights)
    fixed = {
        "LOGITS": laws.logits, "POINT": laws.draft is None, "FACTOR": laws.factor is not None, **of_groups(vocab),
        "LEVELS": levels, **EXACT,
    }  # fmt: skip
    kernels.weigh[(paths,)](*given, vocab, **fixed, LANES=lanes(levels))
    rest, whole = torch.empty((2, paths, levels + 1, chunks), dtype=torch.int64, device=device)
    kernels.sum_rest_along[(paths * (levels + 1), chunks)](*given, rest, whole, vocab, **fixed, BLOCK=BLOCK)
    accepted, token = torch.empty((2, paths), dtype=torch.int64, device=device)
    kernels.settle[(paths,)](
        *given, rest, whole, dealt.uniforms, accepted, token, vocab, chunks, *dealt[1:], **fixed, BLOCK=BLOCK,
        LANES=lanes(chunks), ROWS=min(lanes(levels + 1), SETTLED[0]), COLUMNS=min(lanes(chunks), SETTLED[1]),
    )  # fmt: skip
    return Accepted(accepted, token)


def _kernels(values: Tensor) -> Any:
    kernels_for(values)  # says what is missing
    from otspec.verification.rules.block import path_kernels

    return path_kernels
