"""How often a drafter's i-th likeliest token is the text's, by depth: what a static tree is made of [cai2024medusa]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from transformers import LogitsProcessorList

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.catalogue import drafter_of, selection_of
from otspec.decode.methods.assisted import plain
from otspec.decode.models.context import vocabulary
from otspec.decode.models.target import Target
from otspec.decode.pair.loading import Models, batch_of
from otspec.decode.recording.positions import check_room
from otspec.decode.step.strategy import listed
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_count
from otspec.schemes import IID
from otspec.verification.trees.shape import Shape

TOGETHER = 16
"""Texts that are read together."""


def accuracies(
    models: Models,
    prompts: Sequence[Sequence[int]],
    *,
    depth: int = 4,
    ranks: int = 10,
    new: int = 64,
    temperature: float = 0.0,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] = lambda texts: None,
) -> FloatArray:
    """At depth d and rank i: how often the i-th likeliest token is the text's, where all drafts before are.

    The target writes texts.  At every place of each the drafter is made to draft what the text has next, so that at
    depth d it has read d - 1 tokens of it, and its own law gives the rank of the next.

    Parameters
    ----------
    models : Models
    prompts : sequence of sequences of int
    depth, ranks : int
        L and R.
    new : int
        Tokens of a text.
    temperature : float
        Of the texts; 0 writes the likeliest tokens.
    seed : int
    settings : mapping, optional
        ``draft_tokens``, ``draft_kernel`` or ``draft_shortlist``, as `DraftSettings` has them.
    progress : callable
        Called with the number of texts just dealt with.

    Returns
    -------
    ndarray, shape (L, R)
        Each row falls, as that of a drafter which knows its own likeliest tokens: neighbours that are not in order are
        put together.

    Raises
    ------
    ProblemError
        If a number is no count, there is no draft model, or it drafts less deep, or no text is as long as that.

    Examples
    --------
    >>> from otspec.decode.pair.loading import load_models
    >>> from otspec.decode.recording.accuracies import accuracies
    >>> from otspec.decode.shipped import held_out
    >>> accuracies(load_models("shipped", "shipped"), held_out(tokens=16)[:2], depth=2, ranks=3, new=8).shape
    (2, 3)
    """
    for name, count in (("depth", depth), ("ranks", ranks), ("new", new)):
        as_count(name, count)
    if not models.drafts:
        raise ProblemError("accuracies are of what a draft model drafts; pass one")
    check_room(prompts, new, models)
    hits, places = np.zeros((depth, ranks)), 0
    for start in range(0, len(prompts), TOGETHER):
        own = [list(prompt) for prompt in prompts[start : start + TOGETHER]]
        batch = batch_of(own, models.target.device)
        written = plain(models.target, **batch, temperature=temperature, max_new_tokens=new, seed=seed + start)
        texts = [prompt + more for prompt, more in zip(own, written.new_tokens, strict=True)]
        with torch.inference_mode():
            for found in _ranks(models, texts, [len(prompt) for prompt in own], depth, settings or {}):
                places += len(found)
                text, level = np.nonzero(found < ranks)
                np.add.at(hits, (level, found[text, level]), 1)
        progress(len(own))
    if not places:
        message = "request more of them, pass prompts that the target goes on with, or a tree less deep"
        raise ProblemError(f"no text has {depth} new tokens; {message}")
    return np.array([isotonic_regression(row / places, increasing=False).x for row in hits])


def _ranks(
    models: Models, texts: Sequence[Sequence[int]], begin: Sequence[int], depth: int, settings: Mapping[str, Any]
) -> list[IntArray]:
    """Of the tokens that follow some texts, at each place the ranks, shape (texts that are as long, depth)."""
    vocab, forced = vocabulary(models.target), Forced()
    drafts = listed(models.drafts)
    drafter = drafter_of(
        drafts, Shape.paths(1, depth), forced.law, Whole(), vocab, torch.Generator(models.target.device),
        selection_of(drafts, **settings, matching=models.matching), models.matching,
    )  # fmt: skip
    going = [row for row, text in enumerate(texts) if len(text) - begin[row] >= depth]
    if not going:
        return []
    length = list(begin)
    now = [texts[row][: length[row]] for row in going]
    target = Target(models.target, now, drafter.layers)
    drafter.observe(target.features)
    drafter.start(now)
    found = []
    while going:
        now = [texts[row][: length[row]] for row in going]
        if (deepest := drafter.depth(np.array([len(text) for text in now]))) < depth:
            raise ProblemError(f"the draft model drafts {deepest} tokens at most, and depth is {depth}; pass less")
        forced.begin([texts[row][length[row] : length[row] + depth] for row in going], models.target.device)
        drafter.draft(now, depth)
        found.append(np.stack(forced.ranks, axis=1))
        target.read(now, Drafts.fixed([[]] * len(now)).trees)
        for row in going:
            length[row] += 1
        rows = [at for at, row in enumerate(going) if len(texts[row]) - length[row] >= depth]
        if not rows:
            break
        going = [going[at] for at in rows]
        target.commit([[]] * len(now), rows)
        drafter.commit([[]] * len(now), rows)
        drafter.observe(target.features)
    return found


class Forced:
    """A draft law that draws the tokens of a text, level by level, and records how likely they were."""

    def __init__(self) -> None:
        self.law = DraftLaw("forced", self._draw, IID)

    def begin(self, following: Sequence[Sequence[int]], device: torch.device) -> None:
        """Begin a path of each text, shape (B, depth)."""
        self._following = torch.tensor(following, device=device)
        self.ranks: list[IntArray] = []
        """Of each level: how many tokens are likelier, shape (B,); more than there are where it cannot be drafted."""

    def _draw(self, laws: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
        token = self._following[:, len(self.ranks), None, None]
        chance = laws.gather(-1, token)
        rank = torch.where(chance > 0, (laws > chance).sum(dim=-1, keepdim=True), laws.shape[-1])
        self.ranks.append(rank.flatten().cpu().numpy())
        return token


class Whole(Sampling):
    """The draft model's own laws, over all tokens of the target."""

    def __init__(self) -> None:
        super().__init__(LogitsProcessorList(), do_sample=True)

    @property
    def by_values(self) -> bool:
        """No: tokens are identified by their ids."""
        return False
