"""What is wrong with texts whatever their law: their ends, log-probabilities, and greedy text that differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.auditing.engines.draws import ENDED, Draws, shared, whole
from otspec.auditing.engines.engine import Text, without_ids
from otspec.auditing.engines.laws import Laws
from otspec.auditing.engines.report import Divergence
from otspec.auditing.outcome import Finding
from otspec.laws import FloatArray


class Ends:
    """Whether texts end where they should: after `length` tokens at most, or with one of `ends`, None if not known."""

    def __init__(self, length: int, ends: frozenset[int] | None) -> None:
        self._length, self._ends, self._endless = length, ends or frozenset(), ends == frozenset()
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, prompt: str, texts: Sequence[Text]) -> None:
        """Look at texts of a prompt."""
        for text in texts:
            if not (text.tokens or self._endless):
                continue
            past = next((place for place, token in enumerate(text.tokens[:-1]) if token in self._ends), None)
            short = len(text.tokens) < self._length and self._ends.isdisjoint(text.tokens[-1:])
            if len(text.tokens) > self._length:
                self._note("longer than asked for", f"{len(text.tokens)} tokens, not {self._length}, after {prompt!r}")
            if past is not None:
                self._note("going on after the token that ends a text", f"at token {past + 2} after {prompt!r}")
            if short and (text.ended == "length" or self._endless):
                why = ", and the exact law has no token that ends a text" if self._endless else ""
                self._note("cut short", f"{len(text.tokens)} tokens of {self._length} after {prompt!r}{why}")

    def findings(self, plain: Ends) -> list[Finding]:
        """Each kind of fault with the first text that shows it; no bias is what texts without drafts have as well."""
        too = {kind: ", as texts without drafts are" if kind in plain._found else "" for kind in self._found}
        return [
            Finding(f"{count} texts with drafts are {kind}{too[kind]}: {example}", bias=not too[kind])
            for kind, (count, example) in self._found.items()
        ]

    def _note(self, kind: str, example: str) -> None:
        count, first = self._found.get(kind, (0, example))
        self._found[kind] = (count + 1, first)


class LogProbabilities:
    """Whether the log-probabilities of texts with drafts are right: the model's, or those of texts without.

    Engines tell those of the model or those of the truncated law at the sampling's temperature; texts without drafts
    show which.  Wrong ones are a fault that users of them should know of, but no bias of the text.

    Parameters
    ----------
    tolerance : float
        By how much they may be off.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._off = {True: [0.0, 0.0], False: [0.0, 0.0]}
        self._plain: dict[object, float] = {}
        self._worst: tuple[float, str] = (0.0, "")
        self._compared = 0

    def add_known(self, texts: Sequence[Text], draws: Draws, *, drafts: bool) -> None:
        """Compare with the law; `draws` has the texts."""
        with np.errstate(divide="ignore"):
            kinds = (draws.raw, np.log(draws.p))
        for row, text in enumerate(texts):
            reported = reported_by(text)
            if reported is None:
                continue
            mine = draws.decided[row, : reported.size] & (draws.tokens[row, : reported.size] != ENDED)
            for kind, exact in enumerate(kinds):
                off = _largest(reported[: mine.size][mine], exact[row, : reported.size][mine])
                self._off[drafts][kind] = max(self._off[drafts][kind], off)
            self._compared += drafts

    def add(self, cell: object, texts: Sequence[Text], *, drafts: bool) -> None:
        """Keep those of texts without drafts, and compare those of texts with drafts after equal prefixes."""
        for text in texts:
            reported = reported_by(text)
            for place, value in enumerate([] if reported is None else reported.tolist()):
                key = (cell, text.tokens[: place + 1])
                if not drafts:
                    self._plain.setdefault(key, value)
                elif key in self._plain:
                    self._compared += 1
                    off = float(np.nan_to_num(abs(value - self._plain[key]), nan=np.inf))
                    if off > self._worst[0]:
                        self._worst = (off, f"{value:.4g} with drafts and {self._plain[key]:.4g} without")

    def findings(self) -> list[Finding]:
        """What log-probabilities tell the user."""
        if not self._compared:
            return []
        if self._plain:
            return [] if self._worst[0] <= self._tolerance else [self._wrong(f"{self._worst[1]} for the same token")]
        kind = int(np.argmin(self._off[False]))
        own, drafted = self._off[False][kind], self._off[True][kind]
        if own > self._tolerance:
            message = (
                f"log-probabilities are not judged: those without drafts are off the model's by up to {own:.3g} too"
            )
            return [Finding(message, bias=False)]
        return [] if drafted <= self._tolerance else [self._wrong(f"off by up to {drafted:.3g}, {own:.1g} without")]

    def _wrong(self, how: str) -> Finding:
        return Finding(f"log-probabilities with drafts are wrong: {how} (tolerance {self._tolerance:g})", bias=False)


