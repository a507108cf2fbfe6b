"""A forecast that is learnt: what each shape gives, from what both models say of the text [thomas2026dynamic]."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from otspec.decode.pacing.kernels import reach_of, signs_of
from otspec.decode.pacing.menu import Branching, beginnings, menu_of, prefixes
from otspec.decode.saved import read_saved
from otspec.errors import ProblemError
from otspec.laws import FloatArray
from otspec.paths.shape import Shape

FORMAT = 2
"""Of the file; a later one may have other fields."""
MEMORIES = (8, 24)
"""After about how many tokens the two averages of what the models had in common forget."""
SIGNS = ("shared, of late", "shared, for longer", "shared, last", "collision entropy", "largest")
"""What is looked at: sum min(p, q) at the tokens before, in two averages and the last one; and of the draft model's law
of the next token -log sum q^2, an entropy that takes no logarithm a token, and the largest probability."""
OF_TEXT = len(MEMORIES) + 1
MOST_OFF = 3.0
"""Signs count as this many standard deviations off their mean at most: beyond, little was learnt."""


@dataclass(frozen=True, eq=False)
class Selector:
    """Foretells P(d drafted tokens or more are accepted) by the branching down to depth d: for `otspec.decode.Goodput`.

    It is linear in the five signs, standardised, and their products.  All of them are known before anything is drafted
    but for the draft model's law of the next token, which the first draft pass gives: so no choice depends on a draft,
    and every selector, even a wrong one, keeps the law of the text.

    Make one with `otspec selector` or `otspec.decode.train_selector`, or `load` it.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.decode import Selector
    >>> weights = np.zeros((3, 21))
    >>> weights[:, 0] = 0.8, 0.9, 0.5  # one token, the best of two, and two in a row, whatever the text
    >>> selector = Selector([(1, 1), (2,)], weights, np.zeros(5), np.ones(5))
    >>> dict(zip(selector.branchings, selector.begin(texts=1).reach().round(2).tolist()))
    {(1,): 0.8, (2,): 0.9, (1, 1): 0.5}
    """

    menu: Sequence[Branching]
    """What it was made for; the first levels of these may be drafted too."""
    weights: FloatArray
    """Shape (branchings, terms): of what the shapes of the menu begin with, the shortest first; terms are 1, the signs,
    and their products."""
    mean: FloatArray
    """Of the signs, shape (5,)."""
    scale: FloatArray
    """Their standard deviations."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from, fit for JSON; ``draft`` is the fingerprint of the draft model."""

    def __post_init__(self) -> None:
        signs = len(SIGNS)
        wanted = {
            "weights": (len(self.branchings), terms(np.zeros(signs)).size),
            "mean": (signs,),
            "scale": (signs,),
        }
        for name, shape in wanted.items():
            found = getattr(self, name)
            if found.shape != shape or not np.isfinite(found).all():
                raise ProblemError(f"{name} has shape {found.shape}, or is not finite; for this menu it is {shape}")
        if not (self.scale > 0).all():
            raise ProblemError(f"scale is {self.scale.tolist()}; standard deviations are above 0")

    @property
    def shapes(self) -> list[Shape]:
        """The menu."""
        return menu_of(self.menu)

    @property
    def branchings(self) -> list[Branching]:
        """What the shapes of the menu begin with."""
        return prefixes(self.shapes)

    def check_menu(self, menu: Sequence[Shape]) -> None:
        """Raise unless it knows all shapes of a menu.

        Raises
        ------
        ProblemError
            If it does not.
        """
        known = set(self.branchings)
        for shape in menu:
            if shape.branching not in known:
                raise ProblemError(
                    f"the selector was not made for branching {shape.branching}; its menu is "
                    f"{[tuple(one) for one in self.menu]}, leave out branching, paths, depth and menu, or make another"
                )

    def check_draft(self, found: str) -> None:
        """Raise unless this is the fingerprint of the draft model that it was made for, if it was made for one.

        Raises
        ------
        ProblemError
            If it is another's.
        """
        if self.about.get("draft", found) != found:
            raise ProblemError(
                f"the selector is of draft model {self.about['draft']}, and this is {found}; make one for it with "
                "`otspec selector`"
            )

    def begin(self, texts: int) -> Seen:
        """Look at so many texts."""
        return Seen(self, texts)

    def save(self, path: Path | str) -> None:
        """Write it to a file: JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("weights", "mean", "scale")}
        record = {"format": FORMAT, "about": dict(self.about), "menu": [list(one) for one in self.menu], **arrays}
        Path(path).write_text(json.dumps(record) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> Selector:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            If there is no such file, or it is none of these.
        """
        return read_saved(path, "selector", "otspec selector", cls._of)

    @classmethod
    def _of(cls, record: Any) -> Selector:
        if record["format"] != FORMAT:
            raise ProblemError(f"its format is {record['format']!r}, and this version reads {FORMAT}")
        arrays = {name: np.array(record[name], dtype=np.float64) for name in ("weights", "mean", "scale")}
        return cls([tuple(one) for one in record["menu"]], **arrays, about=dict(record["about"]))


class Seen:
    """What a selector has seen of some texts.

    Parameters
    ----------
    selector : Selector
    texts : int
    """

    def __init__(self, selector: Selector, texts: int) -> None:
        self._selector = selector
        self._beginnings = beginnings(selector.branchings)
        self._signs: FloatArray = np.tile(selector.mean, (texts, 1))

    def look(self, law: torch.Tensor) -> None:
        """Take the draft model's law of the next token, shape (B, V)."""
        self._signs[:, OF_TEXT:] = signs_of_law(law)

    def compare(self, shared: Sequence[Sequence[float]]) -> None:
        """Take sum min(p, q) at tokens of each text, in order, where it is known."""
        for own, values in zip(self._signs, shared, strict=True):
            signs = own[:OF_TEXT].tolist()
            for value in values:
                signs = remembered(signs, value)
            own[:OF_TEXT] = signs

    def reach(self) -> FloatArray:
        """In how many texts each branching is expected to be accepted, shape (branchings,)."""
        chosen = self._selector
        return reach_of(self._signs, chosen.mean, chosen.scale, MOST_OFF, chosen.weights, self._beginnings)

    def note(self, shape: Shape, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Nothing is learnt from single acceptances: what the laws have in common says more."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        if len(rows) < len(self._signs):
            self._signs = self._signs[list(rows)]


def signs_of_law(law: torch.Tensor) -> FloatArray:
    """Collision entropy in nats and largest probability of laws, shape (B, V) to (B, 2)."""
    if law.device.type == "cpu":
        return signs_of(law.numpy())
    signs = torch.stack((-law.square().sum(dim=-1).log(), law.amax(dim=-1)), dim=-1)
    return np.array(signs.tolist())


def remembered(signs: Sequence[float], shared: float) -> list[float]:
    """The three signs of a text after one more token."""
    return [*(old + (shared - old) / memory for old, memory in zip(signs[:-1], MEMORIES, strict=True)), shared]


def standardised(signs: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Signs in standard deviations off their mean, not too many."""
    return ((signs - mean) / scale).clip(-MOST_OFF, MOST_OFF)


def terms(signs: FloatArray) -> FloatArray:
    """1, the signs and their products, shape (..., 5) to (..., 21)."""
    rows, columns = np.triu_indices(signs.shape[-1])
    ones = np.ones((*signs.shape[:-1], 1))
    return np.concatenate((ones, signs, signs[..., rows] * signs[..., columns]), axis=-1)
