"""From logits to the laws that a decoder samples from: transformers' own processors, then softmax."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from transformers import (
    EpsilonLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from otspec.decode.base.draft_laws import few_on_a_gpu
from otspec.decode.base.processors import BLIND, Followed
from otspec.decode.base.warpers import SamplingParams, Warpers
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.verification.trees.topology import NONE

NUCLEUS = 1024
"""How many tokens a law truncated by anything but top-k is expected to have at most; more are sent whole."""


class Prefix(NamedTuple):
    """A text, and its place in the batch."""

    row: int
    tokens: Sequence[int]
    drafted: int = 0
    """How many of the last tokens are drafts."""


class Sampling:
    """How a model's logits become the laws that are sampled from.

    Parameters
    ----------
    processors : LogitsProcessorList
        As `for_trees` makes them of what `generate` prepares: temperature, truncations, and those that read the text.
        The latter, such as a repetition penalty, shape the target only: lossless verification needs nothing of the
        draft law.
    do_sample : bool
        With False the law is a point mass on the largest score.
    batch : int
        Number of texts that the processors were prepared for.
    eos : collection of int
        The tokens that end a text; what is drafted behind one is not shown to processors.
    """

    def __init__(
        self, processors: LogitsProcessorList, do_sample: bool, batch: int = 1, eos: Collection[int] = ()
    ) -> None:
        self.do_sample = do_sample
        self.eos = eos
        self.batch = batch
        self.processors = processors
        self.blind = LogitsProcessorList(one for one in processors if isinstance(one, BLIND))
        self.reads_text = len(self.blind) < len(processors)
        last = max((at for at, one in enumerate(processors, start=1) if not isinstance(one, BLIND)), default=0)
        self._readers, self._warpers = processors[:last], Warpers(processors[last:])
        self._warpers_of_drafts = Warpers(self.blind)

    @property
    def support(self) -> int | None:
        """How many tokens a law is expected to have at most; None for all."""
        if not self.do_sample:
            return 1
        top_k = [one.top_k for one in self.blind if isinstance(one, TopKLogitsWarper)]
        truncated = any(
            isinstance(one, TopPLogitsWarper | MinPLogitsWarper | TypicalLogitsWarper | EpsilonLogitsWarper)
            for one in self.blind
        )
        return min(top_k, default=NUCLEUS if truncated else None)

    @property
    def by_values(self) -> bool:
        """Whether draft laws depend on the logits alone, whichever tokens they are of.

        Then a law over some tokens is the law over all of them, the logits of the others being -inf.
        """
        return not any(isinstance(one, SuppressTokensLogitsProcessor) for one in self.blind)

    @cached_property
    def known_by(self) -> object:
        """What draft laws depend on beside the logits, to be compared; None where processors hold more than numbers."""
        settings = [(type(one), tuple(sorted(vars(one).items()))) for one in self.blind]
        plain = all(isinstance(value, float | int | str | None) for _, own in settings for _, value in own)
        return (self.do_sample, *settings) if plain else None

    @property
    def params(self) -> SamplingParams | None:
        """All that draft laws depend on beside the logits, temperature 0 for point masses; None if there is more."""
        if self._warpers_of_drafts.before:
            return None
        return self._warpers_of_drafts.params if self.do_sample else SamplingParams(0.0)

    def leaves_some(self, tokens: torch.Tensor, vocab: int) -> bool:
        """Whether a draft law over these tokens alone, shape (k,), has one left after what suppresses tokens."""
        scores = torch.full((1, vocab), -torch.inf, device=tokens.device)
        scores[:, tokens] = 0.0
        for one in self.blind:
            scores = one(None, scores)
            if not bool((scores[:, tokens] > torch.finfo(scores.dtype).min).any()):  # some put that for -inf
                return False
        return True

    def allowed(self, vocab: int, device: torch.device) -> torch.Tensor:
        """Which tokens are suppressed in no text, shape (V,), bool; truncations are not called."""
        scores = torch.zeros(1, vocab, device=device)
        for one in self.blind:
            if isinstance(one, SuppressTokensLogitsProcessor):
                scores = one(None, scores)
        return scores[0] == 0

    def draft_laws(self, logits: torch.Tensor) -> torch.Tensor:
        """Laws from logits, shape (..., V) both, of whatever text.

        Where logits are no numbers, as where a model overflows in half precision, the law is a point mass on the first
        token: any law that drafts are drawn from leaves the text its law, and this one costs no wait for the device.
        """
        laws = self._laws(self._blind_scores(logits.flatten(0, -2)))  # some take two dimensions only
        none = laws[:, :1].isnan()  # a softmax is NaN nowhere or everywhere
        if laws.device.type != "cpu" or bool(none.any()):
            laws.masked_fill_(none, 0.0)
            laws[:, :1].masked_fill_(none, 1.0)
        return laws.view(logits.shape)

    def target_laws(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """Laws after given texts.

        Parameters
        ----------
        logits : Tensor, shape (R, V)
        prefixes : sequence of Prefix
            The R texts; read if `reads_text`.
        """
        return self._laws(self.target_scores(logits, prefixes))

    def target_choices(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """The tokens that greedy decoding takes after given texts, shape (R,); `NONE` where there is no law either.

        That is where a score is NaN or infinity, or all are minus infinity.
        """
        best = self.target_scores(logits, prefixes).max(dim=-1)
        return torch.where(best.values.isfinite(), best.indices, NONE)

    def target_scores(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """The scores whose softmax `target_laws` are where tokens are sampled; logits where nothing changes these."""
        if not self.reads_text:
            return self._blind_scores(logits)
        scores = _precise(logits)
        for one in self._readers:
            if isinstance(one, BLIND):
                scores = one(None, scores)
            else:
                self._call(one, scores, prefixes)
        return self._warpers(scores)

    def _call(self, processor: Any, scores: torch.Tensor, prefixes: Sequence[Prefix]) -> None:
        """Have a processor change scores, in place, after those of the texts that may come about.

        Below a token that is impossible, or ends the text, no law matters, and a processor may fail.
        """
        seen: dict[tuple[int, ...], int] = {}
        for at, (row, tokens, drafted) in enumerate(prefixes):
            path = tokens[len(tokens) - drafted :]
            if drafted:
                above = seen.get((row, *path[:-1]))
                if above is None or path[-1] in self.eos or scores[above, path[-1]] <= torch.finfo(scores.dtype).min:
                    continue
            seen[(row, *path)] = at
            # Some processors know the rows of the batch apart, so each is called in its place.
            text = torch.tensor(tokens, device=scores.device).expand(self.batch, -1)
            call = partial(processor.call, row, drafted) if isinstance(processor, Followed) else processor
            scores[at] = call(text, scores[at].repeat(self.batch, 1))[row]

    def _blind_scores(self, logits: torch.Tensor) -> torch.Tensor:
        return self._warpers_of_drafts(_precise(logits)) if self.blind else logits

    def _laws(self, scores: torch.Tensor) -> torch.Tensor:
        """Laws in float64: over 100 000 tokens, a softmax in float32 is off a total of 1 by 2e-5 and more."""
        if self.do_sample:
            return softmax(scores)
        best = scores.max(dim=-1, keepdim=True)
        point = torch.zeros(scores.shape, dtype=torch.float64, device=scores.device).scatter_(-1, best.indices, 1.0)
        return point.masked_fill_(~best.values.isfinite(), torch.nan)  # as a softmax has it


@dataclass(frozen=True)
class DraftSampling:
    """How the draft model's logits are processed, where not as the target's are.

    Parameters
    ----------
    temperature : float, optional
        0 makes point masses of the draft laws, on their likeliest tokens.
    top_k : int, optional
        0 keeps all tokens.
    top_p : float, optional
        1 keeps all tokens.

    Each stands for the target's setting of that name, and for no other: what is None is as for the target, and so are
    minimal probabilities and all other truncations.  Where the target is decoded greedily its drafts are point masses
    too, unless there is a temperature here; then they are whole, unless they are truncated here.

    Raises
    ------
    ProblemError
        If a setting is out of its range.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise ProblemError(f"draft_temperature is {self.temperature}; it is finite and >= 0 (0: point masses)")
        if self.top_k is not None and self.top_k != 0:
            as_count("draft_top_k", self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ProblemError(f"draft_top_p is {self.top_p}; it is a probability in (0, 1], 1 to keep all tokens")

    def of(self, target: Sampling) -> Sampling:
        """How drafts are sampled, from how texts are."""
        if self == DraftSampling():
            return target
        processors = LogitsProcessorList(target.blind)
        for rank, value in enumerate((self.temperature, self.top_k, self.top_p)):
            if value is not None:
                _exchange(processors, rank, value)
        do_sample = target.do_sample if self.temperature is None else self.temperature > 0
        return Sampling(processors, do_sample, target.batch, target.eos)


WARPERS = ((TemperatureLogitsWarper, 1), (TopKLogitsWarper, 0), (TopPLogitsWarper, 1))
"""The three in transformers' order, and the values at which each does nothing."""

BEFORE_WARPERS = (InfNanRemoveLogitsProcessor, SuppressTokensLogitsProcessor)


def _exchange(processors: LogitsProcessorList, rank: int, value: float) -> None:
    """Put a warper with another value where the list has it, or where transformers would have put it."""
    kind, idle = WARPERS[rank]
    earlier = (*BEFORE_WARPERS, *(warper for warper, _ in WARPERS[:rank]))
    processors[:] = [one for one in processors if not isinstance(one, kind)]
    # A point mass needs no temperature: `do_sample` makes it.
    if value not in (idle, 0):
        place = next((at for at, one in enumerate(processors) if not isinstance(one, earlier)), len(processors))
        processors.insert(place, kind(int(value) if kind is TopKLogitsWarper else float(value)))


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Of scores, shape (R, V), float64; on a GPU by kernels that give few rows all of it."""
    if few_on_a_gpu(scores):
        from otspec.decode.base import law_kernels  # Triton is wanted on a GPU alone

        return law_kernels.softmax(scores)
    return scores.softmax(dim=-1, dtype=torch.float64)


def _precise(logits: torch.Tensor) -> torch.Tensor:
    """A copy for the processors to write to, in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
