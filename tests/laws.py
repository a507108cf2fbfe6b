"""Target and draft laws that are hard on sums, ratios and orders, for any vocabulary: the one place that makes them.

The package has generators of its own, for the audit (`otspec.auditing.rules.instances`) and for the claims
(`otspec.proofs_check.instances`).  What tests them should not share their mistakes, and is harsher: exact ties, totals
that are off, probabilities down to the smallest floats.
"""

from collections.abc import Callable

import numpy as np

from tests.oracles import Floats

Rng = np.random.Generator
Pair = tuple[Floats, Floats]
Kind = Callable[[Rng, int], Pair]
"""Makes p and q over a vocabulary."""


def normalised(weights: Floats) -> Floats:
    """Weights over their total."""
    return weights / weights.sum()


def softmax(logits: Floats) -> Floats:
    """The law of logits."""
    return normalised(np.exp(logits - logits.max()))


# --- ordinary


def dirichlet(*concentrations: float) -> Kind:
    """Unrelated laws, from peaked (0.05) to flat (30), with one of the concentrations each."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = (rng.dirichlet(np.full(vocab, rng.choice(concentrations))) for _ in range(2))
        return p, q

    return make


uniform = dirichlet(1.0)


def model(rng: Rng, vocab: int) -> Pair:
    """A language model and a draft model that errs."""
    scale, noise = rng.uniform(0.9, 4.0), rng.uniform(0.2, 2.0)
    logits = scale * rng.laplace(size=vocab)
    return softmax(logits), softmax(logits + noise * rng.standard_normal(vocab))


def long_tail(rng: Rng, vocab: int) -> Pair:
    """A few likely tokens, a tail that falls off as a power, and drafts from logits with errors."""
    logits = rng.permutation(-1.5 * np.log(np.arange(1, vocab + 1))) + rng.normal(scale=0.5, size=vocab)
    return softmax(logits), softmax(logits + rng.normal(scale=1.5, size=vocab))


# --- alike


def same(like: Kind) -> Kind:
    """p = q."""

    def make(rng: Rng, vocab: int) -> Pair:
        q = like(rng, vocab)[1]
        return q, q

    return make


def close(like: Kind, *relative: float) -> Kind:
    """p = q up to one of these relative errors; at 3e-16 every token is over- or under-drafted by rounding only."""

    def make(rng: Rng, vocab: int) -> Pair:
        q = like(rng, vocab)[1]
        return normalised(q * np.exp(rng.choice(relative) * rng.standard_normal(vocab))), q

    return make


# --- ties


def grid(steps: int) -> Kind:
    """Multiples of 1/steps, a power of two: sums are exact, and so are the ties between subsets."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = (np.bincount(rng.integers(vocab, size=steps), minlength=vocab) / steps for _ in range(2))
        return p, q

    return make


def tied_ratios(rng: Rng, vocab: int) -> Pair:
    """No more than three ratios p/q."""
    q = rng.integers(1, 4, vocab) / 16
    return normalised(q * rng.choice([0.5, 1.0, 2.0], vocab)), normalised(q)


# --- tokens that are out of reach, or all there is


def zeros(like: Kind, *shares: float) -> Kind:
    """Laws in which a token is 0 with one of these chances, p and q apart."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = (law * _some(rng, vocab, 1 - rng.choice(shares)) for law in like(rng, vocab))
        return normalised(p), normalised(q)

    return make


def _some(rng: Rng, vocab: int, share: float) -> Floats:
    """0 or 1 for each token, at least one of them 1."""
    kept = (rng.random(vocab) < share).astype(np.float64)
    kept[rng.integers(vocab)] = 1.0
    return kept


def unreachable(rng: Rng, vocab: int) -> Pair:
    """p is everywhere, q on the larger half of the tokens."""
    p, q = uniform(rng, vocab)
    q[rng.permutation(vocab)[: vocab // 2]] = 0.0
    return p, normalised(q)


def disjoint(like: Kind) -> Kind:
    """No token in common; over two tokens at least."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = like(rng, max(vocab, 2))
        mine = rng.permutation(p.size) < rng.integers(1, p.size)
        return normalised(np.where(mine, p, 0.0)), normalised(np.where(mine, 0.0, q))

    return make


def point_target(like: Kind) -> Kind:
    """p is one token."""

    def make(rng: Rng, vocab: int) -> Pair:
        return np.eye(1, vocab, int(rng.integers(vocab)))[0], like(rng, vocab)[1]

    return make


def point_draft(like: Kind) -> Kind:
    """q is one token."""
    return swapped(point_target(like))


def swapped(like: Kind) -> Kind:
    """p and q change places."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = like(rng, vocab)
        return q, p

    return make


def one_of(*kinds: Kind) -> Kind:
    """One of these kinds at random."""

    def make(rng: Rng, vocab: int) -> Pair:
        return kinds[rng.integers(len(kinds))](rng, vocab)

    return make


# --- sizes far apart


def tail(smallest: float) -> Kind:
    """Tokens of ordinary size or down to `smallest`, in p and q independently, a third of them at the smallest."""

    def make(rng: Rng, vocab: int) -> Pair:
        laws = []
        for _ in range(2):
            law = smallest ** rng.random(vocab)
            law[rng.random(vocab) < 0.3] = smallest
            law[rng.integers(vocab)] = 1.0
            laws.append(normalised(law))
        return laws[0], laws[1]

    return make


def smallest_floats(like: Kind) -> Kind:
    """Half of the tokens lie between 1e-250 and the smallest float."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = like(rng, vocab)
        for law in (p, q):
            low = rng.random(vocab) < 0.5
            low[rng.integers(vocab)] = False
            law[low] = 10.0 ** rng.uniform(-323, -250, low.sum())
        return normalised(p), normalised(q)

    return make


def one_likely(like: Kind) -> Kind:
    """One token has all but 0.1 to 1e-9 of p, and mostly the same token that of q."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = like(rng, vocab)
        rest = 10.0 ** -rng.uniform(1, 9)
        p, q = rest * p, rest ** rng.uniform(0.5, 2) * q
        likely = rng.integers(vocab)
        p[likely] += 1 - p.sum()
        q[likely if rng.random() < 0.7 else rng.integers(vocab)] += 1 - q.sum()
        return p, q

    return make


def lumpy(rng: Rng, vocab: int) -> Pair:
    """Heavy tokens between light ones, in q as well as in p."""
    q = np.where(rng.random(vocab) < 0.5, 1.0, 0.02) * rng.uniform(0.5, 1.0, vocab)
    p = q * np.exp(rng.choice([0.2, 0.5, 1.0]) * rng.standard_normal(vocab))
    return normalised(p), normalised(q)


# --- rounded


def float32(like: Kind) -> Kind:
    """What a model hands over: float32, with a total that is off by up to 4e-6, which `as_law` divides out."""

    def make(rng: Rng, vocab: int) -> Pair:
        p, q = ((law * (1 + 4e-6 * rng.uniform(-1, 1))).astype(np.float32).astype(float) for law in like(rng, vocab))
        return p, q

    return make


hostile = one_of(uniform, dirichlet(0.1), zeros(uniform, 0.5), grid(16), float32(model), tail(1e-12), tail(1e-300))
"""A kind drawn at random: flat, peaked, with zeros, with ties, in float32, with tails down to 1e-300."""
