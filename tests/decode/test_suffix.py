"""Suffix decoding by arctic-inference: fixed drafts, verified as such."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import MissingExtra, ProblemError  # noqa: E402
from otspec.decode import run  # noqa: E402
from otspec.decode.drafters.suffix import SuffixDrafter, _paths  # noqa: E402
from otspec.decode.methods import Suffix  # noqa: E402
from otspec.extras import installed  # noqa: E402
from tests.decode.models import pair  # noqa: E402

TEXT = [1, 2, 3, 4, 6, 1, 2, 3, 5, 8, 1, 2, 3, 4, 6, 7, 1, 2, 3]


def _cache() -> Any:
    return pytest.importorskip("arctic_inference.suffix_decoding").SuffixDecodingCache()


def test_paths_of_a_tree() -> None:
    assert _paths([5, 6, 7, 8], [-1, 0, 0, 2], 3) == [[5, 6], [5, 7, 8]]
    assert _paths([5, 6, 7, 8], [-1, 0, 0, 2], 1) == [[5], [5]]
    assert _paths([1, 2], [-1, -1], 3) == [[1], [2]]
    assert _paths([], [], 3) == []


def test_what_followed_is_drafted() -> None:
    path, tree = (SuffixDrafter(count, 2, _cache()) for count in (1, 3))
    found = []
    for drafter in (path, tree):
        drafter.start([TEXT[:-1], [7]])
        drafts = drafter.draft([TEXT, [7, 8]], 2)
        assert not len(drafts.laws)
        assert drafts.trees[1].size == 1
        one = drafts.trees[0]
        assert one.length <= 2
        found.append({tuple(one.token[one.line(node)].tolist()) for node in range(1, one.size)})
    assert found[0] == {(4,), (4, 6)}  # twice, and 5 once
    assert found[0] < found[1]
    assert (5,) in found[1]


def test_texts_that_end_are_forgotten_and_their_words_are_not() -> None:
    memory = _cache()
    drafter = SuffixDrafter(1, 4, memory)
    drafter.start([[9, 9], [1, 2, 3]])
    drafter.draft([[9, 9, 4, 5, 6], [1, 2, 3, 4, 5]], 4)
    drafter.commit([[], []], [1])
    [one] = drafter.draft([[1, 2, 3, 4, 5]], 4).trees
    assert one.token[1:].tolist()[:1] == [6]  # as the text did that has ended
    drafter.start([[3]])
    assert len(memory.active_requests) == 1


@pytest.mark.parametrize("paths", [1, 3])
def test_greedy_decoding(paths: int) -> None:
    _cache()
    target = pair(40)[0]
    prompts = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])
    prompts = torch.cat((target.generate(prompts, max_new_tokens=20, do_sample=False), prompts), dim=1)
    plain = target.generate(prompts, max_new_tokens=20, do_sample=False).tolist()
    generation = run(target, Suffix(4, paths), prompts, max_new_tokens=20, temperature=0)
    assert generation.sequences.tolist() == plain
    assert generation.metrics.offered[0] > 0
    assert max(len(generation.metrics.offered), 0) <= 4


def test_a_memory_of_earlier_runs() -> None:
    memory, target = _cache(), pair(40)[0]
    prompt = torch.tensor([[1, 2, 3, 1, 2]])
    calls = [
        run(target, Suffix(8, memory=memory), prompt, max_new_tokens=30, temperature=0).metrics.target_calls
        for _ in range(2)
    ]
    assert calls[1] < calls[0] <= 30


def test_what_is_refused() -> None:
    for name in ("depth", "paths"):
        with pytest.raises(ProblemError, match=f"{name} is 0"):
            Suffix(**{name: 0})
    if not installed("arctic_inference"):
        with pytest.raises(MissingExtra, match="pip install --no-build-isolation arctic-inference"):
            Suffix()
