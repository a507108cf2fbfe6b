"""Labels, what is accepted by them, what look-ahead rests on, and the search for the largest."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import otspec
from otspec import IID, Problem
from otspec.laws import as_generator
from otspec.schemes.iid import power_increments
from otspec.verification import GreedyMultiPath, Model, Nested, Tree, synthetic
from otspec.verification.rules.nested.growth import Grown, grow
from otspec.verification.rules.nested.labels import Label, coordinate, label_of, owned_by, place_at, whole
from otspec.verification.rules.nested.nested import LabelVerifier, _arrays
from otspec.verification.rules.nested.powers import power_density
from otspec.verification.rules.nested.ranking import FINEST, REACH, bucket
from otspec.verification.rules.nested.sharing import PLAIN, Sharing, measure_places, refine
from tests.each import each
from tests.oracles import Floats, Ints
from tests.verification.catalogue import LABELS
from tests.verification.models import FAMILIES, model

EXACT = 1e-12
AHEAD = Sharing(np.array([0.5, 0.9, 1.6]), 0.2, True, np.inf)


def _share_below(label: Label, u: float) -> float:
    """P(label <= u), from its pieces."""
    low, length = label.low[0] * label.scale, label.length[0] * label.scale
    return float(label.share @ np.clip((u - low) / length, 0.0, 1.0))


# --- labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [PLAIN, AHEAD], ids=["plain", "look-ahead"])
def test_children_partition_their_parent(ahead: Sharing) -> None:
    """Mixed by q, the children's labels are the parent's; their measures are the proposal; three levels deep."""
    for family, count in itertools.product(["tiny", "zeros", "ties", "point", "peaked", "same"], [1, 2, 5]):
        laws = model(family, 6, 11)
        nodes: list[tuple[tuple[int, ...], Label, float]] = [((), whole(), 1.0)]
        for prefix, label, density in nodes:
            at = (family, count, prefix)
            p, q = np.asarray(laws.target(prefix)), np.asarray(laws.draft(prefix))
            places = refine(p, q, count, label, 0.8, ahead)
            children = {
                x: label_of(owned_by(places, x), places.size, places.piece, places.used, label)
                for x in np.flatnonzero(q).tolist()
            }
            for u in np.linspace(0, 1, 23):
                mixed = sum(q[x] * _share_below(child, u) for x, child in children.items())
                assert mixed == pytest.approx(_share_below(label, u), abs=EXACT), at
            for x, child in children.items():
                assert child.share.sum() == pytest.approx(1.0, abs=EXACT), at
                assert (np.diff(child.low[0]) >= 0).all(), at
                assert (child.low[0, 1:] - (child.low + child.length)[0, :-1] >= -EXACT).all(), at
                own = sum(
                    share * power_density(low * child.scale, length * child.scale, count)
                    for low, length, share in zip(child.low[0], child.length[0], child.share, strict=True)
                )
                assert places.proposal[x] == pytest.approx(q[x] * own / density, rel=1e-9), at
                if len(prefix) < 2 and len(nodes) < 12:
                    nodes.append(((*prefix, x), child, own))
            assert places.proposal.sum() == pytest.approx(1.0, abs=EXACT), at


def test_places_of_one_label_are_measured_without_loss() -> None:
    """A place below an ulp of what lies under it has its measure all the same."""
    size = np.array([0.5, 1e-20, 0.25, 1e-300, 0.25])
    piece, used, density = np.empty(5, dtype=np.int64), np.empty(5), np.empty(5)
    measure_places(size, whole(), 4, piece, used, density)
    np.testing.assert_allclose(size * density, power_increments(size, 4), rtol=1e-14)
    # Two pieces with a hole between them: the second place takes the rest of the first, and part of the second.
    none = np.empty(0, dtype=np.int64)
    label = Label(np.array([[0.0, 0.75]]), np.array([[0.5, 0.25]]), np.array([2 / 3, 1 / 3]), none, 1.0)
    size = np.array([0.5, 0.5])
    measure_places(size, label, 2, piece[:2], used[:2], density[:2])
    inside = np.array([0.375**2, 0.5**2 - 0.375**2 + 1.0 - 0.75**2]) * 4 / 3
    np.testing.assert_allclose(size * density[:2], inside, rtol=1e-14)


# --- what is accepted ---------------------------------------------------------------------------------------------


def test_first_level_reaches_the_optimum() -> None:
    """Tiny tokens, where windows kept as (low, high) lose their measure: the cut value all the same."""
    for regime, count, seed in itertools.product(["sharp", "mixed", "far"], [2, 4, 10], range(4)):
        laws = synthetic(regime, 1000, seed)
        p, q = np.asarray(laws.target(())), np.asarray(laws.draft(()))
        proposal = refine(p, q, count, whole(), 1.0, PLAIN).proposal
        optimum = otspec.optimum(Problem(p, IID(q, count)))
        assert np.minimum(p, proposal).sum() == pytest.approx(optimum.bound, abs=1e-10), (regime, count, seed)
        assert proposal.sum() == pytest.approx(1.0, abs=EXACT), (regime, count, seed)


def test_denormal_probabilities() -> None:
    q = np.array([5e-324, 1e-310, 1e-300, 1.0])
    p = np.array([0.2, 1e-310, 0.3, 0.5])
    laws = otspec.verification.Model(lambda prefix: p, lambda prefix: q)
    tree = laws.tree([[0, 0, 1], [0, 1, 2], [3, 0, 3], [3, 3, 3]])
    for sigma in (0.0, 0.5):
        picked = Nested(sigma).pick(tree, np.random.default_rng(0))
        np.testing.assert_allclose(picked.proposal.sum(axis=1), 1.0, atol=EXACT, err_msg=f"sigma = {sigma}")
        weights, _ = Nested(sigma).picks(tree)
        assert weights.min() >= 0, sigma
        assert weights.sum() == pytest.approx(1.0, abs=EXACT), sigma
        assert Nested(sigma).stop_law(tree).sum() == pytest.approx(1.0, abs=EXACT), sigma


def test_the_exact_law_of_the_pick_is_that_of_the_rule_at_any_depth() -> None:
    """Labels of paths that part after 17 rare tokens lie within an ulp of each other, as numbers on [0, 1]."""
    even, common, swapped = np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.1, 0.9])

    def tree(paths: list[list[int]], last: Floats) -> Tree:
        depth = len(paths[0]) - 1
        return Tree.of(paths, lambda prefix: even, lambda prefix: last if len(prefix) == depth else common)

    verifiers = (Nested(0.0), Nested(), Nested(grain=0), GreedyMultiPath())
    for length, verifier in itertools.product((2, 17, 40, 400), verifiers):
        at = (length, verifier)
        paths = [[1] * (length - 1) + [0], [1] * length]
        first_wins = tree(paths, swapped)
        weights, _ = verifier.picks(first_wins)
        np.testing.assert_allclose(weights, [1.0, 0.0], atol=EXACT, err_msg=str(at))
        mean = float(verifier.stop_law(first_wins).sum(axis=1) @ first_wins.depth)
        assert mean == pytest.approx(length, abs=EXACT), at
        assert verifier.verify(first_wins, np.random.default_rng(0)).accepted == length, at
        # Where nothing tells the last tokens apart, each path is as likely as any other, at any depth.
        weights, _ = verifier.picks(tree([*paths, paths[0]], even))
        np.testing.assert_allclose(weights, np.full(3, 1 / 3), atol=EXACT, err_msg=str(at))


def test_buckets_hold_tokens_of_nearly_equal_ratio_in_ascending_order() -> None:
    rng = np.random.default_rng(5)
    p, q = rng.gamma(0.3, size=(2, 500))
    p[:20], q[10:30] = 0.0, 0.0
    p[30:33], q[40:43] = 1e-300, 1e-300
    p[50:52], q[50:52] = 2.0**-REACH * np.array([1.0001, 0.9999]), 1.0  # on either side of both ends
    p[52:54], q[52:54] = 1.0, 2.0**-REACH * np.array([1.0001, 0.9999])
    for grain in (0.005, 0.02, 0.3, 1.0):
        tokens, buckets, rank_of_bucket, target, size = bucket(p, q, grain)
        rank, k = np.full(500, -1), size.size
        rank[tokens] = rank_of_bucket[buckets]
        assert ((rank >= 0) == (q > 0)).all(), grain
        assert k == rank.max() + 1, grain
        highest = 0.0
        for j in range(k):
            mine = rank == j
            np.testing.assert_allclose(
                [target[j], size[j]], [p[mine].sum(), q[mine].sum()], rtol=1e-12, err_msg=f"grain = {grain}"
            )
            ratio = p[mine] / q[mine]
            inside = (ratio > 2.0**-REACH) & (ratio < 2.0**REACH)
            if inside.all():
                assert ratio.max() <= ratio.min() * (1 + grain), grain
            else:
                assert not inside.any(), grain
                assert j in (0, k - 1), grain
            assert ratio.min() >= highest, grain
            highest = ratio.max()


# --- look-ahead


COUNT = 3
SPLIT = Sharing(np.array([0.5, 0.9, 1.6]), 0.0, True, np.inf)


@each(regime=("mixed", "sharp", "far"), seed=(0, 1), share=(0.3, 0.6, 0.9))
def test_tokens_on_either_side_of_the_cut_stay_among_themselves(regime: str, seed: int, share: float) -> None:
    """Look-ahead swaps among the tokens whose proposal exceeds weight * p, and among the others, never across."""
    laws = synthetic(regime, 60, seed)
    p, q = np.asarray(laws.target(())), np.asarray(laws.draft(()))
    plain = refine(p, q, COUNT, whole(), 1.0, PLAIN)
    slopes = np.sort(plain.proposal / p)
    weight = slopes[0] + share * (slopes[-1] - slopes[0])
    over = plain.proposal > weight * p
    ahead = refine(p, q, COUNT, whole(), weight, SPLIT)
    side = np.empty(ahead.group.max() + 1, dtype=bool)
    side[ahead.group] = over
    assert 0 < over.sum() < 60
    assert ahead.amount.size
    assert (side[ahead.owner[ahead.recipient]] == side[ahead.owner[ahead.donor]]).all()
    # So what is worth too much stays so, and the present level loses nothing but the little that rounding takes.
    assert ahead.proposal[over].sum() == pytest.approx(plain.proposal[over].sum(), abs=1e-12)


@each(regime=("mixed", "close", "sharp", "far"), seed=(0, 1), weight=(0.6, 1.0))
def test_buckets_on_the_last_level_cost_next_to_nothing(regime: str, seed: int, weight: float) -> None:
    """What is lost to min(weight p, g) is what tokens of the bucket at the cut lose by sharing evenly."""
    laws = synthetic(regime, 1000, seed)
    p, q = np.asarray(laws.target(())), np.asarray(laws.draft(()))
    sharings = Nested()._sharings
    assert sharings.last.grain == FINEST
    accepted = [
        np.minimum(weight * p, refine(p, q, COUNT, whole(), weight, sharing).proposal).sum()
        for sharing in (PLAIN, sharings.last, sharings.last._replace(grain=0.1))
    ]
    assert -1e-12 <= accepted[0] - accepted[1] < 5e-4
    assert accepted[0] - accepted[2] >= -1e-12


def test_no_swap_exceeds_a_place_that_was_made_longer() -> None:
    """Places below `LEAST` are made as long as that, and then there is more to swap than one of them can hold."""
    p = np.array([2.0257007561194237e-296, 1.0, 3.3671344410841387e-224, 1.706851787634263e-285])
    narrow = Label(np.array([[1 - 1e-12]]), np.array([[1e-12]]), np.ones(1), np.empty(0, dtype=np.int64), 1.0)
    for width in np.linspace(-3e-12, 3e-12, 41):
        q = p * (1 + width * np.array([1.0, 0.0, -0.2, 0.5]))
        places = refine(p / p.sum(), q / q.sum(), COUNT, narrow, 1.0, PLAIN)
        assert (places.kept >= 0).all(), width
        filled = places.kept.copy()
        np.add.at(filled, places.recipient, places.amount)
        np.add.at(filled, places.donor, places.amount)
        np.testing.assert_allclose(filled, places.size, rtol=1e-12)


# --- the largest label is found without refining nodes that cannot win


VERIFIERS = (*LABELS.values(), Nested())
SHAPES = ((4, 1, 1, 1), (1, 1, 3, 1), (2, 2, 2), (3, 1, 2), (1, 1, 1), (5,), (6, 1, 1, 1, 1, 1))


def _of_all(tree: Tree, grown: Grown, positions: Floats) -> tuple[int, Ints]:
    """The winning path of a tree that is fully grown, and inner nodes that are beaten whatever lies below them."""
    beaten: list[int] = []

    def exact(node: int) -> tuple[float, int]:
        if node >= tree.inner:
            own = positions[tree.node[:, -1] == node].max()
            return own, int(np.flatnonzero((tree.node[:, -1] == node) & (positions == own))[0])
        found = [(child, *exact(child)) for child in tree.children[node].tolist()]
        shown, path = max(((place_at(grown.owned[child], own), child), path) for child, own, path in found)
        beaten.extend(child for child, *_ in found if (place_at(grown.owned[child], 1.0), child) < shown)
        return coordinate(grown.places[node], *shown[0]) ** tree.shape.branching[tree.depth[node]], path

    path = exact(0)[1]
    return path, np.flatnonzero(tree.lineage[: tree.inner, beaten].any(axis=1))


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
                path, unread = _of_all(tree, grown, as_generator(draw, 1).random(tree.count))
                picked = verifier.pick(tree, draw)
                assert picked.path == path, at
                proposals = [grown.places[node].proposal for node in tree.node[path, :-1]]
                off = 1e-12 if tree.count == 1 else 0.0  # an only path has the draft laws, which labels add up to
                np.testing.assert_allclose(picked.proposal, proposals, rtol=off, err_msg=str(at))
                # What cannot win is not read: laws that are none change nothing.
                target, draft = tree.target.copy(), tree.draft.copy()
                target[unread], draft[unread] = np.nan, np.nan
                again = verifier.pick(replace(tree, target=target, draft=draft), draw)
                assert again.path == path, at
                np.testing.assert_array_equal(again.proposal, picked.proposal, err_msg=str(at))
                spared += unread.size
    assert spared > 500
