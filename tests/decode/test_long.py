"""A long text: what is allocated, read and remembered does not grow with it beyond the caches themselves."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import otspec
from otspec.decode.models.context import Pass
from otspec.decode.models.passes.cache import SPARE, Block
from tests.decode.models import pair

VOCAB, PATHS, DEPTH, NEW, PROMPT = 8, 3, 3, 300, 4
LENGTH = PROMPT + NEW
NODES = 1 + PATHS * DEPTH


class AtEachStep:
    """A streamer that notes how many operations were done whenever tokens came out."""

    def __init__(self, done: Operations) -> None:
        self.done = done
        self.at: list[int] = []

    def put(self, value: Any) -> None:
        self.at.append(self.done.total)

    def end(self) -> None: ...


def by_step(passes: Sequence[Pass]) -> list[list[Pass]]:
    """A drafter's passes, parted by step: the next begins before the columns at which the last one ended."""
    steps: list[list[Pass]] = []
    for one in passes:
        if not steps or one.start < steps[-1][-1].start + steps[-1][-1].rows:
            steps.append([])
        steps[-1].append(one)
    return steps


class Operations(TorchDispatchMode):
    """Counts operations, and the numbers of each new tensor; views and what is written in place are not new."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0
        self.fresh: list[tuple[int, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.total += 1
        given = func(*args, **(kwargs or {}))
        had = {one.untyped_storage().data_ptr() for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        for one in tree_leaves(given):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in had:
                self.fresh.append((one.numel(), str(func)))
        return given


@contextmanager
def allocations() -> Iterator[dict[int, list[tuple[int, ...]]]]:
    """The shape of each block, every time that it was allocated."""
    found: dict[int, list[tuple[int, ...]]] = {}
    kept = []  # so that no other block gets its identity
    made, reserved = Block.__init__, Block.reserve

    def make(block: Block, *args: Any) -> None:
        made(block, *args)
        kept.append(block)
        found[id(block)] = [tuple(block.entries.shape)]

    def reserve(block: Block, columns: int) -> None:
        before = block.entries
        reserved(block, columns)
        if block.entries is not before:
            found[id(block)].append(tuple(block.entries.shape))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Block, "__init__", make)
        patched.setattr(Block, "reserve", reserve)
        yield found


class Watched(NamedTuple):
    """A long text, and what was seen of it while it was written."""

    generation: Any
    blocks: dict[int, list[tuple[int, ...]]]
    """Of `allocations`."""
    done: Operations
    at: list[int]
    """How many operations were done whenever tokens came out."""


@pytest.fixture(scope="module", params=["transformers", "lean"])
def watched(request: pytest.FixtureRequest) -> Watched:
    """In float32 a Llama is read by the lean pass."""
    models = (copy.deepcopy(model) for model in pair(VOCAB, positions=1024))
    target, draft = (model.float() if request.param == "lean" else model for model in models)
    prompt = torch.arange(1, 1 + PROMPT)[None]
    settings: dict[str, Any] = {"paths": PATHS, "depth": DEPTH, "seed": 3}
    otspec.generate(target, draft, prompt, **settings, max_new_tokens=2)  # the self-check has caches of its own
    done = Operations()
    noted = AtEachStep(done)
    with allocations() as blocks, done:
        generation = otspec.generate(target, draft, prompt, **settings, max_new_tokens=NEW, streamer=noted)
    return Watched(generation, blocks, done, noted.at)


def test_caches_are_allocated_a_few_times_and_nothing_else_grows(watched: Watched) -> None:
    generation, blocks, done, _ = watched
    most = LENGTH + NODES
    assert blocks
    for shapes in blocks.values():
        columns = [shape[3] for shape in shapes]
        assert LENGTH - 1 - DEPTH <= columns[-1] <= 2 * most
        assert len(columns) <= 2 + math.log2(most / SPARE), columns
    heads, size = 4, 4
    # The mask of a tree, or keys of one layer for as many heads as queries have.
    allowed = max(NODES, heads * size) * most
    caches = {math.prod(shape) for shapes in blocks.values() for shape in shapes}
    assert {(numbers, by) for numbers, by in done.fresh if numbers > allowed and numbers not in caches} == set()
    assert len([numbers for numbers, _ in done.fresh if numbers > allowed]) <= sum(map(len, blocks.values()))

    steps = generation.metrics.target_calls
    target, draft = generation.passes["target"], by_step(generation.passes["draft"])
    assert len(target) == steps
    assert steps - 1 <= len(draft) <= steps
    assert all(one.rows <= NODES for one in target)
    starts = [one.start for one in target]
    assert starts[0] == PROMPT - 1
    gains = [after - before for before, after in pairwise(starts)]
    assert all(1 <= gain <= DEPTH + 1 for gain in gains)
    for step, at in zip(draft, starts, strict=False):
        assert len(step) <= DEPTH
        assert step[0].start <= at
        assert all(one.rows <= max(PATHS, DEPTH + 1) for one in step)


def test_a_step_does_as_much_late_as_early(watched: Watched) -> None:
    """Operations on tensors, counted: none of them is once a token of the text."""
    spent = [stop - start for start, stop in pairwise(watched.at[1:])]
    third = len(spent) // 3
    early, late = spent[:third], spent[-third - DEPTH : -DEPTH]  # the last steps draft less deep
    assert sorted(late)[-2] <= max(early)  # in one step both caches double for the last time
    assert sum(late) / len(late) == pytest.approx(sum(early) / len(early), rel=0.05)
