"""Laws on their way to the host: tokens that cannot be drafted are one to the verifier, and nothing else changes."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from otspec import ProblemError
from otspec.decode.base.draft_laws import DRAFT_LAWS, draft_law
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.metrics import Clock
from otspec.decode.base.sampling import Sampling
from otspec.decode.methods import Typical
from otspec.decode.verify.compact import CompactTree, compact_trees
from otspec.decode.verify.laws import LawRows, MergedLaws, _over_columns, _split_over_columns, merged_to_host, to_host
from otspec.decode.verify.step import OnHostOfScores
from otspec.decode.verify.verifiers import merges, verifier
from otspec.verification import Nested, Tree, synthetic
from otspec.verification.rules.catalogue import BY_PLAN
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import NONE, Topology
from tests.laws import hostile as hostile_pair
from tests.laws import normalised
from tests.oracles import Floats
from tests.verification.catalogue import follows

VOCAB, K = 23, 4
REGIMES = ("tiny", "mixed", "close", "far", "sharp")


def _generator() -> Any:
    return torch.Generator().manual_seed(0)


def _hostile(seed: int) -> Floats:
    """Zeros, ties or a tail of 1e-300."""
    return normalised(hostile_pair(np.random.default_rng(seed), VOCAB)[1])


def _trees(shape: Shape, law: str, count: int, hostile: bool) -> list[Tree]:
    """Trees of models whose drafts are truncated to top-k, drawn as the device draws them."""
    generator, trees = _generator(), []
    for seed in range(count):
        model = synthetic(REGIMES[seed % 5], VOCAB, seed)

        def target(prefix: Any, model: Any = model, seed: int = seed) -> Floats:
            return _hostile(seed + sum(prefix)) if hostile else np.asarray(model.target(prefix))

        def draft(prefix: Any, model: Any = model, seed: int = seed) -> Floats:
            law = _hostile(1 + seed + sum(prefix)) if hostile else np.asarray(model.draft(prefix))
            law[np.argsort(-law, kind="stable")[K:]] = 0.0
            return law / law.sum()

        slots: list[Any] = [()]
        for level, children in enumerate(shape.branching):
            for above in range(*shape.offsets[level : level + 2]):
                if slots[above] is None:  # a slot without a token
                    slots += [None] * children
                    continue
                q = torch.tensor(draft(slots[above])[None])
                drawn = draft_law(law).draw(q, children, generator)[0].tolist()
                slots += [None if token == NONE else (*slots[above], token) for token in drawn]
        topology = Topology.merge(shape, np.array([NONE if slot is None else slot[-1] for slot in slots[1:]]))
        nodes = [slots[slot] for slot in topology.slot]
        targets, inner = [target(node) for node in nodes], nodes[: topology.inner]
        trees.append(Tree.with_laws(topology, np.array(targets), np.array([draft(node) for node in inner])))
    return trees


def _locally(trees: list[Tree]) -> list[CompactTree]:
    """What a decoding step hands to its verifier."""
    target = torch.tensor(np.concatenate([tree.target for tree in trees]))
    before = target.clone()
    drafts = Drafts(trees, torch.tensor(np.concatenate([tree.draft for tree in trees])), K)
    laws = merged_to_host(target, drafts, _generator())
    assert torch.equal(target, before)
    assert isinstance(laws, MergedLaws)
    return compact_trees(drafts, laws)


JOINTLY = [name for name in DRAFT_LAWS if name not in ("iid", "independent")]


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(
    ("law", "rule"), [("iid", "nested"), ("iid", "interval"), *itertools.product(JOINTLY, (None, BY_PLAN))], ids=str
)
def test_what_a_rule_does_with_a_tree_is_the_same(law: str, rule: Any, hostile: bool) -> None:
    """Every node gives every token apart, and all others together, the same chance; tests/contracts has every rule."""
    shape = Shape((2, 2))
    trees, made = _trees(shape, law, 10, hostile), verifier(rule, shape, draft_law(law))
    assert verifier(own := SimpleNamespace(verify=made.verify), shape, draft_law(law)) is own
    assert merges(made)
    for tree, local in zip(trees, _locally(trees), strict=True):
        whole, seen = made.stop_law(tree), made.stop_law(local.tree)
        for node in range(tree.size):
            apart = local.tokens[node] if node < tree.inner else local.tokens[node, :0]
            np.testing.assert_allclose(seen[node, : apart.size], whole[node, apart], atol=1e-9)
            assert seen[node, -1] == pytest.approx(np.delete(whole[node], apart).sum(), abs=1e-9)
        assert seen.sum(axis=1) @ tree.depth == pytest.approx(whole.sum(axis=1) @ tree.depth, abs=1e-9)


def test_typical_acceptance_sees_whole_laws() -> None:
    """It asks for the entropy of the target, which merging lowers: some drafts would no longer be taken."""
    assert not merges(Typical())


@pytest.mark.parametrize("vocab", [2, 3, 5, 16, 17, 30])
def test_the_rest_stands_for_one_of_its_tokens_by_their_law(vocab: int) -> None:
    """Drawn in two stages, blocks and tokens of a block, whatever the number of tokens is."""
    runs = 20_000
    target = np.random.default_rng(vocab).dirichlet(np.full(vocab, 0.3))
    target[vocab // 2] = 0.0
    target /= target.sum()
    drafted = int(target.argmax())
    root = Topology.merge(Shape((1,)), np.array([drafted]))
    draft = torch.tensor(np.eye(vocab)[drafted]).expand(runs, -1)
    laws = merged_to_host(torch.tensor(target).repeat(2 * runs, 1), Drafts([root] * runs, draft, 1), _generator())
    if vocab == 2:  # nothing to gain
        assert isinstance(laws, LawRows)
        return
    assert isinstance(laws, MergedLaws)
    others = target.copy()
    others[drafted] = 0.0
    for law, drawn in ((others, laws.drawn[::2]), (target, laws.drawn[1::2])):
        assert follows(np.bincount(drawn, minlength=vocab), law)
    np.testing.assert_allclose(laws.target[::2, -1], others.sum(), rtol=1e-12)


def test_laws_of_more_tokens_than_foreseen_come_whole() -> None:
    trees = _trees(Shape.paths(2, 2), "iid", 3, False)
    target = torch.tensor(np.concatenate([tree.target for tree in trees]))
    draft = torch.tensor(np.concatenate([tree.draft for tree in trees]))
    for support in (K - 1, None):
        laws = merged_to_host(target, Drafts(trees, draft, support), _generator())
        assert isinstance(laws, LawRows)
        np.testing.assert_array_equal(laws.probability, torch.cat((target, draft)).numpy())


@pytest.mark.parametrize(
    ("vocab", "k", "merged"), [(200, 64, True), (200, 65, False), (261, 65, True), (65, 64, False)]
)
def test_laws_are_merged_where_drafts_are_few_enough(vocab: int, k: int, merged: bool) -> None:
    root = Topology.merge(Shape((1,)), np.array([3]))
    target = torch.full((2, vocab), 1 / vocab, dtype=torch.float64)
    draft = torch.zeros(1, vocab, dtype=torch.float64)
    draft[0, :k] = 1 / k
    laws = merged_to_host(target, Drafts([root], draft, k), _generator())
    assert isinstance(laws, MergedLaws) == merged


def test_where_nothing_was_drafted_one_number_is_all() -> None:
    root = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
    target = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    drafts = Drafts([root, root], torch.empty(0, 3, dtype=torch.float64), 0)
    trees = compact_trees(drafts, merged_to_host(target, drafts, _generator()))
    assert [(local.tree.target.tolist(), local.token(0, 0)) for local in trees] == [([[1.0]], 1), ([[1.0]], 2)]


def test_laws_over_columns_are_the_same_on_a_device_and_by_a_kernel() -> None:
    """But for the last level, where a device draws a token of every law."""
    trees, columns = _trees(Shape((2, 1)), "iid", 5, True), torch.arange(1, VOCAB, 3)
    target = torch.tensor(np.concatenate([tree.target for tree in trees]))
    draft = torch.rand(sum(tree.inner for tree in trees), columns.numel(), dtype=torch.float64, generator=_generator())
    drafts = Drafts(trees, draft / draft.sum(dim=1, keepdim=True), columns=columns)
    there = _over_columns(target.clone(), drafts, columns, _generator())
    here = _split_over_columns(target.clone(), drafts, columns, _generator())
    for one, other in zip(there[:3], here[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert (np.delete(here.drawn, drafts.nodes) == NONE).all()
    assert (there.drawn[drafts.nodes] == here.drawn[drafts.nodes]).all()
    rest = np.delete(np.arange(VOCAB), columns)
    assert (np.isin(there.drawn, rest) | (there.target[:, -1] == 0))[drafts.nodes].all()


def test_the_token_after_a_last_node_is_drawn_where_a_text_ends() -> None:
    """On a CPU, of scores: nothing is possible but what follows, which is what was drafted, but for the last text."""
    follows = [(2, 4, 8), (4, 6, 1), (6, 2, 4), (6, 0, 0)]
    columns, drafted = torch.tensor([2, 4, 6]), [2, 4, 4, 6, 6, 2, 2, 4]
    trees = [Topology.merge(Shape((1, 1)), np.array(drafted[at : at + 2])) for at in range(0, 8, 2)]
    scores = torch.full((12, 9), -torch.inf)
    scores[range(12), torch.tensor(follows).flatten()] = 0.0
    drafts = Drafts(trees, torch.stack([(columns == token).double() for token in drafted]), columns=columns)
    verifier = OnHostOfScores(Sampling([], True), Nested(), np.random.default_rng(0), _generator())
    found = verifier.verify(drafts, scores, Clock(torch.device("cpu"))).extensions
    texts = [one.tokens(tree) for one, tree in zip(found, trees, strict=True)]
    assert texts == [list(follows[0]), list(follows[1]), list(follows[2]), [6]]
    scores[10:] = torch.nan  # after drafts that the last text does not get
    assert verifier.verify(drafts, scores, Clock(torch.device("cpu"))).extensions == found
    scores[5] = torch.nan  # after the last node of the second tree
    with pytest.raises(ProblemError, match="no law"):
        verifier.verify(drafts, scores, Clock(torch.device("cpu")))


def test_what_is_no_law_is_named() -> None:
    (tree,) = _trees(Shape.paths(2, 2), "iid", 1, False)
    for value in (torch.nan, -0.5, torch.inf):
        for role in ("target", "draft"):
            laws = {"target": torch.tensor(tree.target), "draft": torch.tensor(tree.draft)}
            laws[role][0, int(tree.token[1])] = value
            drafts = Drafts([tree], laws["draft"], K)
            on_host = merged_to_host(laws["target"], drafts, _generator())
            with pytest.raises(ProblemError, match=role):
                compact_trees(drafts, on_host)


def test_laws_come_whole_however_many_tokens_were_foreseen() -> None:
    laws = torch.zeros(3, 20, dtype=torch.float32)
    laws[0, 7] = 1.0
    laws[1, [19, 0, 4]] = torch.tensor([0.5, 0.25, 0.25])
    laws[2, [3, 5]] = 0.5
    for support in (None, 1, 2, 3, 40):
        rows = to_host(laws, support)
        assert (rows.token is None) == (support != 3), support
        whole = np.zeros((3, 20))
        if rows.token is None:
            whole = rows.probability
        else:
            np.add.at(whole, (np.arange(3)[:, None], rows.token), rows.probability)
        np.testing.assert_array_equal(whole, laws.double().numpy(), err_msg=f"support {support}")
