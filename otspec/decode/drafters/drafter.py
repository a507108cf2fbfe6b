"""The interface of drafters: they return trees of tokens after texts, and are called with what they may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch

from otspec.decode.base.drafts import Drafts, Launched, Outcome
from otspec.decode.models.context import Pass
from otspec.laws import IntArray
from otspec.verification.trees.topology import Topology


class Drafter(ABC):
    """Proposes how texts go on.

    The loop calls `start` once, and then in every step `depth`, `draft` if there is room for a draft, and `commit` if a
    text goes on.  It also calls `observe` and `learn`, which do nothing by default.
    """

    phase: ClassVar[str] = "draft"
    """What its time counts as in `Metrics.seconds`."""

    @property
    def passes(self) -> Sequence[Pass]:
        """The passes of its model so far, prompts apart; none without a model."""
        return ()

    @property
    def layers(self) -> Sequence[int]:
        """After how many of the target's layers it receives hidden states: from 0, the embedding, to all of them."""
        return ()

    def observe(self, features: Sequence[torch.Tensor]) -> None:
        """Take hidden states of the target; called before `start` and after every `commit`; empty without `layers`.

        Parameters
        ----------
        features : sequence of Tensors, shape (tokens, layers, width)
            For each text at its tokens since the last call, in order: first of its prompt, then of the last token of
            the text before the step and of what was accepted.  Those of the text's last token are never there: the
            target has not read it.
        """

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts, B lists of tokens."""

    @abstractmethod
    def depth(self, lengths: IntArray) -> int:
        """How many tokens a path may have after texts of these lengths, shape (B,); 0 if no draft is to be made."""

    @abstractmethod
    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft at most `depth` >= 1 tokens a path, after each of the B texts."""

    def launch(self, texts: Sequence[Sequence[int]], depth: int) -> Launched | None:
        """Draft as `draft` does, before the host reads the drafts; None, with nothing done, where it has to."""
        return None

    def launch_next(self, drafts: Launched, outcome: Outcome, states: torch.Tensor | None) -> None:
        """Launch the drafts of the next step before the host knows what this one accepts, where that can be done.

        If the text goes on, `launch` is called next, as deep as in this step.

        Parameters
        ----------
        drafts : Launched
            Of this step.
        outcome : Outcome
            What it accepts of them.
        states : Tensor, shape (B, S or more, layers, width), optional
            Of the target, at all slots; None without `layers`.
        """

    def learn(self, trees: Sequence[Topology], tokens: Sequence[int]) -> None:
        """Take the tokens that the target put after each node of all trees, one tree after the other.

        Called where drafts are fixed, or decoding is greedy; with the nodes that become no text as well.
        """

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what became text, and drop the rest.

        Parameters
        ----------
        accepted : sequence of lists of int
            Of each text, the slots of its accepted tokens.
        rows : sequence of int
            Which texts go on.
        """


class NoDrafter(Drafter):
    """Drafts nothing: plain sampling from the target."""

    phase = "target"

    def depth(self, lengths: IntArray) -> int:
        """0."""
        return 0

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """No drafts."""
        return Drafts.fixed([[]] * len(texts))


class WrappedDrafter(Drafter):
    """A drafter around another one, to which it passes on all calls."""

    def __init__(self, drafter: Drafter) -> None:
        self.inner = drafter

    @property
    def passes(self) -> Sequence[Pass]:
        """Of the drafter inside."""
        return self.inner.passes

    @property
    def layers(self) -> Sequence[int]:
        """Of the drafter inside."""
        return self.inner.layers

    def observe(self, features: Sequence[torch.Tensor]) -> None:
        """Pass them on to the drafter inside."""
        self.inner.observe(features)

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        self.inner.start(texts)

    def depth(self, lengths: IntArray) -> int:
        """As deep as the drafter inside goes."""
        return self.inner.depth(lengths)

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        return self.inner.draft(texts, depth)

    def learn(self, trees: Sequence[Topology], tokens: Sequence[int]) -> None:
        """Pass them on to the drafter inside."""
        self.inner.learn(trees, tokens)

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted."""
        self.inner.commit(accepted, rows)


class FixedDrafter(WrappedDrafter):
    """A drafter that draws nothing by chance: its drafts are verified as fixed ones, and no law is sent."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """The same trees."""
        return Drafts.fixed_trees(self.inner.draft(texts, depth).trees)
