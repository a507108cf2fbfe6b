"""Clocks: trees whose siblings have any law, verified jointly; all laws by enumeration."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from otspec import IID, Greedy, ProblemError, Systematic, WithoutReplacement
from otspec.paths import Block, Model, PickByPlan, Tree, path_law, tree_bound
from otspec.proofs_check.own import clocks
from otspec.proofs_check.own.clocks import AT, WEIGHT, Clocks, Rates
from otspec.verification.reference.enumeration import branching_trees, law_over, trees_of
from otspec.verification.rules.token_wise.token_wise import Scheme
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix
from tests.oracles import Floats
from tests.verification.models import model

EXACT = 1e-12
FAMILIES = ("tiny", "peaked", "tail", "tied", "zeros")
JOINT: dict[str, Scheme] = {
    "without replacement": WithoutReplacement,
    "systematic": Systematic,
    "greedy": Greedy,
}


def _trees(name: str, laws: Model, branching: tuple[int, ...]) -> Iterator[tuple[float, Tree]]:
    """Every tree with its probability; slots know their children."""
    if name == "i.i.d.":
        yield from trees_of(laws, Shape(branching), exchangeable=False)
        return
    scheme = JOINT[name]
    for chance, tree in branching_trees(laws, lambda q: scheme(q, branching[0]), len(branching)):
        yield chance, laws.tree([tree.prefix(int(leaf)) for leaf in tree.node[:, -1]], branching)


def _scheme(name: str) -> Scheme:
    return JOINT.get(name, IID)


def _random_rates(p: Floats, q: Floats) -> Floats:
    """Unlike any that one would choose."""
    return np.exp(np.random.default_rng(int(1e9 * p[0])).normal(size=p.size))


CASES = [
    *((name, (2, 2)) for name in JOINT),
    ("i.i.d.", (2, 1)),
    ("i.i.d.", (1, 2)),
]


class Noted(Clocks):
    """Clocks that note what they say of each tree."""

    told: list[tuple[Floats, list[Floats]]]

    def __init__(self, scheme: Scheme, rates: Rates | None) -> None:
        super().__init__(scheme, rates)
        object.__setattr__(self, "told", [])

    def picks(self, tree: Tree) -> tuple[Floats, list[Floats]]:
        self.told.append(super().picks(tree))
        return self.told[-1]


@pytest.mark.parametrize(("name", "branching"), CASES)
def test_output_and_pick_have_their_laws(
    name: str, branching: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "FITS", 4)  # any rates will do
    for family in FAMILIES:
        laws = model(family, 3, 1)
        if name != "i.i.d." and family == "zeros":
            continue  # fewer tokens than are drawn
        many = name == "without replacement"  # trees
        if (many or name == "i.i.d.") and family != "tiny":
            continue
        verifier = Noted(_scheme(name), _random_rates if many else None)
        trees = list(_trees(name, laws, branching))
        assert law_over(trees, verifier, laws, 2).deviation <= EXACT, family
        picked: defaultdict[Prefix, float] = defaultdict(float)
        told: dict[Prefix, float] = {}
        for (chance, tree), (weights, proposals) in zip(trees, verifier.told, strict=True):
            for nodes, weight, proposal in zip(tree.node, weights, proposals, strict=True):
                path = tree.prefix(int(nodes[-1]))
                picked[path] += chance * weight
                told[path] = float(np.prod([law[token] for law, token in zip(proposal, path, strict=True)]))
        for path, chance in picked.items():
            assert chance == pytest.approx(told[path], abs=EXACT), (family, path)


def test_any_rates_are_lossless() -> None:
    for name, branching in (("systematic", (2, 2)), ("i.i.d.", (2, 1))):
        laws = model("tiny", 3, 4)
        law = law_over(_trees(name, laws, branching), Clocks(_scheme(name), _random_rates), laws, 2)
        assert law.deviation <= EXACT, name


def test_i_i_d_siblings_that_branch_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "FITS", 20)
    laws = model("tiny", 2, 6)
    law = law_over(_trees("i.i.d.", laws, (2, 2)), Clocks(), laws, 2)
    assert law.deviation <= EXACT
    assert path_law(Block(), laws, 1, 2).mean_accepted < law.mean_accepted <= tree_bound(laws, (2, 2)) + 1e-7


def test_one_level_is_a_choice_by_luce() -> None:
    """The first of exponential clocks is each with probability its rate over the sum."""
    for name in (*JOINT, "i.i.d."):
        laws = model("tiny", 4, 2)
        p, q = np.asarray(laws.target(())), np.asarray(laws.draft(()))
        scheme, rate = _scheme(name)(q, 2), _random_rates(p, q)
        expected = np.zeros(4)
        for drafts, chance in zip(*scheme.support(), strict=True):
            np.add.at(expected, drafts, chance * rate[drafts] / rate[drafts].sum())
        tree = laws.tree([[0], [1]])
        weights, proposals = Clocks(_scheme(name), _random_rates).picks(tree)
        np.testing.assert_allclose(proposals[0][0], expected, atol=1e-14, err_msg=name)
        np.testing.assert_allclose(weights, rate[:2] / rate[:2].sum(), atol=1e-14, err_msg=name)


def test_one_child_each_is_a_block() -> None:
    laws = model("peaked", 3, 2)
    found, block = law_over(_trees("i.i.d.", laws, (1, 1)), Clocks(), laws, 2), path_law(Block(), laws, 1, 2)
    np.testing.assert_allclose(found.output, block.output, atol=EXACT)
    assert found.mean_accepted == pytest.approx(block.mean_accepted, abs=EXACT)


def test_picks_by_sampling() -> None:
    laws = model("tiny", 4, 3)
    for name, paths in (
        ("without replacement", [[0, 1], [0, 2], [3, 1], [3, 0]]),
        ("i.i.d.", [[0, 1], [0, 1], [0, 2], [0, 0]]),
    ):
        tree, verifier, rng = laws.tree(paths, (2, 2)), Clocks(_scheme(name), _random_rates), np.random.default_rng(0)
        weights, _ = verifier.picks(tree)
        assert weights.sum() == pytest.approx(1.0, abs=EXACT)
        picks = np.bincount([verifier.pick(tree, rng).path for _ in range(300)], minlength=4) / 300
        np.testing.assert_allclose(picks, weights, atol=5 * 0.5 / np.sqrt(300), err_msg=name)
        assert verifier.verify(tree, 3).accepted >= 0


def test_another_law_than_the_one_told_is_seen() -> None:
    laws = model("tiny", 3, 1)
    assert law_over(_trees("systematic", laws, (2, 2)), Clocks(IID, _random_rates), laws, 2).deviation > 1e-3


def test_integrals_of_powers() -> None:
    for power in (0.0, 0.125, 1.0, 8.0, 64.0):
        assert np.exp(-power * AT) @ WEIGHT == pytest.approx(1 / (1 + power), rel=1e-14), power


def test_what_clocks_refuse() -> None:
    laws = model("tiny", 3, 1)
    tree = laws.tree([[0], [1]])
    for rate, told in itertools.product((0.0, -1.0, np.inf, np.nan), (1, 3)):
        wrong = Clocks(IID, lambda p, q, rate=rate, told=told: np.full(told, rate))  # type: ignore[misc]
        with pytest.raises(ProblemError, match=r"the rates at node 0 are .*; pass a finite one > 0 for each token"):
            wrong.picks(tree)
    with pytest.raises(ProblemError, match="rates is 3; pass a function"):
        Clocks(IID, 3)  # type: ignore[arg-type]
    lacking = Tree.with_laws(tree, tree.target, tree.draft)
    object.__setattr__(lacking, "shape", Shape((3,)))
    with pytest.raises(ProblemError, match=r"slot 0 has 2 children, and branching \(3,\) says 3"):
        Clocks().picks(lacking)


def test_fitted_rates_are_worth_what_the_best_single_position_rules_are() -> None:
    """Nearly; and far more than clocks that all run alike."""
    means: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(3):
        laws = model("tiny", 3, seed)
        trees = list(_trees("systematic", laws, (2, 2)))
        by_plan = PickByPlan(lambda q: Systematic(q, 2), "max_flow")
        alike = Clocks(Systematic, lambda p, q: np.ones_like(p))
        for name, verifier in (("fitted", Clocks(Systematic)), ("alike", alike), ("by plan", by_plan)):
            means[name].append(law_over(trees, verifier, laws, 2).mean_accepted)
    assert np.mean(means["fitted"]) > 0.97 * np.mean(means["by plan"])
    assert np.mean(means["fitted"]) > 1.05 * np.mean(means["alike"])
