"""`max_flow`: the relaxed transport program as a maximum flow, by one of several engines."""

from otspec.solvers.max_flow.solver import MaxFlow

__all__ = ["MaxFlow"]
