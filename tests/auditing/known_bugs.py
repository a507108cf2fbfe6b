"""Known bugs: losslessness bugs that engines and papers have had, each rewritten as a small rule of our own.

Every known bug stands beside its correct counterpart, which differs in nothing but the fault.  docs/audit.md has the
table, with the public reports that describe them; the code is ours.

Rules for one position take `p` and `q` of shape (V,), `drafts` of shape (n,) and a numpy generator, and return a token
or, where they are called a law, the law of the output of shape (V,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from otspec.auditing import Audit, audit, audit_paths
from otspec.logits import law_from_logits
from otspec.proofs_check.own.released import ReleasedHierarchical
from otspec.schemes import IID
from otspec.verification.rules.hierarchical import Hierarchical
from otspec.verification.rules.protocol import PathVerifier
from tests.auditing import decoder_rules as rules
from tests.auditing.decoder_rules import Rule, Script, as_law, as_sampler, naive, residual, single, top
from tests.oracles import Floats, Ints

Run = Callable[..., Audit]
"""An audit that waits for its settings: the keywords of `otspec.auditing.AuditSettings`."""


class Audits(NamedTuple):
    """The audits of one rule: by draws, and by enumeration, None where the rule does not give its law."""

    drawn: Run
    exact: Run | None


@dataclass(frozen=True)
class KnownBug:
    """A rule with a known fault, and its correct counterpart."""

    name: str
    broken: Audits
    correct: Audits
    seen_by_draws: bool = True
    """Whether a sampled audit with default settings calls the broken rule not lossless."""


# --- noise that is used twice


@dataclass
class GumbelPair:
    """A drafter and a verifier of one draft, both drawing by the largest of log-probability plus Gumbel noise."""

    fresh_recovery: bool = True
    """Whether the token after a refusal is drawn with noise of its own, or with the drafter's."""
    fresh_coin: bool = True
    """Whether the draft is tested with a coin of its own, or with the uniform that its own noise was made from."""

    def draft(self, q: Floats, n: int, rng: np.random.Generator) -> Ints:
        """Draw one draft from q, shape (V,), and keep the noise; the drafts have shape (1,)."""
        self.noise = rng.gumbel(size=q.size)
        return np.array([_largest(q, self.noise)])

    def verify(self, p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        """Speculative sampling of the draft: the token that is put out."""
        token = int(drafts[0])
        coin = rng.random() if self.fresh_coin else float(np.exp(-np.exp(-self.noise[token])))
        if coin * q[token] < p[token]:
            return token
        return _largest(residual(p, q), rng.gumbel(size=q.size) if self.fresh_recovery else self.noise)


def _largest(law: Floats, noise: Floats) -> int:
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(law) + noise))


def _pair(pair: GumbelPair) -> Audits:
    return Audits(partial(audit, pair.verify, "iid", 1, drafter=pair.draft), None)


# --- uniforms of too few bits


PART = 1 << 18
"""Points of a grid of uniforms that are summed over at a time."""


