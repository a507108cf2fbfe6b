"""Cost-aware draft trees [he2026caddtree]: how many nodes to draft, for tokens in a given time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import Unchecked, claim
from otspec.proofs_check.instances import law
from otspec.proofs_check.search import Descent

KEY = "he2026caddtree"
ABSTRACT = f"{KEY} (arXiv:2606.01813), abstract"
TILE = 4
"""Nodes that cost as much as one, where cost comes in steps."""


def prefixes(marginals: FloatArray) -> FloatArray:
    """The probability of every prefix of a product law but the empty one, level by level."""
    levels = [np.ones(1)]
    for marginal in marginals:
        levels.append(np.outer(levels[-1], marginal).ravel())
    return np.concatenate(levels[1:])


def accepted(marginals: FloatArray) -> FloatArray:
    """Accepted tokens of the best tree of 0, 1, 2, ... nodes: of the likeliest prefixes, which are a tree."""
    return np.append(0.0, np.cumsum(np.sort(prefixes(marginals))[::-1]))


def _drafted(rng: np.random.Generator) -> dict[str, Any]:
    """Marginals of a few tokens, and how what a pass costs rises with the nodes."""
    size, depth = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    count = sum(size**level for level in range(1, depth + 1))
    costs = {"base": float(rng.random()), "rises": rng.exponential(0.2, count) * (rng.random(count) < 0.5)}
    return {"marginals": np.array([law(rng, size) for _ in range(depth)]), **costs}


def _trees(marginals: FloatArray, nodes: int) -> list[set[int]]:
    """Every tree of so many prefixes, grown by one node at a time."""
    size, count = marginals.shape[1], prefixes(marginals).size
    trees: list[set[int]] = [set()]
    for _ in range(nodes):
        grown = []
        for tree in trees:
            free = [x for x in range(count) if x not in tree and (x < size or (x - size) // size in tree)]
            grown += [tree | {x} for x in free]
        trees = [set(tree) for tree in {frozenset(tree) for tree in grown}]
    return trees


@claim("caddtree-best-tree", _drafted, cost=20, mutants={"The first ones, level by level.": {"by_level": True}})
def best_tree(marginals: FloatArray, base: float, rises: FloatArray, most: int = 4, by_level: bool = False) -> float:
    """Of all trees of B prefixes, the likeliest B prefixes have the largest expected acceptance length. [he2026caddtree
    (arXiv:2606.01813), abstract]

    Remark: Under the product of the drafter's marginals, as for DDTree; against all trees of up to four nodes.
    Margin: Minus how far the best tree of so many nodes, of all, is from the sum of as many likeliest prefixes.
    """
    chances, best = prefixes(marginals), accepted(marginals)
    nodes = min(most, chances.size)
    if by_level:
        return -abs(float(chances[:nodes].sum() - best[nodes]))
    return -abs(max(float(chances[list(tree)].sum()) for tree in _trees(marginals, nodes)) - float(best[nodes]))


MOVES = Descent("marginals", free="rises")


@claim("caddtree-gains", _drafted, MOVES, mutants={"It falls by 1 % at least.": {"times": 0.99}})
def gains(marginals: FloatArray, base: float, rises: FloatArray, times: float = 1.0) -> float:
    """Expected acceptance length does not fall with the budget, and what a further node gains does not rise.
    [he2026caddtree (arXiv:2606.01813), abstract; docs/speed_limits.md, Theorem 3]

    Margin: How much a node gains at least, and less than the one before.
    """
    gains = np.diff(accepted(marginals))
    return float(min(gains.min(), np.min(times * gains[:-1] - gains[1:], initial=1.0)))


def _cost(base: float, rises: FloatArray, order: int = 2) -> FloatArray:
    """What 0, 1, 2, ... nodes cost: convex where rises are second differences, not where they are first ones."""
    steps = np.abs(rises)
    return base + 0.1 + np.append(0.0, np.cumsum(np.cumsum(steps) if order == 2 else steps))


def stopped(rates: FloatArray) -> float:
    """The rate at which a search along the budget stops: the first that the next one does not exceed."""
    return float(next((now for now, then in pairwise(rates) if then <= now), rates[-1]))


@claim("caddtree-unimodal", _drafted, MOVES, mutants={"Where cost does not fall.": {"order": 1}})
def unimodal(marginals: FloatArray, base: float, rises: FloatArray, order: int = 2) -> float:
    """Where cost is convex in the number of nodes, tokens per time rise up to a budget and fall after it: a search that
    stops at the first budget which the next one does not exceed has found the best. [he2026caddtree (arXiv:2606.01813),
    abstract; docs/speed_limits.md, Theorem 3]

    Remark: Ties included: two equal rates in a row are the best ones.
    Margin: The rate where a search stops, less the best of all.
    """
    rates = (1 + accepted(marginals)) / _cost(base, rises, order)
    return stopped(rates) - float(rates.max())


@claim(
    "caddtree-any-cost",
    _drafted,
    MOVES,
    counterexample={"marginals": [[0.5, 0.5], [0.5, 0.5]], "base": 0.9, "rises": np.eye(6)[0]},
)
def any_cost(**instance: Any) -> float:
    """That search finds the best budget for every cost that does not fall with the number of nodes. [otspec; on
    he2026caddtree (arXiv:2606.01813); docs/speed_limits.md, Theorem 3]

    Beside: caddtree-unimodal
    Instead: It does for convex cost (caddtree-unimodal), and for equal steps at their ends (caddtree-tiles).
    Remark: Measured cost is a staircase: kernels take tiles of nodes, and all nodes of a tile cost the same.
    """
    return unimodal(**instance, order=1)


@claim("caddtree-tiles", _drafted, MOVES, mutants={"Along half tiles.": {"tile": TILE // 2}})
def tiles(marginals: FloatArray, base: float, rises: FloatArray, tile: int = TILE) -> float:
    """Where cost comes in equal steps of a tile of nodes, the search along full tiles finds the best budget. [otspec;
    on he2026caddtree (arXiv:2606.01813); docs/speed_limits.md, Theorem 3]

    Beside: caddtree-unimodal
    Margin: The same where cost comes in equal steps, searched at the ends of steps of so many nodes.
    """
    tokens = 1 + accepted(marginals)
    nodes = np.arange(tokens.size)
    rates = tokens / (base + 0.1 + 0.3 * np.ceil(nodes / TILE))
    return stopped(rates[np.append(nodes[:-1:tile], nodes[-1])]) - float(rates.max())


def _marginals(rng: np.random.Generator, *names: str) -> dict[str, Any]:
    """As many laws for each name."""
    size, depth = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    return {name: np.array([law(rng, size) for _ in range(depth)]) for name in names}


def _rounds(rng: np.random.Generator) -> dict[str, Any]:
    """Two kinds of rounds, and what a pass costs."""
    kinds = _marginals(rng, "first_marginals", "second_marginals")
    return {**kinds, "base": float(rng.random()), "slope": float(rng.random())}


@claim(
    "caddtree-each-round",
    _rounds,
    Descent("first_marginals second_marginals"),
    counterexample={
        "first_marginals": np.array([[1.0, 0.0]] * 2),
        "second_marginals": np.array([[0.5, 0.5]] * 2),
        "base": 0.9,
        "slope": 0.45,
    },
)
def each_round(
    first_marginals: FloatArray, second_marginals: FloatArray, base: float, slope: float, shared: bool = False
) -> float:
    """Rounds that each maximise their own tokens per time maximise those of all rounds together. [otspec; on
    he2026caddtree (arXiv:2606.01813); docs/speed_limits.md, Theorem 4]

    Beside: caddtree-unimodal
    Instead: Each round maximises tokens less a price times its cost, the price being the best rate of all rounds
    together (caddtree-price): a search along one budget, too, which stops as early.
    Remark: The abstract says that the throughput decomposes into a search of every round. It does at one price.
    Margin: The rate over both kinds of rounds where each maximises its own, less the best of all. Or where each
    maximises tokens less a `shared` price of time, the best rate, times its cost.
    """
    tokens = [1 + accepted(marginals) for marginals in (first_marginals, second_marginals)]
    cost = base + 0.1 + slope * np.arange(tokens[0].size)
    best = float((np.add.outer(*tokens) / np.add.outer(cost, cost)).max())
    worth = [gain - best * cost if shared else gain / cost for gain in tokens]
    at = [int(value.argmax()) for value in worth]
    return float(sum(gain[i] for gain, i in zip(tokens, at, strict=True)) / cost[at].sum()) - best


@claim(
    "caddtree-price",
    _rounds,
    Descent("first_marginals second_marginals"),
    mutants={"Each its own rate.": each_round.margin},
)
def price(**instance: Any) -> float:
    """Rounds that each maximise tokens less the best rate times cost reach that rate together. [otspec; on
    he2026caddtree (arXiv:2606.01813); docs/speed_limits.md, Theorem 4]

    Beside: caddtree-unimodal
    """
    return each_round(**instance, shared=True)


def _with_target(rng: np.random.Generator) -> dict[str, Any]:
    return {**_marginals(rng, "marginals", "target"), "slope": float(rng.random() / 4)}


@claim(
    "caddtree-target",
    _with_target,
    Descent("marginals target"),
    counterexample={"marginals": [[0.6, 0.4]], "target": [[0.0, 1.0]], "slope": 0.2},
)
def target(marginals: FloatArray, target: FloatArray, slope: float) -> float:
    """The same search finds the best budget for what the target accepts of the drafter's trees. [otspec; on
    he2026caddtree (arXiv:2606.01813); docs/speed_limits.md, Theorem 3]

    Beside: caddtree-unimodal
    Instead: It finds it for the tokens that the drafter expects, by its own marginals (caddtree-unimodal).
    Margin: The rate where a search stops, less the best, of tokens that the target accepts of the drafter's best trees.
    """
    order = np.argsort(-prefixes(marginals), kind="stable")
    tokens = np.append(1.0, 1 + np.cumsum(prefixes(target)[order]))
    rates = tokens / (1 + slope * np.arange(tokens.size))
    return stopped(rates) - float(rates.max())


UNCHECKED = (
    Unchecked(
        "It matches or surpasses DDTree with the best budget on nearly all of eight benchmarks.",
        ABSTRACT,
        "A measurement of Qwen3 models on a GPU.",
    ),
)
