"""Cells of the decoding benchmark: one way to decode, at one temperature."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from otspec.bench.records import Record
from otspec.decode.methods.catalogue import METHODS, method_of
from otspec.errors import DataError
from otspec.verification.rules.catalogue import CHAIN, rule

OURS = "multi-draft"
"""The method that rules belong to."""
TO_CHOOSE = "assisted"
"""The method whose settings are chosen by a short measurement of `CANDIDATES`."""
CANDIDATES = (
    *((depth, "constant", 0.0) for depth in (3, 5, 8)),
    *((depth, "heuristic", 0.0) for depth in (3, 5)),
    *((depth, "constant", 0.4) for depth in (8, 20)),
)
"""Tokens of a draft, schedule and threshold of confidence; the last is what transformers has by default."""


@dataclass(frozen=True)
class DecodingCell:
    """One way to decode: a rule of our trees of K paths of L tokens, or another method."""

    method: str
    """A name of `otspec.decode.methods.catalogue.METHODS`."""
    rule: str = ""
    """Spelling of the rule of a multi-draft method."""
    paths: int = 0
    """K; 1 for one path of a draft model, 0 where no model drafts."""
    depth: int = 0
    """L; 0 where the method has none."""
    temperature: float = 1.0
    drafter: str = ""
    """Name of what drafts, see `otspec.decode.methods.drafting`; empty for the draft model as it is."""
    draft_top_k: int | None = None
    """How drafts are drawn otherwise than texts are, as the next two; None is as texts."""
    draft_top_p: float | None = None
    draft_temperature: float | None = None
    draft_confidence: float | None = None
    """Where paths end early."""
    pace: str | None = None
    """How each step chose its depth, in runs of versions that could."""
    schedule: str | None = None
    """Of transformers' assisted generation, as `confidence`; None before both are chosen."""
    confidence: float | None = None
    batch: int = 1
    """How many texts are decoded together."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.rule or self.method

    @property
    def notes(self) -> list[str]:
        """What distinguishes it from other cells of its name, K, L and temperature."""
        notes = (
            (self.paths == 1, "one path"),
            (self.drafter, f"drafted by {self.drafter}"),
            (self.draft_top_k is not None, f"drafts top-k {self.draft_top_k or 'V'}"),
            (self.draft_top_p is not None, f"drafts top-p {self.draft_top_p or 0:g}"),
            (self.draft_temperature is not None, f"drafts at temperature {self.draft_temperature or 0:g}"),
            (self.draft_confidence, f"drafts end below {self.draft_confidence or 0:g}"),
            (self.pace is not None, f"depth by {self.pace}"),
            (self.schedule is not None, str(self.schedule)),
            (self.confidence, f"confidence {self.confidence or 0:g}"),
        )
        return [note for applies, note in notes if applies]

    @property
    def settings(self) -> dict[str, Any]:
        """What its method takes, for `otspec.decode.methods.catalogue.decoder`."""
        chosen = {name: getattr(self, name, None) for name in METHODS[self.method].takes}
        if self.rule:
            chosen["solver"] = rule(self.rule, CHAIN)
        return {name: value for name, value in chosen.items() if value is not None}

    @property
    def open(self) -> bool:
        """Whether its settings are still to be chosen."""
        return self.method == TO_CHOOSE and self.schedule is None

    @property
    def candidates(self) -> list[DecodingCell]:
        """What an open cell may become."""
        return [self.settled(candidate) for candidate in CANDIDATES]

    def settled(self, chosen: tuple[int, str, float]) -> DecodingCell:
        """An open cell with its settings."""
        depth, schedule, confidence = chosen
        return replace(self, depth=depth, schedule=schedule, confidence=confidence)


FIELDS = tuple(field.name for field in fields(DecodingCell))


def decoding_cell_of(record: Record) -> DecodingCell:
    """The cell that a record is of.

    Raises
    ------
    DataError
        If it is of a method that is none.
    """
    if record["method"] not in METHODS:
        raise DataError(f"a record is of the method {record['method']!r}, and none is called so: {', '.join(METHODS)}")
    return DecodingCell(**{name: record[name] for name in FIELDS if name in record})  # older ones lack the latest


def decoding_grid(
    paths: Sequence[int],
    depths: Sequence[int],
    rules: Sequence[str],
    baselines: Sequence[str],
    temperatures: Sequence[float] = (1.0,),
    truncations: Sequence[Mapping[str, Any]] = ({},),
    assisted: tuple[int, str, float] | None = None,
    drafters: Sequence[str] = ("",),
    batches: Sequence[int] = (1,),
) -> list[DecodingCell]:
    """All cells, temperature after temperature and batch after batch, each beginning with vanilla decoding.

    A method is measured at every K, every L, every truncation of the drafts and with every drafter that it has settings
    for, and once where it has none; in batches if it takes several texts at a time.  Drafts at temperature 0 are
    certain, and nothing is left to truncate.  The settings of assisted generation, as in `CANDIDATES`, are open where
    they are not given.

    Raises
    ------
    UnknownSolver
        If a rule has no such name.
    ProblemError
        If a baseline has none, or drafts cannot be truncated.
    """
    for spelling in rules:
        rule(spelling, CHAIN)
    names = [("vanilla", ""), *((name, "") for name in baselines), *((OURS, spelling) for spelling in rules)]
    for name, _ in names:
        method_of(name, {})
    method_of(OURS, {setting: value for cut in truncations for setting, value in cut.items()})
    cells = []
    for temperature, batch, (name, spelling) in itertools.product(temperatures, batches, names):
        if batch > 1 and not METHODS[name].batch:
            continue
        takes = METHODS[name].takes
        counts = paths if "paths" in takes else (1 if METHODS[name].drafts else 0,)
        levels = depths if "depth" in takes and name != TO_CHOOSE else (0,)
        by = drafters if "draft_tokens" in takes else ("",)
        for count, depth, cut, drafter in itertools.product(counts, levels, truncations, by):
            settings = {setting: value for setting, value in _of(cut, temperature).items() if setting in takes}
            cell = DecodingCell(name, spelling, count, depth, temperature, drafter, batch=batch, **settings)
            cells.append(cell.settled(assisted) if cell.open and assisted is not None else cell)
    return list(dict.fromkeys(cells))


def _of(cut: Mapping[str, Any], temperature: float) -> Mapping[str, Any]:
    """What a truncation of the drafts comes to where the text has a temperature."""
    if cut.get("draft_temperature", temperature):
        return cut
    certain = {"draft_temperature": 0.0} if temperature else {}
    return certain | {name: value for name, value in cut.items() if name == "draft_confidence"}
