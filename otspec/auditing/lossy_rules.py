"""Lossy rules: what each accepts, and the total variation of its output to the target, of a token and of a text.

Rules that trade the target's law for speed are shipped with a setting and without a figure.  Here they are scripts of
`otspec.auditing.decoder_rules` with their settings, and `measure_texts` measures them exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from otspec.auditing.decoder_rules import Rule, Script, as_law, ratio, residual, sglang, siblings_by_ratio, single
from otspec.certificate import upper_bound
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_count
from otspec.paths import Model
from otspec.problem import Problem
from otspec.schemes import DraftScheme
from otspec.schemes.catalogue import named_schemes
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.trees.tree import Prefix, check_model

ROUNDING = 1e-12
"""A total variation up to this is none."""
MAX_TEXTS = 20_000
"""Texts of a model that are listed."""


class LossyRule(NamedTuple):
    """A rule, and the drafts that it is used on."""

    rule: Rule
    scheme: str
    """Name of the draft law."""
    n: int
    """Drafts per position; fewer where q has fewer tokens."""
    whole: bool = False
    """Whether it looks at what p gives to tokens that were not drafted: at the likeliest ones, or at the entropy."""
    greedy: bool = False
    """Whether it takes the place of greedy decoding, so that what it is off is told from p's likeliest token."""

    def target(self, p: FloatArray) -> FloatArray:
        """The law that its output is held against, shape (V,)."""
        return np.eye(1, p.size, int(p.argmax()))[0] if self.greedy else p


class LossyFigures(NamedTuple):
    """What a rule accepts, and how far it is off the target: means over the prefixes of a target text."""

    acceptance: float
    """P(the output is one of the drafts)."""
    optimum: float
    """alpha* of the drafts: the largest acceptance of any lossless rule."""
    tv: float
    """Total variation of a token's law to the target's."""
    text_tv: float
    """Total variation of the law of the whole text, every token of it drafted and verified."""

    @property
    def efficiency(self) -> float:
        """What is gained over what is paid, at most 1 (`docs/theory/lossy.md`, Corollary 1); nan where nothing is."""
        return efficiency(self.acceptance, self.optimum, self.tv)


class TokenLaw(NamedTuple):
    """What a rule makes of one position."""

    output: FloatArray
    """Exact law of the output, shape (V,)."""
    acceptance: float
    """P(the output is one of the drafts)."""
    optimum: float
    """alpha* of the drafts."""
    tv: float
    """Total variation of the output to the target."""


def efficiency(acceptance: float, optimum: float, tv: float) -> float:
    """Acceptance gained over total variation paid; nan where nothing is paid."""
    return (acceptance - optimum) / tv if tv > ROUNDING else float("nan")


def ensemble(weight: float) -> Rule:
    """Speculative sampling from w p + (1 - w) q in place of p [wang2026diversed]."""

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        return single(weight * p + (1 - weight) * q, q, drafts)

    return rule


def lenient(lenience: float) -> Rule:
    """Speculative sampling that tests with p / (l q) [leviathan2023fast]."""

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        token = int(drafts[0])
        return Script([(token, ratio(p[token], lenience * q[token]))], residual(p, q))

    return rule


def typical(epsilon: float, delta: float) -> Rule:
    """The first draft with p > min(epsilon, delta exp(-H)), H the entropy of p, else a draw from p [cai2024medusa]."""

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        threshold = min(epsilon, delta * float(np.exp(-entr(p).sum())))
        return Script([(token, 1.0) for token in drafts.tolist() if p[token] > threshold], p)

    return rule


def cactus(delta: float) -> Rule:
    """Speculative sampling for a law that gives the drafted token more than p does: see `raised` [hao2026cactus]."""

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        return single(raised(p, int(drafts[0]), delta), q, drafts)

    return rule


def raised(p: FloatArray, token: int, delta: float) -> FloatArray:
    """A law h with h(x) = p(x) + sqrt(2 delta p(x) (1 - p(x))), at most 1, for a drafted token x: shape (V,).

    The other tokens share the rest in proportion to p.
    """
    share = float(p[token])
    more = min(share + math.sqrt(2 * delta * share * (1 - share)), 1.0)
    law = p * ((1 - more) / (1 - share) if share < 1 else 0.0)
    law[token] = more
    return law


def likely(top_k: int, gap: float = 1.0, share: float = 0.0, *, greedy: bool = False) -> Rule:
    """The first draft among the `top_k` likeliest tokens whose p is at least p_max - `gap`, and `share` times p_max.

    If there is none, a draw from p; with `greedy` its likeliest token, as in TensorRT-LLM's relaxed acceptance.
    """

    def rule(p: FloatArray, q: FloatArray, drafts: IntArray) -> Script:
        likeliest = np.argsort(-p, kind="stable")[:top_k]
        first = float(p[likeliest[0]])
        taken = set(likeliest[(p[likeliest] >= first - gap) & (p[likeliest] >= share * first)].tolist())
        tests = [(token, 1.0) for token in drafts.tolist() if token in taken]
        return Script(tests, np.eye(1, p.size, int(likeliest[0]))[0] if greedy else p)

    return rule


