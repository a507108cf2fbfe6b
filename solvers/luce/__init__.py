"""`luce`: Luce's choice rule among the drafts, one weight per token, solved by quadrature."""

from otspec.solvers.luce.solver import Luce

__all__ = ["Luce"]
