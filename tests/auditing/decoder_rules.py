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

from otspec.laws import FloatArray, IntArray


class Script(NamedTuple):
    """What a rule does with one tuple of drafts."""

    tests: list[tuple[int, float]]
    """The drafts that are tested, in turn, each with the probability that it is accepted."""
    last: FloatArray
    """Law of the output if none is accepted, shape (V,)."""


Rule = Callable[[FloatArray, FloatArray, IntArray], Script]
"""(p, q, drafts) to a script."""

Law = Callable[[FloatArray, FloatArray, IntArray], FloatArray]
"""(p, q, drafts) to the law of the output, shape (V,)."""

Sampler = Callable[[FloatArray, FloatArray, IntArray, np.random.Generator], int]
"""(p, q, drafts, rng) to a token."""


def as_law(rule: Rule) -> Law:
    """The rule as a function of (p, q, drafts) that gives the law of the output, shape (V,)."""

    def law(p: FloatArray, q: FloatArray, drafts: IntArray) -> FloatArray:
        tests, last = rule(p, q, drafts)
        output, alive = np.zeros(p.size), 1.0
        for token, passes in tests:
            output[token] += alive * passes
            alive *= 1 - passes
        return output + alive * last

    return law


def as_sampler(rule: Rule) -> Sampler:
    """The rule as a function of (p, q, drafts, rng) that draws the output."""

    def sample(p: FloatArray, q: FloatArray, drafts: IntArray, rng: np.random.Generator) -> int:
        tests, last = rule(p, q, drafts)
        for token, passes in tests:
            if rng.random() < passes:
                return token
        return draw(last, rng.random())

    return sample


def draw(law: FloatArray, coin: float) -> int:
    """The token at which the cumulative sum of a law, shape (V,), passes a coin in [0, 1)."""
    cumulative = np.cumsum(law)
    return int(min(np.searchsorted(cumulative, coin * cumulative[-1], side="right"), np.flatnonzero(law)[-1]))


def residual(p: FloatArray, q: FloatArray) -> FloatArray:
    """The residual law [p - q]+, normalised, shape (V,); p where nothing is left."""
    rest = np.maximum(p - q, 0.0)
    return rest / rest.sum() if rest.sum() > 0 else p


def without(law: FloatArray, tokens: Iterable[int]) -> FloatArray:
    """A law without some tokens, normalised, shape (V,); the law itself where nothing would be left."""
    rest = law.copy()
    rest[list(tokens)] = 0.0
    return rest / rest.sum() if rest.sum() > 0 else law


def ratio(p: float, q: float) -> float:
    """The acceptance probability min(1, p / q)."""
    return min(1.0, p / q) if q > 0 else float(p > 0)


def top(law: FloatArray, k: int) -> FloatArray:
    """A law of its k likeliest tokens, normalised, shape (V,)."""
    return without(law, np.argsort(-law, kind="stable")[k:].tolist())


def recursive(p: FloatArray, laws: Iterable[FloatArray], drafts: Iterable[int]) -> Script:
    """Reject each draft against a law of its own, shape (V,), one after the other."""
    tests = []
    for token, q in zip(drafts, laws, strict=False):
        tests.append((token, ratio(p[token], q[token])))
        p = residual(p, q)
    return Script(tests, p)


# --- lossless, each on the drafts named in LOSSLESS


