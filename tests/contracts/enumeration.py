"""One step of a strategy with all that may come up in it, and the exact law of the text that it puts out.

The drafter drafts, the target reads and the laws come to the host as in decoding; only what is drawn is told.  Every
draw asks a script, which answers in each text of a batch something else, until all that can be drawn has been, with its
probability under the law that the drafter showed the draw.  What verification makes of each tree is its own exact law.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from otspec.decode import Strategy
from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.metrics import Clock
from otspec.decode.base.sampling import Prefix, Sampling
from otspec.decode.models.target import Target
from otspec.decode.verify.compact import CompactTree, compact_trees
from otspec.decode.verify.step import Greedy, OnHost, _gone_on, _matched, step_verifier
from otspec.decode.verify.verifiers import AcceptedTokens
from otspec.verification import LayerVerification, Model, TokenWise
from otspec.verification.reference.enumeration import PathLaw, law_over
from otspec.verification.trees.topology import NONE, Topology
from otspec.verification.trees.tree import prefixes_of
from tests.contracts.draft_models import Models
from tests.contracts.oracles import after_prompt, sampling_of
from tests.contracts.playing import drawing
from tests.oracles import Floats

Draws = tuple[tuple[int, ...], ...]
"""What one text draws at once: for each node of a level the tokens of its children."""


class Drawn(NamedTuple):
    """What a text has drawn so far."""

    chance: float
    draws: tuple[Draws, ...] = ()


class _MoreToDraw(Exception):
    """Something is drawn that the script does not say yet."""

    def __init__(self, rows: list[Drawn]) -> None:
        self.rows = rows


class Script:
    """Draws what it is told for each text of a batch; what it is not told yet, it tells all possibilities of."""

    def __init__(self, rows: list[Drawn]) -> None:
        self.rows = rows
        self.draw_number = 0

    def draw(self, law: DraftLaw, laws: Any, n: int, generator: Any) -> Any:
        """The tokens of n children, shape (B, W, n), of nodes with these laws, shape (B, W, V)."""
        number, self.draw_number = self.draw_number, self.draw_number + 1
        if number == len(self.rows[0].draws):
            raise _MoreToDraw(
                [more for row, own in zip(self.rows, laws, strict=True) for more in _all(row, law, own, n)]
            )
        return torch.tensor([row.draws[number] for row in self.rows])


def _all(row: Drawn, law: DraftLaw, laws: Any, n: int) -> Iterator[Drawn]:
    """What a text may draw next, below nodes with these laws, shape (W, V)."""
    each = []
    for q in laws.double().numpy():
        count = min(n, int(np.count_nonzero(q)))
        support = law.scheme(q, n if law.name in ("iid", "independent") else count).support()
        pad = (NONE,) * (n - support.drafts.shape[1])
        each.append(
            [
                (float(p), (*map(int, tokens), *pad))
                for p, tokens in zip(support.probabilities, support.drafts, strict=True)
            ]
        )
    for those in itertools.product(*each):
        chance = row.chance * math.prod(p for p, _ in those)
        if chance:
            yield Drawn(chance, (*row.draws, tuple(tokens for _, tokens in those)))


class Step(NamedTuple):
    """All that may be drafted after a prompt."""

    chances: list[float]
    drafts: Drafts
    logits: Any
    """Shape (N, V): of the target after the nodes of all trees."""


def every_draft(strategy: Strategy, of: Models, prompt: list[int], sampling: Sampling) -> Step:
    """Draft after a prompt, in as many texts as there are different drafts."""
    rows = [Drawn(1.0)]
    while True:
        drafter = strategy.prepare(of.vocab, sampling, torch.Generator().manual_seed(0)).drafter
        script = Script(rows)
        for one in drawing(drafter):
            one.law = one.law._replace(draw=partial(script.draw, one.law))
        texts = [prompt] * len(rows)
        target = Target(of.target, texts, drafter.layers)
        drafter.observe(target.features)
        drafter.start(texts)
        depth = drafter.depth(np.array([len(text) for text in texts]))
        try:
            drafts = drafter.draft(texts, depth) if depth else Drafts.fixed([[]] * len(texts))
        except _MoreToDraw as more:
            rows = more.rows
        else:
            return Step([row.chance for row in rows], drafts, target.read(texts, drafts.trees))


def law_of_step(strategy: Strategy, step: Step, of: Models, prompt: list[int], settings: dict[str, Any]) -> PathLaw:
    """The law of the text after a step, continued by the target, beside the target's own."""
    sampling, generator = sampling_of(of, **settings), torch.Generator().manual_seed(0)
    rule = strategy.prepare(of.vocab, sampling, torch.Generator().manual_seed(0)).verifier
    verifier = step_verifier(rule, sampling, np.random.default_rng(0), generator)
    trees, logits, model = step.drafts.trees, step.logits, after_prompt(settings, prompt, of.vocab)
    after = [Prefix(0, [*prompt, *path], len(path)) for tree in trees for path in prefixes_of(tree)]
    if isinstance(verifier, Greedy):
        chosen = verifier.prepare_target(logits, after)
        extensions = verifier.verify(step.drafts, chosen, Clock(torch.device("cpu"))).extensions
        each = [_certain(tree, one.nodes, one.token, of.vocab) for tree, one in zip(trees, extensions, strict=True)]
    elif not len(step.drafts.laws):
        seen = verifier.outcome(verifier.prepare_target(logits, after)).numpy()
        each = [_followed(tree, own) for tree, own in zip(trees, np.split(seen, len(trees)), strict=True)]
    else:
        assert isinstance(verifier, OnHost)
        judge = _judged if step.drafts.drawn is None else _judged_beside_fixed
        each = judge(verifier, step.drafts, verifier.prepare_target(logits, after), model)
    assert sum(step.chances) == pytest.approx(1.0)
    # As much of a tree as `law_over` looks at, and the law of what comes of it, by the last node that is accepted.
    made = (SimpleNamespace(parent=one.parent, token=one.token, law=law) for one, law in zip(trees, each, strict=True))
    over: Any = zip(step.chances, made, strict=True)
    shown: Any = SimpleNamespace(stop_law=lambda outcome: outcome.law)
    return law_over(over, shown, model, max(tree.length for tree in trees))


