"""Verification rules that decoders use, lossless and biased, as anybody would write them down.

An audit has to tell them apart: `LOSSLESS` and `BIASED` hold them by name, each with the drafts that it is used on.
They share no code with the rest of the package.  Each is a script: the drafts that it tests, in turn, each with the
probability to be accepted, and the law of the output if none is.  `as_law` and `as_sampler` turn a script into the two
forms of a rule that an audit takes.

Throughout, `p` and `q` are target and draft law of shape (V,), float64, and `drafts` are n token ids of shape (n,).
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tests.oracles import Floats, Ints


class Script(NamedTuple):
    """What a rule does with one tuple of drafts."""

    tests: list[tuple[int, float]]
    """The drafts that are tested, in turn, each with the probability that it is accepted."""
    last: Floats
    """Law of the output if none is accepted, shape (V,)."""


Rule = Callable[[Floats, Floats, Ints], Script]
Law = Callable[[Floats, Floats, Ints], Floats]
"""(p, q, drafts) to the law of the output, shape (V,)."""
Sampler = Callable[[Floats, Floats, Ints, np.random.Generator], int]


def as_law(rule: Rule) -> Law:
    def law(p: Floats, q: Floats, drafts: Ints) -> Floats:
        tests, last = rule(p, q, drafts)
        output, alive = np.zeros(p.size), 1.0
        for token, passes in tests:
            output[token] += alive * passes
            alive *= 1 - passes
        return output + alive * last

    return law


def as_sampler(rule: Rule) -> Sampler:
    def sample(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        tests, last = rule(p, q, drafts)
        for token, passes in tests:
            if rng.random() < passes:
                return token
        return draw(last, rng.random())

    return sample


def draw(law: Floats, coin: float) -> int:
    """The token at which the cumulative sum of a law passes a coin in [0, 1)."""
    cumulative = np.cumsum(law)
    return int(min(np.searchsorted(cumulative, coin * cumulative[-1], side="right"), np.flatnonzero(law)[-1]))


def residual(p: Floats, q: Floats) -> Floats:
    """[p - q]+, normalised; p where nothing is left."""
    rest = np.maximum(p - q, 0.0)
    return rest / rest.sum() if rest.sum() > 0 else p


def without(law: Floats, tokens: Iterable[int]) -> Floats:
    """A law without some tokens, normalised; the law itself where nothing would be left."""
    rest = law.copy()
    rest[list(tokens)] = 0.0
    return rest / rest.sum() if rest.sum() > 0 else law


def ratio(p: float, q: float) -> float:
    return min(1.0, p / q) if q > 0 else float(p > 0)


def top(law: Floats, k: int) -> Floats:
    """A law of its k likeliest tokens, normalised."""
    return without(law, np.argsort(-law, kind="stable")[k:].tolist())


def recursive(p: Floats, laws: Iterable[Floats], drafts: Iterable[int]) -> Script:
    """Reject each draft against a law of its own, one after the other."""
    tests = []
    for token, q in zip(drafts, laws, strict=False):
        tests.append((token, ratio(p[token], q[token])))
        p = residual(p, q)
    return Script(tests, p)


# --- lossless, each on the drafts named in LOSSLESS


def naive(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Draw from the target."""
    return Script([], p)


