"""Lossy rules: what each accepts, and the total variation of its output to the target, of a token and of a text.

Rules that trade the target's law for speed are shipped with a setting and without a figure.  Here they are scripts of
`otspec.auditing.decoder_rules` with their settings, and `measure_texts` measures them exactly.
"""

from __future__ import annotations

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


LOSSY: Mapping[str, LossyRule] = {
    "speculative sampling": LossyRule(single, "iid", 1),
    **{f"lenience {value:g}": LossyRule(lenient(value), "iid", 1) for value in (0.9, 0.7, 0.5, 0.3)},
    **{f"ensemble {value:g}": LossyRule(ensemble(value), "iid", 1) for value in (0.9, 0.5)},
    "top-k tree against the target only": LossyRule(sglang(), "top_k", 3),
    **{f"threshold_single {t:g}": LossyRule(sglang(threshold_single=t), "top_k", 3) for t in (0.9, 0.7, 0.5, 0.3)},
    **{f"threshold_acc {t:g}": LossyRule(sglang(threshold_acc=t), "top_k", 3) for t in (0.9, 0.7, 0.5)},
    **{f"typical, epsilon = {e:g}": LossyRule(typical(e, e**0.5), "top_k", 3) for e in (0.3, 0.09, 0.01)},
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
    return TokenLaw(output, acceptance, min(upper_bound(Problem(p, scheme)), 1.0))


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
        output, accepted, best = measure_token(lossy, p, q)
        weight = wanted[prefix] / length
        acceptance += weight * accepted
        optimum += weight * best
        tv += weight * float(np.abs(output - p).sum()) / 2
        for token in range(vocab):
            wanted[(*prefix, token)] = wanted[prefix] * float(p[token])
            given[(*prefix, token)] = given[prefix] * float(output[token])
    off = sum(abs(given[text] - wanted[text]) for text in _texts(wanted, length)) / 2
    return LossyFigures(acceptance, optimum, tv, off)


def _texts(laws: Mapping[Prefix, float], length: int) -> Iterator[Prefix]:
    return (prefix for prefix in laws if len(prefix) == length)
