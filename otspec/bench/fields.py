"""Fields of the records that are also kept as a table, and their types as pyarrow calls them."""

from __future__ import annotations

from collections.abc import Mapping

SOLVERS = {
    "data": "string",
    "k": "int64",
    "n": "int64",
    "solver": "string",
    "position": "int64",
    "solved": "bool_",
    "status": "string",
    "message": "string",
    "wall_s": "float64",
    "optimum": "float64",
    "acceptance": "float64",
    "gap": "float64",
    "deviation": "float64",
    "cells": "int64",
    "budget_s": "float64",
    "code": "string",
    "machine": "string",
}
"""Fields of a record of a solver on a position.

`solved` says whether the solver answered for the drafted tuple as it is meant to.  `status` is that of the full plan,
or BUDGET where the time of its cell, `budget_s`, ended first (`wall_s` is then a lower bound), INVALID where the data
make no problem, RAISED where the solver raised what it should not, or DIED where the measuring process did; the figures
are null then.  `code` is the digest of a solver that does not come with this package, `machine` the processor that it
ran on.
"""

PATHS = {
    "data": "string",
    "rule": "string",
    "paths": "int64",
    "depth": "int64",
    "position": "int64",
    "prompt": "int64",
    "lossless": "bool_",
    "accepted": "float64",
    "reach": "float64[]",
    "wall_s": "float64",
    "spent_s": "float64",
    "message": "string",
    "machine": "string",
}
"""Fields of a record of a rule on a recorded tree.

`position` numbers the trees of a file.  `accepted` is the mean number of accepted tokens given the tree, over the
random numbers of the rule, `reach` the probability that at least 1, ..., L are; both are null where `message` says why
the rule failed, and `reach` of the bound, too.  `wall_s` is the time of one verification, `spent_s` all that the rule
took.
"""

TABLES: Mapping[str, Mapping[str, str]] = {"solvers": SOLVERS, "paths": PATHS}
"""By the benchmark that they are of; brackets behind a type make lists of it.  Records of texts have no table."""
