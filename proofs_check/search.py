"""How to search for an instance that contradicts a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.optimize import minimize

from otspec.errors import ProblemError
from otspec.laws import BoolArray, FloatArray

Instance: TypeAlias = Mapping[str, Any]
"""Arrays, numbers and words by name: what a margin takes, and what JSON can carry."""

Draw: TypeAlias = Callable[[np.random.Generator], Instance]
"""Makes a random instance."""

Attempt: TypeAlias = Callable[[Instance], float]
"""Keeps the worst of what it is given, and returns the margin, -inf where that is no number."""

DEEPEST = 30.0
"""Logarithms of probabilities are kept within this distance of the largest, as a law of floats would."""

FAR = 40.0
"""How far out a free entry is put at once: where exp(-FAR) is below rounding."""

FARTHEST = 1e3
"""Free entries are kept within this distance of 0, beyond which rounding decides before the claim does."""

LEAPS = 0.15
"""How often a step changes a truth value or a whole number too, where it moves something else: most of these fail."""

REMEMBERED = 8
"""Ancestors of a line, the ways from which are tried further."""

PER_VARIABLE = 20
"""Attempts per variable below which a simplex gets nowhere."""

Tried: TypeAlias = tuple[float, Instance]
"""An instance after its attempt, with what that returned."""


def plain(instance: Instance) -> dict[str, Any]:
    """An instance as JSON can carry it.

    Parameters
    ----------
    instance : mapping of str to ndarray, number or str

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.proofs_check import plain
    >>> plain({"p": np.array([0.5, 0.5]), "n": np.int64(2)})
    {'p': [0.5, 0.5], 'n': 2}
    """
    return {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in instance.items()
    }


def from_plain(instance: Instance) -> dict[str, Any]:
    """An instance from JSON: lists become arrays, so that ``claim.margin_of(from_plain(...))`` replays it.

    Examples
    --------
    >>> import json
    >>> from otspec.proofs_check import CLAIMS, check, from_plain, plain
    >>> evidence = check(CLAIMS["own-interval-lossless"], trials=20)
    >>> text = json.dumps(plain(evidence.witness))
    >>> evidence.claim.margin_of(from_plain(json.loads(text))) == evidence.worst
    True
    """
    return {name: np.array(value) if isinstance(value, list) else value for name, value in instance.items()}


class Search(Protocol):
    """A way to choose the instances that are attempted."""

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Spend about `trials` attempts."""


@dataclass(frozen=True)
class Random:
    """Independent draws."""

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Attempt `trials` draws."""
        for _ in range(trials):
            attempt(draw(rng))


RANDOM = Random()


@dataclass(frozen=True)
class Exhaustive:
    """Every instance of a list: a proof where the list is complete.  Its length does not depend on `trials`.

    Examples
    --------
    >>> from otspec.proofs_check import check, claim
    >>> @claim("powers", [{"n": n} for n in range(1, 9)])  # a list has this search
    ... def powers(n):
    ...     "2**n >= n**2. [my notes]"
    ...     return 2**n - n**2
    >>> check(powers, trials=1).witness  # all were tried; this one contradicts
    {'n': 3}
    """

    instances: Callable[[], Iterable[Instance]]

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Attempt the whole list."""
        for instance in self.instances():
            attempt(instance)


@dataclass
class Line:
    """Evolution with one child at a time."""

    height: float
    living: Instance
    ancestors: list[Instance] = field(default_factory=list)
    """The last few that were higher."""

    def give_way(self, height: float, child: Instance) -> None:
        """The child lives on."""
        if height < self.height:
            self.ancestors = [*self.ancestors, self.living][-REMEMBERED:]
        self.height, self.living = height, child


