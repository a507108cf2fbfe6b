"""A long text: what is allocated, read and remembered does not grow with it beyond the caches themselves."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import otspec
from otspec.decode.models.passes.cache import SPARE, KVBlock
from tests.decode.models import pair

PATHS, DEPTH, NEW, PROMPT = 3, 3, 200, 4
LENGTH, NODES = PROMPT + NEW, 1 + PATHS * DEPTH


class Watched(TorchDispatchMode):
    """A streamer that counts the operations of each step, and keeps the sizes of new tensors and of blocks of caches.

    Views and what is written in place are not new.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total, self.at = 0, list[int]()
        self.fresh: list[tuple[int, str]] = []
        self.blocks: dict[KVBlock, list[tuple[int, ...]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.total += 1
        given = func(*args, **(kwargs or {}))
        had = {one.untyped_storage().data_ptr() for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        for one in tree_leaves(given):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in had:
                self.fresh.append((one.numel(), str(func)))
        return given

    def put(self, value: Any) -> None:
        self.at.append(self.total)

    def end(self) -> None: ...

    def noting(self, method: Any) -> Any:
        """A method of blocks, after which their shape is noted where it is another."""

        def noted(block: KVBlock, *args: Any) -> None:
            method(block, *args)
            shapes, shape = self.blocks.setdefault(block, []), tuple(block.entries.shape)
            if shape not in shapes[-1:]:
                shapes.append(shape)

        return noted


@pytest.fixture(scope="module", params=["transformers", "lean"])
def written(request: pytest.FixtureRequest) -> tuple[Watched, Any]:
    """In float32 a Llama is read by the lean pass."""
    models = (copy.deepcopy(model) for model in pair(8, positions=1024))
    target, draft = (model.float() if request.param == "lean" else model for model in models)
    prompt, seen = torch.arange(1, 1 + PROMPT)[None], Watched()
    settings: dict[str, Any] = {"paths": PATHS, "depth": DEPTH, "seed": 3}
    otspec.generate(target, draft, prompt, **settings, max_new_tokens=2)  # the self-check has caches of its own
    with pytest.MonkeyPatch.context() as patched, seen:
        for name in ("__init__", "reserve"):
            patched.setattr(KVBlock, name, seen.noting(getattr(KVBlock, name)))
        return seen, otspec.generate(target, draft, prompt, **settings, max_new_tokens=NEW, streamer=seen)


def test_caches_are_allocated_a_few_times_and_nothing_else_grows(written: tuple[Watched, Any]) -> None:
    seen, generation = written
    most = LENGTH + NODES
    assert seen.blocks
    for shapes in seen.blocks.values():
        columns = [shape[3] for shape in shapes]
        assert LENGTH - 1 - DEPTH <= columns[-1] <= 2 * most
        assert len(columns) <= 2 + math.log2(most / SPARE), columns
    heads, size = 4, 4
    # The mask of a tree, or keys of one layer for as many heads as queries have.
    allowed = max(NODES, heads * size) * most
    caches = [math.prod(shape) for shapes in seen.blocks.values() for shape in shapes]
    large = [(numbers, by) for numbers, by in seen.fresh if numbers > allowed]
    assert not [one for one in large if one[0] not in caches]
    assert len(large) <= len(caches)
    target, draft = generation.passes["target"], generation.passes["draft"]
    assert len(target) == generation.metrics.target_calls
    assert all(one.rows <= NODES for one in target)
    starts = [one.start for one in target]
    assert starts[0] == PROMPT - 1
    assert all(1 <= after - before <= DEPTH + 1 for before, after in pairwise(starts))
    assert len(target) - 1 <= len(draft) <= DEPTH * len(target)
    assert all(one.rows <= max(PATHS, DEPTH + 1) for one in draft)


def test_a_step_does_as_much_late_as_early(written: tuple[Watched, Any]) -> None:
    """Operations on tensors, counted: none of them is once a token of the text."""
    spent = [stop - start for start, stop in pairwise(written[0].at[1:])]
    third = len(spent) // 3
    early, late = spent[:third], spent[-third - DEPTH : -DEPTH]  # the last steps draft less deep
    assert sorted(late)[-2] <= max(early)  # in one step both caches double for the last time
    assert sum(late) / len(late) == pytest.approx(sum(early) / len(early), rel=0.05)