def _certain(tree: Topology, nodes: Sequence[int], token: int, vocab: int) -> Floats:
    law = np.zeros((tree.size, vocab))
    law[nodes[-1] if nodes else 0, token] = 1.0
    return law


def _followed(tree: Topology, targets: Floats) -> Floats:
    """Of fixed drafts: whatever the target draws at the nodes of the tree, shape (N, V), and what is accepted of it."""
    law = np.zeros(targets.shape)
    for drawn in itertools.product(*(np.flatnonzero(target).tolist() for target in targets)):
        [extension] = _matched([tree], np.array(drawn)).extensions
        chance = math.prod(float(target[token]) for target, token in zip(targets, drawn, strict=True))
        law[extension.last, extension.token] += chance
    return law


def _judged(verifier: OnHost, drafts: Drafts, targets: Any, model: Model) -> list[Floats]:
    """Of drafts with laws: what a rule does with each tree as it is shown it."""
    shown = compact_trees(drafts, verifier._to_host(drafts, targets))
    rule, laws = verifier.verifier, []
    if isinstance(rule, TokenWise | LayerVerification):
        rule = replace(rule, cache_size=1000)  # trees have nodes in common
    for tree, local in zip(drafts.trees, shown, strict=True):
        seen = rule.stop_law(local.tree)
        laws.append((_placed if local.drawn is None else _spread)(tree, local, seen, model))
    return laws


def _judged_beside_fixed(verifier: OnHost, drafts: Drafts, targets: Any, model: Model) -> list[Floats]:
    """The same with fixed paths beside them: whatever the target draws after each of their nodes."""
    starts = np.cumsum([0, *(tree.size for tree in drafts.trees)])
    assert drafts.drawn is not None
    rows = np.concatenate([start + part.node for start, part in zip(starts, drafts.drawn, strict=False)])
    judged, laws = _judged(verifier, drafts.without_fixed(), targets[rows], model), []
    for tree, part, seen, start in zip(drafts.trees, drafts.drawn, judged, starts, strict=False):
        own = verifier.outcome(targets[start : start + tree.size]).numpy()
        fixed = np.setdiff1d(np.arange(tree.size), part.node)
        law, tokens = np.zeros(own.shape), np.full(tree.size, NONE)
        law[part.node] = seen
        for drawn in itertools.product(*(np.flatnonzero(own[node]).tolist() for node in fixed)):
            chance = math.prod(float(own[node, token]) for node, token in zip(fixed, drawn, strict=True))
            tokens[fixed] = drawn
            for parent, token in zip(tree.parent[fixed].tolist(), tree.token[fixed].tolist(), strict=True):
                if parent not in fixed:  # where what was drawn from laws ends, and the fixed path goes on
                    found = _gone_on(tree, AcceptedTokens(tree.line(parent), token), tokens.tolist())
                    moved = chance * seen[np.flatnonzero(part.node == parent)[0], token]
                    law[parent, token] -= moved
                    law[found.nodes[-1], found.token] += moved
        laws.append(law)
    return laws


def _placed(tree: Topology, local: CompactTree, seen: Floats, model: Model) -> Floats:
    """A law over the tokens that were shown, over all of them."""
    law = np.zeros((tree.size, len(model.target(()))))
    np.put_along_axis(law, local.tokens, seen, axis=1)
    return law


def _spread(tree: Topology, local: CompactTree, seen: Floats, model: Model) -> Floats:
    """The same where all tokens that a node cannot draft were shown as one: it stands for each by the target's law."""
    law = np.zeros((tree.size, len(model.target(()))))
    assert local.drawn is not None
    for node, (tokens, drawn, own) in enumerate(zip(local.tokens, local.drawn, seen, strict=True)):
        apart = (tokens != NONE) & (node in tree.drafted_after)
        assert not own[:-1][~apart].any()
        law[node, tokens[apart]] = own[:-1][apart]
        target = model.target(tuple(tree.token[tree.line(node)].tolist()))
        others = np.where(np.isin(np.arange(law.shape[1]), tokens[apart]), 0.0, target)
        # The token that the rest stands for is one of them; where nothing is drafted, it may be drawn later.
        assert (own[-1] > 0) <= (others[drawn] > 0) or (drawn == NONE and node not in tree.drafted_after)
        law[node] += own[-1] * others / max(others.sum(), 1e-300)
    return law