def coarse_race(bits: int) -> Callable[[Floats, Floats, Ints, np.random.Generator], int]:
    """Draw from the target by an exponential race whose uniforms are (k + 1/2) / 2**bits."""

    def draw(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        uniform = (rng.integers(1 << bits, size=p.size) + 0.5) / (1 << bits)
        with np.errstate(divide="ignore"):
            return int(np.argmin(-np.log(uniform) / p))

    return draw


def coarse_race_law(bits: int) -> Callable[[Floats, Floats, Ints], Floats]:
    """The law of the output of `coarse_race`, for a target of one likely token and others that are equally unlikely."""

    def law(p: Floats, q: Floats, drafts: Ints) -> Floats:
        head = int(p.argmax())
        found = np.full(p.size, (1.0 - _head_wins(float(p[head]), p.size - 1, bits)) / (p.size - 1))
        found[head] = 1.0 - found.sum() + found[head]
        return found

    return law


@lru_cache
def _head_wins(head: float, others: int, bits: int) -> float:
    """P(the likely token arrives first): all others' uniforms lie below what it leaves them."""
    grid, wins = 1 << bits, 0.0
    for first in range(0, grid, PART):
        uniform = (np.arange(first, min(first + PART, grid)) + 0.5) / grid
        limit = uniform ** ((1.0 - head) / others / head)
        below = np.minimum(np.ceil(limit * grid - 0.5), grid) / grid
        wins += float((below**others).sum())
    return wins / grid


def tail_instance(others: int, gap: float) -> tuple[Floats, Floats]:
    """A target of one likely token, `gap` nats above all others, and a flat draft law; both of shape (others + 1,)."""
    logits = np.append(0.0, np.full(others, -gap))
    return law_from_logits("p", logits), np.full(others + 1, 1.0 / (others + 1))


TAIL = [tail_instance(4_000, 18.0)]


# --- drafts of another law than the verifier's


def in_bfloat16(q: Floats) -> Floats:
    """The law of logits that were rounded to bfloat16, shape (V,), of a law q of that shape."""
    with np.errstate(divide="ignore"):
        logits = np.log(q).astype(np.float32)
    bits = logits.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(
        np.float32
    )
    return law_from_logits("q", np.where(np.isfinite(logits), rounded, logits).astype(np.float64))


def _from(changed: Callable[[Floats], Floats]) -> Callable[[Floats, int], IID]:
    """Drafts of a changed q."""
    return lambda q, n: IID(changed(q), n)


def _scripted(rule: Rule, scheme: str = "iid", n: int = 1, **about: Any) -> Audits:
    """A rule of `decoder_rules` in both forms."""
    drawn, exact = (partial(audit, form(rule), scheme, n, **about) for form in (as_sampler, as_law))
    return Audits(drawn, exact)


# --- target laws that are not those of the request


LEFT_BEHIND = np.array([2, 137_247_040, 1_065_772_646], dtype=np.int32).view(np.float32).astype(np.float64)
"""Temperatures that memory holds which nobody has written to: integers that vLLM #42638 shows, read as float32."""


def at_temperature(p: Floats, temperature: float) -> Floats:
    """A law at another temperature, shape (V,)."""
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    law = np.exp((logits - logits.max()) / temperature)
    return law / law.sum()


def unwritten(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
    """Speculative sampling at a temperature that was never written; p has the one that was asked for."""
    return as_sampler(single)(at_temperature(p, rng.choice(LEFT_BEHIND)), q, drafts, rng)


def unwritten_law(p: Floats, q: Floats, drafts: Ints) -> Floats:
    """The law of the output of `unwritten`, shape (V,)."""
    law: Floats = np.mean([as_law(single)(at_temperature(p, left), q, drafts) for left in LEFT_BEHIND], axis=0)
    return law


def nucleus(law: Floats, mass: float) -> Floats:
    """A law of its likeliest tokens that have this mass, as it is in `law`: 0 elsewhere, not normalised, shape (V,)."""
    order = np.argsort(-law, kind="stable")
    before = np.cumsum(law[order]) - law[order]
    kept = np.zeros_like(law)
    kept[order[before < mass]] = law[order[before < mass]]
    return kept


UNCUT = np.array([0.35, 0.25, 0.2, 0.05, *[0.03] * 5])
"""The law of SGLang #36173, which has top-k 4 and top-p 0.82; shape (9,)."""
CUT = [(top(nucleus(UNCUT, 0.82), 4), np.full(9, 1 / 9))]
"""That law as plain decoding cuts it, by both settings at once, and a flat draft law."""


def cut_in_turn(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Speculative sampling against the law that is cut by top-k, made to sum to 1, and then cut by top-p."""
    cut = nucleus(top(UNCUT, 4), 0.82)
    return single(cut / cut.sum(), q, drafts)


# --- acceptance that is none


def greedy_silently(p: Floats, q: Floats, drafts: Ints) -> Script:
    """The likeliest token, whatever the temperature."""
    return Script([], np.eye(p.size)[p.argmax()])


def always_accepts(p: Floats, q: Floats, drafts: Ints) -> Script:
    """Speculative sampling with a coin that is 0."""
    return Script([(int(drafts[0]), 1.0)], p)


# --- several steps


Chances = dict[tuple[int, ...], float]
"""The probabilities of the tuples of tokens that a rule puts out."""


def token_wise_law(temperature: float) -> Callable[[Floats, Floats, Ints], Chances]:
    """Speculative sampling of one path; its laws are at a temperature, and the bonus token is drawn at 1.

    The rule takes target laws of shape (1, L + 1, V), draft laws of shape (1, L, V) and a path of shape (1, L), and
    returns the probabilities of what it puts out.  At temperature 1 it is lossless.
    """

    def law(target: Floats, draft: Floats, paths: Ints) -> Chances:
        found: Chances = {}
        path, alive = tuple(paths[0].tolist()), 1.0
        for level, token in enumerate(path):
            p, q = target[0, level], draft[0, level]
            passes = min(1.0, p[token] / q[token])
            for other, chance in enumerate(residual(p, q).tolist()):
                text = (*path[:level], other)
                found[text] = found.get(text, 0.0) + alive * (1.0 - passes) * chance
            alive *= passes
        bonus = target[0, -1] ** temperature
        for token, chance in enumerate((bonus / bonus.sum()).tolist()):
            found[(*path, token)] = alive * chance
        return found

    return law


def late_law(target: Floats, draft: Floats, paths: Ints) -> Chances:
    """Speculative sampling of one path that handles a refusal one token late.

    What takes the place of a refused token is drawn where the token after it would be, from the target's law after the
    refused one: a word is dropped, and what would have followed it is kept.  Shapes as in `token_wise_law`.
    """
    found: Chances = {}
    path, alive = tuple(paths[0].tolist()), 1.0
    for level, token in enumerate(path):
        passes = min(1.0, target[0, level, token] / draft[0, level, token])
        for other, chance in enumerate(target[0, level + 1].tolist()):
            text = (*path[:level], other)
            found[text] = found.get(text, 0.0) + alive * (1.0 - passes) * chance
        alive *= passes
    for token, chance in enumerate(target[0, -1].tolist()):
        found[(*path, token)] = found.get((*path, token), 0.0) + alive * chance
    return found


def drawn_from(law: Callable[[Floats, Floats, Ints], Chances]) -> Callable[..., tuple[int, ...]]:
    """A rule that draws what it puts out from its law."""

    def draw(target: Floats, draft: Floats, paths: Ints, rng: np.random.Generator) -> tuple[int, ...]:
        chances = law(target, draft, paths)
        texts, below = list(chances), np.cumsum(list(chances.values()))
        return texts[int(np.searchsorted(below, rng.random() * below[-1], side="right"))]

    return draw


def _path(law: Callable[[Floats, Floats, Ints], Chances]) -> Audits:
    return Audits(partial(audit_paths, drawn_from(law), 1, 2), partial(audit_paths, law, 1, 2))


def _hierarchical(rule: PathVerifier) -> Audits:
    drawn = partial(audit_paths, rule, 1, 3, method="sampled")
    return Audits(drawn, partial(audit_paths, rule, 1, 3, method="exact"))


CORRECT_SINGLE, CORRECT_NAIVE, CORRECT_PATH = _scripted(single), _scripted(naive), _path(token_wise_law(1.0))

KNOWN_BUGS = (
    # The Gumbel noise that made the draft win draws the token after a refusal, or the coin that tests the draft.
    KnownBug("recovery noise is the draft's", _pair(GumbelPair(fresh_recovery=False)), _pair(GumbelPair())),
    KnownBug("acceptance coin is the draft's", _pair(GumbelPair(fresh_coin=False)), _pair(GumbelPair())),
    KnownBug(
        "24-bit uniforms",  # noise has a largest value, and tokens that need more never win
        Audits(
            partial(audit, coarse_race(24), "iid", 1), partial(audit, coarse_race_law(24), "iid", 1, instances=TAIL)
        ),
        Audits(partial(audit, as_sampler(naive), "iid", 1), partial(audit, as_law(naive), "iid", 1, instances=TAIL)),
        seen_by_draws=False,
    ),
    KnownBug(
        "drafts in bfloat16, q in float32",
        _scripted(single, drafter=_from(in_bfloat16)),
        CORRECT_SINGLE,
        seen_by_draws=False,
    ),
    KnownBug("q before top-k", _scripted(single, drafter=_from(lambda q: top(q, 2))), CORRECT_SINGLE),
    KnownBug("silently greedy", _scripted(greedy_silently), CORRECT_NAIVE),
    KnownBug("a coin that is 0", _scripted(always_accepts), CORRECT_SINGLE),
    KnownBug("repeats skipped", _scripted(rules.skips_repeats, n=3), _scripted(rules.rrs, n=3)),
    KnownBug("matched, then drawn again", _scripted(rules.medusa_nucleus), CORRECT_NAIVE),
    KnownBug("bonus token without temperature", _path(token_wise_law(0.6)), CORRECT_PATH),
    KnownBug(
        "settings that nobody wrote",
        Audits(partial(audit, unwritten, "iid", 1), partial(audit, unwritten_law, "iid", 1)),
        CORRECT_SINGLE,
    ),
    KnownBug("refusals one token late", _path(late_law), CORRECT_PATH),
    KnownBug("top-k before top-p", _scripted(cut_in_turn, instances=CUT), _scripted(single, instances=CUT)),
    KnownBug("hierarchical, as released", _hierarchical(ReleasedHierarchical()), _hierarchical(Hierarchical())),
)
"""All known bugs, in the order of docs/audit.md."""
