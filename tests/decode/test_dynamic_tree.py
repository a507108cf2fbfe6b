"""Dynamic trees: the tokens that a draft model finds likeliest, by the laws of regular trees, and greedy text."""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from otspec import ProblemError  # noqa: E402
from otspec.decode import Budget, Frequent  # noqa: E402
from otspec.decode.base.draft_laws import draft_law  # noqa: E402
from otspec.decode.base.sampling import Sampling  # noqa: E402
from otspec.decode.drafters.catalogue import drafter_of  # noqa: E402
from otspec.decode.drafters.grow_tree import GrowTree, _tree  # noqa: E402
from otspec.decode.methods import DynamicTree  # noqa: E402
from otspec.decode.models.tokens.matching import matching_of  # noqa: E402
from otspec.decode.shipped import foreign, load  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from tests.contracts.draft_models import (  # noqa: E402
    all_features,
    eagle,
    heads,
    law_on,
    logits_after_heads,
    logits_of_parallel,
    over_all,
    random_router,
    routed,
    shared,
    steered,
)
from tests.decode.models import pair, tiny  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

VOCAB, DEPTH = 8, 3
TEXTS = ([3, 1, 4, 1, 5], [2, 7], [6])
Prefix = tuple[int, ...]
KINDS: Mapping[str, Callable[[Any], Any]] = {"plain": lambda draft: draft, "steered": steered, "eagle": eagle}


def _sampling() -> Sampling:
    target = pair(VOCAB)[0]
    return Sampling(target._get_logits_processor(target.generation_config, device="cpu", model_kwargs={}), True)


def _growing(model: Any, width: int, size: int) -> GrowTree:
    drafter: Any = DynamicTree(model, width, DEPTH, size).prepare(VOCAB, _sampling(), torch.Generator()).drafter
    assert isinstance(drafter, GrowTree)
    return drafter


def _begun(drafter: Any, texts: list[list[int]]) -> Any:
    if drafter.layers:
        drafter.observe([all_features(pair(VOCAB)[0], text)[:-1] for text in texts])
    drafter.start(texts)
    return drafter


def _laws(kind: str, texts: list[list[int]], width: int) -> list[dict[Prefix, Any]]:
    """Of each text, the model's law after every prefix of a tree in which each node has its likeliest tokens."""
    model, shape = KINDS[kind](pair(VOCAB)[1]), Shape((width,) * DEPTH)
    drafter = drafter_of([model], shape, draft_law("top_k"), _sampling(), VOCAB, torch.Generator())
    drafts, row, found = _begun(drafter, texts).draft(texts, DEPTH), 0, []
    for tree in drafts.trees:
        lines = [tuple(tree.token[tree.line(node)].tolist()) for node in range(tree.inner)]
        found.append({line: drafts.laws[row + at] for at, line in enumerate(lines)})
        row += tree.inner
    return found


def _likeliest(laws: dict[Prefix, Any], width: int, size: int) -> set[Prefix]:
    """What the published algorithm drafts, prefix by prefix."""
    frontier: list[tuple[float, Prefix]] = [(0.0, ())]
    looked: list[tuple[float, Prefix]] = []
    for _ in range(DEPTH):
        after = [
            (chance + math.log(laws[prefix][token]), (*prefix, token))
            for chance, prefix in frontier
            for token in laws[prefix].argsort(descending=True)[:width].tolist()
        ]
        frontier = sorted(after, reverse=True)[:width]
        looked += after
    return {prefix for _, prefix in sorted(looked, reverse=True)[:size]}


def _drafted(drafts: Any) -> list[set[Prefix]]:
    return [{tuple(tree.token[tree.line(node)].tolist()) for node in range(1, tree.size)} for tree in drafts.trees]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "size"), [(1, 9), (2, 4), (2, 99), (3, 7)])
def test_the_likeliest_tokens_are_drafted(kind: str, width: int, size: int) -> None:
    """At once, and after a step that accepted a path to a leaf, where nothing has been read, in a batch."""
    texts = [list(text) for text in TEXTS]
    drafter = _growing(KINDS[kind](pair(VOCAB)[1]), width, size)
    drafts = _begun(drafter, texts).draft(texts, DEPTH)
    assert _drafted(drafts) == [_likeliest(laws, width, size) for laws in _laws(kind, texts, width)]
    if kind == "steered":
        return  # what it has read keeps its steering; a drafter that begins anew has read it otherwise
    slots, seen, now = [], [], []
    for number, (text, tree) in enumerate(zip(texts, drafts.trees, strict=True)):
        node = int(tree.depth.argmax()) if number else 0
        line = tree.line(node)
        slots.append(tree.slot[line].tolist())
        now.append([*text, *tree.token[line].tolist(), 3])
        seen.append(all_features(pair(VOCAB)[0], now[-1][:-1])[len(text) - 1 :])
    drafter.commit(slots, [0, 2])
    texts = [now[0], now[2]]
    if kind == "eagle":
        drafter.observe([seen[0], seen[2]])
    assert _drafted(drafter.draft(texts, DEPTH)) == [
        _likeliest(laws, width, size) for laws in _laws(kind, texts, width)
    ]


