"""`global_resolution`: two small convex programs in place of a linear program over all tuples.

`solver` is the method, `systems` the two systems of complementary slackness, `coefficients` the probabilities in them,
`softmax` their minimisation, `plan` the rule.
"""

from otspec.solvers.global_resolution.solver import GlobalResolution

__all__ = ["GlobalResolution"]
