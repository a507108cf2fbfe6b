"""Speculative sampling of one draft, or of one path, in every form that an audit takes, lossless and biased."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import otspec
from otspec.auditing import Audit
from otspec.verification import Block, Tree, synthetic
from tests.auditing.decoder_rules import as_law, as_sampler, draw, single
from tests.auditing.known_bugs import drawn_from, token_wise_law
from tests.oracles import Floats, Ints

PAIRS = [([0.3, 0.2, 0.5], [0.1, 0.8, 0.1]), ([0.6, 0.0, 0.4], [0.3, 0.3, 0.4])]
MODELS = [synthetic("tiny", 2, seed) for seed in range(2)]

POSITION = partial(otspec.audit, n=1, instances=PAIRS)
PATH = partial(otspec.audit_paths, count=1, length=2, models=MODELS)
BATCHES = ("torch", "torch_uniforms")
LAWS = ("law", "plan", "verifier", "tree_law", "chains_law")
"""The forms whose rules can be enumerated."""


@dataclass(frozen=True)
class Form:
    """A form, with a rule that is lossless and one that is not."""

    name: str
    audit: Callable[..., Audit]
    """Waits for a rule and the settings; the form is passed on."""
    lossless: Any
    biased: Any

    @property
    def methods(self) -> list[str]:
        """How rules of this form can be audited."""
        return ["exact", "sampled"] if self.name in LAWS else ["sampled"]

    def run(self, rule: Any, **settings: Any) -> Audit:
        """Audit a rule of this form."""
        return self.audit(rule, form=self.name, **settings)


class NoBlock(Block):
    """Adds the next token from the target where it ought to come from the residual law."""

    def stop_law(self, tree: Tree) -> Floats:
        stops = super().stop_law(tree).sum(axis=1, keepdims=True)
        return stops * tree.target

    def verify(self, tree: Tree, rng: Any) -> Any:
        verdict = super().verify(tree, rng)
        return verdict._replace(token=int(rng.choice(tree.target.shape[1], p=tree.target[verdict.node])))


def always(p: Floats, q: Floats, drafts: Ints, *coins: Any) -> int:
    """Accepts its draft."""
    return int(drafts[0])


def by_uniforms(p: Floats, q: Floats, drafts: Ints, uniforms: Floats) -> int:
    tests, last = single(p, q, drafts)
    return next(
        (token for (token, passes), coin in zip(tests, uniforms[1:], strict=False) if coin < passes),
        draw(last, uniforms[0]),
    )


def of_rows(p: Any, coins: Any) -> Any:
    """A token of each row of p, drawn from it; coins is a generator of torch or has shape (B, m)."""
    import torch

    if isinstance(coins, torch.Generator):
        coins = torch.rand(len(p), 1, generator=coins, dtype=p.dtype)
    return (p.cumsum(1) <= coins[:, :1]).sum(1).clamp(max=p.shape[1] - 1)


def plan(problem: otspec.Problem, target: Callable[[Floats], Floats] = lambda p: p) -> Any:
    return otspec.solve(otspec.Problem(target(problem.p), problem.scheme)).plan


FORMS = [
    Form("rng", POSITION, as_sampler(single), always),
    Form("uniforms", POSITION, by_uniforms, always),
    Form("law", POSITION, as_law(single), lambda p, q, drafts: np.eye(p.size)[drafts[0]]),
    Form("plan", POSITION, plan, partial(plan, target=lambda p: p[::-1])),
    *(
        Form(name, POSITION, lambda p, q, d, coins: of_rows(p, coins), lambda p, q, d, coins: of_rows(q, coins))
        for name in BATCHES
    ),
    Form("verifier", PATH, Block(), NoBlock()),
    Form("tree", PATH, lambda tree, rng: Block().verify(tree, rng), lambda tree, rng: NoBlock().verify(tree, rng)),
    Form("tree_law", PATH, lambda tree: Block().stop_law(tree), lambda tree: NoBlock().stop_law(tree)),
    Form("chains", PATH, drawn_from(token_wise_law(1.0)), drawn_from(token_wise_law(0.4))),
    Form("chains_law", PATH, token_wise_law(1.0), token_wise_law(0.4)),
]
