"""No rule that decodes, lossless or not, puts out a token that the target model would never put out."""

from functools import cache

import numpy as np
import pytest

from otspec import Problem, available
from otspec.catalogue import get
from otspec.decode import BY_PLAN, JOINT, methods
from otspec.decode.base.draft_laws import DRAFT_LAWS, draft_law
from otspec.decode.verify.verifiers import verifier
from otspec.paths import Model, TokenWise, Tree
from otspec.schemes import IID
from otspec.verification.reference.enumeration import branching_trees, drafted_trees
from otspec.verification.rules.catalogue import Rule
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from otspec.verification.trees.tree import prefixes_of
from tests.decode.models import law_after, pair
from tests.oracles import Floats
from tests.spellings import installed

CHAIN = ["global_resolution", "interval"]
PROMPT = [1, 2, 0]


LAWS = [law for law in DRAFT_LAWS if law != "independent"]
"""Laws of one draft model; tests/contracts has the texts drafted by several."""


def rules(law: str) -> list[Rule]:
    """All that verify drafts of this law: joint rules, a chain, and every solver, those that may be off p as well."""
    scheme = draft_law(law).scheme
    probe = Problem([0.2, 0.3, 0.5], scheme(np.array([0.5, 0.3, 0.2]), 2))
    found: list[Rule] = [*JOINT, methods.Typical(), CHAIN] if scheme is IID else [BY_PLAN]
    for info in available():
        names = [info.name, *info.variants, *[f"{info.name}:allow_biased=true"] * ("allow_biased" in info.settings)]
        found += [name for name in names if installed(name) and get(name).supports(probe) is None]
    return found


def model(seed: int, top_k: int) -> Model:
    """A pair after the prompt, the target's laws cut to its k likeliest tokens."""
    target, draft = pair(4, seed)
    return Model(
        cache(lambda prefix: law_after(target, [*PROMPT, *prefix], top_k=top_k)),
        cache(lambda prefix: law_after(draft, [*PROMPT, *prefix], top_k=top_k + 1)),
    )


def trees(laws: Model, law: str) -> tuple[Shape, list[Tree]]:
    """All that may be drafted: two paths of two tokens, or two children of every node."""
    scheme = draft_law(law).scheme
    if scheme is IID:
        return Shape.paths(2, 2), [tree for _, tree in drafted_trees(laws, 2, 2, False)]
    shape = Shape((2, 2))
    found = [_merged(shape, tree, laws) for _, tree in branching_trees(laws, lambda q: scheme(q, 2), 2)]
    return shape, found


def _merged(shape: Shape, tree: Tree, laws: Model) -> Tree:
    """The same tree as decoding merges it: siblings that are drawn jointly, and not paths one by one."""
    tokens = np.empty(shape.slots, dtype=np.int64)
    tokens[shape.paths_of_slots] = tree.token[tree.node]
    topology = Topology.merge(shape, tokens[1:])
    prefixes = prefixes_of(topology)
    draft = np.array([laws.draft(prefix) for prefix in prefixes[: topology.inner]])
    return Tree.with_laws(topology, np.array([laws.target(prefix) for prefix in prefixes]), draft)


@pytest.mark.parametrize("law", LAWS)
def test_no_rule_leaves_the_support_of_the_target(law: str) -> None:
    for seed, top_k in ((0, 1), (1, 2)):
        shape, drafted = trees(model(seed, top_k), law)
        drafted = drafted[:: 5 if len(drafted) > 100 else 1]
        assert all((tree.target == 0).any() for tree in drafted)
        for rule in rules(law):
            made = verifier(rule, shape, draft_law(law))
            if isinstance(made, TokenWise):
                made = TokenWise(made.solver, 1000, scheme=made.scheme)
            for tree in drafted:
                stop = made.stop_law(tree)
                assert not stop[tree.target == 0].any(), (rule, seed, top_k, tree.token)
                along = [chance for node, chance in enumerate(_passing(tree, stop)) if not _possible(tree, node)]
                assert not np.any(along), (rule, seed, top_k, tree.token)


def _passing(tree: Tree, stop: Floats) -> Floats:
    """The probability that each node is accepted."""
    chance = stop.sum(axis=1)
    for node in range(tree.size - 1, 0, -1):
        chance[tree.parent[node]] += chance[node]
    return chance


def _possible(tree: Tree, node: int) -> bool:
    """Whether the target may put out the prefix."""
    return all(tree.target[tree.parent[one], tree.token[one]] > 0 for one in tree.line(node))
