"""A causal language model and the texts that it has read: tree attention over its cache of keys and values."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.transfers import to_device
from otspec.decode.models.passes.reader import OutputCacheReader, reader_of
from otspec.decode.models.passes.signature import UNCONDITIONED, Conditioning, Inputs, Outputs
from otspec.decode.models.passes.single_graph import GraphedSequence, Steps
from otspec.decode.models.passes.static import StaticReader
from otspec.errors import ProblemError
from otspec.laws import IntArray

SLIDING = "sliding_attention"
"""Type of a layer that attends to the last tokens only."""


class Pass(NamedTuple):
    """The shape of one pass of a model over new tokens."""

    batch: int
    rows: int
    """New tokens of each text."""
    start: int
    """Columns of the cache before them."""
    keep: int
    """Logits requested."""
    masked: bool


class Context:
    """A batch of texts in the cache of a model.

    Text i has the columns 0 to length[i] - 1.  `read` adds columns after those of the longest text, on trial; `commit`
    moves those that became text to the end of theirs, and forgets the rest.

    Parameters
    ----------
    model : PreTrainedModel
        A decoder whose attention takes a mask of its own for every pair of tokens, and the positions of tokens.
    texts : sequence of lists of int
        What it reads first; any of them may be empty.
    layers : sequence of int
        After how many of its layers hidden states are wanted, if any are: from 0, the embedding, to all of them.
    conditioning : Conditioning
        Its conditioning in these texts, see `otspec.decode.drafters.sd2.model`, `otspec.decode.drafters.eagle.model`.

    Raises
    ------
    ProblemError
        If the model cannot read trees, or does not have so many layers.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        texts: Sequence[Sequence[int]],
        layers: Sequence[int] = (),
        conditioning: Conditioning = UNCONDITIONED,
    ) -> None:
        check_model(model)
        _check_layers(model, layers)
        self.model = model
        self.reader = reader_of(model, layers)
        self.device = model.device
        """Where the model is."""
        self.positions = positions(model)
        """How many tokens the model has positions for."""
        self.vocab = vocabulary(model)
        """How many tokens it gives logits for."""
        self.length: IntArray = np.array([len(text) for text in texts])
        """Tokens read of each text."""
        self.trial = 0
        """Columns of the cache that are not settled."""
        self.passes: list[Pass] = []
        """What was read after the prompts."""
        self.features: torch.Tensor | None = None
        """Hidden states at what it read first, shape (B, S, layers, width), where some are wanted."""
        self._run: GraphedSequence | None = None
        self._note_lengths()
        if self.end:
            self._read_first(texts, conditioning)

    @property
    def after_texts(self) -> torch.Tensor:
        """The position of the token after each text, shape (B, 1), on the device."""
        return to_device(self.length, self.device)[:, None] if self._run is None else self._run.length[:, None]

    @property
    def settled(self) -> int | torch.Tensor:
        """How many columns are, within a run as a tensor of shape (1,)."""
        return self.end if self._run is None else self._run.end

    def _note_lengths(self) -> None:
        self.end = int(self.length.max())
        """Columns that are settled."""
        gaps = np.arange(self.end) >= self.length[:, None]
        self._gaps = to_device(gaps, self.device) if gaps.any() else None
        """Columns that are settled for other texts only, shape (B, end)."""

    def _read_first(self, texts: Sequence[Sequence[int]], conditioning: Conditioning = UNCONDITIONED) -> None:
        tokens = np.zeros((len(texts), self.end), dtype=np.int64)
        for row, text in zip(tokens, texts, strict=True):
            row[: len(text)] = text
        columns = np.arange(self.end)
        present = columns < self.length[:, None]
        position = np.where(present, columns, 0)
        read, there, places = (to_device(array, self.device) for array in (tokens, present, position))
        self.features = self.reader.read(Inputs(read, places, conditioning=conditioning, present=there)).features

    def read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        sees: torch.Tensor | None,
        keep: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """Read a block on trial: logits of its last tokens, shape (B, keep, V), and hidden states of all.

        Parameters
        ----------
        tokens, position : Tensor of int, shape (B, N)
            The block, and how many tokens of its own text come before each.
        sees : Tensor of bool, shape (B or 1, N, trial + N), optional
            Which of the columns on trial, the block's own the last, each token of it attends to; all attend to the
            settled text.  By default to all of them.
        keep : int
        conditioning : Conditioning
            The model's conditioning at these tokens.
        """
        batch, rows = tokens.shape
        if self._run is not None:
            assert isinstance(self.reader, StaticReader)
            start, self.trial = self.trial, self.trial + rows
            self._run.passes.append(Pass(batch, rows, start, keep, sees is not None))
            inputs = Inputs(tokens, position, None, start, rows, conditioning)
            found = self.reader.read_at(self._run, inputs, sees)
            return found._replace(logits=found.logits[:, -keep:])
        start = self.put_on_trial(rows, keep, sees is not None or self._gaps is not None)
        return self.reader.read(Inputs(tokens, position, self._mask(rows, sees), start, keep, conditioning))

    def in_one_graph(
        self,
        key: object,
        steps: Steps,
        inputs: Sequence[torch.Tensor],
        columns: int,
        generator: torch.Generator | None = None,
    ) -> tuple[torch.Tensor, ...] | None:
        """Do passes, and what is between them, in one, as a CUDA graph; None where they are to be launched.

        What comes out is there until the next pass of the model.

        Parameters
        ----------
        key : object
            What the steps depend on beside their inputs.
        steps : callable
            Takes the inputs and a generator, calls `read`, and returns tensors whose shapes depend on those of the
            inputs alone.
        inputs : sequence of Tensors
            The first of shape (B, ...); on the device, or on the host, from where they are copied.
        columns : int
            That the passes add.
        generator : torch.Generator, optional
        """
        if not isinstance(self.reader, StaticReader) or self.trial:
            return None

        def within(run: GraphedSequence) -> Steps:
            def done(*arguments: Any) -> tuple[torch.Tensor, ...]:
                self._run, self.trial = run, 0
                run.passes.clear()
                try:
                    return steps(*arguments)
                finally:
                    self._run, self.trial = None, 0

            return done

        key = key, *((one.shape, one.dtype) for one in inputs)
        found = self.reader.do(key, within, inputs, (self.length, self.end, columns), generator)
        if found is None:
            return None
        run, outputs = found
        self.passes += [one._replace(start=self.end + one.start) for one in run.passes]
        self.trial = sum(one.rows for one in run.passes)
        return outputs

    def put_on_trial(self, rows: int, keep: int, masked: bool) -> int:
        """Count a block as read, by `read` or by a kernel; its first column.  Parameters are those of `Pass`."""
        start = self.end + self.trial
        self.passes.append(Pass(len(self.length), rows, start, keep, masked))
        self.trial += rows
        return start

    def outputs_at(self, columns: torch.Tensor) -> torch.Tensor:
        """What a model without a head gave at columns of each text, shape (B, n) to (B, n, d); 0 before the first."""
        assert isinstance(self.reader, OutputCacheReader | StaticReader)
        return self.reader.outputs_at(columns)

    def _mask(self, count: int, sees: torch.Tensor | None) -> torch.Tensor | None:
        if sees is None and self._gaps is None:
            return None
        batch = max(1 if sees is None else len(sees), 1 if self._gaps is None else len(self._gaps))
        mask = torch.zeros(batch, 1, count, self.end + self.trial, dtype=self.model.dtype, device=self.device)
        # The least number, not -inf: a padding token sees nothing, and nothing but -inf would make it NaN.
        least = torch.finfo(self.model.dtype).min
        if self._gaps is not None:
            mask[..., : self.end].masked_fill_(self._gaps[:, None, None], least)
        if sees is not None:
            mask[..., self.end :].masked_fill_(~sees.unsqueeze(1), least)
        return mask

    def commit(self, chosen: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep some of the columns on trial, and drop the others.

        Parameters
        ----------
        chosen : sequence of sequences of int
            For every text of the batch, the columns on trial, counted from 0, that became text, in order.
        rows : sequence of int
            The texts that go on, at least one.
        """
        moved = [
            (row, self.end + column, to)
            for row in rows
            for to, column in enumerate(chosen[row], start=int(self.length[row]))
            if self.end + column != to
        ]
        blocks = self.reader.blocks
        if moved:
            # One copy for all layers, which the device need not be waited for.
            columns = to_device(np.array(moved).T, self.device)
            for block in blocks:
                block.move(*columns)
        if list(rows) != list(range(len(self.length))):
            index = to_device(np.array(rows), self.device)
            for block in blocks:
                block.keep(index)
        self.length = self.length[list(rows)] + np.array([len(chosen[row]) for row in rows])
        self.trial = 0
        self._note_lengths()

    def forget(self, lengths: Sequence[int]) -> None:
        """Keep the first tokens of each text that are settled, so many or all; nothing is on trial."""
        self.length = np.minimum(self.length, lengths)
        self._note_lengths()


def vocabulary(model: PreTrainedModel) -> int:
    """Number of tokens that a model gives logits for."""
    return int(model.config.get_text_config().vocab_size)


def positions(model: PreTrainedModel) -> float:
    """How many tokens a model has positions for."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or float("inf")


def sliding_window(model: PreTrainedModel) -> float:
    """How many tokens some layers of a model attend to at most: trees are read without such a limit."""
    config: Any = model.config.get_text_config()
    types = getattr(config, "layer_types", None)
    sliding = getattr(config, "use_sliding_window", True) and (types is None or SLIDING in types)
    return (sliding and getattr(config, "sliding_window", None)) or float("inf")


def _check_layers(model: PreTrainedModel, layers: Sequence[int]) -> None:
    count = int(model.config.get_text_config().num_hidden_layers)
    if wrong := [layer for layer in layers if not 0 <= layer <= count]:
        raise ProblemError(
            f"hidden states after {wrong[0]} layers are wanted, and {type(model).__name__} has {count}; the "
            "drafter that wants them was trained for another target"
        )


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
