"""`without_replacement`: one release probability per token, for drafts without replacement.

`solver` finds the plan, `fit` the release probabilities of a block by what its tokens are worth (`values`), `rule`
picks by them.  The statement and its proof are in docs/without_replacement.md.
"""

from otspec.solvers.without_replacement.solver import WithoutReplacementSolver

__all__ = ["WithoutReplacementSolver"]
