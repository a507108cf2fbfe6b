"""What lossy verification rules accept, and their total variation to the target: tables of docs/measured/lossy.md.

    python -m benchmarks.lossy_rules [--models 20] [--vocab 4] [--length 4] [--positions 20]
    python -m benchmarks.lossy_rules --data smollm2 [--positions 240]
    python -m benchmarks.lossy_rules --data TREES.safetensors [--positions 160]

Without data the figures are of synthetic models: exact, over all texts of small ones, and a token at a time at a larger
vocabulary.  With a profile or a file of positions they are of single tokens; with trees that `otspec record --paths 1
--depth L` wrote, with whole laws, of single tokens and of paths.  Rules that look at what the target gives to tokens
that were not drafted are left out where a file lacks it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.reporting import show
from otspec.auditing.lossy_paths import LOSSY_PATHS, AllOrBlock, FLy, measure_paths, most_accepted
from otspec.auditing.lossy_rules import LOSSY, ROUNDING, LossyFigures, efficiency, measure_texts, measure_token
from otspec.data import TreeSource, check_positions, open_source
from otspec.data.recorded import TopSource, recorded_format
from otspec.data.trees import ARRAYS
from otspec.laws import FloatArray
from otspec.paths import PathVerifier, Tree, synthetic
from otspec.reporting.tables import TextTable

LARGE = 1000
"""Tokens of the larger vocabulary."""
DRAFTED = 256
"""Likeliest tokens that recorded positions draft from."""
Pair = tuple[FloatArray, FloatArray]
TOKENS = ("acceptance", "alpha*", "TV", "best at that TV", "efficiency")
PATHS = ("accepted", "TV of the text", "best at that TV", "gain by L TV")


def shown(figures: Iterable[float]) -> tuple[str, ...]:
    """Cells of a table."""
    return tuple("-" if np.isnan(value) else f"{value:.3f}" for value in figures)


def merged(p: FloatArray, q: FloatArray) -> Pair:
    """Laws in which all tokens that cannot be drafted are one: to most rules that is the same."""
    kept = q > 0
    return np.append(p[kept], p[~kept].sum()), np.append(q[kept], 0.0)


def token_figures(name: str, pairs: Iterable[Pair]) -> tuple[float, ...]:
    """Means over positions, as `TOKENS`."""
    rule = LOSSY[name]
    found = [measure_token(rule, *(pair if rule.whole else merged(*pair))) for pair in pairs]
    best = float(np.mean([min(one.optimum + one.tv, 1.0) for one in found]))
    accepted, alpha, tv = np.mean([(one.acceptance, one.optimum, one.tv) for one in found], axis=0)
    return accepted, alpha, tv, best, efficiency(accepted, alpha, tv)


def row(name: str, models: int, vocab: int, length: int, positions: int) -> tuple[str, ...]:
    """One line of the table of synthetic models."""
    texts = [measure_texts(LOSSY[name], synthetic("tiny", vocab, seed), length) for seed in range(models)]
    small = LossyFigures(*np.mean(texts, axis=0))
    mixed = (synthetic("mixed", LARGE, seed) for seed in range(positions))
    accepted, alpha, tv, _, gained = token_figures(name, [(one.target(()), one.draft(())) for one in mixed])
    return (name, *shown((*small, small.efficiency, accepted, alpha, tv, gained)))


def by_the_price(accepted: float, lossless: float, length: int, tv: float) -> float:
    """What is accepted more, by L times what is paid."""
    return (accepted - lossless) / (length * tv) if tv > ROUNDING else float("nan")


def path_row(name: str, rule: PathVerifier, models: int, vocab: int, length: int) -> tuple[str, ...]:
    """One line of the table of paths of synthetic models."""
    found = [measure_paths(rule, synthetic("tiny", vocab, seed), length) for seed in range(models)]
    accepted, block, tv, most = np.mean(found, axis=0)
    return (name, *shown((accepted, tv, most, by_the_price(accepted, block, length, tv))))


def synthetic_tables(models: int, vocab: int, length: int, positions: int) -> tuple[TextTable, TextTable]:
    """Those without data."""
    few = f"V = {vocab}"
    header = (
        *("rule", f"acceptance, {few}", "alpha*", "TV a token", f"TV of {length} tokens", "efficiency"),
        *(f"acceptance, V = {LARGE}", "alpha*", "TV a token", "efficiency"),
    )
    note = (
        "Means over models; all texts and all tuples of drafts enumerated. V = 1000: the first position of each model."
    )
    rows = [row(name, models, vocab, length, positions) for name in LOSSY]
    paths = [path_row(name, rule, models, vocab, length) for name, rule in LOSSY_PATHS.items()]
    return (
        TextTable("Lossy rules and their total variation", header, rows, note),
        TextTable(
            f"One path of {length} tokens, {few}", ("rule", *PATHS), paths, "Means over models; all enumerated.", 1
        ),
    )


def recorded_pairs(data: str, positions: int) -> tuple[list[Pair], bool]:
    """Laws of recorded positions, and whether the target's is all there."""
    source = open_source(data)
    check_positions(source, positions)
    pairs = []
    for index in range(positions):
        problem = source.position(index).problem(1, top_k=DRAFTED)
        pairs.append((problem.p, problem.scheme.prob(np.arange(problem.vocab)[:, None])))
    return pairs, not isinstance(source, TopSource)


