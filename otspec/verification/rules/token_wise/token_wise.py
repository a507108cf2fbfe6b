"""One token at a time: any solver of the registry at every node, for as many drafts as survive [sun2023spectr]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_generator
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme
from otspec.solver import Solver
from otspec.solving import solve
from otspec.verification.rules.protocol import PathVerification
from otspec.verification.trees.topology import NONE
from otspec.verification.trees.tree import Tree, check_callable, check_tree

Solvers = str | Solver | Sequence[str | Solver] | None
"""What `otspec.solve` takes: a solver, a chain of them, or None for the solver of choice."""
Scheme = Callable[[FloatArray, int], DraftScheme]
"""Draft law q and number of drafts n to the law of the drafts."""


@dataclass(frozen=True)
class TokenWise:
    """Verify the next tokens of the surviving paths as i.i.d. drafts; the paths that agree with the output survive.

    Given the prefix and their number, the survivors' next tokens are i.i.d. from the draft law: nothing else was
    read.  That is what makes the rule lossless, and why n is the number of survivors, not K.  In a tree whose
    paths share draws, n is the number of draws below the surviving ones.  Paths may end at different depths.

    Parameters
    ----------
    solver : str, Solver, a chain of them, or None
        As `otspec.solve` takes it.
    cache_size : int
        How many plans to cache, for callers that come back to the same few laws (enumeration).
    exchangeable : bool
        Whether the solver's plans treat all orders of the drafts alike, as optimal ones do and K-SEQ's do not:
        enumeration then goes over one order alone.
    scheme : callable
        q and n to the law of the drafts at a node.  Other than `IID`, one that draws distinct tokens jointly: siblings
        are then different, and one draw survives.  Or one of independent drafts, each from its own row of q, (n, V),
        for trees with laws of that kind.

    Raises
    ------
    ProblemError
        If `cache_size` is no integer >= 0, or the scheme cannot be called.

    Examples
    --------
    >>> from otspec.verification import TokenWise, path_law, synthetic
    >>> model = synthetic("tiny", vocab=2)
    >>> for solver in "single", "kseq", "interval":
    ...     print(f"{solver}: {path_law(TokenWise(solver), model, 2, 2).mean_accepted:.3f}")
    single: 1.539
    kseq: 1.584
    interval: 1.720
    """

    solver: Solvers = "interval"
    cache_size: int = 0
    exchangeable: bool = False
    scheme: Scheme = IID
    _plan: CachedPlans = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_callable("scheme", self.scheme)
        object.__setattr__(self, "_plan", CachedPlans(self.solver, self.scheme, self.cache_size))

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Accept token by token while a path agrees with the output."""
        check_tree(tree)
        rng, node, alive, accepted = as_generator(rng, 1), 0, np.arange(tree.count), 0
        while (alive := _going_on(tree, alive, accepted)).size:
            drafts = tree.drafts(alive, accepted + 1)
            token = self._plan(tree.target[node], _law(tree, node, alive, accepted), drafts.size).sample(drafts, rng)
            alive = alive[tree.token[tree.node[alive, accepted + 1]] == token]
            if not alive.size:
                return PathVerification(node, accepted, token)
            node, accepted = int(tree.node[alive[0], accepted + 1]), accepted + 1
        return PathVerification(node, accepted, int(rng.choice(tree.target.shape[1], p=tree.target[node])))

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law = np.zeros_like(tree.target)
        self._go_on(tree, law, 1.0, np.arange(tree.count), 0)
        return law

    def _go_on(self, tree: Tree, law: FloatArray, chance: float, alive: IntArray, accepted: int) -> None:
        """Add what follows, with this chance, once the paths alive have their first tokens accepted."""
        node = tree.node[alive[0], accepted]
        alive = _going_on(tree, alive, accepted)
        if not alive.size:
            law[node] += chance * tree.target[node]
            return
        drafts = tree.drafts(alive, accepted + 1)
        drawn_from = _law(tree, int(node), alive, accepted)
        output = self._plan(tree.target[node], drawn_from, drafts.size).conditional(drafts)
        stopped = chance * output
        stopped[drafts] = 0.0
        law[node] += stopped
        for token in np.unique(drafts):
            if output[token] > 0:
                agree = alive[tree.token[tree.node[alive, accepted + 1]] == token]
                self._go_on(tree, law, chance * output[token], agree, accepted + 1)


def _going_on(tree: Tree, alive: IntArray, accepted: int) -> IntArray:
    """Those of some paths that have more tokens than were accepted."""
    return alive[:0] if accepted == tree.length else alive[tree.node[alive, accepted + 1] != NONE]


def _law(tree: Tree, node: int, alive: IntArray, accepted: int) -> FloatArray:
    """What the next tokens of the paths alive were drawn from: (V,), or (n, V) where each has a law of its own."""
    law: FloatArray = tree.draft[node] if tree.draft.ndim == 2 else tree.draft[alive, accepted]
    return law


class CachedPlans:
    """Plans by laws and number of drafts; the last few are cached."""

    def __init__(self, solver: Solvers, scheme: Scheme, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
            raise ProblemError(f"cache_size is {size!r}; pass how many plans to cache, 0 for none")
        self.solver = solver
        self.scheme = scheme
        self.size = size
        self.by_bytes = lru_cache(int(size))(self._make)

    def __call__(self, p: FloatArray, q: FloatArray, n: int) -> Plan:
        """The plan for target law p and n drafts of law q."""
        if self.size:
            return self.by_bytes(p.tobytes(), q.tobytes(), n)
        return self._solve(p, q, n)

    def _make(self, p: bytes, q: bytes, n: int) -> Plan:
        target, draft = np.frombuffer(p), np.frombuffer(q)
        return self._solve(target, draft if draft.size == target.size else draft.reshape(n, -1), n)

    def _solve(self, p: FloatArray, q: FloatArray, n: int) -> Plan:
        plan = solve(Problem(p, self.scheme(q, n)), self.solver).plan
        assert plan is not None
        return plan
