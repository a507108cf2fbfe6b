"""Rules for drafted trees by name: the joint ones, one of yours, or any solver of the registry node by node."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

from otspec.catalogue import get, spelling_of
from otspec.errors import ProblemError, UnknownSolver
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


def rule(spelling: str, separator: str = ",") -> Rule:
    """What verifies, from its spelling: a joint rule, a solver, or a chain of solvers.

    A joint rule of one's own is spelt ``module:Class``, the class having a method `verify`.

    Raises
    ------
    UnknownSolver
        If there is neither a joint rule nor a solver of a name.
    """
    names = [name.strip() for name in spelling.split(separator)]
    joint = (*JOINT, BY_PLAN)
    if len(names) == 1 and names[0] in joint:
        return names[0]
    if len(names) == 1 and (own := _own_verifier(names[0])) is not None:
        return own
    for name in names:
        if name in joint:
            raise UnknownSolver(f"{name} is a joint rule, which never fails: it has no place in a chain of solvers")
        try:
            get(name)
        except UnknownSolver as error:
            raise UnknownSolver(f"{error}; joint rules: {', '.join(joint)}") from error
    return names[0] if len(names) == 1 else names


def _own_verifier(spelling: str) -> PathVerifier | None:
    """The verifier of a class of one's own, or None where the spelling is of something else."""
    module, colon, name = spelling.partition(":")
    if not colon:
        return None
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        return None
    if not (isinstance(found, type) and hasattr(found, "verify")):
        return None
    try:
        return cast(PathVerifier, found())
    except TypeError as error:
        raise UnknownSolver(f"{spelling} cannot be made without arguments ({error}); give each a default") from error


def spelt(chosen: Any) -> Any:
    """What `rule` reads as a rule of one's own; all else is as it was."""
    return spelling_of(type(chosen)) if hasattr(chosen, "verify") else chosen


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
    if hasattr(named, "verify"):
        if not hasattr(named, "stop_law"):
            raise ProblemError(
                f"{spelling} has no stop_law, by which the tokens of a tree are counted exactly; write that method of "
                "otspec.verification.PathVerifier, too"
            )
        return cast(PathVerifier, named)
    return JOINT[named]() if isinstance(named, str) and named in JOINT else TokenWise(named)
