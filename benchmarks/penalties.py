"""A causal bound that remembers what A may not know: y(u) times 1 + c (mean - statistic of the law after u), c by level.

    python -m benchmarks.penalties [--laws far,mixed] [--vocab 100] [--length 4] [--paths 2] [--trees 2500]

Window, cuts and c are found on one sample; the figures are of another.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from otspec.laws import FloatArray, draw
from otspec.paths import Model, Models, synthetic
from otspec.verification.bounds.causal_bound import Ratios, Sums, _best_cuts, line_ratios, log_ratio
from otspec.verification.evaluation.walking import laws_after, model_seeds, target_line
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix

STATISTICS = ("sum of min(p, q)", "KL divergence", "sum of p^2")


def statistics(p: FloatArray, q: FloatArray) -> tuple[float, ...]:
    """Of the laws after a prefix."""
    log = np.log(np.maximum(p, 1e-300) / np.maximum(q, 1e-300))
    return float(np.minimum(p, q).sum()), min(float(p @ log), 20.0), float(p @ p)


def tree(model: Model, shape: Shape, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """log q/p of the tokens along drafted paths, and statistics after them."""
    prefixes: list[Prefix] = [()]
    ratios = np.zeros(shape.slots)
    for slot, above in enumerate(shape.parent[1:].tolist(), start=1):
        p, q = laws_after(model, prefixes[above])
        token = int(draw(q, rng))
        ratios[slot] = log_ratio(float(p[token]), float(q[token]))
        prefixes.append((*prefixes[above], token))
    known = np.array([statistics(*laws_after(model, prefix)) for prefix in prefixes])
    paths = shape.paths_of_slots[:, 1:]
    return ratios[paths], known[paths]


def sample(models: Models, shape: Shape, trees: int, rng: np.random.Generator) -> tuple[Ratios, FloatArray]:
    """Texts and trees, every one from a model of its own, and statistics in the trees."""
    texts = [line_ratios(target_line(models(seed), shape.depth, rng)) for seed in model_seeds(4 * trees, rng)]
    drawn = [tree(models(seed), shape, rng) for seed in model_seeds(trees, rng)]
    return Ratios(np.array(texts), np.array([one for one, _ in drawn])), np.array([known for _, known in drawn])


def value(sums: Sums, cuts: FloatArray, known: FloatArray, mean: float, c: FloatArray) -> float:
    """The bound; of a path's last token no law after it counts."""
    weight = np.maximum(1.0 + c * (mean - known), 0.0)
    weight[..., -1] = 1.0
    counted = np.where(sums.ratio < cuts, sums.count, 0.0) * weight
    return float(sums._uncovered(cuts).mean() + sums._largest(counted).mean())


def measure(laws: str, vocab: int, length: int, count: int, trees: int) -> None:
    """Print the bound without and with each statistic."""
    models, rng = partial(synthetic, laws, vocab), np.random.default_rng(0)
    shape = Shape.paths(count, length)
    (first, known), (second, other) = (sample(models, shape, trees, rng) for _ in range(2))
    window, cuts = min((_best_cuts(Sums.of(first, window)) for window in range(1, length + 1)), key=lambda f: f[0])[1]
    here, there = Sums.of(first, window), Sums.of(second, window)
    print(f"{laws}: {there.value(cuts):.4f}")
    for number, name in enumerate(STATISTICS):
        one, two = known[..., number], other[..., number]
        mean = float(np.concatenate([one[..., :-1], two[..., :-1]]).mean())
        c, best = np.zeros(length), here.value(cuts)
        for _ in range(2):
            for level in range(length - 2, -1, -1):
                for tried in np.linspace(-1.0 / (mean - one.min()), 1.0 / (one.max() - mean), 21):
                    changed = np.where(np.arange(length) == level, tried, c)
                    found = value(here, cuts, one, mean, changed)
                    if found < best - 1e-9:
                        c, best = changed, found
        print(f"  {name}: {value(there, cuts, two, mean, c):.4f}, c = {c.round(2).tolist()}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="far,mixed", help="a list")
    parser.add_argument("--vocab", type=int, default=100)
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--paths", type=int, default=2)
    parser.add_argument("--trees", type=int, default=2500)
    asked = parser.parse_args()
    for name in asked.laws.split(","):
        measure(name, asked.vocab, asked.length, asked.paths, asked.trees)