def token_table(data: str, pairs: list[Pair], whole: bool) -> TextTable:
    """Single tokens of recorded laws."""
    rows = [(name, *shown(token_figures(name, pairs))) for name, one in LOSSY.items() if whole or not one.whole]
    note = f"Means over {len(pairs)} positions, drafts from the {DRAFTED} likeliest tokens; all of them enumerated."
    return TextTable(f"Lossy rules on {data}", ("rule", *TOKENS), rows, note, 1)


def likeliest_drafts(q: FloatArray) -> FloatArray:
    """A draft law without all but its likeliest tokens."""
    kept = np.zeros_like(q)
    first = np.argsort(-q, kind="stable")[:DRAFTED]
    kept[first] = q[first]
    return kept / kept.sum()


def path_table(data: str, trees: list[Tree]) -> TextTable:
    """Paths of recorded laws: what is paid is a mean over drafted paths, or at most that."""
    length = trees[0].length
    near = np.mean([_in_common(tree) for tree in trees], axis=0)
    families: Mapping[str, Mapping[str, FLy | AllOrBlock]] = {
        "speculative sampling, token by token": {f"FLy, window {window}": FLy(window) for window in (1, 2, 4, 6)},
        "block verification": {f"all or block, depth {d:g}": AllOrBlock(d) for d in (0.05, 0.1, 0.2, 0.5, 1.0)},
    }
    rows = []
    for lossless, rules in families.items():
        base = _accepted(LOSSY_PATHS[lossless], trees)
        rows.append((lossless, *shown((base, 0.0, most_accepted(1.0 - near, 0.0), float("nan")))))
        for name, rule in rules.items():
            accepted, paid = _accepted(rule, trees), float(np.mean([rule.paid(tree) for tree in trees]))
            most = most_accepted(1.0 - near, paid)
            rows.append((name, *shown((accepted, paid, most, by_the_price(accepted, base, length, paid)))))
    note = (
        f"Means over {len(trees)} drafted paths of {length} tokens. Gains are over the lossless rule above; of FLy the "
        "TV is a bound from above."
    )
    return TextTable(f"Lossy rules for paths on {data}", ("rule", *PATHS), rows, note, 1)


def _accepted(rule: PathVerifier, trees: list[Tree]) -> float:
    """Mean number of accepted tokens, exact given each tree."""
    return float(np.mean([rule.stop_law(one).sum(axis=1) @ np.arange(one.size) for one in trees]))


def _in_common(tree: Tree) -> FloatArray:
    """min(1, p(v) / q(v)) of the drafted prefixes, shape (L,): in the mean, 1 less the total variation of them."""
    before, tokens = tree.node[0, :-1], tree.token[tree.node[0, 1:]]
    ratios = tree.target[before, tokens] / tree.draft[before, tokens]
    return np.minimum(np.cumprod(ratios), 1.0)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a profile, a file of positions, or one of trees of a path each")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=4)
    parser.add_argument("--length", type=int, default=4, help="tokens of a text")
    parser.add_argument("--positions", type=int, default=20, help=f"with {LARGE} tokens, or of the data")
    given = parser.parse_args()
    if given.data is None:
        show(*synthetic_tables(given.models, given.vocab, given.length, given.positions))
    elif recorded_format(given.data) in ARRAYS:
        source = TreeSource(Path(given.data))
        found = [source.tree(index) for index in range(given.positions)]
        pairs = [(one.target_laws[0], likeliest_drafts(one.draft_laws[0])) for one in found]
        trees = [Tree.of(one.paths, one.target, one.draft) for one in found]
        show(token_table(given.data, pairs, source.over_vocabulary), path_table(given.data, trees))
    else:
        show(token_table(given.data, *recorded_pairs(given.data, given.positions)))


if __name__ == "__main__":
    main()