def reported_by(text: Text) -> FloatArray | None:
    """The log-probabilities of a text, shape (tokens,); None if there are none."""
    if text.logprobs is None or len(text.logprobs) != len(text.tokens):
        return None
    return np.array(text.logprobs, dtype=np.float64)


def _largest(reported: FloatArray, exact: FloatArray) -> float:
    if not reported.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        off = np.abs(reported - exact)
    return float(np.nan_to_num(off, nan=np.inf).max())


def compare(
    prompt: str, plain: Text, drafted: Text, length: int, laws: Laws | None, tolerance: float
) -> Divergence | None:
    """The first divergence of greedy texts without drafts and with, and what it is due to; None if there is none.

    Both tokens are judged by the laws, if there are some: logits may be off by `tolerance`, or by more in the
    arithmetic of the laws (`Laws.rounding`).
    """
    if without_ids([plain]) or without_ids([drafted]):
        place = _first_difference(plain.text, drafted.text)
        if place is None:
            return None
        own, other = (repr(text[place : place + 1]) for text in (plain.text, drafted.text))
        return Divergence(prompt, place + 1, own, other, None, None, None, "unknown")
    ends = frozenset[int]() if laws is None else laws.ends
    first, second = (whole([text], length, ends)[0] for text in (plain, drafted))
    place = _first_difference(first, second)
    if place is None:
        return None
    own, other = ("the end" if place == len(text) else str(text[place]) for text in (first, second))
    if laws is None or place in (len(first), len(second)):
        return Divergence(prompt, place + 1, own, other, None, None, None, "unknown")
    logits = list(laws.along(prompt, [text[: place + 1] for text in (first, second)]))[-1][-1]  # which checks both
    tolerance = max(tolerance, laws.rounding * float(logits[np.isfinite(logits)].std()))
    scores = float(logits[first[place]]), float(logits[second[place]]), float(logits.max())
    greedy, tie = scores[2] - scores[0] <= tolerance, scores[2] - min(scores[:2]) <= tolerance
    cause = "near tie" if tie else "rule" if greedy else "plain text"
    return Divergence(prompt, place + 1, own, other, *scores, cause)


def finding_of(divergences: Sequence[Divergence], prompts: int) -> list[Finding]:
    """What greedy texts that differ tell the user."""
    if not divergences:
        return []
    worst = next((one for one in divergences if one.cause == "rule"), divergences[0])
    where = f"first at token {worst.position} after {worst.prompt!r}: {worst.drafted} in place of {worst.plain}"
    if worst.logit_best is not None and worst.logit_plain is not None and worst.logit_drafted is not None:
        where += f", logits {worst.logit_drafted:.4g} and {worst.logit_plain:.4g}"
        where += "" if worst.cause != "plain text" else f", the largest is {worst.logit_best:.4g}"
    why = {
        "rule": "no rounding explains it: the rule accepts what is not the likeliest token",
        "near tie": "a near tie of the logits, which rounding decides",
        "plain text": "the text without drafts is not greedy by this model either; is it the same model?",
        "unknown": "a near tie of the logits or the rule: the model in a folder, as --target, would tell",
    }[worst.cause]
    message = (
        f"greedy text with drafts differs from that without for {len(divergences)} of {prompts} prompts, {where}; "
    )
    return [Finding(message + why, bias=worst.cause == "rule")]


def _first_difference(first: Sequence[object], second: Sequence[object]) -> int | None:
    place = shared(first, second)
    return None if place == len(first) == len(second) else place
