"""`distinct_drafters`: Luce's choice rule among the drafts, one weight per token, solved by quadrature."""

from otspec.solvers.distinct_drafters.solver import DistinctDrafters

__all__ = ["DistinctDrafters"]
