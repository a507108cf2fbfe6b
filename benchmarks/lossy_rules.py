"""What lossy verification rules accept, and their total variation to the target: a table of docs/measured/audit.md.

    python -m benchmarks.lossy_rules [--models 20] [--vocab 4] [--length 4] [--positions 20]

The figures are exact: over all texts of small models, and a token at a time at a larger vocabulary.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.reporting import show
from otspec.auditing.lossy_rules import LOSSY, LossyFigures, efficiency, measure_texts, measure_token
from otspec.paths import synthetic
from otspec.reporting.tables import TextTable

LARGE = 1000
"""Tokens of the larger vocabulary."""


def row(name: str, models: int, vocab: int, length: int, positions: int) -> tuple[str, ...]:
    """One line of the table."""
    texts = [measure_texts(LOSSY[name], synthetic("tiny", vocab, seed), length) for seed in range(models)]
    large = []
    for seed in range(positions):
        model = synthetic("mixed", LARGE, seed)
        p, q = np.asarray(model.target(())), np.asarray(model.draft(()))
        output, acceptance, optimum = measure_token(LOSSY[name], p, q)
        large.append((acceptance, optimum, float(np.abs(output - p).sum()) / 2))
    accepted, best, tv = np.mean(large, axis=0)
    small = LossyFigures(*np.mean(texts, axis=0))
    figures = (*small, small.efficiency, accepted, best, tv, efficiency(accepted, best, tv))
    return (name, *("-" if np.isnan(value) else f"{value:.3f}" for value in figures))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=4)
    parser.add_argument("--length", type=int, default=4, help="tokens of a text")
    parser.add_argument("--positions", type=int, default=20, help=f"with {LARGE} tokens")
    given = parser.parse_args()
    sizes = (given.models, given.vocab, given.length, given.positions)
    rows = [row(name, *sizes) for name in LOSSY]
    few = f"V = {given.vocab}"
    header = (
        *("rule", f"acceptance, {few}", "alpha*", "TV a token", f"TV of {given.length} tokens", "efficiency"),
        *(f"acceptance, V = {LARGE}", "alpha*", "TV a token", "efficiency"),
    )
    note = (
        "Means over models; all texts and all tuples of drafts enumerated. V = 1000: the first position of each model."
    )
    show(TextTable("Lossy rules and their total variation", header, rows, note))


if __name__ == "__main__":
    main()
