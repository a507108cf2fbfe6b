"""The largest label is found without refining nodes that cannot win: the same, to the last bit, as by refining all."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from otspec.laws import as_generator
from otspec.paths import Model, Nested, Tree
from otspec.verification.rules.nested.growth import Grown, grow
from otspec.verification.rules.nested.labels import coordinate, place_at
from otspec.verification.rules.nested.nested import LabelVerifier, _arrays
from tests.oracles import Floats, Ints
from tests.verification.catalogue import LABELS
from tests.verification.models import FAMILIES, model

VERIFIERS = (*LABELS.values(), Nested())
SHAPES = ((4, 1, 1, 1), (1, 1, 3, 1), (2, 2, 2), (3, 1, 2), (1, 1, 1), (5,), (6, 1, 1, 1, 1, 1))

Shown = tuple[int, float]


def _of_all(tree: Tree, grown: Grown, positions: Floats) -> tuple[int, Ints]:
    """The winning path, and the nodes that a search by what could be shown refines, of a tree that is fully grown."""
    branching, children = tree.shape.branching, tree.children
    own = np.ones(tree.size)
    for node in range(tree.inner, tree.size):
        own[node] = positions[tree.node[:, -1] == node].max()

    def exact(node: int) -> tuple[float, int]:
        if node >= tree.inner:
            return own[node], int(np.flatnonzero((tree.node[:, -1] == node) & (positions == own[node]))[0])
        shown, path = max(
            ((place_at(grown.owned[child], at), child), path)
            for child in children[node].tolist()
            for at, path in [exact(child)]
        )
        return coordinate(grown.places[node], *shown[0]) ** branching[tree.depth[node]], path

    refined: set[int] = set()
    solved = set(range(tree.inner, tree.size))

    def shows(child: int) -> tuple[Shown, int]:
        return place_at(grown.owned[child], own[child]), child

    def improve(node: int) -> None:
        if node in refined:
            improve(max(shows(child) for child in children[node].tolist())[1])
        refined.add(node)
        shown, best = max(shows(child) for child in children[node].tolist())
        own[node] = coordinate(grown.places[node], *shown) ** branching[tree.depth[node]]
        if best in solved:
            solved.add(node)

    while 0 not in solved:
        improve(0)
    return exact(0)[1], np.array(sorted(refined))


def _trees(laws: Model, seed: int) -> list[Tree]:
    return [laws.drawn(shape, np.random.default_rng((seed, i))) for i, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("verifier", VERIFIERS, ids=repr)
def test_the_pick_is_that_of_all_labels_and_reads_no_other_laws(verifier: LabelVerifier) -> None:
    spared = 0
    for family, seed in itertools.product(FAMILIES, range(3)):
        for tree in _trees(model(family, 8, seed), seed):
            grown = grow(*_arrays(tree), verifier._sharings)
            for draw in range(4):
                at = (family, seed, tree.shape.branching, draw)
                path, read = _of_all(tree, grown, as_generator(draw, 1).random(tree.count))
                picked = verifier.pick(tree, draw)
                assert picked.path == path, at
                proposals = [grown.places[node].proposal for node in tree.node[path, :-1]]
                off = 1e-12 if tree.count == 1 else 0.0  # an only path has the draft laws, which labels add up to
                np.testing.assert_allclose(picked.proposal, proposals, rtol=off, err_msg=str(at))
                # What is not refined is not read: laws that are none change nothing.
                unread = np.setdiff1d(np.arange(tree.inner), read)
                target, draft = tree.target.copy(), tree.draft.copy()
                target[unread], draft[unread] = np.nan, np.nan
                again = verifier.pick(replace(tree, target=target, draft=draft), draw)
                assert again.path == path, at
                np.testing.assert_array_equal(again.proposal, picked.proposal, err_msg=str(at))
                spared += unread.size
    assert spared > 500


def test_rare_tokens_at_depth_do_not_mislead_the_search() -> None:
    """Labels that differ by less than an ulp as numbers on [0, 1] are still told apart where their paths part."""
    rng = np.random.default_rng(3)
    q = np.append(np.full(20, 1e-12), 1 - 20e-12)
    p = rng.dirichlet(np.ones(21))
    laws = Model(lambda prefix: p, lambda prefix: q)
    paths = rng.integers(0, 20, (6, 30))
    paths[1, :15], paths[4, :29] = paths[0, :15], paths[5, :29]
    tree = laws.tree(paths)
    for verifier in VERIFIERS:
        grown = grow(*_arrays(tree), verifier._sharings)
        for draw in range(5):
            path, _ = _of_all(tree, grown, as_generator(draw, 1).random(tree.count))
            assert verifier.pick(tree, draw).path == path, (verifier, draw)
