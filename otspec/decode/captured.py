"""Verification of trees on a GPU as a CUDA graph: a hundred launches and more become one.

A step of decoding waits for the host to launch what verifies it, whatever the batch.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import torch

from otspec.verification.device import TreeVerification, verify_trees

MOST_BYTES = 1 << 29
"""Laws that a graph keeps room for, at most; beyond, the device has more to do than the host."""
MOST_GRAPHS = 12
"""Kept at a time: the last ones used, whatever the models; as many as a pace has shapes to choose among."""
MOST_BYTES_OF_ALL = 1 << 30
"""Laws that the graphs keep room for together, if there are several."""
OFTEN = 3
"""Steps of one shape before it is captured, which takes as long as several steps: the last trees of a text are smaller
than the others, and each of another shape."""
MOST_COUNTED = 64
"""Shapes whose steps are counted: the last that came."""


class DeviceRule(NamedTuple):
    """A rule of `verify_trees`."""

    name: str
    sigma: float = 0.0


class Trees(NamedTuple):
    """What a step has of its trees, as `verify_trees` takes it, with fewer rows of laws than slots, or as many."""

    target: torch.Tensor
    draft: torch.Tensor
    tokens: torch.Tensor
    uniforms: torch.Tensor
    target_row: torch.Tensor
    draft_row: torch.Tensor

    def verify(self, rule: DeviceRule, branching: tuple[int, ...], check: bool = False) -> TreeVerification:
        """By one rule, launch by launch."""
        rows = self.target_row, self.draft_row
        given = (self.target, self.draft, self.tokens, branching, self.uniforms)
        return verify_trees(*given, rows=rows, rule=rule.name, sigma=rule.sigma, check=check)

    def with_room(self) -> Trees:
        """Tensors of their own, with a row of laws for each slot."""
        target, draft = (
            torch.cat((laws, laws[:1].expand(row.numel() - len(laws), -1)))
            for laws, row in ((self.target, self.target_row), (self.draft, self.draft_row))
        )
        return Trees(target, draft, *(part.clone() for part in self[2:]))


class Captured(NamedTuple):
    """A graph, what it reads and what it writes."""

    graph: torch.cuda.CUDAGraph
    trees: Trees
    found: TreeVerification

    @classmethod
    def of(cls, trees: Trees, rule: DeviceRule, branching: tuple[int, ...]) -> Captured:
        """Capture a rule on trees of one shape, which it has verified before."""
        own, graph = trees.with_room(), torch.cuda.CUDAGraph()
        own.verify(
            rule, branching
        )  # what depends on the number of rows is compiled and kept, which a capture must not do
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # others may go on with their own work
            found = own.verify(rule, branching)
        return cls(graph, own, found)

    def verify(self, trees: Trees) -> TreeVerification:
        """Verify other trees of the shape."""
        for mine, theirs in zip(self.trees, trees, strict=True):
            mine[: len(theirs)].copy_(theirs)
        self.graph.replay()
        return TreeVerification(*(part.clone() for part in self.found))


class Counted:
    """How often each of the last shapes came."""

    def __init__(self) -> None:
        self._times: dict[object, int] = {}

    def again(self, one: object) -> int:
        """One more has come; how many of its like there were."""
        times = self._times.pop(one, 0) + 1
        while len(self._times) >= MOST_COUNTED:
            self._times.pop(next(iter(self._times)))
        self._times[one] = times
        return times


_GRAPHS: dict[object, Captured] = {}
_COUNTED = Counted()
_ONE_AT_A_TIME = Lock()
"""Threads that decode with one shape share a graph, and what it reads and writes."""


def _bytes_of_all() -> int:
    return sum(law.nbytes for kept in _GRAPHS.values() for law in (kept.trees.target, kept.trees.draft))


def verify_in_one(rule: DeviceRule, trees: Trees, branching: tuple[int, ...]) -> TreeVerification:
    """Verify trees; on a GPU as a graph, captured when their shape has come a few times, if it is not too large."""
    laws = trees.target, trees.draft
    size = sum(
        row.numel() * law.shape[1] * law.element_size()
        for law, row in zip(laws, (trees.target_row, trees.draft_row), strict=True)
    )
    if trees.tokens.device.type != "cuda" or size > MOST_BYTES:
        return trees.verify(rule, branching)
    kinds = tuple((law.dtype, law.shape[1]) for law in laws)
    key = (rule, branching, len(trees.tokens), kinds, trees.tokens.device)
    with _ONE_AT_A_TIME:
        often = _COUNTED.again(key)
        if key not in _GRAPHS:
            if often < OFTEN:
                return trees.verify(rule, branching)
            while _GRAPHS and (len(_GRAPHS) >= MOST_GRAPHS or _bytes_of_all() + size > MOST_BYTES_OF_ALL):
                _GRAPHS.pop(next(iter(_GRAPHS)))
            _GRAPHS[key] = Captured.of(trees, rule, branching)
        _GRAPHS[key] = _GRAPHS.pop(key)  # the last one used
        return _GRAPHS[key].verify(trees)
