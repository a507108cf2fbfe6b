"""Drafts of transformers' candidate generators, what its assisted generation asks for tokens.

A generator hands back tokens, and logits or none.  Where it is an assistant that samples, its tokens were drawn from
the softmax of the logits: these are the scores of its own `generate`, after all processors, from which that draws.  So
their law is known.  Everything else is a fixed draft: tokens without logits, such as those of prompt lookup and those
that pass through text because the tokenizers differ, and tokens that were chosen greedily.  An assistant may end a
draft where it gave the last token a small probability, but hands that token back; so where drafts end depends on their
tokens alone (docs/theory/decoding.md, "A draft that ends early").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from transformers.generation.candidate_generator import AssistedCandidateGenerator, CandidateGenerator

from otspec.decode.base.drafts import Drafts
from otspec.decode.base.streams import Randomness
from otspec.decode.drafters.drafter import Drafter
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

Make = Callable[[torch.Tensor], CandidateGenerator]
"""From the tokens of a prompt, shape (1, S), to a generator for the text that begins with them."""


class CandidateDrafter(Drafter):
    """One path from a candidate generator of transformers, for one text.

    Parameters
    ----------
    make : callable
    length : int
        Tokens of a draft at most; a generator may have a limit of its own.
    vocab : int
        The target's number of tokens.
    generator : torch.Generator or Streams
        Seeds what the candidate generator draws.
    """

    def __init__(self, make: Make, length: int, vocab: int, generator: Randomness) -> None:
        self.make = make
        self.length = length
        self.vocab = vocab
        self.device = generator.device
        self._seeds = np.random.default_rng(generator.initial_seed())
        self._drafted = 0

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Make the generator.

        Raises
        ------
        ProblemError
            If there are several texts.
        """
        if len(texts) > 1:
            raise ProblemError(
                f"transformers' candidate generators draft for one text at a time; there are {len(texts)} prompts"
            )
        self._candidates = self.make(self._ids(texts[0]))
        self._accepted: int | None = None

    def depth(self, lengths: IntArray) -> int:
        """As long as asked for."""
        return self.length

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Ask for candidates; of no more than fit, and none where the generator does not go on from the text."""
        ids = self._ids(texts[0])
        if self._accepted is not None:  # transformers tells it after every pass of the target, and it may adapt
            self._candidates.update_candidate_strategy(ids, torch.empty(1, self._drafted + 1, 0), self._accepted)
        devices = [ids.device] if ids.device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # it draws by torch's global generator
            torch.manual_seed(int(self._seeds.integers(1 << 62)))
            candidates, logits = self._candidates.get_candidates(ids)
        continues = candidates.shape[1] > ids.shape[1] and torch.equal(candidates[0, : ids.shape[1]], ids[0])
        tokens = candidates[0, ids.shape[1] :][:depth].cpu().numpy() if continues else np.empty(0, dtype=np.int64)
        self._drafted = tokens.size
        if logits is None or not tokens.size or not _samples(self._candidates) or logits.shape[-1] > self.vocab:
            known = int((tokens < self.vocab).cumprod().sum())
            return Drafts.fixed([[tokens[:known].tolist()]])
        laws = torch.zeros(tokens.size, self.vocab, dtype=torch.float64, device=self.device)
        laws[:, : logits.shape[-1]] = logits[0, : tokens.size].softmax(dim=-1, dtype=torch.float64)
        return Drafts([Topology.merge(Shape((1,) * tokens.size), tokens)], laws)

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Remember how much was accepted."""
        self._accepted = len(accepted[0])

    def _ids(self, text: Sequence[int]) -> torch.Tensor:
        return torch.tensor([list(text)], device=self.device)


def _samples(candidates: CandidateGenerator) -> bool:
    """Whether tokens were drawn from the softmax of the logits that come with them."""
    return isinstance(candidates, AssistedCandidateGenerator) and bool(candidates.generation_config.do_sample)