@dataclass(frozen=True)
class Descent:
    """Random draws, the worst of them pushed to extremes, and from the worst then evolution, and a simplex at its end.

    Entries of the instance named in `laws` move in the space of laws along their last axis, by a softmax of free
    logarithms; those named in `free` move freely; of those named in `sets`, truth values, one at a time changes; whole
    numbers named in `counts` become what they are in another draw; all others keep the values of the draw.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.proofs_check import Descent, check, claim
    >>> from otspec.proofs_check.instances import pair
    >>> @claim("close", pair, Descent("p q"))
    ... def close(p, q):
    ...     "No two laws are far apart. [my notes]"
    ...     return 0.99 - 0.5 * np.abs(p - q).sum()  # false of laws that are nearly disjoint
    >>> check(close, trials=100).verdict.value
    'fails'
    """

    laws: str | tuple[str, ...] = ()
    """Names, or a text of them with spaces between."""
    free: str | tuple[str, ...] = ()
    sets: str | tuple[str, ...] = ()
    counts: str | tuple[str, ...] = ()
    lines: int = 4

    def __post_init__(self) -> None:
        """Split texts into names, and insist that something may move.

        Raises
        ------
        ValueError
            If no entry is named.
        """
        if not (self.laws or self.free or self.sets or self.counts):
            raise ValueError("Descent() has nothing to move; name entries, as in Descent('p'), or draw by RANDOM")
        for kind in ("laws", "free", "sets", "counts"):
            if isinstance(names := getattr(self, kind), str):
                object.__setattr__(self, kind, tuple(names.split()))

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Spend three tenths of the attempts on draws and extremes in turn, and the rest on a walk from the worst."""
        tried: list[Tried] = []
        for number in range(max(1, 3 * trials // 10)):
            instance = draw(rng)
            if absent := {*self.laws, *self.free, *self.sets, *self.counts} - instance.keys():
                raise ProblemError(f"Descent moves {sorted(absent)}, and instances have {', '.join(instance)} alone")
            if number % 2:
                instance = self._pushed(instance, rng)
            tried.append((attempt(instance), instance))
        starts = self._starts(sorted(tried, key=_height))
        self._walk(starts, [instance for _, instance in tried], attempt, trials - len(tried), rng)

    def _starts(self, tried: list[Tried]) -> list[Tried]:
        """The worst, and those that are the worst with other values of what does not move."""
        fixed: dict[str, Tried] = {}
        for each in tried:
            fixed.setdefault(self._unmoved(each[1]), each)
        return list(fixed.values())[: self.lines]

    def _unmoved(self, instance: Instance) -> str:
        """Shapes, and numbers and words that do not move: walks lead from none of these to others."""
        moving = (*self.laws, *self.free, *self.sets, *self.counts)
        return repr([np.shape(value) or (name not in moving and value) for name, value in instance.items()])

    def _walk(
        self, starts: list[Tried], others: list[Instance], attempt: Attempt, steps: int, rng: np.random.Generator
    ) -> None:
        """Evolution of ever fewer; then a simplex, if there are steps for it."""
        variables = sum(np.size(starts[0][1][name]) for name in (*self.laws, *self.free))
        simplex = steps // 4 if steps // 4 >= PER_VARIABLE * variables > 0 else 0
        lines = [Line(*start) for start in starts]
        for step in range(steps - simplex):
            lines = lines[: self.lines - self.lines * step // (steps - simplex)]
            line = lines[rng.integers(len(lines))]
            if line.ancestors and rng.random() < 0.3:
                child = self._beyond(line.ancestors[rng.integers(len(line.ancestors))], line.living, rng)
            else:
                child = self._stepped(line.living, others[rng.integers(len(others))], rng)
            height = attempt(child)
            if height <= line.height:  # at a tie, too: plateaus are walked across
                line.give_way(height, child)
                lines.sort(key=_height)
        if simplex:
            self._simplex(lines[0].living, attempt, simplex)

    def _beyond(self, ancestor: Instance, living: Instance, rng: np.random.Generator) -> Instance:
        """On the way that led from an ancestor to the living: what follows a ridge."""
        further, moved = float(np.exp(rng.normal())), dict(living)
        for name in self.laws:
            now = _logarithms(living[name])
            moved[name] = softmax(now + further * (now - _logarithms(ancestor[name])))
        for name in self.free:
            moved[name] = _near(living[name] + further * (np.asarray(living[name]) - ancestor[name]))
        return moved

    def _pushed(self, instance: Instance, rng: np.random.Generator) -> Instance:
        """The instance with some of its named entries at an extreme."""
        moved = dict(instance)
        for name in self._chosen(instance, (*self.laws, *self.free), rng):
            if name in self.laws:
                rows, whole = _rows(instance[name])
                for row in rows:
                    row[:] = _push_law(row, rng)
                if rng.random() < 0.5:
                    rows[:] = rows[0]
                moved[name] = softmax(whole)
            else:
                moved[name] = _push_point(np.array(instance[name], dtype=np.float64), rng)
        return moved

    def _stepped(self, instance: Instance, other: Instance, rng: np.random.Generator) -> Instance:
        """A neighbour of the instance, near or far."""
        moved = dict(instance)
        for name in self._chosen(instance, (*self.laws, *self.free), rng):
            if name in self.laws:
                rows, whole = _rows(instance[name])
                share = rng.choice([0.2, 0.6])
                for row in rows:
                    if rng.random() < share or len(rows) == 1:
                        row[:] = _step_law(row, rng) if rng.random() < 0.8 else rows[rng.integers(len(rows))]
                moved[name] = softmax(whole)
            else:
                moved[name] = _step_point(np.array(instance[name], dtype=np.float64), rng)
        if rng.random() < (LEAPS if self.laws or self.free else 1.0):
            for name in self._chosen(instance, (*self.sets, *self.counts), rng):
                moved[name] = other[name] if name in self.counts else _one_changed(instance[name], rng)
        return moved

    def _chosen(self, instance: Instance, names: tuple[str, ...], rng: np.random.Generator) -> list[str]:
        """Some of the names whose entries are not empty, one at least."""
        names = tuple(name for name in names if np.size(instance[name]))
        if not names:
            return []
        chosen = rng.random(len(names)) < rng.choice([0.2, 0.7])
        chosen[rng.integers(len(names))] = True
        return [name for name, moves in zip(names, chosen, strict=True) if moves]

    def _simplex(self, start: Instance, attempt: Attempt, steps: int) -> None:
        """Nelder-Mead."""
        shapes = {name: np.shape(start[name]) for name in (*self.laws, *self.free)}
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])

        def instance(point: FloatArray) -> Instance:
            parts = dict(zip(shapes, np.split(point, ends[:-1]), strict=True))
            moved = {name: part.reshape(shapes[name]) for name, part in parts.items()}
            laws = {name: softmax(moved[name]) for name in self.laws}
            return {**start, **laws, **{name: _near(moved[name]) for name in self.free}}

        def height(point: FloatArray) -> float:
            return attempt(instance(point))

        parts = [_logarithms(start[name]) for name in self.laws]
        parts += [np.asarray(start[name], dtype=np.float64) for name in self.free]
        x0: FloatArray = np.concatenate([part.ravel() for part in parts])
        with np.errstate(invalid="ignore"):  # a margin of -inf at several corners
            minimize(height, x0, method="Nelder-Mead", options={"maxfev": steps})


def _height(tried: Tried | Line) -> float:
    return tried.height if isinstance(tried, Line) else tried[0]


def _logarithms(law: FloatArray) -> FloatArray:
    return np.log(np.maximum(law, np.exp(-DEEPEST)))


def _rows(law: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of laws, row by row, and in the shape that they have: views of the same numbers."""
    logits = _logarithms(law)
    return logits.reshape(-1, logits.shape[-1]), logits


