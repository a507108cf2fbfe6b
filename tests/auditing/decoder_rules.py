"""Verification rules that decoders use, lossless and biased, as anybody would write them down.

They share no code with the rest of the package.  Each is a script: the drafts that it tests, in turn, each with the
probability to be accepted, and the law of the output if none is.  `as_law` and `as_sampler` turn a script into the two
forms of a rule that an audit takes.

Throughout, `p` and `q` are target and draft law of shape (V,), float64, and `drafts` are n token ids of shape (n,).
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


# --- rules


def naive(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Draw from the target."""
    return Script([], p)


def single(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Speculative sampling with the first draft."""
    return recursive(p, [q], drafts[:1].tolist())


def rrs(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Recursive rejection, where each draft is a fresh draw from q, or from a row of its own."""
    return recursive(p, q if q.ndim == 2 else itertools.repeat(q), drafts.tolist())


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


def greedy(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Single-draft verification of the last draft, against its own law."""
    *fixed, last = drafts.tolist()
    return recursive(p, [without(q, fixed)], [last])


def medusa_nucleus(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Compare each draft with a fresh sample of the target."""
    return Script([(token, float(p[token])) for token in drafts.tolist()], p)


def siblings_by_ratio(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Test each sibling with p/q, and never update p."""
    return Script([(token, ratio(p[token], q[token])) for token in drafts.tolist()], residual(p, q))


def skips_repeats(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Recursive rejection that tests a repeated draft once."""
    return recursive(p, itertools.repeat(q), dict.fromkeys(drafts.tolist()))


def kseq(gamma: float) -> Rule:
    """K-SEQ with a given gamma."""

    def rule(p: Floats, q: Floats, drafts: Ints) -> Script:
        served = np.minimum(q, p / gamma)
        factor = sum((1 - served.sum()) ** j for j in range(drafts.size))
        tests = [(token, min(1.0, p[token] / (gamma * q[token]))) for token in drafts.tolist()]
        return Script(tests, residual(p, factor * served))

    return rule


def spechub(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Serve the tokens beside the hub from (i, hub), then from (hub, i), and the hub from what is unused."""
    hub = int(q.argmax())
    off = [token for token in range(q.size) if token != hub]
    rest = sum(q[token] for token in off)
    pairs = {(token, hub): float(q[token]) for token in off} if rest else {(hub, hub): 1.0}
    pairs |= {(hub, token): float(q[hub] * q[token] / rest) for token in off if rest}
    served, taken = dict.fromkeys(pairs, 0.0), np.zeros(p.size)
    for token in off:
        for pair in ((token, hub), (hub, token)):
            served[pair] = min(p[token] - taken[token], pairs.get(pair, 0.0))
            taken[token] += served[pair]
    unused = sum(mass - served[pair] for pair, mass in pairs.items())
    taken[hub] = p[hub]
    drafted = (int(drafts[0]), int(drafts[1]))
    other = drafted[0] if drafted[1] == hub else drafted[1]
    tests = [(other, served[drafted] / pairs[drafted]), (hub, min(1.0, p[hub] / unused) if unused > 0 else 1.0)]
    return Script(tests, residual(p, taken))


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
