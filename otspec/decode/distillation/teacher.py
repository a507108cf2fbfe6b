"""A target's laws and hidden states at every token of some texts, batch after batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import count
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from otspec.decode.distillation.losses import TeacherTargets
from otspec.decode.models.context import vocabulary
from otspec.decode.models.head import without_head
from otspec.laws import IntArray

MEMORY = 4 << 30
"""Bytes of logits and hidden states that are cached rather than computed anew in every epoch, on a CPU; of a GPU's own
memory it is a share of what is free."""
SHARE = 0.4
SEEDS = 2**63
"""How many seeds a generator of torch has at least."""
TOKENS_AT_ONCE = 512
"""Tokens whose laws over the whole vocabulary are held at once, where those of some tokens are wanted only."""


class TeacherBatch(NamedTuple):
    """A batch of texts of N + 1 tokens."""

    tokens: torch.Tensor
    """Shape (B, N + 1)."""
    log_law: torch.Tensor
    """Logarithms of the target's probabilities after each token but the last, of all tokens or of those that are
    drafted, shape (B, N, k), float32."""
    features: torch.Tensor
    """Its hidden states at each token but the last, shape (B, N, layers, width), float32."""

    def wanted(self, count: int) -> TeacherTargets:
        """The target's outputs after the last so many of these tokens."""
        return TeacherTargets(
            self.log_law[:, -count:], self.features[:, -count:, -1] if self.features.numel() else None
        )


class TeacherOutputs(NamedTuple):
    """The target's outputs along some texts, as they are cached."""

    output: torch.Tensor
    """What its head gave, shape (B, N, V); or what it got, (B, N, width), where some tokens are drafted only."""
    features: torch.Tensor
    """Shape (B, N, layers, width)."""
    total: torch.Tensor
    """Logarithm of the sum of exp(logits), shape (B, N), float32; of use where some tokens are drafted only."""


class TeacherData:
    """Texts with the target's laws and hidden states, in an order of its own for every epoch.

    Parameters
    ----------
    target : PreTrainedModel
    texts : ndarray of int, shape (texts, N + 1)
    layers : sequence of int
        After how many of the target's layers hidden states are wanted.
    batch : int
        Texts of a batch; a rest is left to the next epoch.
    seed : int
    memory : int, optional
        Bytes for a cache of the target's outputs, where the target is and in half precision, or in single precision
        once some are beyond half precision; beyond, it is called in every epoch.  By default `MEMORY`, or `SHARE` of
        what is free on a GPU.
    draft_tokens : array of int, shape (k,), optional
        The tokens that are drafted, ascending: of a large vocabulary no more is computed, or cached, than these need.
    """

    def __init__(
        self,
        target: PreTrainedModel,
        texts: IntArray,
        layers: Sequence[int],
        batch: int,
        seed: int = 0,
        memory: int | None = None,
        draft_tokens: IntArray | None = None,
    ) -> None:
        self.target = target
        self.texts = torch.from_numpy(texts)
        self.layers = list(layers)
        self.batch = batch
        self.seed = seed
        self.draft_tokens = draft_tokens
        if draft_tokens is not None:
            self._body, head = without_head(target)
            self._rows = head.rows(torch.from_numpy(draft_tokens).to(target.device))
        size = target.config.get_text_config().hidden_size
        width = (vocabulary(target) if draft_tokens is None else size) + len(self.layers) * size
        self._most = _free(target.device) if memory is None else memory
        self._numbers = texts.shape[0] * (texts.shape[1] - 1) * width
        self._dtype = target.dtype if target.dtype == torch.bfloat16 else torch.float16
        self._cached: dict[int, TeacherOutputs] = {}

    @property
    def is_cached(self) -> bool:
        """Whether there is room for the target's outputs along all texts."""
        return self._numbers * self._dtype.itemsize <= self._most

    @property
    def digest(self) -> str:
        """Digest of the texts, by which they are identified."""
        return hashlib.sha256(self.texts.numpy().tobytes()).hexdigest()[:16]

    @property
    def an_epoch(self) -> int:
        """Batches of an epoch."""
        return max(len(self.texts) // self.batch, 1)

    def batches_in(self, steps: int) -> int:
        """How many batches of so many the target computes."""
        return min(steps, self.an_epoch) if self.is_cached else steps

    def again(self, seed: int) -> TeacherData:
        """The same texts in another order; the target's outputs are cached once for both."""
        other = copy(self)
        other.seed = seed
        return other

    def order(self) -> Iterator[list[int]]:
        """The texts of each batch, without end."""
        for epoch in count():
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % SEEDS)
            shuffled = torch.randperm(len(self.texts), generator=generator).tolist()
            for start in range(0, self.an_epoch * self.batch, self.batch):
                yield shuffled[start : start + self.batch]

    def batch_of(self, rows: Sequence[int]) -> TeacherBatch:
        """Some texts, by their rows, and the target's outputs along them."""
        tokens = self.texts[list(rows)].to(self.target.device)
        if missing := [row for row in rows if row not in self._cached]:
            answers = self._outputs(self.texts[missing].to(self.target.device))
            if len(missing) == len(rows) and not self.is_cached:
                return self._taught(tokens, answers)
            if not (_representable(answers.output, self._dtype) and _representable(answers.features, self._dtype)):
                self._dtype = torch.float32
            half = (answers.output.to(self._dtype), answers.features.to(self._dtype), answers.total)
            self._cached.update(zip(missing, map(TeacherOutputs._make, zip(*half, strict=True)), strict=True))
        each = zip(*(self._cached[row] for row in rows), strict=True)
        taught = self._taught(tokens, TeacherOutputs(*(torch.stack([one.float() for one in every]) for every in each)))
        if not self.is_cached:
            self._cached.clear()
        return taught

    def batch_on(self, tokens: torch.Tensor) -> TeacherBatch:
        """Other texts, shape (B, N + 1), likewise, of which nothing is cached."""
        return self._taught(tokens, self._outputs(tokens))

    def _taught(self, tokens: torch.Tensor, answers: TeacherOutputs) -> TeacherBatch:
        output, features = answers.output.float(), answers.features.float()
        if self.draft_tokens is None:
            return TeacherBatch(tokens, output.log_softmax(-1), features)
        return TeacherBatch(
            tokens, self._rows(answers.output.to(self.target.dtype)).float() - answers.total[..., None], features
        )

    @torch.no_grad()
    def _outputs(self, tokens: torch.Tensor) -> TeacherOutputs:
        model = self.target if self.draft_tokens is None else self._body
        found = model(input_ids=tokens[:, :-1], use_cache=False, output_hidden_states=bool(self.layers))
        states = [found.hidden_states[layer] for layer in self.layers]
        output = found.logits
        features = torch.stack(states, dim=2) if states else output.new_empty((*output.shape[:2], 0, 0))
        if self.draft_tokens is None:
            return TeacherOutputs(output, features, output.new_empty(output.shape[:2]))
        head = self.target.get_output_embeddings()
        totals = [head(some).float().logsumexp(-1) for some in output.flatten(0, 1).split(TOKENS_AT_ONCE)]
        return TeacherOutputs(output, features, torch.cat(totals).view(output.shape[:2]))


def _representable(numbers: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether what is finite stays so in another type: in float16 nothing above 65 504 does."""
    return bool((numbers.isfinite() == numbers.to(dtype).isfinite()).all())


def _free(device: torch.device) -> float:
    return SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else MEMORY
