"""Rules for drafted trees by name: the joint ones, or any solver of the registry node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.catalogue import get
from otspec.errors import ProblemError, UnknownSolver
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.solving import solve
from otspec.verification.rules.block.block import Block
from otspec.verification.rules.layer import LayerVerification
from otspec.verification.rules.match import Match
from otspec.verification.rules.nested.nested import GreedyMultiPath, Nested
from otspec.verification.rules.protocol import PathVerifier
from otspec.verification.rules.token_wise.token_wise import Solvers, TokenWise
from otspec.verification.rules.traversal import Traversal

JOINT: dict[str, Callable[[], PathVerifier]] = {
    "nested": Nested,
    "greedy_multi_path": GreedyMultiPath,
    "traversal": Traversal,
    "layer": LayerVerification,
    "block": Block,
    "match": Match,
}
"""Rules for i.i.d. drafts by name, all lossless; `block` reads the first path only, and `match` no draft law."""

BY_PLAN = "pick_by_plan"
"""The joint rule for siblings that are drawn jointly: a child by the plan of each node, then block verification."""

CHAIN = "/"
"""Parts the solvers of a chain, in a list of rules that commas part."""

Rule = PathVerifier | Solvers
"""A verifier, the name of a joint rule, or what `otspec.solve` takes: a solver, or a chain of them."""


def rule(spelling: str, separator: str = ",") -> Solvers:
    """What verifies, from its spelling: a joint rule, a solver, or a chain of solvers.

    Raises
    ------
    UnknownSolver
        If there is neither a joint rule nor a solver of a name.
    """
    names = [name.strip() for name in spelling.split(separator)]
    joint = (*JOINT, BY_PLAN)
    if len(names) == 1 and names[0] in joint:
        return names[0]
    for name in names:
        if name in joint:
            raise UnknownSolver(f"{name} is a joint rule, which never fails: it has no place in a chain of solvers")
        try:
            get(name)
        except UnknownSolver as error:
            raise UnknownSolver(f"{error}; joint rules: {', '.join(joint)}") from error
    return names[0] if len(names) == 1 else names


def is_lossless(named: Any) -> bool:
    """Whether what `rule` returns is lossless to rounding: solvers that promise less are tried on a small problem."""
    chain = [named] if isinstance(named, str) else named or []
    return not any(_may_deviate(name) for name in chain if name not in (*JOINT, BY_PLAN))


def _may_deviate(solver: str) -> bool:
    plan = solve(Problem(np.array([0.5, 0.3, 0.2]), IID(np.array([0.2, 0.2, 0.6]), 2)), solver, strict=False).plan
    return plan is not None and plan.max_deviation > 0


def verifier_of_paths(spelling: str) -> PathVerifier:
    """The verifier of independent paths of one draft model that a spelling stands for, chains parted by `CHAIN`.

    Raises
    ------
    UnknownSolver
        If there is neither a joint rule nor a solver of a name.
    ProblemError
        If the rule is for other drafts.
    """
    named = rule(spelling, CHAIN)
    if named == BY_PLAN:
        raise ProblemError(f"{BY_PLAN} is for siblings that are drawn jointly; for i.i.d. drafts use nested")
    return JOINT[named]() if isinstance(named, str) and named in JOINT else TokenWise(named)
