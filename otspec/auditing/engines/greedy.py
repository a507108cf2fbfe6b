"""Greedy text with drafts beside greedy text without: where they differ, a near tie of the logits or the rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.auditing.engines.draws import whole
from otspec.auditing.engines.engine import Text
from otspec.auditing.engines.laws import Laws
from otspec.auditing.engines.outcome import Divergence
from otspec.auditing.outcome import Finding


def compare(
    prompt: str, plain: Text, drafted: Text, length: int, laws: Laws | None, tolerance: float
) -> Divergence | None:
    """The first divergence of two greedy texts of one prompt, and what it is due to; None if there is none.

    Parameters
    ----------
    prompt : str
    plain, drafted : Text
        Without drafts, and with.
    length : int
        The most tokens of each.
    laws : Laws, optional
        By which both tokens are judged.
    tolerance : float
        By how much logits may be off by rounding, if not by more in the arithmetic of the laws (`Laws.rounding`).
    """
    if not (plain.tokens and drafted.tokens):
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
    logits = next(iter(laws.along(prompt, [second[: place + 1]])))[-1]
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
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return None if len(first) == len(second) else min(len(first), len(second))
