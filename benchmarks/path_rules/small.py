"""Small models, exactly: accepted length beside the bound on all lossless rules, and the total variation of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import typer

from benchmarks.path_rules.grid import PLACE, Rules, rules_of, verifier_of
from benchmarks.path_rules.paths import PUBLISHED
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import pivot
from otspec.paths import bound, path_law, synthetic
from otspec.reporting.tables import TextTable

SIZES = ((2, 2, 2), (3, 2, 2), (3, 2, 3), (2, 3, 3), (3, 3, 2))
"""V, L, K."""
REMEMBER = 5000
"""Plans that a rule keeps while texts are enumerated."""

Models = Annotated[int, typer.Option(min=1, help="Models of each size.")]


def paths_small(models: Models = 200, rule: Rules = None, out: Out = None) -> None:
    """The rules of `paths` on small models, exactly, beside the bound on all lossless rules."""
    answer(PATHS, measure(models, rule or PUBLISHED), out)


def measure(models: int, names: Sequence[str]) -> Iterator[Record]:
    """A record for every rule, and one for the bound."""
    rules = rules_of(names, REMEMBER)
    for vocab, length, count in SIZES:
        drawn = [synthetic("tiny", vocab, seed) for seed in range(models)]
        limits = np.array([bound(model, count, length) for model in drawn])
        place = {"laws": "tiny", "vocab": vocab, "length": length, "paths": count, "models": models}
        for name, rule in rules.items():
            laws = [path_law(rule, model, count, length) for model in drawn]
            lengths = np.array([law.mean_accepted for law in laws])
            yield {
                **place,
                "verifier": name,
                "accepted": float(lengths.mean()),
                "of_bound": float(lengths.mean() / limits.mean()),
                "worst": float((lengths / limits).min()),
                "largest": float((lengths / limits).max()),
                "tv": max(law.deviation for law in laws) / 2,
            }
        at_best = {"accepted": float(limits.mean()), "of_bound": 1.0, "worst": 1.0, "largest": 1.0, "tv": 0.0}
        yield {**place, "verifier": "bound", **at_best}


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Rules by sizes: lengths, and total variations."""
    return [
        pivot(
            "Mean accepted length (worst / bound)",
            records,
            PLACE,
            verifier_of,
            lambda r: f"{r['accepted']:.4f} ({r['worst']:.3f})",
        ),
        pivot(
            "Largest total variation of texts",
            records,
            PLACE,
            verifier_of,
            lambda r: f"{r['tv']:.0e}" if r["tv"] < 1e-9 else f"{r['tv']:.3f}",
        ),
    ]


PATHS = Question("paths-small", [paths_small], ("vocab", "length", "paths", "verifier"), tables)
