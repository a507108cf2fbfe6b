"""The walk along texts of the target: its exact mean is that over all drafts, and its estimates have that mean."""

import itertools
from functools import partial

import numpy as np
import pytest

from otspec import ProblemError
from otspec.verification import Block, Model, PickRule, accepted_length, synthetic, tree_law
from otspec.verification.evaluation.accepted_length import Estimate, length_along, target_line
from otspec.verification.rules.nested.nested import LabelVerifier
from otspec.verification.trees.shape import Shape
from tests.oracles import Floats, Ints
from tests.verification.catalogue import EXACT, LABELS
from tests.verification.models import FAMILIES, model

RULES: dict[str, LabelVerifier | Block] = {**LABELS, "block": Block()}
SHAPES = ((2, (1,)), (2, (2, 1)), (3, (3,)), (3, (2, 2)), (2, (1, 3)), (2, (1, 2, 2)), (2, (2, 1, 2)))


class Fixed(np.random.Generator):
    """Uniform numbers that are told beforehand."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__(np.random.PCG64(0))
        self.numbers = iter(numbers)

    def random(self, *_: object) -> float:  # type: ignore[override]
        return next(self.numbers)


def _exact(rule: PickRule, laws: Model, vocab: int, shape: Shape) -> float:
    """Mean of `length_along` over all texts, each drawn by `target_line` itself from numbers that lead to it."""
    total = 0.0
    for text in itertools.product(range(vocab), repeat=shape.depth - 1):
        chance, numbers = 1.0, []
        for i, token in enumerate(text):
            p = np.asarray(laws.target(text[:i]))
            chance *= p[token]
            numbers.append(p[:token].sum() + p[token] / 2)
        if chance > 1e-30:  # else the number in the middle of a token's interval is not inside it
            line = target_line(laws, shape.depth, Fixed([*numbers, 0.5]))
            assert tuple(line.tokens[:-1]) == text
            total += chance * length_along(rule, line, shape)
    return total


@pytest.mark.parametrize("name", RULES)
def test_mean_over_texts_is_the_mean_over_drafts(name: str) -> None:
    small, larger = itertools.product(SHAPES[:3], FAMILIES[::2]), itertools.product(SHAPES[3:], FAMILIES[::4])
    for (vocab, branching), family in (*small, *larger):
        laws = model(family, vocab, 5)
        drafted = tree_law(RULES[name], laws, branching).mean_accepted
        walked = _exact(RULES[name], laws, vocab, Shape(branching))
        assert walked == pytest.approx(drafted, abs=EXACT), (branching, family)


def test_estimates_have_the_exact_mean() -> None:
    for name, branching in itertools.product(("nested", "look-ahead"), ((3, 1), (2, 2), (1, 2, 2))):
        laws = model("tiny", 3 if len(branching) < 3 else 2, 4)
        found = accepted_length(RULES[name], laws, branching, samples=400, rng=7)
        exact = tree_law(RULES[name], laws, branching).mean_accepted
        assert abs(found.value - exact) <= 4.5 * found.error, (name, branching)
        assert 1e-4 < found.error < 0.05


def test_a_text_is_followed_while_it_can_be_drafted() -> None:
    p, q = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    line = target_line(Model(lambda prefix: p, lambda prefix: p if len(prefix) < 2 else q), 5, np.random.default_rng(0))
    assert line.tokens.tolist() == [1, 1, 1, 1, 1]
    watching = Watching()
    assert length_along(watching, line, Shape.paths(3, 5)) == 2.0
    assert watching.seen == [(1, 1, 0)]
    # All rules walk along the same texts.
    one, other = Watching(), Watching()
    for rule in (one, other):
        accepted_length(rule, partial(synthetic, "mixed", 30), (2, 1, 1), samples=5, rng=3)
    assert one.seen == other.seen
    assert len(set(one.seen)) > 1


class Watching:
    """A rule that keeps the tokens of the texts that it is led along."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, ...]] = []

    def along(self, target: Floats, draft: Floats, tokens: Ints, shape: Shape) -> Floats:
        self.seen.append(tuple(tokens.tolist()))
        return draft


def test_intervals() -> None:
    low, high = Estimate(2.0, 0.1).interval()
    np.testing.assert_allclose([low, high], [2 - 0.1959964, 2 + 0.1959964], rtol=1e-7)
    with pytest.raises(ProblemError, match="confidence is 95; pass a number between 0 and 1"):
        Estimate(2.0, 0.1).interval(95)
