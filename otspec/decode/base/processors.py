"""Logits processors for drafted trees: those that keep a state are followed along each path, or refused."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    LogitsProcessorList,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from otspec.decode.base.grammar import Grammar
from otspec.decode.base.matchers import KNOWN
from otspec.errors import ProblemError

BLIND = (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)
"""Processors that do not look at the text."""

STATEFUL = (SynthIDTextWatermarkLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor)
"""Processors of transformers that can be called once a token only."""

STEPWISE = ("xgrammar", "outlines", "llguidance")
"""Packages whose processors advance a state by the last token of every call."""


def for_trees(processors: LogitsProcessorList, input_ids: torch.Tensor, vocab: int) -> LogitsProcessorList:
    """The same processors, fit to be asked about any path of a tree in any order.

    A grammar of xgrammar, llguidance or outlines_core is followed by a matcher; its processor is not called.  Every
    other one has to be a function of the text and the scores: those known not to be are refused, and those not known
    are asked twice about the prompts and about one token more.

    Parameters
    ----------
    processors : LogitsProcessorList
        As transformers' `generate` prepares them.
    input_ids : Tensor of int, shape (B, S)
        The prompts.
    vocab : int
        The target's number of tokens.

    Raises
    ------
    ProblemError
        If a processor keeps a state from call to call.
    """
    return LogitsProcessorList(_for_trees(one, input_ids, vocab) for one in processors)


def _for_trees(one: Any, input_ids: torch.Tensor, vocab: int) -> Any:
    kind = type(one)
    if isinstance(one, BLIND):
        return one
    if (matchers := KNOWN.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
        batch, prompt = input_ids.shape
        return Grammar(matchers(one), batch, prompt, vocab)
    if isinstance(one, STATEFUL):
        raise ProblemError(f"{kind.__name__} expects token after token; drafted trees cannot be given that")
    if any(base.__module__.partition(".")[0] in STEPWISE for base in kind.__mro__) or _forgets(one, input_ids, vocab):
        raise ProblemError(
            f"{kind.__name__} keeps a state from call to call, and drafted trees ask about one path after the other; "
            "pass a processor that goes by input_ids alone, or a grammar (xgrammar.contrib.hf.LogitsProcessor, or the "
            "processors of outlines' backends)"
        )
    return one


def _forgets(one: Any, input_ids: torch.Tensor, vocab: int) -> bool:
    """Whether a processor, asked again about the prompts and about one token more, answers something else, or fails."""

    def asked(texts: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = one(texts, torch.zeros(len(texts), vocab, device=texts.device))
        return scores.clone()

    first = asked(input_ids)
    longer = torch.cat((input_ids, first.argmax(dim=-1, keepdim=True)), dim=1)  # by a token that it allows
    second = asked(longer)
    try:
        again = [asked(texts) for texts in (input_ids, longer, input_ids)]
    except Exception:
        return True
    return not all(torch.equal(then, now) for then, now in zip((first, second, first), again, strict=True))
