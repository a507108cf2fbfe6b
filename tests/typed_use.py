"""What users write, for their type checker: `make types` checks this file strictly, `.ci/wheel` against the wheel.

It also runs, as tests/test_public_face.py does.
"""

from typing import assert_type

import numpy as np

import otspec

problem = otspec.Problem([0.6, 0.4], otspec.IID([0.3, 0.7], 2))
plan = otspec.solve(problem).plan
assert_type(plan, otspec.Plan)
assert_type(plan.acceptance, float)
drafts = problem.scheme.sample(np.random.default_rng(0))
assert_type(plan.sample(drafts, np.random.default_rng(0)), int)
assert_type(plan.sample([0, 1], 3), int)
assert_type(plan.conditional([0, 1]).size + plan.conditional((0, 1)).size, int)
assert_type(problem.bound([1]), float)

tried = otspec.solve(problem, ["lp", "interval"], strict=False)
assert_type(tried, otspec.Result)
if tried.plan is not None:
    assert_type(tried.plan.gap, float)

rows = np.array([[0.5, 0.5], [0.2, 0.8]], dtype=np.float32)
schemes: list[otspec.DraftScheme] = [
    otspec.Independent(rows),
    otspec.WithoutReplacement((0.5, 0.5), n=2),
    otspec.Greedy(rows[0], 1),
    otspec.TopK(rows[0], 2),
    otspec.HubPairs(rows[1]),
    otspec.Table([[0, 1], [1, 1]], [0.5, 0.5], vocab=2),
]
assert_type(otspec.optimum(otspec.Problem(rows[0], schemes[0])).acceptance, float)
assert_type(otspec.check_scheme(schemes[0]).tuples, int)
assert_type(otspec.verify(rows[0], rows[1], [1, 0], np.random.default_rng(0)).token, int)
assert_type(otspec.verify_logits(rows[0], rows[1], [1, 0], 0, temperature=0.8).draft, int)
assert_type(otspec.solve_batch(rows, rows, n=2).plan(0).acceptance, float)
model = otspec.verification.Model(lambda prefix: [0.5, 0.5], lambda prefix: [0.2, 0.8])
tree = model.tree(model.sample(2, 3, np.random.default_rng(0)))
assert_type(otspec.verification.Nested().verify(tree, np.random.default_rng(0)).token, int)
assert_type(otspec.verification.TokenWise("interval").verify(model.tree(model.sample(2, 3, 0)), 0).token, int)
assert_type(otspec.solvers.LP(form="full").tol, float)
