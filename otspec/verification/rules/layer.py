"""Layer verification: a rule for one position scores the drafts, and a sweep over the layers finds where to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_generator, draw
from otspec.plans import Coupling, FixedTests, Match, Pick, Plan, Sequential, canonical_decomposition
from otspec.schemes import IID
from otspec.verification.rules.protocol import PathVerification
from otspec.verification.rules.token_wise.token_wise import CachedPlans, Solvers
from otspec.verification.trees.tree import Tree, check_tree


class Scores(NamedTuple):
    """How a rule for one position scores its drafts."""

    score: FloatArray
    """Shape (n,): what each draft gets, given all of them; they sum to 1 at most."""
    mean: FloatArray
    """Shape (V,): the mean over all drafts of what a token gets in total."""


class Step(NamedTuple):
    """A node whose children were revealed."""

    node: int
    missing: FloatArray
    """Shape (V,): the node's mass times p, less the mean mass of the children."""
    slack: float
    """1 less the masses of the frontier before."""


class Swept(NamedTuple):
    """The masses of a tree."""

    steps: list[Step]
    leaf: IntArray
    """Shape (leaves,): the nodes of the last level."""
    mass: FloatArray
    """Shape (leaves,): of each of them; they sum to 1 at most."""


@dataclass(frozen=True)
class LayerVerification:
    """Layer verification [cha2026layer]: a rule for one position scores the nodes, a sweep finds where to stop.

    Every drafted prefix has a *mass*, the chance that it is accepted as it stands once its layer is known.  A node's
    mass, and all that no node of the frontier has, is the budget of its children: a child gets the budget times its
    score by the rule, capped such that its mean is at most the node's mass times p.  From the leaves back, the sweep
    stops at each node with the chance that makes up for what its children are short of.  `docs/paths.md` has
    statement and proof; of the published rule only the abstract is known to us, and what it leaves open is ours.

    One path, and one level, are verified as well as they can be: block verification, and the rule itself.

    Parameters
    ----------
    solver : str, Solver, a chain of them, or None
        As `otspec.solve` takes it: the rule for one position, for n i.i.d. drafts.
    cache_size : int
        How many plans to cache, for callers that come back to the same few laws (enumeration).

    Raises
    ------
    ProblemError
        If `cache_size` is no integer >= 0; on verification, if the rule does not score drafts.

    Examples
    --------
    >>> import otspec
    >>> from otspec.verification import LayerVerification, synthetic, tree_law
    >>> model = synthetic("tiny", vocab=3)
    >>> problem = otspec.Problem(model.target(()), otspec.IID(model.draft(()), n=2))
    >>> accepted = tree_law(LayerVerification("interval"), model, (2,)).mean_accepted
    >>> print(f"{accepted:.3f} = {otspec.solve(problem).plan.acceptance:.3f}")  # for one level, it is the rule itself
    0.651 = 0.651
    """

    solver: Solvers = "interval"
    cache_size: int = 0
    _plan: CachedPlans = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_plan", CachedPlans(self.solver, IID, self.cache_size))

    @property
    def exchangeable(self) -> bool:
        """Nodes of a layer are taken in the order in which they were drafted."""
        return False

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Stop at a leaf by its mass; or go back through the nodes until one stops."""
        check_tree(tree)
        rng, swept = as_generator(rng, 1), self._sweep(tree)
        point = rng.random() - np.cumsum(swept.mass)
        if point.size and point[-1] < 0.0:
            node = int(swept.leaf[np.argmax(point < 0.0)])
            return PathVerification(node, tree.length, int(draw(tree.target[node], rng)))
        for node, missing, slack in reversed(swept.steps):
            total = missing.sum()
            if rng.random() * (total + slack) < total:
                return PathVerification(node, int(tree.depth[node]), int(draw(missing / total, rng)))
        return PathVerification(0, 0, int(draw(tree.target[0], rng)))  # up to rounding, the root stops for certain

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law, swept = np.zeros_like(tree.target), self._sweep(tree)
        law[swept.leaf] = swept.mass[:, None] * tree.target[swept.leaf]
        chance = max(1.0 - swept.mass.sum(), 0.0)
        for node, missing, slack in reversed(swept.steps):
            total = missing.sum()
            if total > 0.0:
                law[node] += chance * (missing / (total + slack))
                chance *= slack / (total + slack)
        law[0] += chance * tree.target[0]
        return law

    def _sweep(self, tree: Tree) -> Swept:
        """Masses from the root down."""
        steps: list[Step] = []
        mass, nodes = np.zeros(tree.size), np.zeros(1, dtype=np.int64)
        mass[0] = 1.0
        for level in range(tree.length):
            passed = 0.0
            waiting = np.append(np.cumsum(mass[nodes][::-1])[::-1], 0.0)
            following: list[IntArray] = []
            for number, node in enumerate(nodes.tolist()):
                slack = max(1.0 - passed - float(waiting[number]), 0.0)
                budget = float(mass[node]) + slack
                drafts = tree.drafts(np.flatnonzero(tree.node[:, level] == node), level + 1)
                score, mean = scores(self._plan(tree.target[node], tree.draft[node], drafts.size), drafts)
                wanted, offered = mass[node] * tree.target[node], budget * mean
                steps.append(Step(node, np.maximum(wanted - offered, 0.0), slack))
                children = tree.children[node]
                for child, token in zip(children.tolist(), tree.token[children].tolist(), strict=True):
                    share = wanted[token] / offered[token] if wanted[token] < offered[token] else 1.0
                    mass[child] = budget * score[drafts == token].sum() * share if wanted[token] > 0.0 else 0.0
                    passed += float(mass[child])
                following.append(children)
            nodes = np.concatenate(following)
        return Swept(steps, nodes, mass[nodes])


def scores(plan: Plan, drafts: IntArray) -> Scores:
    """What a plan gives to each draft: the chance that it is picked; or that it is put out for having been drafted.

    Raises
    ------
    ProblemError
        If the plan does not score drafts.
    """
    if isinstance(plan, Coupling):
        plan = canonical_decomposition(plan)
    if isinstance(plan, Pick):
        return Scores(plan.rule.weights(drafts), plan.proposal)
    if isinstance(plan, Match):
        _, first = np.unique(drafts, return_index=True)
        score = np.zeros(drafts.size)
        score[first] = plan.problem.p[drafts[first]]
        return Scores(score, plan.problem.p * plan.inclusion)
    if isinstance(plan, Sequential) and isinstance(plan.rule, FixedTests):
        score, left = np.zeros(drafts.size), 1.0
        for number, (_, passes) in enumerate(plan.rule.tests(drafts)):
            score[number] = left * passes
            left *= 1.0 - passes
        return Scores(score, plan.rule.accepted)
    raise ProblemError(
        f"a {type(plan).__name__} does not score each draft; layer verification takes rules that pick a "
        'draft, such as solver="interval", or test them one by one, such as solver="kseq"'
    )
