"""Dynamic trees: the tokens that a draft model finds likeliest, by its laws read anew."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from otspec.decode import Budget
from otspec.decode.methods import DynamicTree
from tests.contracts import catalogue
from tests.contracts.catalogue import Law, eagle_of, heads, of_eagle, of_heads, plain, router, sharing
from tests.contracts.draft_models import Models, models
from tests.contracts.playing import Play
from tests.each import each

pytestmark = pytest.mark.usefixtures("no_gradients")

VOCAB, DEPTH = 8, 3
TEXTS = ([3, 1, 4, 1, 5], [2, 7], [6])
FALLING = Budget(2, falling=2)
Prefix = tuple[int, ...]


class Kind(NamedTuple):
    """A draft model, and the law of its next draft."""

    make: Callable[[Models], Any]
    law: Law
    at_once: bool = False
    """Whether laws do not depend on drafts, so that no level is cut to a width."""
    router: Callable[[Models], Any] | None = None

    def after(self, of: Models, text: list[int]) -> Callable[[Prefix], Any]:
        """The law after a text and drafts."""
        own = cache(lambda prefix: self.law(of, text, list(prefix), 0))
        return (lambda prefix: own((0,) * len(prefix))) if self.at_once else own


KINDS: Mapping[str, Kind] = {
    "plain": Kind(lambda of: of.draft, plain()),
    "eagle": Kind(eagle_of, of_eagle(eagle_of)),
    "parallel": Kind(sharing(2), catalogue.of_shared(sharing(2)), at_once=True),
    "parallel, some tokens": Kind(sharing(2, False), catalogue.of_shared(sharing(2, False)), at_once=True),
    "medusa": Kind(lambda of: heads("medusa", of.target, 0.1), of_heads("medusa"), at_once=True),
    "mlp": Kind(lambda of: heads("mlp", of.target, 0.1), of_heads("mlp")),
    "routed": Kind(lambda of: of.draft, catalogue.of_routed(FALLING), router=router(FALLING)),
}


def _likeliest(law: Callable[[Prefix], Any], width: int, size: int) -> set[Prefix]:
    """What the published algorithms draft, prefix by prefix."""
    frontier: list[tuple[float, Prefix]] = [(0.0, ())]
    reached: list[tuple[float, Prefix]] = []
    for _ in range(DEPTH):
        after = [
            (chance + math.log(q[token]), (*prefix, token))
            for chance, prefix, q in ((chance, prefix, law(prefix)) for chance, prefix in frontier)
            for token in (-q).argsort()[:width].tolist()
            if q[token] > 0
        ]
        frontier = sorted(after, reverse=True)[:width]
        reached += after
    return {prefix for _, prefix in sorted(reached, reverse=True)[:size]}


@pytest.mark.parametrize("kind", KINDS)
@each(shape=[(1, 9), (2, 4), (2, 99), (3, 7)])
def test_the_likeliest_tokens_are_drafted(kind: str, shape: tuple[int, int]) -> None:
    """At once, and after a step that accepted a path to a leaf, where nothing has been read, in a batch."""
    of, own, (width, size) = models(VOCAB), KINDS[kind], shape
    shortlist = {} if own.router is None else {"draft_shortlist": own.router(of)}
    play = Play(DynamicTree(own.make(of), width, DEPTH, size, **shortlist), of, TEXTS, {})
    for step in range(2):
        trees = play.draft(DEPTH).trees
        for text, tree in zip(play.texts, trees, strict=True):
            drafted = {tuple(tree.token[tree.line(node)].tolist()) for node in range(1, tree.size)}
            assert drafted == _likeliest(own.after(of, text), VOCAB**DEPTH if own.at_once else width, size), step
        deepest = [int(tree.depth.argmax()) for tree in trees]
        play.go_on([0, *deepest[1:]][: len(trees)], [3] * len(trees), [0, len(trees) - 1])
