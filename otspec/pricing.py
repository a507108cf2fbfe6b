"""`otspec.best_lossy_plan`: the rule that accepts most at a price."""

from __future__ import annotations

from otspec.errors import ProblemError
from otspec.laws import as_float
from otspec.plans.coupling import Coupling
from otspec.plans.lossy import Lossy
from otspec.plans.pick import Pick
from otspec.problem import Problem
from otspec.solving import Chosen, solve


def best_lossy_plan(problem: Problem, epsilon: float, solver: Chosen = None) -> Lossy:
    """The plan of largest acceptance among rules whose output is within total variation `epsilon` of the target.

    It accepts min(1, alpha* + epsilon), for every draft law (`docs/lossy.md`, Theorem 1): every lossy rule can be
    compared with it, and none gains more than it pays.  For a single draft the plan is DIVERSED's [wang2026diversed].

    Parameters
    ----------
    problem : Problem
    epsilon : float
        The price, in [0, 1]: the total variation of one token's law to p.
    solver : str, Solver or a sequence of them, optional
        As of `otspec.solve`; the plan that it finds is the one at price 0.

    Returns
    -------
    Lossy

    Raises
    ------
    ProblemError
        If the price is no number in [0, 1], or the solver's plan does not pick a draft.
    UnknownSolver, SolveError, MissingExtra
        As of `otspec.solve`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> for epsilon in (0, 0.1, 0.5):
    ...     plan = otspec.best_lossy_plan(problem, epsilon)
    ...     print(f"{plan.acceptance:.2f}, paid {plan.price:.2f}")
    0.86, paid 0.00
    0.96, paid 0.10
    1.00, paid 0.14
    """
    if not 0 <= (price := as_float(epsilon)) <= 1:
        raise ProblemError(f"epsilon is {epsilon!r}; pass a total variation in [0, 1]")
    plan = solve(problem, solver).plan
    if solver is None and not isinstance(plan, Pick | Coupling):
        plan = solve(problem, "max_flow").plan
    return Lossy.of(plan, price)
