"""Warming up: nothing of ours is compiled, or read from disk, by what a user of nested labels does after it."""

import json

from otspec.extras import installed
from tests.processes import printed

PREPARED = """
import json, sys
import numpy as np
import otspec
from numba.core.dispatcher import Dispatcher
from otspec.verification import *


def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("otspec")]
    functions = {each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return {f"{one.__module__}.{one.__name__}{signature}" for one in functions for signature in one.signatures}


if {warm}:
    otspec.warm_up()
before = compiled()
"""
"""A function is compiled for a signature, or its machine code read, at its first call with arguments of such types."""

SOLVED = """
p, q, rng = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4]), np.random.default_rng(0)
distinct = [otspec.WithoutReplacement(q, n) for n in (2, 3)]
for scheme in otspec.IID(q, 3), otspec.Independent([q, p, q]), *distinct:
    otspec.solve(otspec.Problem(p, scheme)).plan.sample(scheme.sample(rng), rng)
for kind in np.float32, np.float64:
    otspec.verify(p.astype(kind), q.astype(kind), np.array([1, 2]), rng)
    otspec.solve_batch(p[None].astype(kind), q[None].astype(kind), 2)
"""

NESTED = """
model = synthetic("mixed", vocab=30)
for rule in Nested(), Nested(sigma=0.0), GreedyMultiPath(), Block(), Traversal(), TokenWise(), LayerVerification():
    for branching in (3, 1), (2, 2), (1, 1):
        tree = model.drawn(branching, 0)
        rule.verify(tree, 1)
        rule.stop_law(tree)
tree = Tree.of([[0, 1], [0, 2]], lambda prefix: [0.5, 0.25, 0.25], lambda prefix: [0.4, 0.3, 0.3])
Nested().verify(tree, 1)
columns = [np.asfortranarray(laws) for laws in (tree.target, tree.draft)]  # as those of chosen tokens are laid out
Nested().verify(Tree.with_laws(tree, *columns), 1)
for rule in Nested(), GreedyMultiPath(), Block():
    accepted_length(rule, model, (2, 1), samples=2)
small = synthetic("tiny", vocab=2)
bound(small, 2, 2), path_law(Nested(), small, 2, 2)
causal_bound(lambda seed: small, 2, 2, samples=2)
"""

DECODED = """
import torch
from tests.decode.models import pair

target, draft = pair(40, noise=0.1)
for settings in {"paths": 2, "depth": 2}, {"branching": (2, 2)}, {"paths": 1, "depth": 3}:
    otspec.generate(target, draft, torch.tensor([[1, 2, 3]]), max_new_tokens=6, seed=0, **settings)
"""


def added(calls: str, warm: bool = True) -> list[str]:
    """The functions, with the types of their arguments, that some calls meet for the first time, in a new process."""
    code = PREPARED.replace("{warm}", str(warm)) + calls + "print(json.dumps(sorted(compiled() - before)))"
    found: list[str] = json.loads(printed(code).splitlines()[-1])
    return found


def test_solving_nested_labels_and_decoding_by_them_find_all_compiled() -> None:
    """Two seconds of a process of its own, and ten with torch: in this one other tests have compiled."""
    decoded = DECODED if installed("torch") and installed("transformers") else ""
    assert added(SOLVED + NESTED + decoded) == []


def test_without_warming_up_they_would_not() -> None:
    """What the other test rests on: the first call of a verifier is seen, though its machine code is on disk."""
    found = added("Nested().verify(synthetic('tiny', 3).drawn((2, 1), 0), 1)\n", warm=False)
    assert any("pick_largest" in name for name in found)
