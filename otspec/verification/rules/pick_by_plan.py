"""Trees whose siblings are drawn jointly: pick a child at every node by a one-position plan, then block-verify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_generator, draw
from otspec.plans import Coupling, Pick, canonical_decomposition
from otspec.problem import Problem
from otspec.schemes import DraftScheme
from otspec.solver import Solver
from otspec.solving import solve
from otspec.verification.rules.block.block import Picked, PickVerifier
from otspec.verification.trees.tree import Tree, check_callable


@dataclass(frozen=True)
class PickByPlan(PickVerifier):
    """Verify a tree in which every inner node has the children that a draft scheme drew there.

    From the root down, the plan of each node picks one of its children; the path so picked is block-verified against
    the plans' proposals.  The children of a node have to be independent of all else, given the node; how they depend on
    each other is the scheme's business.  Paths of such a tree are all its branches, siblings in the order of drawing.

    Parameters
    ----------
    scheme : callable
        Draft law q, shape (V,), to the scheme of a node's children, which draws distinct tokens:
        ``lambda q: otspec.Greedy(q, 2)``.
    solver : str or Solver, optional
        As `otspec.solve` takes it; its plans are pick rules, or couplings.

    Raises
    ------
    ProblemError
        If the scheme cannot be called; on verification, if the plans pick no draft, or a node has fewer children than
        the scheme draws tokens.

    Examples
    --------
    >>> import otspec
    >>> from otspec.verification import PickByPlan, synthetic
    >>> rule = PickByPlan(lambda q: otspec.WithoutReplacement(q, n=2))
    >>> model = synthetic("tiny", vocab=4)
    >>> tree = model.tree(otspec.WithoutReplacement(model.draft(()), n=2).sample(0)[:, None])
    >>> print(f"accepted with probability {rule.stop_law(tree)[1:].sum():.2f}")
    accepted with probability 0.97
    """

    scheme: Callable[[FloatArray], DraftScheme]
    solver: str | Solver | None = None

    def __post_init__(self) -> None:
        check_callable("scheme", self.scheme)

    @property
    def exchangeable(self) -> bool:
        """The order of siblings may matter to the scheme."""
        return False

    def pick(self, tree: Tree, rng: Seed) -> Picked:
        """Pick a child at every node of the picked path."""
        rng, node, proposal = as_generator(rng, 1), 0, np.empty((tree.length, tree.target.shape[1]))
        for i in range(tree.length):
            plan = self._plan(tree, node)
            proposal[i] = plan.proposal
            node = int(tree.children[node][draw(plan.rule.weights(self._drafts(tree, node)), rng)])
        return Picked(int(np.flatnonzero(tree.node[:, -1] == node)[0]), proposal)

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability of picking each path, shape (K,), and the proposal laws along each."""
        chance = np.ones(len(tree.parent))
        plans = [self._plan(tree, node) for node in range(tree.inner)]
        for node, plan in enumerate(plans):
            chance[tree.children[node]] = chance[node] * plan.rule.weights(self._drafts(tree, node))
        proposals = [np.array([plans[node].proposal for node in nodes[:-1]]) for nodes in tree.node]
        return chance[tree.node[:, -1]], proposals

    def _drafts(self, tree: Tree, node: int) -> IntArray:
        return tree.token[tree.children[node]]

    def _plan(self, tree: Tree, node: int) -> Pick:
        scheme = self.scheme(tree.draft[node])
        if len(tree.children[node]) != scheme.n:
            raise ProblemError(
                f"node {node} has {len(tree.children[node])} children, and {type(scheme).__name__} draws {scheme.n}; "
                "each child is a draft of its own, so the scheme has to draw distinct tokens"
            )
        plan = solve(Problem(tree.target[node], scheme), self.solver).plan
        if isinstance(plan, Coupling):
            return canonical_decomposition(plan)
        if not isinstance(plan, Pick):
            by = "the solver of choice" if self.solver is None else f"solver {self.solver}"
            raise ProblemError(
                f"{by} answers for {type(scheme).__name__} with a {type(plan).__name__}, which picks no draft; "
                'pass a solver whose plans do, such as solver="max_flow"'
            )
        return plan
