"""Statements on which the package stands: hit functions, the optimum, and the published ways to reach it."""

from __future__ import annotations

import numpy as np

from otspec.certificate import optimum
from otspec.front_door import solve
from otspec.laws import FloatArray
from otspec.plans import Coupling, canonical_decomposition
from otspec.problem import Problem
from otspec.proofs_check.claim import Claim
from otspec.schemes import IID, Table
from otspec.solvers import MaxFlow, Slackness


def iid_problem(rng: np.random.Generator) -> Problem:
    """i.i.d. drafts on 2 to 5 tokens, from flat to spiky laws, with zeros."""
    vocab = int(rng.integers(2, 6))
    return Problem(_law(rng, vocab), IID(_law(rng, vocab), int(rng.integers(1, 5))))


def table_problem(rng: np.random.Generator) -> Problem:
    """Drafts of an arbitrary joint law on 2 to 5 tokens."""
    vocab, n = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    drafts = np.array(list(np.ndindex(*(vocab,) * n)))
    return Problem(_law(rng, vocab), Table(drafts, _law(rng, len(drafts)), vocab))


def subset_masses(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """p(H) and P(all drafts in H) of every token set H, by its bit mask, from the tuples one by one."""
    masks = np.arange(1 << problem.vocab)
    bits = (masks[:, None] >> np.arange(problem.vocab)) & 1
    drafts, probabilities = problem.scheme.support()
    tuples = np.bitwise_or.reduce(1 << drafts, axis=1)
    inside = (tuples[None, :] & ~masks[:, None]) == 0
    return bits @ problem.p, inside @ probabilities


def _law(rng: np.random.Generator, size: int) -> FloatArray:
    weights = rng.gamma(10 ** rng.uniform(-1.5, 1.0), size=size) * (rng.random(size) < 0.85)
    return weights / weights.sum() if weights.sum() > 0 else np.full(size, 1 / size)


def _submodularity(problem: Problem) -> float:
    _, inside = subset_masses(problem)
    hit = 1.0 - inside[::-1]  # f(A) = 1 - P(all drafts outside A)
    a, b = np.meshgrid(np.arange(hit.size), np.arange(hit.size))
    return float((hit[a] + hit[b] - hit[a | b] - hit[a & b]).min())


def _subset_formula(problem: Problem) -> float:
    p, inside = subset_masses(problem)
    return -abs(optimum(problem).acceptance - (1 + (p - inside).min()))


def _canonical(problem: Problem) -> float:
    coupling, _ = MaxFlow()(problem)
    assert isinstance(coupling, Coupling)
    return -abs(canonical_decomposition(coupling).acceptance - optimum(problem).acceptance)


def _slackness(problem: Problem) -> float:
    plan = solve(problem, Slackness(), strict=False).plan
    return -np.inf if plan is None else -max(abs(plan.gap), plan.deviation)


CLAIMS = (
    Claim(
        "hit-submodular",
        "The hit function f(A) = P(some draft in A) is submodular, whatever the law of the drafts.",
        "otspec; thomas2025global, Theorem C.1 has it for independent drafts",
        table_problem,
        _submodularity,
    ),
    Claim(
        "subset-selection",
        "The optimal acceptance is 1 + min over H of p(H) - P(all drafts in H).",
        "hu2025towards; thomas2025global, Theorem 3.1",
        table_problem,
        _subset_formula,
    ),
    Claim(
        "prefix-minimiser",
        "For i.i.d. drafts a prefix of the order of decreasing q/p minimises p(H) - P(all drafts in H).",
        "hu2025towards; thomas2025global, section 5.1",
        iid_problem,
        _subset_formula,
    ),
    Claim(
        "canonical-from-coupling",
        "An optimal coupling, normalised per draft set, is an optimal importance weight beta.",
        "thomas2025global, Theorem 4.1",
        table_problem,
        _canonical,
    ),
    Claim(
        "slackness-splits",
        "Solutions of the outer and the inner system, joined, are an optimal coupling.",
        "thomas2025global, Theorem 5.1",
        table_problem,
        _slackness,
    ),
)
