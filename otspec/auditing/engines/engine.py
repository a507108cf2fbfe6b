"""What an audit asks of an inference engine: texts, with and without drafts.  An adapter is a class that answers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

from otspec.errors import ProblemError, one_line

DEFAULT_PROMPTS = ("import numpy as", "The capital of the country is", "def read(path", "Once there was a")
"""Of several kinds; after them a model is neither sure nor at a loss."""


class EngineDied(ProblemError):
    """An engine that was there failed at a request; the message names the request."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn: what engines call sampling parameters.

    Examples
    --------
    >>> from otspec.auditing.engines import Sampling
    >>> print(Sampling(0.7, top_k=20))
    T = 0.7, top-k 20
    """

    temperature: float = 1.0
    """0 is greedy."""
    top_k: int | None = None
    """Only the k most likely tokens; None or 0 keeps all."""
    top_p: float | None = None
    """Only the most likely tokens, until their mass reaches this; None or 1 keeps all."""
    min_p: float | None = None
    """Only tokens that have this part of the largest probability; None or 0 keeps all."""

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, Real) and math.isfinite(self.temperature) and self.temperature >= 0):
            raise ProblemError(f"temperature = {self.temperature!r}; it is finite and >= 0 (0 means greedy)")
        if self.top_k is not None and not (isinstance(self.top_k, Integral) and self.top_k >= 0):
            raise ProblemError(f"top_k = {self.top_k!r}; it is a number of tokens, or None for all of them")
        if self.top_p is not None and not (isinstance(self.top_p, Real) and 0 < self.top_p <= 1):
            raise ProblemError(f"top_p = {self.top_p!r}; it is a mass in (0, 1]")
        if self.min_p is not None and not (isinstance(self.min_p, Real) and 0 <= self.min_p <= 1):
            raise ProblemError(f"min_p = {self.min_p!r}; it is a part of the largest probability, in [0, 1]")

    @property
    def greedy(self) -> bool:
        """Whether there is nothing to draw."""
        return self.temperature == 0

    def __str__(self) -> str:
        cuts = (("top-k", self.top_k), ("top-p", self.top_p), ("min-p", self.min_p))
        return ", ".join((f"T = {self.temperature:g}", *(f"{name} {value:g}" for name, value in cuts if value)))


class Text(NamedTuple):
    """One completion of a prompt."""

    tokens: tuple[int, ...]
    """Ids of the tokens put out, without the prompt's, the one that ended the text included; () where the engine tells
    none."""
    text: str
    """The same in characters."""
    logprobs: tuple[float, ...] | None = None
    """Log-probabilities of `tokens`, as many, if the engine tells them."""
    ended: str = ""
    """"length", "stop", or "" where the engine does not say."""


def as_text(text: Any) -> Text:
    """A `Text` as it is; a string, or a sequence of token ids, as one.

    Raises
    ------
    ProblemError
        If it is none of these.
    """
    if isinstance(text, str):
        return Text((), text)
    found = text if isinstance(text, Text) else Text(text, "")
    try:
        logs = None if found.logprobs is None else tuple(map(float, found.logprobs))
        return found._replace(tokens=tuple(map(operator.index, found.tokens)), logprobs=logs)
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{one_line(repr(text))} is no text; pass a string, its tokens by number, or an otspec Text"
        ) from error


def without_ids(texts: Sequence[Text]) -> bool:
    """Whether texts have characters, and none of them a token."""
    return any(one.text for one in texts) and not any(one.tokens for one in texts)


class Beginnings:
    """Numbers of the beginnings of texts, 0 of the empty one: they themselves are as long as the square of a text."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, object], int] = {}

    def along(self, text: Sequence[object]) -> list[int]:
        """The numbers of a text's beginnings, one more than it has tokens."""
        found = [0]
        for token in text:
            found.append(self._numbers.setdefault((found[-1], token), len(self._numbers) + 1))
        return found


class Acceptance(NamedTuple):
    """What an engine says of its drafts, since it started."""

    steps: int
    """Passes of the target in which drafts were verified."""
    drafted: int
    accepted: int
    per_position: tuple[int, ...] = ()
    """How often the first, second, ... drafted token was accepted."""


@runtime_checkable
class Engine(Protocol):
    """An inference engine, or something that looks like one.

    The constructor of an adapter takes its settings by keyword (``target``, ``draft``, ``drafts``, ``url``, ...).  It
    raises `ProblemError`, or `otspec.MissingExtra`, in one sentence if its package or its model is missing; `texts`
    raises `EngineDied` if the engine does not survive a request.
    """

    @property
    def name(self) -> str:
        """As `--json` and tables have it: "vllm"."""

    @property
    def version(self) -> str:
        """Of the engine."""

    @property
    def method(self) -> str:
        """How it speculates, in words: "draft model, 3 tokens, standard rejection"."""

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Independent completions of one prompt, in the order of the requests.

        Parameters
        ----------
        prompt : str
        count : int
            How many; each is a request of its own, all of one batch where the engine has batches.
        length : int
            The most tokens of each.
        sampling : Sampling
        seed : int
            Other seeds give other texts; an engine that takes a seed for each request gets ones that follow from it.
        drafts : bool
            Whether to speculate.
        """

    def acceptance(self) -> Acceptance | None:
        """What became of the drafts since the start; None if the engine does not say."""

    def close(self) -> None:
        """Give back what the engine holds; it is not asked again."""
