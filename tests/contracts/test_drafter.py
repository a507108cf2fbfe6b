"""How every drafter of the catalogue behaves: what it hands out, and that it follows the text, whatever is accepted."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from otspec import ProblemError
from otspec.decode import MultiDraft
from otspec.decode.base.drafts import Drafts
from otspec.decode.tuning.trials import Varying
from tests.contracts.catalogue import CATALOGUE, FEW, Entry
from tests.contracts.draft_models import models
from tests.contracts.playing import Play, deeper
from tests.each import each

pytestmark = pytest.mark.usefixtures("no_gradients")

SETTINGS: dict[str, dict[str, Any]] = {"top-k 5": {"temperature": 0.7, "top_k": 5}, "top-k 2": {"top_k": 2}}
TEXTS = [[1, 2, 3, 4, 5, 1, 2], [6], [7, 7, 1, 7]]


def begun(entry: Entry, settings: dict[str, Any], texts: Any = None) -> Play:
    """A drafter that has read the prompts, with trees of a level more than is enumerated."""
    of = models(8 if entry.vocabs else entry.vocab)
    texts = TEXTS if texts is None else texts
    texts = [[token % of.vocab for token in text] for text in texts]
    return Play(deeper(entry.make(of)), of, texts if entry.batch else texts[:1], settings)


def check_trees(drafts: Drafts, texts: int, vocab: int, depth: int) -> None:
    """A tree for each text, no deeper than asked for, of tokens that there are."""
    assert len(drafts.trees) == texts
    for tree in drafts.trees:
        assert 0 <= tree.length <= depth
        assert ((tree.token[1:] >= 0) & (tree.token[1:] < vocab)).all()
        below = list(zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True))
        assert len(set(below)) == len(below)


def check_laws(entry: Entry, play: Play, drafts: Drafts, settings: dict[str, Any]) -> None:
    """A law for each node that has children, or each path through it, from which these can have been drawn.

    It is what the draft model says there when it reads the whole text anew, and to the bit one that was drawn from.
    """
    of, texts = play.of, play.texts
    laws, row = drafts.over(of.vocab).numpy(), 0
    if play.drawn_from:
        columns = drafts.laws.shape[1]
        drawn_from = {law.numpy()[:columns].tobytes() for law in play.drawn_from}
        assert all(law.tobytes() in drawn_from for law in drafts.laws.numpy())
    assert drafts.laws.dtype == torch.float64
    assert laws.shape[1] == of.vocab
    assert (laws >= 0).all()
    np.testing.assert_allclose(laws.sum(axis=1), 1, atol=1e-9)
    if drafts.support is not None:
        assert (np.count_nonzero(laws, axis=1) <= drafts.support).all()
    start, nodes = 0, drafts.nodes
    for number, (text, tree) in enumerate(zip(texts, drafts.trees, strict=True)):
        places = (
            [(node, row + at, 0) for at, node in enumerate(tree.drafted_after.tolist())]
            if drafts.rows is None
            else [
                (int(tree.node[path, level]), int(drafts.rows[number][path, level]), path)
                for path in range(tree.count)
                for level in range(tree.length)
            ]
        )
        for node, at, path in places:
            assert nodes[at] == start + node
            drafted = tree.token[tree.line(node)].tolist()
            if entry.law is not None:
                expected = entry.law(of, text, drafted, path, **settings)
                np.testing.assert_allclose(laws[at], expected, atol=entry.tolerance)
            if drafts.rows is None:
                assert (laws[at, tree.token[tree.parent == node]] > 0).all()
            else:
                assert laws[at, tree.token[tree.node[path, tree.depth[node] + 1]]] > 0
        start += tree.size
        row += tree.drafted_after.size
        assert drafts.rows is not None or np.isin(tree.parent[1:], tree.drafted_after).all()
    assert drafts.rows is not None or row == len(laws)


def check(entry: Entry, play: Play, drafts: Drafts, depth: int, settings: dict[str, Any]) -> None:
    """What it drafted after these texts."""
    check_trees(drafts, len(play.texts), play.of.vocab, depth)
    if len(drafts.laws):
        check_laws(entry, play, drafts.without_fixed(), settings)
    else:
        assert entry.law is None


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, "top-k 5") for name in CATALOGUE), *((name, "top-k 2") for name in FEW if CATALOGUE[name].law)],
)
def test_it_follows_the_text_step_after_step(name: str, settings: str) -> None:
    """Whatever is accepted, all, some or nothing; after a step without drafts; and when texts have ended.

    Laws of two tokens are seen in the first steps.
    """
    entry, rng = CATALOGUE[name], np.random.default_rng(0)
    play = begun(entry, SETTINGS[settings])
    for step in range(5 if settings == "top-k 5" else 2):
        depth, texts = play.depth, len(play.texts)
        assert depth >= 0
        nodes = [0] * texts
        if depth and step != 3:  # no draft is made in this one
            depth = 1 if step == 2 else depth
            drafts = play.draft(depth)
            check(entry, play, drafts, depth, SETTINGS[settings])
            if entry.by_text:
                again = Play(deeper(entry.make(play.of)), play.of, play.texts, SETTINGS[settings])
                assert again.depth >= depth  # asked before a step is drafted
                anew = again.draft(depth)
                assert [tree.token.tolist() for tree in anew.trees] == [tree.token.tolist() for tree in drafts.trees]
            deepest = [int(tree.depth.argmax()) for tree in drafts.trees]
            nodes = deepest if step == 0 else [int(rng.integers(tree.size)) for tree in drafts.trees]
        going = [row for row in range(texts) if texts == 1 or step != 1 or row != 1]
        play.go_on(nodes, rng.integers(play.of.vocab, size=texts).tolist(), going)


@pytest.mark.parametrize("name", FEW)
def test_as_deep_as_it_is_asked_for(name: str) -> None:
    """Every depth from 1 on; and the same drafts from the same seed."""
    entry, settings = CATALOGUE[name], SETTINGS["top-k 5"]
    for depth in range(1, begun(entry, settings).depth + 1):
        plays = [begun(entry, settings) for _ in range(2)]
        assert plays[0].depth == plays[1].depth  # asked before a step is drafted
        one, again = (play.draft(depth) for play in plays)
        check_trees(one, len(TEXTS) if entry.batch else 1, 8, depth)
        assert [tree.token.tolist() for tree in one.trees] == [tree.token.tolist() for tree in again.trees]
        if len(one.laws) and "confident" not in name:
            assert {tree.length for tree in one.trees} == {depth}


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.batch and entry.law is None])
def test_a_text_gets_the_laws_that_it_gets_alone(name: str) -> None:
    """Whatever stands beside it, in columns before its own; others have the law that is read anew, in any batch."""
    entry, settings = CATALOGUE[name], SETTINGS["top-k 5"]
    together = begun(entry, settings)
    drafts = together.draft(1) if together.depth else None
    for row, text in enumerate(TEXTS):
        alone = begun(entry, settings, [text])
        if alone.depth and drafts is not None and len(drafts.laws) and drafts.rows is None:
            np.testing.assert_allclose(alone.draft(1).laws[0], drafts.laws[row], atol=1e-10)


@each(name=list(CATALOGUE))
def test_a_count_of_nothing_is_refused_by_its_name(name: str) -> None:
    """Of all strategies but those whose settings are `DraftSettings`, which tests/decode/test_refusals.py has."""
    strategy: Any = CATALOGUE[name].make(models(CATALOGUE[name].vocab))
    if hasattr(strategy, "__dataclass_fields__") and not isinstance(strategy, MultiDraft | Varying):
        counts = [one.name for one in fields(strategy) if one.type in ("int", "int | None")]
        assert counts or not fields(strategy)
        for count in counts:
            with pytest.raises(ProblemError, match=f"{count} is 0"):
                replace(strategy, **{count: 0})
