"""Shapes chosen while drafting: lossless by enumeration, and not so where the choice looks at siblings.

A choice goes along a *stem*: after each of its tokens it says that one more is drafted, or how the tree branches below.
It may look at the stem's tokens and at the draft laws along it (Theorem 4 of `docs/paths.md`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest

from otspec.paths import Block, Model, Nested, PathLaw, PathVerifier, PickRule, Tree, synthetic, tree_law
from otspec.verification.evaluation.walking import Line, reach_along, target_line
from otspec.verification.reference.enumeration import law_over, trees_of
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Law, Prefix
from tests.oracles import Floats
from tests.verification.catalogue import EXACT, VERIFIERS
from tests.verification.models import FAMILIES, model

Choice = Callable[[Prefix, Sequence[Floats]], Sequence[int] | None]
"""From the tokens of a stem and the draft laws before each of them and after the last, to the branching below the stem,
or to None for one more token of the stem."""
RULES = [name for name in VERIFIERS if name != "layer"]


def _by_hash(prefix: Prefix, laws: Sequence[Floats]) -> tuple[int, ...] | None:
    """A choice without sense: any function of the prefix will do."""
    tails: tuple[tuple[int, ...] | None, ...] = (None, (2, 1), (3,), (1, 2), None, (2,))
    chosen = tails[sum((i + 2) * (token + 1) for i, token in enumerate(prefix)) % len(tails)]
    if chosen is None:
        return None if len(prefix) < 2 else (2,)
    return chosen[: 3 - len(prefix)]


def _by_entropy(prefix: Prefix, laws: Sequence[Floats]) -> tuple[int, ...] | None:
    q = laws[-1][laws[-1] > 0]
    if -(q * np.log(q)).sum() < 0.5 and len(prefix) < 2:
        return None
    return (3,) if len(prefix) == 2 else (2, 1)


def _stop(prefix: Prefix, laws: Sequence[Floats]) -> tuple[int, ...] | None:
    """One path, that ends where its tokens are unlikely together."""
    cumulated = np.prod([law[token] for law, token in zip(laws, prefix, strict=False)])
    if not prefix:
        return None
    return () if cumulated < 0.4 else (1,) if len(prefix) == 2 else None


CHOICES: dict[str, Choice] = {
    "hash": _by_hash,
    "entropy": _by_entropy,
    "stop": _stop,
    "confident": lambda prefix, laws: None if laws[-1].max() >= 0.6 and len(prefix) < 2 else (2, 1)[: 3 - len(prefix)],
}


def _after(law: Law, prefix: Prefix) -> Law:
    """The law after a prefix and more."""
    return lambda more: law((*prefix, *more))


def _chosen_trees(choice: Choice, laws: Model, exchangeable: bool) -> Iterator[tuple[float, Tree]]:
    """Every tree whose shape is chosen while it is drafted, with its probability."""
    stems: list[tuple[float, Prefix, list[Floats]]] = [(1.0, (), [])]
    while stems:
        chance, prefix, before = stems.pop()
        along = [*before, np.asarray(laws.draft(prefix))]
        below = choice(prefix, along)
        if below is None:
            stems += [(chance * q, (*prefix, x), along) for x, q in enumerate(along[-1].tolist()) if q > 0]
            continue
        branching = (*(1,) * len(prefix), *below)
        if not below:
            yield chance, laws.tree([prefix], branching)
            continue
        after = Model(_after(laws.target, prefix), _after(laws.draft, prefix))
        for more, tree in trees_of(after, Shape(tuple(below)), exchangeable):
            leaves = [(*prefix, *tree.prefix(int(node))) for node in tree.node[:, -1]]
            yield chance * more, laws.tree(leaves, branching)


def chosen_law(rule: PathVerifier, choice: Choice, laws: Model, deepest: int) -> PathLaw:
    """`tree_law` of trees whose shapes are chosen while drafting, of at most so many levels."""
    return law_over(_chosen_trees(choice, laws, rule.exchangeable), rule, laws, deepest)


@pytest.mark.parametrize("name", RULES)
def test_output_has_the_law_of_the_target_whatever_is_chosen(name: str) -> None:
    for choice in CHOICES:
        for family in FAMILIES:
            law = chosen_law(VERIFIERS[name], CHOICES[choice], model(family, 2, 3), 3)
            assert law.deviation <= EXACT, (choice, family)
            assert law.target.sum() == pytest.approx(1.0, abs=EXACT), (choice, family)


def _looking(laws: Model, look: Callable[[Tree], bool], exchangeable: bool) -> Iterator[tuple[float, Tree]]:
    """Two tokens, each with three children if what was drawn says so, and otherwise one."""
    for children in (1, 3):
        for chance, tree in trees_of(laws, Shape((2, children)), exchangeable):
            if look(tree) == (children == 3):
                yield chance, tree


def test_a_choice_that_looks_at_siblings_is_not_lossless_for_rules_that_pick() -> None:
    """Equal first tokens get more children: the winner's label is no longer what it is taken for.

    Rules that go on from the siblings that they saw do not mind.
    """
    laws = model("tiny", 2, 0)
    for name in ("nested", "token-wise interval", "traversal"):
        rule = VERIFIERS[name]
        sound = law_over(_looking(laws, lambda tree: True, rule.exchangeable), rule, laws, 2)
        looks = law_over(_looking(laws, lambda tree: tree.children[0].size == 1, rule.exchangeable), rule, laws, 2)
        assert sound.deviation <= EXACT
        assert looks.target.sum() == pytest.approx(1.0, abs=EXACT)
        assert looks.deviation > 0.03 if name == "nested" else looks.deviation <= EXACT, name


def _fixed(prefix: Prefix, laws: Sequence[Floats], branching: tuple[int, ...], stem: int) -> tuple[int, ...] | None:
    """One shape for all, which does not say beforehand how long its stem is."""
    return None if len(prefix) < stem else branching[stem:]


def test_a_choice_that_does_not_look_is_a_shape() -> None:
    laws = model("peaked", 3, 2)
    for branching, stem in (((2, 1), 0), ((1, 2), 1), ((1, 1), 1)):
        chosen = chosen_law(Nested(), partial(_fixed, branching=branching, stem=stem), laws, 2)
        np.testing.assert_allclose(chosen.output, tree_law(Nested(), laws, branching).output, atol=1e-14)


def _chosen_reach(rule: PickRule, choice: Choice, text: Line, deepest: int) -> Floats:
    """P(at least 1, ... tokens are accepted) given a text, shape (deepest,), the shape being chosen while drafting."""
    tokens = tuple(text.tokens.tolist())
    each = ((stem, choice(tokens[:stem], list(text.draft[: stem + 1]))) for stem in range(deepest))
    stem, below = next((stem, below) for stem, below in each if below is not None)
    branching = (*(1,) * stem, *below)
    found, end = np.zeros(deepest), len(branching)
    found[:end] = reach_along(rule, Line._make(part[:end] for part in text), Shape(branching))
    return found


def test_lengths_along_texts_are_those_of_enumeration() -> None:
    laws = synthetic("tiny", 2, 4)
    for rule in (Nested(sigma=0.0), Block()):
        exact = np.zeros(4)
        for prefix, chance in chosen_law(rule, _by_entropy, laws, 3).accepted.items():
            exact[len(prefix)] += chance
        texts = [target_line(laws, 3, np.random.default_rng(seed)) for seed in range(300)]
        found = np.array([_chosen_reach(rule, _by_entropy, text, 3) for text in texts])
        error = found.std(axis=0) / np.sqrt(300)
        assert (np.abs(found.mean(axis=0) - exact[1:]) <= 4 * error + 1e-9).all(), rule
