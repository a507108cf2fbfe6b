"""How good labels can be: shares that know all laws, and the least bound on verifiers that read where they drafted."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import model_laws, model_of
from otspec.proofs_check.oracles import Row, Sums
from otspec.proofs_check.own.all_verifiers import LEAVES, PATHS, TOKENS, WORLDS, Verifiers, laws_of_worlds
from otspec.verification import Model, bound
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.trees.tree import Prefix

LENGTH = 2


def lossless(model: Model, vocab: int, length: int) -> tuple[Sums, Row]:
    """Condition (a) of Theorem 1 of paths on A(v), a variable for each v that is not empty; and the accepted tokens."""
    sums, gain = Sums(), Row()
    for prefix in prefixes(vocab, length - 1):
        for token, chance in enumerate(model.target(prefix).tolist()):
            child = (*prefix, token)
            sums.at_most({child: 1.0, prefix: -chance} if prefix else {child: 1.0}, 0.0 if prefix else chance)
            gain[child] = 1.0
    return sums, gain


def by_labels(target: FloatArray, draft: FloatArray, length: int, count: int, first: bool = False) -> float:
    """The most that labels accept whose shares are mixed from orders of the leaves, laid end to end.

    `first`: of orders that keep leaves together that begin with the same token.
    """
    model = model_of(target, draft)
    sums, gain = lossless(model, target.shape[1], length)
    chance: dict[Prefix, float] = {(): 1.0}
    for child in gain:
        chance[child] = chance[child[:-1]] * float(model.draft(child[:-1])[child[-1]])
    leaves = [prefix for prefix in chance if len(prefix) == length]
    shares: dict[Prefix, Row] = {prefix: defaultdict(float) for prefix in chance if prefix}
    orders = [order for order in itertools.permutations(leaves) if not first or _together(order)]
    for number, order in enumerate(orders):
        below = 0.0
        for leaf in order:  # the last one owns the largest labels
            above = below + chance[leaf]
            won = min(above, 1.0) ** count - min(below, 1.0) ** count
            for depth in range(1, length + 1):
                shares[leaf[:depth]]["order", number] -= won
            below = above
    for prefix, row in shares.items():
        sums.at_most({prefix: 1.0, **row}, 0.0)
    sums.at_most({("order", number): 1.0 for number in range(len(orders))}, 1.0)
    return sums.most(gain)


def _together(order: Sequence[Prefix]) -> bool:
    firsts = [token for token, _ in itertools.groupby(leaf[0] for leaf in order)]
    return len(firsts) == len(set(firsts))


def _two_tokens(rng: np.random.Generator) -> dict[str, object]:
    return {**model_laws(rng, TOKENS, LENGTH), "count": int(rng.integers(1, 4))}


@claim(
    "own-labels-suffice",
    _two_tokens,
    tol=1e-6,
    cost=20,
    mutants={"If what a first token owns is one piece in each order.": {"first": True}},
)
def labels_suffice(target: FloatArray, draft: FloatArray, length: int, count: int, first: bool = False) -> float:
    """Labels whose shares know all laws, and block verification, accept as much as any lossless verifier. [otspec,
    docs/best_labels.md, Theorem 1]

    Remark: Shares are mixed from all orders of the leaves; both sides are linear programs, to 1e-7.
    """
    return -abs(by_labels(target, draft, length, count, first) - bound(model_of(target, draft), count, length))


def hit(mass: float, count: int) -> float:
    """The chance that one of so many drafts lies in a set of this mass."""
    return 1.0 - max(1.0 - mass, 0.0) ** count


def least_bound(p: FloatArray, q: FloatArray, then: FloatArray, drafts: FloatArray) -> float:
    """The least bound of Theorem 5 of paths, by Theorem 2: what a pick with all laws in view and mean laws accept.

    The worlds are those of `Verifiers`, equally likely.
    """
    sums, gain = Sums(), Row()
    picked: dict[Prefix, Row] = defaultdict(Row)
    for world in WORLDS:
        chance = {(x, y): float(q[x] * drafts[x, world[x], y]) for x, y in LEAVES}
        for some in itertools.chain.from_iterable(itertools.combinations(LEAVES, size) for size in range(1, 5)):
            mass = float(sum(chance[leaf] for leaf in some))
            sums.at_most(dict.fromkeys(((world, leaf) for leaf in some), 1.0), hit(mass, PATHS))
        for x, y in LEAVES:
            picked[x,][world, (x, y)] = 1 / len(WORLDS)
            picked[x, y, world[x]][world, (x, y)] = 2 / len(WORLDS)  # in half of the worlds this law is after x
    for x in range(TOKENS):
        sums.at_most({(x,): 1.0}, float(p[x]))
        gain[x,] = 1.0
        for y, which in itertools.product(range(TOKENS), range(2)):
            sums.at_most({(x, y, which): 1.0, (x,): -float(then[x, which, y])}, 0.0)
            gain[x, y, which] = 0.5
    for prefix, mean in picked.items():
        sums.at_most({prefix: 1.0, **{key: -share for key, share in mean.items()}}, 0.0)
    return sums.most(gain)


def _attained(**laws: FloatArray) -> float:
    return -abs(paths_least_bound(**laws))


@claim("own-paths-least-bound", laws_of_worlds, tol=1e-7, cost=20, mutants={"The two are equal.": _attained})
def paths_least_bound(p: FloatArray, q: FloatArray, then: FloatArray, drafts: FloatArray) -> float:
    """What a verifier accepts that reads laws after drafted prefixes is at most the least bound of Theorem 5 of paths:
    what block verification accepts of a pick with all laws in view, against the mean law of such picks. [otspec,
    docs/best_labels.md, Theorem 2]

    Remark: Both are linear programs, over all verifiers and over all picks.
    """
    verifiers = Verifiers(p, q, then, drafts)
    return least_bound(p, q, then, drafts) - verifiers.sums.most(verifiers.accepted())
