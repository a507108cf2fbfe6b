"""Entry for drafted trees of tensors: trees are checked when their batch is made, and then a rule is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from otspec.errors import ProblemError
from otspec.verification.device.rows import WAYS, uniforms_of
from otspec.verification.rules.block.lines import verify_first_path
from otspec.verification.rules.nested.tensors import verify_nested
from otspec.verification.rules.token_wise.tensors import verify_token_wise
from otspec.verification.tensors.rows import KERNELS, runs_on
from otspec.verification.trees.batch import TreeBatch, TreeVerification
from otspec.verification.trees.checking import check_tokens, laws_of_slots, layout_of
from otspec.verification.trees.layout import Links

RULES = ("nested", "block", "interval")
GROUP = 64
"""Trees that are worked on together."""
MOST_SIGMA = 100
"""As in `otspec.verification.Nested`: beyond, the spread of the parts is out of floats."""


TreeRule = Callable[[TreeBatch, Tensor], TreeVerification]
"""Verifies B trees of S slots and L levels by uniforms of shape (B, S + L, 3)."""


def verify_trees(
    target: Tensor,
    draft: Tensor,
    tokens: Tensor,
    topology: Sequence[int] | Links,
    rng: torch.Generator | Tensor,
    *,
    rows: tuple[Tensor, Tensor] | None = None,
    rule: str = "nested",
    sigma: float = 0.5,
    by: str | None = None,
    kernels: bool | None = None,
    check: bool = False,
    logprobs: bool = False,
) -> TreeVerification:
    """Verify B drafted trees jointly where they are, without waiting for the device.

    A tree has S slots: slot 0, the root, is the text so far, each other slot holds one drafted token.  Siblings are
    independent draws from one law, that of their parent's prefix; equal ones are slots of their own.  Slots of equal
    prefixes have to have equal laws.

    Parameters
    ----------
    target : Tensor, shape (B, S, V)
        The target's law after the prefix of each slot: float64, float32, bfloat16 or float16, as in `verify_rows`.
    draft : Tensor, shape (B, I, V)
        The laws that the children of the first I slots were really drawn from: no other slot has children.
    tokens : Tensor of integers, shape (B, S)
        The token of each slot; that of the root is not read.
    topology : sequence of int, or Links
        How many children each slot of a level has, (K, 1, ..., 1) for K paths of L tokens, slots numbered level by
        level, the children of one slot side by side, as `otspec.verification.Shape` does it.  Or trees of their own:
        first children and next siblings.  The number of a slot's children may depend on its prefix and its place, and
        on no other draft.
    rng : torch.Generator or Tensor of float64, shape (B, S + L, 3)
        A generator on the device of the laws, or uniform numbers in [0, 1), independent of the drafts.  L is the number
        of levels, for links their `depth`.  Row s - 1 is for slot s, row S - 1 + i for the token after i accepted ones;
        docs/device.md explains each.
    rows : pair of Tensors of integers, shapes (B, S) and (B, I), optional
        Laws are then rows of tensors of shape (R, V), and these are their numbers: slots may share them.
    rule : str
        ``"nested"``, joint verification by labels on a grid; ``"block"``, block verification of the path of first
        children; or ``"interval"``, token by token.
    sigma : float
        Look-ahead of ``"nested"``, as in `otspec.verification.Nested`; 0 for none.
    by : str, optional
        How ``"interval"`` verifies the drafts of one text, as in `verify_rows`: ``"sorting"``, ``"buckets"``, or
        ``"triton"``.  By default the last with `kernels`, and the first without.
    kernels : bool, optional
        Whether Triton's kernels go over the laws; by default where the laws are on a GPU, and Triton is installed.
    check : bool
        Whether to wait for the device, and to raise an error that names what is wrong with the first tree that is not
        valid.
    logprobs : bool
        Whether the target's log-probabilities of the accepted tokens and of the token after them come with it.

    Returns
    -------
    TreeVerification

    Raises
    ------
    ProblemError
        If shapes, types or devices do not fit together, or there is no such rule; with `check`, also if a tree is not a
        problem.
    """
    verify, by_kernels = _rule(rule, sigma, by, kernels, tokens)
    if isinstance(tokens, Tensor) and tokens.ndim == 2 and len(tokens) == 0:
        none = _of_no_trees(target, draft, tokens, topology, rng, rows)
        of_levels = target.new_empty((0, none.slots.shape[1] + 1), dtype=torch.float64)
        return none._replace(logprobs=of_levels) if logprobs else none
    batch = TreeBatch.of(
        target, draft, tokens, topology, rows=rows, kernels=by_kernels, grouped=rule == "nested", check=check
    )
    shape = (tokens.shape[0], tokens.shape[1] + batch.layout.length, 3)
    uniforms = uniforms_of(rng, shape, tokens.device, "trees")
    parts = zip(batch.split(GROUP), uniforms.split(GROUP), strict=True)
    each = [verify(*part) for part in parts]
    if len(each) > 1:
        each = [TreeVerification(*map(torch.cat, zip(*(one.outputs for one in each), strict=True)))]
    return each[0]._replace(logprobs=batch.logprobs_of(each[0])) if logprobs else each[0]


def _of_no_trees(
    target: Tensor,
    draft: Tensor,
    tokens: Tensor,
    topology: Sequence[int] | Links,
    rng: torch.Generator | Tensor,
    rows: tuple[Tensor, Tensor] | None,
) -> TreeVerification:
    """The verification of an empty batch, whose shapes and types are checked as those of others are."""
    check_tokens(tokens)
    laws_of_slots(target, draft, tokens, rows)
    levels = layout_of(topology, tokens).length
    uniforms_of(rng, (0, tokens.shape[1] + levels, 3), tokens.device, "trees")
    of_levels, of_trees = (tokens.new_empty(shape, dtype=torch.int64) for shape in ((0, levels), (0,)))
    return TreeVerification(of_levels, of_levels, of_trees, of_trees, of_trees.bool())


def _rule(rule: str, sigma: float, by: str | None, kernels: bool | None, tokens: Tensor) -> tuple[TreeRule, bool]:
    """The rule of that name, and whether kernels go over the laws."""
    if rule not in RULES:
        raise ProblemError(f"rule is {rule!r}; known: {', '.join(RULES)}")
    if isinstance(sigma, bool) or not isinstance(sigma, int | float) or not 0 <= sigma <= MOST_SIGMA:
        raise ProblemError(f"sigma is {sigma!r}; it is between 0 (no look-ahead) and {MOST_SIGMA}")
    by_kernels = _by_kernels(rule, by, kernels, tokens)
    if rule == "nested":
        return partial(verify_nested, sigma=sigma, kernels=by_kernels), by_kernels
    if rule == "block":
        return partial(verify_first_path, kernels=by_kernels), by_kernels
    return partial(verify_token_wise, by=by or (KERNELS if by_kernels else "sorting")), by_kernels


def _by_kernels(rule: str, by: str | None, kernels: bool | None, tokens: Tensor) -> bool:
    """Whether kernels go over the laws."""
    if by is None:
        return isinstance(tokens, Tensor) and runs_on(tokens) if kernels is None else kernels
    if rule != "interval":
        raise ProblemError(f"by is {by!r}, and the rule {rule!r}; only 'interval' has several ways, so leave it out")
    if by not in WAYS:
        raise ProblemError(f"by is {by!r}; known: {', '.join(WAYS)}")
    if kernels is not None and kernels != (by == KERNELS):
        raise ProblemError(f"by is {by!r}, and kernels is {kernels}; 'triton' alone is by kernels, so pass one of them")
    return by == KERNELS
