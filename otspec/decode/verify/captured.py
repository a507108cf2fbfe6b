"""Verification of trees on a GPU as a CUDA graph: a hundred launches and more become one.

A step of decoding waits for the host to launch what verifies it, whatever the batch.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import torch

from otspec.decode.base.graphs import GraphedCallable
from otspec.verification.device import verify_trees

MOST_BYTES = 1 << 29
"""Laws that a graph has room for, at most; beyond, the device has more to do than the host."""
MOST_GRAPHS = 12
"""Cached at a time: the last ones used, whatever the models."""
MOST_BYTES_OF_ALL = 1 << 30
"""Laws that the graphs have room for together, if there are several."""
OFTEN = 3
"""Steps of one shape until there is room for a graph of it, which the next one captures.  That takes as long as several
steps: the last trees of a text are smaller than the others, and each of another shape."""
MOST_COUNTED = 64
"""Shapes whose steps are counted: the last that came."""


class DeviceRule(NamedTuple):
    """A rule of `verify_trees`."""

    name: str
    sigma: float = 0.0


class Inputs(NamedTuple):
    """The trees of a step as `verify_trees` takes them: what a graph reads at fixed addresses.

    It is no `TreeBatch`: that is made of it within the graph, whose checks are captured, too.  There are fewer rows
    of laws than slots, or as many.
    """

    target: torch.Tensor
    """Shape (R, V)."""
    draft: torch.Tensor
    """Shape (R', V), float64."""
    uniforms: torch.Tensor
    """Shape (B, S + L, 3), float64."""
    slots: torch.Tensor
    """Shape (B, 2 S + I), int64, on the device or the host: tokens, rows of target laws, and of draft laws."""

    def verify(self, rule: DeviceRule, branching: tuple[int, ...], check: bool = False) -> torch.Tensor:
        """By one rule, launch by launch: accepted slots, the token after them and whether a tree was valid.

        Returns a tensor of shape (B, L + 2), int64.
        """
        slots, count = self.slots.to(self.target.device, non_blocking=True), self.uniforms.shape[1] - len(branching)
        rows = slots[:, count : 2 * count], slots[:, 2 * count :]
        arguments = (self.target, self.draft, slots[:, :count], branching, self.uniforms)
        found = verify_trees(*arguments, rows=rows, rule=rule.name, sigma=rule.sigma, check=check)
        return torch.cat((found.slots, found.token[:, None], found.valid[:, None].long()), dim=1)

    def rows(self, branching: tuple[int, ...]) -> tuple[int, int]:
        """How many rows of laws there are where each slot has its own: B S and B I."""
        count, width = self.uniforms.shape[1] - len(branching), self.slots.shape[1]
        return len(self.slots) * count, len(self.slots) * (width - 2 * count)

    def with_rows(self, branching: tuple[int, ...]) -> Inputs:
        """Tensors of their own on the device, with a row of laws for each slot."""
        target, draft = (
            torch.cat((laws, laws[:1].expand(rows - len(laws), -1)))
            for laws, rows in zip((self.target, self.draft), self.rows(branching), strict=True)
        )
        return Inputs(target, draft, self.uniforms.clone(), self.slots.to(target.device, copy=True))


class GraphedVerifier:
    """One rule for trees of one shape, which are copied to where its graph reads them.

    Parameters
    ----------
    rule : DeviceRule
    trees : Inputs
        Some of the shape.
    branching : tuple of int
    pool : object
        Where its graph puts what it needs in between.
    """

    def __init__(self, rule: DeviceRule, trees: Inputs, branching: tuple[int, ...], pool: Any) -> None:
        self._own = trees.with_rows(branching)
        self._verify = partial(self._own.verify, rule, branching)
        self._pool = pool
        self._replayed: GraphedCallable[torch.Tensor] = GraphedCallable()

    @property
    def nbytes(self) -> int:
        """Of the laws that it has room for."""
        return self._own.target.nbytes + self._own.draft.nbytes

    def verify(self, trees: Inputs) -> torch.Tensor:
        """Verify others of the shape."""
        for mine, theirs in zip(self._own, trees, strict=True):
            mine[: len(theirs)].copy_(theirs, non_blocking=True)
        return self._replayed.run(lambda _: self._verify(), self._pool).clone()


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


_GRAPHS: dict[object, GraphedVerifier] = {}
_COUNTED = Counted()
_ONE_AT_A_TIME = Lock()
"""Threads that decode with one shape share a graph, and what it reads and writes."""


def _bytes_of_all() -> int:
    return sum(graph.nbytes for graph in _GRAPHS.values())


def verify_in_one(rule: DeviceRule, trees: Inputs, branching: tuple[int, ...]) -> torch.Tensor:
    """As `Inputs.verify`; on a GPU as a graph, captured when a shape has come a few times, if it is not too large."""
    laws = trees.target, trees.draft
    size = sum(rows * law.shape[1] * law.element_size() for law, rows in zip(laws, trees.rows(branching), strict=True))
    if trees.target.device.type != "cuda" or size > MOST_BYTES:
        return trees.verify(rule, branching)
    kinds = tuple((law.dtype, law.shape[1]) for law in laws)
    key = (rule, branching, len(trees.slots), kinds, trees.target.device)
    with _ONE_AT_A_TIME:
        often = _COUNTED.again(key)
        if key not in _GRAPHS:
            if often < OFTEN:
                return trees.verify(rule, branching)
            while _GRAPHS and (len(_GRAPHS) >= MOST_GRAPHS or _bytes_of_all() + size > MOST_BYTES_OF_ALL):
                _GRAPHS.pop(next(iter(_GRAPHS)))
            _GRAPHS[key] = GraphedVerifier(rule, trees, branching, torch.cuda.graph_pool_handle())
        _GRAPHS[key] = _GRAPHS.pop(key)  # the last one used
        return _GRAPHS[key].verify(trees)
