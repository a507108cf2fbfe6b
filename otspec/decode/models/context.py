"""A causal language model and the texts that it has read: tree attention over its cache of keys and values."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from otspec.decode.models.cache import retain
from otspec.errors import ProblemError
from otspec.laws import BoolArray, IntArray

SLIDING = "sliding_attention"
"""Type of a layer that attends to the last tokens only."""


class Context:
    """A batch of texts in the cache of a model.

    `read` adds columns to the cache, on trial; `settle` keeps those that became text.  Between steps the cache is what
    reading the texts one after the other would have left, shorter ones padded on the left.

    Parameters
    ----------
    model : PreTrainedModel
        A decoder whose attention takes a mask of its own for every pair of tokens, and the positions of tokens.
    texts : sequence of lists of int
        What it reads first; any of them may be empty.

    Raises
    ------
    ProblemError
        If the model cannot be asked about trees.
    """

    def __init__(self, model: PreTrainedModel, texts: Sequence[Sequence[int]]) -> None:
        check_model(model)
        self.model = model
        self.cache = DynamicCache()
        self.length: IntArray = np.array([len(text) for text in texts])
        """Tokens read of each text."""
        self.trial = 0
        """Columns of the cache that are not settled."""
        width = int(self.length.max())
        self._settled = torch.from_numpy(_right_aligned(self.length, width)).to(model.device)
        if width:
            self._read_first(texts, width)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def _read_first(self, texts: Sequence[Sequence[int]], width: int) -> None:
        tokens = np.zeros((len(texts), width), dtype=np.int64)
        for row, text in zip(tokens, texts, strict=True):
            row[width - len(text) :] = text
        position = np.maximum(np.arange(width) - (width - self.length[:, None]), 0)
        self.model(
            input_ids=torch.from_numpy(tokens).to(self.device),
            attention_mask=self._settled.long(),
            position_ids=torch.from_numpy(position).to(self.device),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )

    def read(self, tokens: torch.Tensor, position: torch.Tensor, sees: torch.Tensor, keep: int) -> torch.Tensor:
        """Logits of the last tokens of a block, shape (B, keep, V), on trial.

        Parameters
        ----------
        tokens, position : Tensor of int, shape (B, N)
            The block, and how many tokens of its own text come before each.
        sees : Tensor of bool, shape (B or 1, N, trial + N)
            Which of the columns on trial, the block's own the last, each token of it attends to; all attend to the
            settled text.
        keep : int
        """
        batch, count = tokens.shape
        allowed = torch.cat(
            (self._settled[:, None].expand(batch, count, -1), sees.expand(batch, -1, -1)), dim=2
        ).unsqueeze(1)
        # The least number, not -inf: a padding token sees nothing, and nothing but -inf would make it NaN.
        mask = torch.zeros(allowed.shape, dtype=self.model.dtype, device=self.device)
        mask.masked_fill_(~allowed, torch.finfo(self.model.dtype).min)
        self.trial += count
        logits: torch.Tensor = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=position,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=keep,
        ).logits
        return logits

    def settle(self, chosen: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep some of the columns on trial, and drop the others.

        Parameters
        ----------
        chosen : sequence of sequences of int
            For every text of the batch, the columns on trial, counted from 0, that became text, in order.
        rows : sequence of int
            The texts that go on, at least one.
        """
        settled = self._settled.shape[1]
        going: IntArray = np.asarray(rows, dtype=np.int64)
        length = self.length[going] + np.array([len(chosen[row]) for row in rows])
        width = int(length.max())
        columns = np.tile(np.arange(width), (len(rows), 1))
        for out, row, tokens in zip(columns, rows, length, strict=True):
            before = np.arange(settled - self.length[row], settled)
            out[width - tokens :] = np.concatenate((before, settled + np.asarray(chosen[row], dtype=np.int64)))
        if settled + self.trial:
            retain(self.cache, going, columns)
        self.length, self.trial = length, 0
        self._settled = torch.from_numpy(_right_aligned(length, width)).to(self.device)


def _right_aligned(length: IntArray, width: int) -> BoolArray:
    return np.arange(width) >= width - length[:, None]


def vocabulary(model: PreTrainedModel) -> int:
    """Number of tokens that a model gives logits for."""
    return int(model.config.get_text_config().vocab_size)


def positions(model: PreTrainedModel) -> float:
    """How many tokens a model knows positions for."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or float("inf")


def sliding_window(model: PreTrainedModel) -> float:
    """How many tokens some layers of a model attend to at most: trees are read without such a limit."""
    config: Any = model.config.get_text_config()
    types = getattr(config, "layer_types", None)
    sliding = getattr(config, "use_sliding_window", True) and (types is None or SLIDING in types)
    return (sliding and getattr(config, "sliding_window", None)) or float("inf")


def check_model(model: PreTrainedModel) -> None:
    """Raise unless a tree can be read by the model in one pass."""
    name = type(model).__name__
    if model.config.is_encoder_decoder:
        raise ProblemError(f"{name} is an encoder-decoder; pass a causal language model")
    others = set(getattr(model.config.get_text_config(), "layer_types", None) or ()) - {"full_attention", SLIDING}
    if model._is_stateful or others:
        raise ProblemError(f"{name} has layers without plain attention; a tree of drafts needs it in every layer")
    taken = inspect.signature(model.forward).parameters
    if missing := {"attention_mask", "position_ids", "past_key_values", "logits_to_keep"} - set(taken):
        raise ProblemError(f"{name} does not take {', '.join(sorted(missing))}; a tree of drafts cannot be read by it")
    attention = model.config._attn_implementation
    if attention not in ("sdpa", "eager"):
        raise ProblemError(
            f"{name} attends by {attention}, which takes no mask of its own for a tree; "
            'load it with attn_implementation="sdpa" or "eager"'
        )
