"""Sections 3 to 5.1: the optimum as a choice of a token set, and how to find that set."""

from __future__ import annotations

from otspec.certificate import optimum
from otspec.laws import FloatArray, IntArray
from otspec.proofs_check.claim import Claim
from otspec.proofs_check.instances import iid, iid_problem, subset_masses, table, table_problem


def _subset_formula(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    problem = table_problem(p, drafts, law)
    inside_p, inside = subset_masses(problem)
    return -abs(optimum(problem).acceptance - (1 + (inside_p - inside).min()))


def _prefix(p: FloatArray, q: FloatArray, n: int) -> float:
    problem = iid_problem(p, q, n)
    inside_p, inside = subset_masses(problem)
    return -abs(optimum(problem).acceptance - (1 + (inside_p - inside).min()))


CLAIMS = (
    Claim(
        "gr-theorem-3.1",
        "The optimal acceptance is 1 + min over H of p(H) - P(all drafts in H).",
        "hu2025towards; thomas2025global, Theorem 3.1",
        table,
        _subset_formula,
    ),
    Claim(
        "gr-prefix-minimiser",
        "For i.i.d. drafts a prefix of the order of decreasing q/p minimises p(H) - P(all drafts in H).",
        "hu2025towards; thomas2025global, section 5.1",
        iid,
        _prefix,
    ),
)
