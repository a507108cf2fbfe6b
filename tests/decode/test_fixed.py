"""Fixed drafts: the text has the target's law by enumeration of all that may be drawn, and by counting texts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError  # noqa: E402
from otspec.decode import run  # noqa: E402
from otspec.decode.base.drafts import Drafts  # noqa: E402
from otspec.decode.drafters.prompt_lookup import LookupDrafter, continuations  # noqa: E402
from otspec.decode.methods import DynamicTree, Lookahead, PromptLookup  # noqa: E402
from otspec.decode.models.target import Target  # noqa: E402
from otspec.decode.verify.step import _matched  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402
from tests.oracles import Floats  # noqa: E402

VOCAB = 3
TEXTS = [[1, 2, 0, 1, 0, 0, 1, 2, 1, 0], [2, 2, 1, 2, 2], [0, 1, 2], [1]]
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 0.6": {"temperature": 0.6},
    "top-k": {"top_k": 2},
}


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def _exact(text: list[int], length: int, **settings: Any) -> Floats:
    """The target's law of the next tokens, shape (V,) * length."""
    law = np.ones((VOCAB,) * length)
    for size in range(length):
        for prefix in itertools.product(range(VOCAB), repeat=size):
            after = law_after(pair(VOCAB)[0], [*text, *prefix], **settings)
            law[prefix] *= after.reshape((-1,) + (1,) * (length - 1 - size))
    return law


@pytest.mark.parametrize("name", SETTINGS)
def test_the_text_has_the_law_of_the_target(name: str) -> None:
    """Whatever is drawn at the nodes of a tree, with its probability, put out, and gone on from by the target."""
    target, depth = pair(VOCAB)[0], 2
    for text in TEXTS[:2]:
        drafts = LookupDrafter(3, depth, 2).draft([text], depth)
        tree = drafts.trees[0]
        assert tree.size > tree.length + 1  # it branches
        assert not len(drafts.laws)
        read = Target(target, [text]).read([text], [tree]).double().numpy()
        own = [law_after(target, [*text, *tree.token[tree.line(node)].tolist()]) for node in range(tree.size)]
        np.testing.assert_allclose(np.exp(read) / np.exp(read).sum(axis=1, keepdims=True), own, atol=1e-9)
        laws = [
            law_after(target, [*text, *tree.token[tree.line(node)].tolist()], **SETTINGS[name])
            for node in range(tree.size)
        ]
        exact, found = _exact(text, depth + 1, **SETTINGS[name]), np.zeros((VOCAB,) * (depth + 1))
        for drawn in itertools.product(range(VOCAB), repeat=tree.size):
            chance = np.prod([law[token] for law, token in zip(laws, drawn, strict=True)])
            if chance:
                [extension] = _matched([tree], drawn)
                new = (*tree.token[extension.nodes].tolist(), extension.token)
                found[new] += chance * exact[new] / exact[new].sum()
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    "method",
    [PromptLookup(3, 2), PromptLookup(3, 2, 3), Lookahead(2, 1, 3), DynamicTree(pair(VOCAB)[1], 2, 2)],
    ids=["one path", "three", "lookahead", "dynamic"],
)
def test_texts_of_a_batch(name: str, method: Any) -> None:
    runs, length = 500, 3
    width = max(map(len, TEXTS))
    ids = torch.tensor([[0] * (width - len(text)) + text for text in TEXTS]).repeat(runs, 1)
    mask = torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in TEXTS]).repeat(runs, 1)
    settings: dict[str, Any] = {"attention_mask": mask, "max_new_tokens": length, "seed": 1, **SETTINGS[name]}
    codes = np.array(run(pair(VOCAB)[0], method, ids, **settings).new_tokens) @ VOCAB ** np.arange(length)[::-1]
    for row, text in enumerate(TEXTS):
        expected = _exact(text, length, **SETTINGS[name]).ravel() * runs
        counts = np.bincount(codes[row :: len(TEXTS)], minlength=expected.size)
        assert not counts[expected == 0].any()
        small = expected < 5
        assert chisquare(
            np.append(counts[~small], counts[small].sum()), np.append(expected[~small], expected[small].sum() + 1e-9),
            sum_check=False,
        ).pvalue > 1e-4, text  # fmt: skip


def test_several_paths_are_greedy_decoding_in_fewer_calls() -> None:
    target = pair(40)[0]
    prompt = torch.tensor([[1, 2, 3, 9, 1, 2, 4, 9, 1, 2]])
    prompt = torch.cat((target.generate(prompt, max_new_tokens=20, do_sample=False), prompt), dim=1)
    plain = target.generate(prompt, max_new_tokens=20, do_sample=False).tolist()
    calls = []
    for paths in (1, 2, 4):
        generation = run(target, PromptLookup(4, paths=paths), prompt, max_new_tokens=20, temperature=0)
        assert generation.sequences.tolist() == plain
        calls.append(generation.metrics.target_calls)
    assert calls[0] >= calls[1] >= calls[2]


def test_the_latest_different_continuations() -> None:
    text = [1, 2, 3, 9, 1, 2, 4, 9, 5, 2, 7, 9, 1, 2]
    assert continuations(text, 2, 2, 9) == [[4, 9], [3, 9], [7, 9]]  # of two tokens, the latest first; then of one
    assert continuations(text, 2, 2, 2) == [[4, 9], [3, 9]]
    assert continuations(text, 1, 1, 9) == [[7], [4], [3]]
    assert continuations([5, 5, 5, 5], 2, 3, 9) == [[5], [5, 5], [5, 5, 5]]
    assert continuations([1, 8, 1, 8, 8, 1, 8], 1, 2, 9) == [[1, 8], [8, 1]]  # the same twice is one
    assert continuations([1, 2, 3], 3, 4, 9) == []


def test_paths_that_begin_alike_share_nodes() -> None:
    drafts = Drafts.fixed([[[1, 2, 3], [1, 2], [1, 4, 4, 4], [7]], [], [[]]])
    one, none, empty = drafts.trees
    assert none.size == empty.size == 1
    lines = {tuple(one.token[one.line(node)].tolist()) for node in range(1, one.size)}
    assert lines == {(1,), (7,), (1, 2), (1, 4), (1, 2, 3), (1, 4, 4), (1, 4, 4, 4)}
    assert (one.length, one.size) == (4, 8)
    assert (np.diff(one.depth) >= 0).all()


def test_what_is_no_count_is_refused() -> None:
    with pytest.raises(ProblemError, match="paths is 0"):
        PromptLookup(paths=0)
