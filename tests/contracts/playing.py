"""A target that plays with a drafter: step after step, as the loop does, with whatever tokens it likes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from otspec.decode import MultiDraft, Strategy
from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.drafters.several import SeveralDrafters
from tests.contracts.draft_models import Models, all_features
from tests.contracts.oracles import sampling_of
from tests.decode.models import logits_after


def deeper(strategy: Strategy) -> Strategy:
    """The same with trees of a level more than is enumerated; those that are told node by node as they are."""
    if getattr(getattr(strategy, "settings", strategy), "tree", None) is not None:
        return strategy
    if not isinstance(strategy, MultiDraft):
        other: Any = strategy
        return replace(other, depth=3) if hasattr(strategy, "depth") else strategy
    branching = strategy.settings.branching
    more: Any = {"depth": 3} if branching is None else {"branching": (*branching, 2)}
    return MultiDraft.of(strategy.draft, replace(strategy.settings, **more), strategy.matching)


def drawing(drafter: Drafter) -> list[LevelDrafter]:
    """Those of which a drafter is made that draw tokens from laws."""
    if isinstance(drafter, WrappedDrafter):
        return drawing(drafter.inner)
    if isinstance(drafter, SeveralDrafters):
        return list(drafter.drafters)
    return [drafter] if isinstance(drafter, LevelDrafter) else []


class Play:
    """A drafter at work on some texts, lists of tokens; settings are those of the target's sampling."""

    def __init__(
        self, strategy: Strategy, of: Models, texts: Sequence[Sequence[int]], settings: dict[str, Any], seed: int = 0
    ) -> None:
        self.of = of
        self.texts = [list(text) for text in texts]
        generator = torch.Generator().manual_seed(seed)
        self.drafter = strategy.prepare(of.vocab, sampling_of(of, **settings), generator).drafter
        self.drawn_from: list[Any] = []
        """Laws that the last drafts were drawn from, each of shape (V,)."""
        for one in drawing(self.drafter):
            one.law = one.law._replace(draw=self._noted(one.law))
        self.drafter.observe([self._features(text[:-1], 0) for text in self.texts])
        self.drafter.start([list(text) for text in self.texts])
        self._drafts = Drafts.fixed([[]] * len(self.texts))

    def _noted(self, law: DraftLaw) -> Callable[..., Any]:
        def draw(laws: Any, n: int, generator: Any) -> Any:
            self.drawn_from.extend(laws.flatten(0, -2))
            return law.draw(laws, n, generator)

        return draw

    def _features(self, text: list[int], start: int) -> Any:
        return (
            all_features(self.of.target, text, self.drafter.layers)[start:] if self.drafter.layers else torch.empty(0)
        )

    @property
    def depth(self) -> int:
        """How deep the drafter would go."""
        return self.drafter.depth(np.array([len(text) for text in self.texts]))

    def draft(self, depth: int) -> Drafts:
        """Ask for drafts, and answer them if they are fixed."""
        self.drawn_from.clear()
        self._drafts = self.drafter.draft([list(text) for text in self.texts], depth)
        if not len(self._drafts.laws):
            answers = [
                int(logits_after(self.of.target, text + tree.token[tree.line(node)].tolist()).argmax())
                for text, tree in zip(self.texts, self._drafts.trees, strict=True)
                for node in range(tree.size)
            ]
            self.drafter.learn(self._drafts.trees, answers)
        return self._drafts

    def go_on(self, nodes: Sequence[int], tokens: Sequence[int], rows: Sequence[int]) -> None:
        """Accept the drafts that lead to these nodes, put tokens after them, and go on with some of the texts."""
        trees = self._drafts.trees
        lines = [tree.line(node) for tree, node in zip(trees, nodes, strict=True)]
        self.drafter.commit([tree.slot[line].tolist() for tree, line in zip(trees, lines, strict=True)], rows)
        read = [[*text, *tree.token[line].tolist()] for text, tree, line in zip(self.texts, trees, lines, strict=True)]
        self.drafter.observe([self._features(read[row], len(self.texts[row]) - 1) for row in rows])
        self.texts = [[*read[row], tokens[row]] for row in rows]
        self._drafts = Drafts.fixed([[]] * len(rows))