def test_what_is_refused() -> None:
    target, draft = pair(VOCAB)
    with pytest.raises(ProblemError, match="a dynamic tree is of one draft model; pass it alone"):
        DynamicTree([draft, draft])
    with pytest.raises(ProblemError, match="draft_shortlist and draft_tokens: both say"):
        DynamicTree(draft, draft_tokens=[1], draft_shortlist=Frequent([1, 2], 1))
    with pytest.raises(ProblemError, match="4 tokens that it was trained with"):
        DynamicTree(shared(target, kept=(0, 2, 4, 6)), draft_tokens=[1])
    other = foreign()
    with pytest.raises(ProblemError, match="with the target's tokenizer, and this one has another"):
        DynamicTree(other.draft, matching=matching_of(load().tokenizer, other.tokenizer))


def test_nodes_that_are_impossible_are_in_no_tree() -> None:
    """Suppressed tokens have a chance of 0, and a tree may be allowed more nodes than there are others."""
    tokens = np.array([7, 8, 9])
    levels = [[tokens, np.array([-0.5, -np.inf, -1.0]), np.zeros(3, dtype=int), np.array([0, 2])]]
    paths, columns = _tree(levels, size=3)
    assert sorted(paths) == [[7], [9]]
    assert sorted(columns) == [[0], [1]]


@pytest.mark.parametrize("size", [1, 4, 9, 30])
@pytest.mark.parametrize("kept", [None, (0, 2, 3, 5, 7)])
def test_of_a_model_that_drafts_at_once_the_likeliest_of_all_prefixes(size: int, kept: tuple[int, ...] | None) -> None:
    """Every prefix of every length, by the product of the marginals at its places."""
    target = tiny(8)
    model = shared(target, masks=2, kept=kept)
    texts = [[1, 2, 3], [4]]
    drafter = _growing(model, 2, size)
    drafter.observe([all_features(target, text)[:-1] for text in texts])
    drafter.start(texts)
    for text, drafted in zip(texts, _drafted(drafter.draft(texts, DEPTH)), strict=True):
        logs = [
            torch.from_numpy(over_all(model, logits_of_parallel(model, target, text, [0] * level))).log_softmax(-1)
            for level in range(DEPTH)
        ]
        every = [
            (sum(float(logs[level][token]) for level, token in enumerate(prefix)), prefix)
            for length in range(1, DEPTH + 1)
            for prefix in itertools.product(range(8), repeat=length)
        ]
        possible = [one for one in sorted(every, reverse=True) if math.isfinite(one[0])]
        assert drafted == {prefix for _, prefix in possible[:size]}


@pytest.mark.parametrize("kind", ["medusa", "mlp"])
def test_of_heads(kind: str) -> None:
    """By the formulas of the papers: of Medusa's the likeliest prefixes of all, of the others level by level."""
    target, texts, width = tiny(VOCAB), [[1, 2, 3], [4]], 2
    model = heads(kind, target, 0.2)
    drafter = DynamicTree(model, width, DEPTH, 5).prepare(VOCAB, _sampling(), torch.Generator()).drafter
    drafter.observe([all_features(target, text, (2,))[:-1] for text in texts])
    drafter.start(texts)
    for text, drafted in zip(texts, _drafted(drafter.draft(texts, DEPTH)), strict=True):
        laws = {
            prefix: torch.from_numpy(logits_after_heads(model, target, text, list(prefix))).softmax(-1)
            for length in range(DEPTH)
            for prefix in itertools.product(range(VOCAB), repeat=length)
        }
        assert drafted == _likeliest(laws, VOCAB**2 if kind == "medusa" else width, 5)


def test_of_a_router_the_likeliest_of_each_shortlist() -> None:
    """DynaSpec's Algorithm 1, prefix by prefix: probabilities are over the clusters that a prefix is routed to."""
    draft, texts, width, size = pair(VOCAB)[1], [[1, 2, 3], [4]], 2, 5
    router = random_router(draft, [token % 4 for token in range(VOCAB)], Budget(2, falling=2), seed=3)
    made = DynamicTree(draft, width, DEPTH, size, draft_shortlist=router)
    drafter = _begun(made.prepare(VOCAB, _sampling(), torch.Generator()).drafter, texts)
    for text, drafted in zip(texts, _drafted(drafter.draft(texts, DEPTH)), strict=True):
        laws = {}
        for length in range(DEPTH):
            for prefix in itertools.product(range(VOCAB), repeat=length):
                shortlist = routed(router, draft, [*text, *prefix], length)
                laws[prefix] = torch.from_numpy(law_on(draft, [*text, *prefix], shortlist)).clamp(min=1e-300)
        assert drafted == _likeliest(laws, width, size)