def single(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Speculative sampling with the first draft."""
    return recursive(p, [q], drafts[:1].tolist())


def rrs(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Recursive rejection, where each draft is a fresh draw from q."""
    return recursive(p, itertools.repeat(q), drafts.tolist())


def rsd(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Recursive rejection, where each draft is a draw from q without the drafts before."""
    tokens = drafts.tolist()
    return recursive(p, (without(q, tokens[:i]) for i in range(len(tokens))), tokens)


def eagle(p: Floats, q: Floats, drafts: Ints) -> Script:
    """EAGLE-2: accept a draft with its probability p, else remove the token and normalise."""
    tests = []
    for token in drafts.tolist():
        tests.append((token, float(p[token])))
        p = without(p, [token]) if p[token] < 1 else p
    return Script(tests, p)


def sglang(threshold_acc: float = 1.0, threshold_single: float = 1.0) -> Rule:
    """The rule of SGLang: compare one coin with the running sum of the siblings' target masses."""

    def rule(p: Floats, q: Floats, drafts: Ints) -> Script:
        tests, reached, below = [], 0.0, 0.0
        for token in drafts.tolist():
            reached = min(reached + p[token] / threshold_acc, 1.0)
            sure = p[token] >= threshold_single
            tests.append((token, 1.0 if sure else (reached - below) / (1 - below) if below < 1 else 1.0))
            below = reached
        return Script(tests, without(p, drafts.tolist()))

    return rule


def kseq(p: Floats, q: Floats, drafts: Ints) -> Script:
    """K-SEQ with the least gamma that is lossless: every draft meets the same test."""
    n = len(drafts)
    g = best_gamma(tuple(p.tolist()), tuple(q.tolist()), n)
    served = np.minimum(q, p / g)
    beta = served.sum()
    tests = [(token, ratio(p[token] / g, q[token])) for token in drafts.tolist()]
    return Script(tests, residual(p, served * sum((1 - beta) ** j for j in range(n))))


@lru_cache
def best_gamma(p: tuple[float, ...], q: tuple[float, ...], n: int) -> float:
    """By bisection."""
    low, high = 1.0, float(n)
    for _ in range(60):
        middle = (low + high) / 2
        beta = sum(min(b, a / middle) for a, b in zip(p, q, strict=True))
        low, high = (low, middle) if sum((1 - beta) ** j for j in range(n)) <= middle else (middle, high)
    return high


def greedy(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Single-draft verification of the last draft, against its own law."""
    *fixed, last = drafts.tolist()
    return recursive(p, [without(q, fixed)], [last])


# --- biased


def typical(p: Floats) -> float:
    """The threshold of typical acceptance."""
    return min(0.3, 0.09 * math.exp(sum(x * math.log(x) for x in p.tolist() if x > 0)))


def medusa_argmax(p: Floats, q: Floats, drafts: Ints) -> Script:
    """The likeliest draft above the threshold, else the likeliest token."""
    passing = [token for token in drafts.tolist() if p[token] > typical(p)]
    best = max(passing, key=lambda token: p[token], default=None)
    return Script([] if best is None else [(best, 1.0)], np.eye(p.size)[p.argmax()])


def medusa_first(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Without `fast`: the first passing draft, else a sample of the passing tokens."""
    kept = np.where(p > typical(p), p, 0.0)
    passing = [(token, 1.0) for token in drafts.tolist() if kept[token] > 0]
    return Script(passing, kept / kept.sum() if kept.sum() > 0 else p)


def medusa_nucleus(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Compare each draft with a fresh sample of the target."""
    return Script([(token, float(p[token])) for token in drafts.tolist()], p)


def lenient(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Speculative sampling with lenience 0.5."""
    token = int(drafts[0])
    return Script([(token, ratio(p[token], 0.5 * q[token]))], residual(p, q))


def siblings_by_ratio(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Test each sibling with p/q, and never update p."""
    return Script([(token, ratio(p[token], q[token])) for token in drafts.tolist()], residual(p, q))


def rsd_softmax_of_drafts(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Take deterministic drafts for draws from their own softmax."""
    return rsd(p, without(q, np.setdiff1d(np.arange(q.size), drafts).tolist()), drafts)


def skips_repeats(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Recursive rejection that tests a repeated draft once."""
    return recursive(p, itertools.repeat(q), dict.fromkeys(drafts.tolist()))


def shuffled_law(p: Floats, q: Floats, drafts: Ints) -> Floats:
    """The law of recursive rejection in random order."""
    orders = [np.array(order) for order in itertools.permutations(drafts.tolist())]
    return np.mean([as_law(rrs)(p, q, order) for order in orders], axis=0)


def shuffled_sampler(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
    return as_sampler(rrs)(p, q, rng.permutation(drafts), rng)


@dataclass
class ReusedNoise:
    """A drafter without replacement that draws the noise of its exponential clocks once for each text."""

    refresh: bool = False

    def start(self, rng: np.random.Generator) -> None:
        """Draw the noise of a new text."""
        self.noise = rng.random(1024)

    def __call__(self, q: Floats, n: int, rng: np.random.Generator) -> Ints:
        """Draw n tokens, shape (n,): those that arrive first."""
        if self.refresh:
            self.start(rng)
        with np.errstate(divide="ignore"):
            return np.argsort(-np.log(self.noise[: q.size]) / q)[:n]


class Entry(NamedTuple):
    """A rule in both forms, and the drafts that it is used on."""

    law: Law
    sampler: Sampler
    scheme: str
    n: int


def entry(rule: Rule, scheme: str, n: int = 3) -> Entry:
    return Entry(as_law(rule), as_sampler(rule), scheme, n)


LOSSLESS = {
    "speculative sampling": entry(single, "iid"),
    "draw and match, without replacement": entry(naive, "without_replacement"),
    "EAGLE-2, top-k tree": entry(eagle, "top_k"),
    "SGLang tree, thresholds 1": entry(sglang(), "top_k"),
    "recursive rejection, i.i.d. drafts": entry(rrs, "iid"),
    "recursive rejection, without replacement": entry(rsd, "without_replacement"),
    "K-SEQ, best gamma": entry(kseq, "iid"),
    "greedy drafts": entry(greedy, "greedy"),
}
"""Rules that are lossless on the drafts that they are named with."""

BIASED = {
    "Medusa typical, fallback argmax": entry(medusa_argmax, "top_k"),
    "Medusa typical, first passing": entry(medusa_first, "top_k"),
    "SGLang tree, threshold_acc 0.5": entry(sglang(threshold_acc=0.5), "top_k"),
    "SGLang tree, threshold_single 0.3": entry(sglang(threshold_single=0.3), "top_k"),
    "speculative sampling, lenience 0.5": entry(lenient, "iid", 1),
    "top-k tree, p/q per sibling": entry(siblings_by_ratio, "top_k"),
    "top-k tree, recursive in random order": Entry(shuffled_law, shuffled_sampler, "top_k", 3),
    "top-k tree, softmax of the drafts": entry(rsd_softmax_of_drafts, "top_k"),
    "argmax draft, speculative sampling": entry(single, "top_k", 1),
    "i.i.d. drafts, without-replacement rule": entry(rsd, "iid"),
    "without replacement, i.i.d. rule": entry(rrs, "without_replacement"),
}
"""Rules that are not; others of this module are among the known bugs."""