def _push_law(logits: FloatArray, rng: np.random.Generator) -> FloatArray:
    """To an extreme: nearly one token, a geometric tail, few tokens, ties."""
    size, kind = logits.size, rng.integers(4)
    if kind == 0:
        return np.where(np.arange(size) == rng.integers(size), 0.0, -rng.uniform(1.0, DEEPEST))
    if kind == 1:
        return -rng.permutation(size).astype(np.float64) * rng.uniform(0.0, DEEPEST / size)
    if kind == 2:
        return np.where(rng.random(size) < 0.5, logits, -DEEPEST)
    return np.round(logits / 2)


def _push_point(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """To an extreme: far out, few entries, ties."""
    kind = rng.integers(4)
    if kind == 0:
        return np.copysign(FAR, values)
    if kind == 1:
        return np.where(rng.random(values.shape) < 0.5, values, 0.0)
    if kind == 2:
        return np.full_like(values, rng.choice(values.ravel()))
    return _near(values * 10.0 ** rng.uniform(-2.0, 1.0))


def _step_law(logits: FloatArray, rng: np.random.Generator) -> FloatArray:
    """To a neighbour: all entries a little, one a lot, one as another, all sharper or flatter."""
    size, kind, step = logits.size, rng.integers(6), 10.0 ** rng.uniform(-2.5, 0.7)
    logits = logits - logits.max()
    at, other = rng.integers(size, size=2)
    if kind < 2:
        return logits + step * rng.standard_normal(size)
    if kind == 2:
        logits[at] += 3 * step * rng.standard_normal()
    elif kind == 3:
        logits[at] = rng.choice([logits[other], -DEEPEST, 0.0])
    elif kind == 4:
        logits[[at, other]] = logits[[other, at]]
    else:
        logits *= np.exp(rng.normal())
    return logits


def _one_changed(held: BoolArray, rng: np.random.Generator) -> BoolArray:
    changed = np.array(held)
    at = rng.integers(changed.size)
    changed.flat[at] = 1 - changed.flat[at]
    return changed


def _step_point(point: FloatArray, rng: np.random.Generator) -> FloatArray:
    """To a neighbour: all entries a little, one a lot, one as another, all nearer or farther."""
    values, kind = point.ravel().copy(), rng.integers(6)
    step = 10.0 ** rng.uniform(-2.5, 0.7) * max(0.1, float(np.abs(values).mean()))
    at, other = rng.integers(values.size, size=2)
    if kind < 2:
        values += step * rng.standard_normal(values.size)
    elif kind == 2:
        values[at] += 3 * step * rng.standard_normal()
    elif kind == 3:
        values[at] = rng.choice([values[other], 0.0, FAR, -FAR])
    elif kind == 4:
        values[[at, other]] = values[[other, at]]
    else:
        values *= np.exp(rng.normal())
    return _near(values.reshape(point.shape))


def _near(values: FloatArray) -> FloatArray:
    return np.clip(values, -FARTHEST, FARTHEST)


def softmax(logits: FloatArray) -> FloatArray:
    """Laws along the last axis from logarithms, each within `DEEPEST` of the largest."""
    weights = np.exp(np.maximum(logits - logits.max(axis=-1, keepdims=True), -DEEPEST))
    return weights / weights.sum(axis=-1, keepdims=True)
