"""The exact reference against its own statement, and the compiled rule against the reference."""

from fractions import Fraction

import numpy as np
import pytest

from otspec import IID, Problem, optimum
from otspec.kernels.interval.exchange import memory
from otspec.verification.reference.interval import solve, verify
from otspec.verification.rules.interval.compiled import verify_one
from tests.each import each
from tests.instances import KNOWN, SMALL, VARIED, Instance
from tests.oracles import Floats

IID_PROBLEMS = [
    instance
    for instance in (*SMALL, *VARIED)
    if isinstance(instance.problem.scheme, IID) and instance.problem.vocab <= 40 and instance.problem.n <= 8
]


def exact(law: Floats) -> list[Fraction]:
    values = [Fraction(float(value)) for value in law]
    return [value / sum(values) for value in values]


@each(instance=IID_PROBLEMS)
def test_places_are_kept_whole_and_the_acceptance_is_the_optimum(instance: Instance) -> None:
    problem = instance.problem
    assert isinstance(problem.scheme, IID)
    solution = solve(exact(problem.p), exact(problem.scheme.q), problem.n)
    assert sum(token.g for token in solution.tokens) == 1
    for token in solution.tokens:
        assert all(contribution > 0 for contribution in token.contributions.values())
        assert sum(token.contributions.values()) <= token.q
    # The winner has law g: what each token owns of the measures, through its place and its exchanges, is g.
    for token in solution.tokens:
        owned = (token.q - sum(token.contributions.values())) * token.density
        for number, contribution in token.contributions.items():
            members = [solution.tokens[rank] for rank in solution.exchanges[number]]
            held = sum(member.contributions[number] for member in members)
            owned += contribution * sum(member.contributions[number] * member.density for member in members) / held
        assert owned == token.g
    acceptance = sum(min(token.p, token.g) for token in solution.tokens)
    assert float(acceptance) == pytest.approx(optimum(problem).acceptance, abs=1e-12)


@each(instance=[instance for instance in IID_PROBLEMS if instance.problem.vocab > 1], seed=range(3))
def test_the_compiled_rule_gives_the_same_token_for_the_same_uniforms(instance: Instance, seed: int) -> None:
    problem, rng = instance.problem, np.random.default_rng(seed)
    assert isinstance(problem.scheme, IID)
    p, q = problem.p, problem.scheme.q
    ratios = p[q > 0] / q[q > 0]
    if np.unique(ratios).size < ratios.size:
        # Tokens of equal ratio may change places: make them differ by more than rounding, and the laws stay hostile.
        p = p * (1 + 1e-3 * rng.random(p.size))
        q = q * (1 + 1e-3 * rng.random(q.size))
    mine = memory.of(p.size)
    for _ in range(4):
        drafts = problem.scheme.sample(rng)
        uniforms = rng.random((problem.n + 1, 3))
        p, q = p / p.sum(), q / q.sum()
        assert verify(p, q, drafts.tolist(), uniforms.tolist()) == verify_one(
            p, q, drafts, uniforms, mine.work, mine.places
        )


def test_known_answers() -> None:
    for known in KNOWN:
        if isinstance(known.problem.scheme, IID):
            solution = solve(exact(known.problem.p), exact(known.problem.scheme.q), known.problem.n)
            acceptance = float(sum(min(token.p, token.g) for token in solution.tokens))
            assert acceptance == pytest.approx(known.acceptance, abs=1e-12), known.name


def test_a_law_is_read_up_to_its_total() -> None:
    uniforms = [[0.3, 0.6, 0.2], [0.9, 0.1, 0.4], [0.7, 0.5, 0.0]]
    assert verify([0.2, 0.8], [0.5, 0.5], [0, 1], uniforms) == verify([1, 4], [2, 2], [0, 1], uniforms)
    problem = Problem([0.2, 0.8], IID([0.5, 0.5], 2))
    assert verify(problem.p.tolist(), [0.5, 0.5], [1, 1], uniforms).token in (0, 1)