LOSSY: Mapping[str, LossyRule] = {
    "speculative sampling": LossyRule(single, "iid", 1),
    **{f"lenience {value:g}": LossyRule(lenient(value), "iid", 1) for value in (0.9, 0.7, 0.5, 0.3)},
    **{f"ensemble {value:g}": LossyRule(ensemble(value), "iid", 1) for value in (0.9, 0.5)},
    "top-k tree against the target only": LossyRule(sglang(), "top_k", 3),
    **{f"threshold_single {t:g}": LossyRule(sglang(threshold_single=t), "top_k", 3) for t in (0.9, 0.7, 0.5, 0.3)},
    **{f"threshold_acc {t:g}": LossyRule(sglang(threshold_acc=t), "top_k", 3) for t in (0.9, 0.7, 0.5)},
    **{f"Cactus, delta = {delta:g}": LossyRule(cactus(delta), "iid", 1) for delta in (0.01, 0.1, 1.0)},
    **{f"typical, epsilon = {e:g}": LossyRule(typical(e, e**0.5), "top_k", 3, whole=True) for e in (0.3, 0.09, 0.01)},
    "among the 5 likeliest": LossyRule(likely(5), "iid", 1, whole=True),
    "at least half as likely as the first": LossyRule(likely(10, share=0.5), "iid", 1, whole=True),
    "relaxed thinking, 10 and 0.6": LossyRule(likely(10, 0.6, greedy=True), "top_k", 1, whole=True, greedy=True),
    "top-k tree, p/q per sibling": LossyRule(siblings_by_ratio, "top_k", 3),
}
"""The two lossless rules that the others are made from, and each of those at several settings; smaller thresholds are
laxer."""


def measure_token(lossy: LossyRule, p: FloatArray, q: FloatArray) -> TokenLaw:
    """The exact output of a rule at one position, by enumeration of all tuples of drafts.

    Parameters
    ----------
    lossy : LossyRule
    p, q : ndarray, shape (V,)
        Target and draft law.

    Raises
    ------
    ProblemError
        If the scheme cannot draw its drafts from q.
    """
    scheme: DraftScheme = named_schemes()[lossy.scheme](q, min(lossy.n, int(np.count_nonzero(q))))
    law, output, acceptance = as_law(lossy.rule), np.zeros(p.size), 0.0
    for drafts, chance in zip(*scheme.support(), strict=True):
        given = law(p, q, drafts)
        output += chance * given
        acceptance += chance * float(given[np.unique(drafts)].sum())
    target = lossy.target(p)
    optimum = min(upper_bound(Problem(target, scheme)), 1.0)
    return TokenLaw(output, acceptance, optimum, float(np.abs(output - target).sum()) / 2)


def measure_texts(lossy: LossyRule, model: Model, length: int) -> LossyFigures:
    """The figures of a rule in a small model, by enumeration of all texts of some length.

    Every token is verified by itself after the prefix that was put out, so that the law of a text is the product of the
    laws of its tokens' outputs.  Means are over texts of the target.

    Parameters
    ----------
    lossy : LossyRule
    model : Model
        Target and draft laws after every prefix, over V tokens.
    length : int
        Tokens of a text.

    Raises
    ------
    ProblemError
        If there are more than 20 000 texts, or the arguments are no model and number.
    """
    check_model(model)
    length, vocab = as_count("length", length), np.size(model.target(()))
    if vocab**length > MAX_TEXTS:
        raise ProblemError(f"{vocab} tokens make {vocab**length:,} texts of {length}, more than {MAX_TEXTS:,}")
    wanted: dict[Prefix, float] = {(): 1.0}
    given: dict[Prefix, float] = {(): 1.0}
    acceptance = optimum = tv = 0.0
    for prefix in prefixes(vocab, length - 1):
        p, q = np.asarray(model.target(prefix)), np.asarray(model.draft(prefix))
        output, accepted, best, off = measure_token(lossy, p, q)
        weight = wanted[prefix] / length
        acceptance += weight * accepted
        optimum += weight * best
        tv += weight * off
        target = lossy.target(p)
        for token in range(vocab):
            wanted[(*prefix, token)] = wanted[prefix] * float(target[token])
            given[(*prefix, token)] = given[prefix] * float(output[token])
    text_tv = sum(abs(given[text] - wanted[text]) for text in _texts(wanted, length)) / 2
    return LossyFigures(acceptance, optimum, tv, text_tv)


def _texts(laws: Mapping[Prefix, float], length: int) -> Iterator[Prefix]:
    return (prefix for prefix in laws if len(prefix) == length)
