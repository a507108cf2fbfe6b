"""A small source of positions, and solvers that misbehave on purpose; workers import them by unpickling the source."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from otspec.data import Position
from otspec.problem import Problem
from otspec.results import Status
from otspec.solver import Solution, Stopped, register
from otspec.solvers import MaxFlow


class SmallSource:
    """Twelve positions over 8 tokens."""

    name = "small"
    vocab = 8

    @property
    def identity(self) -> Mapping[str, object]:
        return {"test": "small"}

    def __len__(self) -> int:
        return 12

    def position(self, index: int) -> Position:
        rng = np.random.default_rng(index)
        return Position(rng.normal(size=8), rng.normal(size=8))


class HoledSource(SmallSource):
    """One of its positions is none."""

    name = "holed"

    def position(self, index: int) -> Position:
        position = super().position(index)
        if index == 1:
            position.draft_logits[5] = np.nan
        return position


class Unreadable(SmallSource):
    """A source that no other process can have."""

    def __setstate__(self, state: object) -> None:
        raise ValueError("cannot be read back")

    def __getstate__(self) -> object:
        return True


@register("test_moody")
@dataclass(frozen=True)
class Moody:
    """Solves by max_flow, but hangs, or gives up, on some first likeliest tokens."""

    tol: float = 1e-9
    hangs_on: int = -1
    gives_up_on: int = -1
    dies_on: int = -1
    raises_on: int = -1
    sleeps_on: int = -1

    name: ClassVar[str]
    exact: ClassVar[bool] = False
    schemes: ClassVar[str] = "any"
    variants: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()

    def supports(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem) -> Solution:
        mood = mood_at(problem)
        if mood == self.gives_up_on:
            raise Stopped(Status.LIMIT, "not in the mood")
        if mood == self.dies_on:
            os._exit(9)
        if mood == self.raises_on:
            raise ZeroDivisionError("in a mood")
        if mood == self.sleeps_on:
            time.sleep(2)
        if mood == self.hangs_on:
            time.sleep(600)
        return Solution(MaxFlow()(problem).plan, {"cells": np.int64(8)})  # type: ignore[dict-item]  # as JSON has none


def mood_at(problem: Problem) -> int:
    """The likeliest of the tokens that can be drafted."""
    return int(problem.p[:-1].argmax())


def moods() -> list[int]:
    """The mood of `Moody` at each position, for k = 4."""
    source = SmallSource()
    problems = (source.position(index).problem(2, top_k=4).compact().problem for index in range(len(source)))
    return [mood_at(problem) for problem in problems]
