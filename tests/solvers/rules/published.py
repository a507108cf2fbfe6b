"""The published rules, each written down from its definition, tuple by tuple, in plain Python.

They share no code with the package: every one returns the law of the output given the drafts, and the probability
that the rule itself accepted one of them.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.oracles import Floats, Ints


class Outcome(NamedTuple):
    """What a rule does with one tuple of drafts."""

    law: list[float]
    accepted: float


Simulation = Callable[[Floats, Floats, Ints], Outcome]
"""(p, q, drafts) to what happens."""


def naive(p: Floats, q: Floats, drafts: Ints) -> Outcome:
    """Draw from p; accepted if drafted."""
    return Outcome(p.tolist(), sum(float(p[token]) for token in set(drafts.tolist())))


def single(p: Floats, q: Floats, drafts: Ints) -> Outcome:
    """Speculative sampling with the first draft."""
    return rrs(p, q, drafts[:1])


def rrs(p: Floats, q: Floats, drafts: Ints) -> Outcome:
    """Recursive rejection with replacement; q may have a row for each draft."""
    laws = q.tolist() if q.ndim == 2 else [q.tolist() for _ in drafts]
    return _recursive(p.tolist(), laws, drafts.tolist())


def rsd(p: Floats, q: Floats, drafts: Ints) -> Outcome:
    """Recursive rejection without replacement."""
    laws = [q.tolist()]
    for token in drafts.tolist():
        left = [0.0 if x == token else b for x, b in enumerate(laws[-1])]
        laws.append(_normalised(left) or left)
    return _recursive(p.tolist(), laws, drafts.tolist())


def _recursive(p: list[float], laws: list[list[float]], drafts: list[int]) -> Outcome:
    if not drafts:
        return Outcome(p, 0.0)
    token, q = drafts[0], laws[0]
    passes = min(1.0, p[token] / q[token]) if q[token] > 0 else float(p[token] > 0)
    residual = _normalised([max(a - b, 0.0) for a, b in zip(p, q, strict=True)]) or p
    later = _recursive(residual, laws[1:], drafts[1:])
    law = [(1 - passes) * value for value in later.law]
    law[token] += passes
    return Outcome(law, passes + (1 - passes) * later.accepted)


def _normalised(values: list[float]) -> list[float] | None:
    total = sum(values)
    return [value / total for value in values] if total > 0 else None


def kseq(gamma: float) -> Simulation:
    """K-SEQ with a given gamma."""

    def simulate(p: Floats, q: Floats, drafts: Ints) -> Outcome:
        n = len(drafts)
        served = [min(b, a / gamma) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
        beta = sum(served)
        factor = sum((1 - beta) ** j for j in range(n))
        residual = _normalised([max(a - factor * s, 0.0) for a, s in zip(p.tolist(), served, strict=True)])
        law, alive = [0.0] * p.size, 1.0
        for token in drafts.tolist():
            passes = min(1.0, p[token] / (gamma * q[token]))
            law[token] += alive * passes
            alive *= 1 - passes
        rest = residual or p.tolist()
        return Outcome([value + alive * r for value, r in zip(law, rest, strict=True)], 1 - alive)

    return simulate


def best_gamma(p: list[float], q: list[float], n: int) -> float:
    """The least gamma with 1 - (1 - beta)**n <= gamma beta, by bisection."""
    low, high = 1.0, float(n)
    for _ in range(200):
        gamma = (low + high) / 2
        beta = sum(min(b, a / gamma) for a, b in zip(p, q, strict=True))
        if sum((1 - beta) ** j for j in range(n)) <= gamma:
            high = gamma
        else:
            low = gamma
    return high


def spechub(p: Floats, q: Floats, drafts: Ints) -> Outcome:
    """Serve the tokens beside the hub from (i, hub), then from (hub, i), and the hub from what is unused."""
    hub = max(range(q.size), key=lambda token: (q[token], -token))
    off = [token for token in range(q.size) if token != hub]
    rest = sum(q[token] for token in off)
    if rest == 0:
        pairs = {(hub, hub): 1.0}
    else:
        pairs = {(token, hub): q[token] for token in off}
        pairs |= {(hub, token): q[hub] * q[token] / rest for token in off}
    served = {}
    for token in off:
        wanted = p[token]
        for pair in ((token, hub), (hub, token)):
            served[pair] = min(wanted, pairs.get(pair, 0.0))
            wanted -= served[pair]
    unused = {pair: mass - served.get(pair, 0.0) for pair, mass in pairs.items()}
    total = sum(unused.values())
    for_hub = min(1.0, p[hub] / total) if total > 0 else 1.0
    missing = [p[t] - served.get((t, hub), 0.0) - served.get((hub, t), 0.0) if t != hub else 0.0 for t in range(p.size)]
    residual = _normalised([max(value, 0.0) for value in missing]) or p.tolist()
    pair = (int(drafts[0]), int(drafts[1]))
    other = pair[0] if pair[1] == hub else pair[1]
    passes = served.get(pair, 0.0) / pairs[pair]
    law = [(1 - passes) * (1 - for_hub) * value for value in residual]
    law[hub] += (1 - passes) * for_hub
    law[other] += passes
    return Outcome(law, passes + (1 - passes) * for_hub)
