"""Which rule verifies a drafted tree: a joint one, or any solver of the registry node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.verify.compact import CompactTree
from otspec.errors import ProblemError
from otspec.laws import FloatArray, draw
from otspec.schemes import IID, DraftScheme
from otspec.verification import (
    Block,
    GreedyMultiPath,
    LayerVerification,
    Match,
    Nested,
    PathVerifier,
    PickByPlan,
    TokenWise,
    Traversal,
)
from otspec.verification.rules.catalogue import BY_PLAN, JOINT, Rule
from otspec.verification.rules.token_wise.token_wise import Scheme
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology


def verifier(rule: Rule, shape: Shape, law: DraftLaw) -> PathVerifier:
    """The verifier that a rule stands for.

    Parameters
    ----------
    rule : str, Solver, PathVerifier, sequence of str or Solver, or None
        None is `nested` for i.i.d. drafts, or `block`, which is the same for one path; for others it is token-wise
        verification by the solver of choice.
    shape : Shape
    law : DraftLaw

    Raises
    ------
    ProblemError
        If the rule is not for trees that are drafted like that.
    UnknownSolver
        If there is neither a joint rule nor a solver of that name.
    """
    if shape.each:
        _check_uneven(rule)
    if hasattr(rule, "verify") and not isinstance(rule, type):
        return cast(PathVerifier, rule)
    if rule is None and not shape.each and law.scheme is IID:
        rule = "block" if set(shape.branching) == {1} else "nested"
    if rule == BY_PLAN:
        if law.several:
            raise ProblemError(f"{BY_PLAN} is for siblings that are drawn jointly; for independent paths name a solver")
        if law.scheme is IID:
            raise ProblemError(f"{BY_PLAN} is for siblings that are drawn jointly; for i.i.d. drafts use nested")
        if shape.each or len(set(shape.branching)) > 1:
            raise ProblemError(f"{BY_PLAN} needs as many children on every level; here they are {shape.branching}")
        return PickByPlan(_of(law.scheme, shape.branching[0]), law.picks)
    if isinstance(rule, str) and rule in JOINT:
        if law.scheme is not IID:
            raise ProblemError(
                f"{rule} is for i.i.d. drafts of one draft model; name a solver, "
                f"or {BY_PLAN} for siblings drawn jointly"
            )
        return JOINT[rule]()
    return TokenWise(rule, scheme=law.scheme)


UNEVEN = (Match, TokenWise, Traversal)
"""Verifiers of trees in which nodes of one level have different numbers of children."""


def _check_uneven(rule: Rule) -> None:
    """Raise unless a rule verifies such trees."""
    made: object = JOINT[rule]() if isinstance(rule, str) and rule in JOINT else rule
    if isinstance(made, PathVerifier) and not isinstance(made, UNEVEN):
        raise ProblemError(
            f"{rule if isinstance(rule, str) else type(rule).__name__} is for trees whose nodes of one level have as "
            "many children; for others leave out the rule, or name a solver, traversal or match"
        )


MERGING = (Nested, GreedyMultiPath, Traversal, LayerVerification, Block, PickByPlan, TokenWise, Match)
"""Verifiers that may be shown all tokens which a node cannot draft as one."""


def merges(verifier: PathVerifier) -> bool:
    """Whether a verifier may be shown all tokens which a node cannot draft as one: see docs/decoding.md.

    It has to be lossless, and to compare tokens with none but their siblings.  That is known of our own; typical
    acceptance needs the entropy of whole laws, and what verifiers of the user's read is not known.
    """
    return type(verifier) in MERGING


def _of(scheme: Scheme, n: int) -> Callable[[FloatArray], DraftScheme]:
    """n drafts, or as many as there are tokens to draw."""
    return lambda q: scheme(q, min(n, int(np.count_nonzero(q))))


class AcceptedTokens(NamedTuple):
    """What verification adds to a text."""

    nodes: list[int]
    """The accepted nodes of the drafted tree, in order."""
    token: int
    """The token after them; `NONE` where it is not drawn yet."""

    @property
    def last(self) -> int:
        """The node that the token comes after."""
        return self.nodes[-1] if self.nodes else 0

    def tokens(self, tree: Topology) -> list[int]:
        """All that the text gets."""
        return [*tree.token[self.nodes].tolist(), self.token]


def verify(verifier: PathVerifier, tree: Topology, local: CompactTree, rng: np.random.Generator) -> AcceptedTokens:
    """Verify one drafted tree; of a batch, some may have no drafts, and get a draw from the target."""
    if tree.length == 0:
        return AcceptedTokens([], local.token(0, int(draw(local.tree.target[0], rng))))
    verified = verifier.verify(local.tree, rng)
    return AcceptedTokens(tree.line(verified.node), local.token(verified.node, verified.token))