def naive(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Draw from the target; as all of these, from p and q, shape (V,), and drafts, shape (n,)."""
    return Script([], p)


def single(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Speculative sampling with the first draft."""
    return recursive(p, [q], drafts[:1].tolist())


def rrs(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Recursive rejection, where each draft is a fresh draw from q."""
    return recursive(p, itertools.repeat(q), drafts.tolist())


def rsd(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Recursive rejection, where each draft is a draw from q without the drafts before."""
    tokens = drafts.tolist()
    return recursive(p, (without(q, tokens[:i]) for i in range(len(tokens))), tokens)


def eagle(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """EAGLE-2: accept a draft with its probability p, else remove the token and normalise."""
    tests = []
    for token in drafts.tolist():
        tests.append((token, float(p[token])))
        p = without(p, [token]) if p[token] < 1 else p
    return Script(tests, p)


def sglang(threshold_acc: float = 1.0, threshold_single: float = 1.0) -> Rule:
    """The rule of SGLang: compare one coin with the running sum of the siblings' target masses."""

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        tests, reached, below = [], 0.0, 0.0
        for token in drafts.tolist():
            reached = min(reached + p[token] / threshold_acc, 1.0)
            sure = p[token] >= threshold_single
            tests.append((token, 1.0 if sure else (reached - below) / (1 - below) if below < 1 else 1.0))
            below = reached
        return Script(tests, without(p, drafts.tolist()))

    return rule


def kseq(gamma: Callable[[FloatArray, FloatArray, int], float]) -> Rule:
    """K-SEQ with a gamma of (p, q, n): every draft meets the same test."""

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        n = len(drafts)
        g = gamma(p, q, n)
        served = np.minimum(q, p / g)
        beta = served.sum()
        tests = [(token, ratio(p[token] / g, q[token])) for token in drafts.tolist()]
        return Script(tests, residual(p, served * sum((1 - beta) ** j for j in range(n))))

    return rule


def best_gamma(p: FloatArray, q: FloatArray, n: int) -> float:
    """The least gamma that is lossless."""
    return _best_gamma(tuple(p.tolist()), tuple(q.tolist()), n)


@lru_cache
def _best_gamma(p: tuple[float, ...], q: tuple[float, ...], n: int) -> float:
    """The same of laws that can be looked up, by bisection."""
    low, high = 1.0, float(n)
    for _ in range(60):
        middle = (low + high) / 2
        beta = sum(min(b, a / middle) for a, b in zip(p, q, strict=True))
        low, high = (low, middle) if sum((1 - beta) ** j for j in range(n)) <= middle else (middle, high)
    return high


def spechub(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """SpecHub: serve the other token of the pair first, and the hub from what is unused."""
    hub = int(q.argmax())
    if q[hub] == 1:
        return recursive(p, [q], drafts[:1].tolist())
    token = int(drafts[0] if drafts[1] == hub else drafts[1])
    others = without(q, [hub])
    hub_second = np.where(np.arange(p.size) == hub, 0.0, q)
    hub_first = q[hub] * others
    served_first = np.minimum(p, hub_second)
    served_then = np.minimum(p - served_first, hub_first)
    served_first[hub] = served_then[hub] = 0.0
    unused = 1 - served_first.sum() - served_then.sum()
    for_hub = min(1.0, p[hub] / unused) if unused > 0 else 1.0
    served, mass = (served_first, hub_second) if drafts[1] == hub else (served_then, hub_first)
    missing = p - served_first - served_then
    missing[hub] = 0.0
    return Script([(token, served[token] / mass[token]), (hub, for_hub)], residual(missing, np.zeros(p.size)))


def greedy(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Single-draft verification of the last draft, against its own law."""
    *fixed, last = drafts.tolist()
    return recursive(p, [without(q, fixed)], [last])


# --- biased


def entropy(p: FloatArray) -> float:
    """The entropy of a law, shape (V,), in nats."""
    return -sum(x * math.log(x) for x in p.tolist() if x > 0)


def medusa_argmax(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Typical acceptance: the likeliest draft above the threshold, else the likeliest token."""
    threshold = min(0.3, 0.09 * math.exp(entropy(p)) ** -1)
    passing = [token for token in drafts.tolist() if p[token] > threshold]
    best = max(passing, key=lambda token: p[token], default=None)
    return Script([] if best is None else [(best, 1.0)], np.eye(p.size)[p.argmax()])


def medusa_first(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Typical acceptance without `fast`: the first passing draft, else a sample of the passing tokens."""
    threshold = min(0.3, 0.09 * math.exp(entropy(p)) ** -1)
    passing = [(token, 1.0) for token in drafts.tolist() if p[token] > threshold]
    kept = np.where(p > threshold, p, 0.0)
    return Script(passing, kept / kept.sum() if kept.sum() > 0 else p)


def medusa_nucleus(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Compare each draft with a fresh sample of the target."""
    return Script([(token, float(p[token])) for token in drafts.tolist()], p)


def lenient(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Speculative sampling with lenience 0.5."""
    token = int(drafts[0])
    return Script([(token, ratio(p[token], 0.5 * q[token]))], residual(p, q))


def siblings_by_ratio(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Test each sibling with p/q, and never update p."""
    return Script([(token, ratio(p[token], q[token])) for token in drafts.tolist()], residual(p, q))


def rsd_softmax_of_drafts(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Take deterministic drafts for draws from their own softmax."""
    tokens = drafts.tolist()
    others = [token for token in range(q.size) if token not in tokens]
    return rsd(p, without(q, others), drafts)


def skips_repeats(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
    """Recursive rejection that tests a repeated draft once."""
    return recursive(p, itertools.repeat(q), dict.fromkeys(drafts.tolist()))


def shuffled_law(p: FloatArray, q: FloatArray, drafts: IntArray) -> FloatArray:
    """The law of recursive rejection in random order, shape (V,)."""
    orders = [np.array(order) for order in itertools.permutations(drafts.tolist())]
    return np.mean([as_law(rrs)(p, q, order) for order in orders], axis=0)


def shuffled_sampler(p: FloatArray, q: FloatArray, drafts: IntArray, rng: np.random.Generator) -> int:
    """Draw from recursive rejection in random order."""
    return as_sampler(rrs)(p, q, rng.permutation(drafts), rng)


# --- several tokens as one: texts of three tokens over an alphabet, a drafted path is the text that it starts

ALPHABET = 3


def path_law(p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The conditional laws of a two-step model from the joint laws of texts: p1, p2, p3 and q1, q2.

    With a tokens in the alphabet, p and q have shape (a**3,); p1 and q1 have shape (a,), p2 and q2 have shape (a, a),
    and p3 has shape (a, a, a).
    """
    a = ALPHABET
    joint_p, joint_q = p.reshape(a, a, a), q.reshape(a, a, a).sum(axis=2)
    p1, q1 = joint_p.sum(axis=(1, 2)), joint_q.sum(axis=1)
    p2, q2 = joint_p.sum(axis=2) / p1[:, None], joint_q / q1[:, None]
    return p1, p2, joint_p / joint_p.sum(axis=2, keepdims=True), q1, q2


def block(token_wise_residual: bool) -> Law:
    """Block verification of one path of two tokens, continued by the target.

    With `token_wise_residual` it has the residual of the token-wise rule, which is a mistake.
    """

    def law(p: FloatArray, q: FloatArray, drafts: IntArray) -> FloatArray:
        a = ALPHABET
        p1, p2, p3, q1, q2 = path_law(p, q)
        x, y = divmod(int(drafts[0]) // a, a)
        c1 = min(1.0, p1[x] / q1[x])
        c2 = min(1.0, c1 * p2[x, y] / q2[x, y])
        missing = np.maximum(c1 * p2[x] - q2[x], 0).sum()
        keep1 = missing / (missing + 1 - c1) if missing + 1 - c1 > 0 else 1.0
        scale = 1.0 if token_wise_residual else c1
        output = np.zeros((a, a, a))
        output[x, y] += c2 * p3[x, y]
        output[x] += (1 - c2) * keep1 * residual(scale * p2[x], q2[x])[:, None] * p3[x]
        output += (1 - c2) * (1 - keep1) * residual(p1, q1)[:, None, None] * p2[:, :, None] * p3
        return output.ravel()

    return law


def hot_bonus(temperature: float) -> Law:
    """A rule for two tokens that draws the second at temperature 1, while the target runs at another."""

    def law(p: FloatArray, q: FloatArray, drafts: IntArray) -> FloatArray:
        v = math.isqrt(p.size)
        joint = p.reshape(v, v)
        first = joint.sum(axis=1)
        x = int(drafts[0]) // v
        second = joint / first[:, None]
        bonus = second[x] ** temperature
        output = np.zeros((v, v))
        output[x] = first[x] * bonus / bonus.sum()
        rest = joint.copy()
        rest[x] = 0.0
        return (output + rest).ravel()

    return law


@dataclass
class ReusedNoise:
    """A drafter without replacement that draws the noise of its exponential clocks once for each text."""

    refresh: bool = False

    def start(self, rng: np.random.Generator) -> None:
        """Draw the noise of a new text."""
        self.noise = rng.random(1024)

    def __call__(self, q: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
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
    """Name of the draft law."""
    n: int
    """Drafts per position."""


def entry(rule: Rule, scheme: str, n: int = 3) -> Entry:
    """A rule in both forms, with the drafts that it is used on."""
    return Entry(as_law(rule), as_sampler(rule), scheme, n)


def gamma_n(p: FloatArray, q: FloatArray, n: int) -> float:
    """The gamma that is always lossless."""
    return float(n)


LOSSLESS = {
    "speculative sampling": entry(single, "iid"),
    "draw and match, i.i.d. drafts": entry(naive, "iid"),
    "draw and match, without replacement": entry(naive, "without_replacement"),
    "EAGLE-2, top-k tree": entry(eagle, "top_k"),
    "SGLang tree, thresholds 1": entry(sglang(), "top_k"),
    "recursive rejection, i.i.d. drafts": entry(rrs, "iid"),
    "recursive rejection, without replacement": entry(rsd, "without_replacement"),
    "K-SEQ, best gamma": entry(kseq(best_gamma), "iid"),
    "K-SEQ, gamma = n": entry(kseq(gamma_n), "iid"),
    "SpecHub": entry(spechub, "hub_pairs", 2),
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
