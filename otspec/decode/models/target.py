"""The target's pass over drafted trees: its logits after every node of every tree, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from otspec.decode.base.drafts import Launched
from otspec.decode.base.transfers import to_device
from otspec.decode.models.context import Context
from otspec.decode.models.passes.signature import Outputs
from otspec.decode.models.passes.single_graph import Steps
from otspec.decode.models.passes.workspace import filled_up
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

MOST_BYTES = 1 << 29
"""Laws in float64 that a run of the target stores, at most; beyond, the device has more to do than the host."""


class TargetOutput(NamedTuple):
    """What is done with a target's logits, and what that depends on beside them."""

    see: Callable[[torch.Tensor], torch.Tensor]
    """Takes logits of nodes, shape (N, V), to tensors of shape (N, ...)."""
    known_by: object
    """To be compared."""


class Target:
    """The target model, which has read all of each text but the last token: that is the root of the next tree.

    Parameters
    ----------
    model : PreTrainedModel
    texts : sequence of lists of int
        The prompts, each of one token at least.
    layers : sequence of int
        After how many of its layers a drafter receives hidden states.
    """

    features: list[torch.Tensor]
    """Hidden states at the tokens of each text that were read since these were last taken, shape (tokens, layers,
    width); only where layers are wanted."""
    _read: Outputs
    _rows: Sequence[IntArray]
    """Of each text: which rows of what was read last are its nodes."""
    _accepted: tuple[list[list[int]], Sequence[int]] | None = None
    """What is to be committed before the next pass, which a drafter need not wait for."""

    def __init__(self, model: PreTrainedModel, texts: Sequence[Sequence[int]], layers: Sequence[int] = ()) -> None:
        self.context = Context(model, [text[:-1] for text in texts], layers)
        self._layers = layers
        self.features = []
        if layers:
            none = torch.empty(0, len(layers), model.config.get_text_config().hidden_size, device=model.device)
            read = self.context.features
            read = none.expand(len(texts), -1, -1, -1) if read is None else read
            self.features = [one[: len(text) - 1] for one, text in zip(read, texts, strict=True)]

    def read(self, texts: Sequence[Sequence[int]], trees: Sequence[Topology]) -> torch.Tensor:
        """Logits after all nodes, one tree after the other, shape (sum of N, V)."""
        self.read_and_prepare(texts, trees, None)
        return self.logits

    @property
    def logits(self) -> torch.Tensor:
        """After all nodes that were read last, shape (sum of N, V)."""
        return self.of_nodes(self._read.logits)

    @property
    def states(self) -> torch.Tensor | None:
        """Hidden states at all that was read last, shape (B, rows, layers, width); None where no layers are wanted."""
        return self._read.features

    def read_and_prepare(
        self, texts: Sequence[Sequence[int]], trees: Sequence[Topology], output: TargetOutput | None
    ) -> torch.Tensor | None:
        """Read all nodes, and what is seen in their logits, shape (sum of N, ...).

        A node attends to its text, to the nodes that lead to it and to itself; its position is that of its depth.

        Parameters
        ----------
        texts : sequence of sequences of int
        trees : sequence of Topology
        output : TargetOutput, optional
            What is done with logits, in one run with the pass if that is captured; None is returned otherwise.
        """
        self.settle()
        width = max(tree.size for tree in trees)
        packed = np.zeros((len(texts), filled_up(width), 2 + filled_up(width)), dtype=np.int64)
        packed[:, range(packed.shape[1]), range(2, packed.shape[2])] = 1  # what sees nothing would be NaN
        for row, text, tree in zip(packed, texts, trees, strict=True):
            row[: tree.size, 0] = tree.token
            row[0, 0] = text[-1]
            row[: tree.size, 1] = tree.depth
            row[: tree.size, 2 : 2 + tree.size] = tree.lineage
        self._rows = [np.arange(tree.size) for tree in trees]
        if output is not None:

            def steps(nodes: torch.Tensor, generator: torch.Generator | None) -> tuple[torch.Tensor, ...]:
                return self._seen(self._pass(nodes[..., 0], nodes[..., 1], nodes[..., 2:] != 0), output)

            seen = self._in_one(("target", output.known_by), steps, [torch.from_numpy(packed)], packed.shape[1])
            if seen is not None:
                return self.of_nodes(seen)
        nodes = torch.from_numpy(packed[:, :width, : 2 + width]).to(self.context.device, non_blocking=True)
        self._read = self._pass(nodes[..., 0], nodes[..., 1], nodes[..., 2:] != 0)
        return None

    def read_slots(self, texts: Sequence[Sequence[int]], drafts: Launched, output: TargetOutput) -> torch.Tensor:
        """Read all slots of drafts that the host has not seen; what is seen in their logits, shape (B, S or more, ...).

        Slots of equal prefixes are read each by itself.  `merge` chooses which of them are nodes.
        """
        self.settle()
        shape = drafts.shape
        depth, sees = _alone(shape, self.context.device)
        width = depth.shape[1]

        def steps(
            roots: torch.Tensor, drafted: torch.Tensor, generator: torch.Generator | None
        ) -> tuple[torch.Tensor, ...]:
            tokens = pad(torch.cat((roots, drafted.clamp(min=0)), dim=1), (0, width - shape.slots))  # `NONE` is no node
            return self._seen(self._pass(tokens, depth, sees), output)

        inputs = torch.tensor([text[-1:] for text in texts]), drafts.tokens
        seen = self._in_one(("slots", shape, output.known_by), steps, inputs, width)
        if seen is not None:
            return seen
        logits, seen, *features = steps(inputs[0].to(self.context.device, non_blocking=True), inputs[1], None)
        self._read = Outputs(logits, *features)
        return seen

    def merge(self, trees: Sequence[Topology]) -> None:
        """Take the slots that were read for the nodes of these trees."""
        self._rows = [tree.slot for tree in trees]

    def _in_one(self, key: object, steps: Steps, inputs: Sequence[torch.Tensor], width: int) -> torch.Tensor | None:
        """What is seen in the logits by a run, shape (B, width, ...); None where it is not captured."""
        if 8 * len(inputs[0]) * width * self.context.vocab > MOST_BYTES:
            return None
        outputs = self.context.in_one_graph(key, steps, inputs, width)
        if outputs is None:
            return None
        logits, seen, *features = outputs
        self._read = Outputs(logits, *features)
        return seen

    @staticmethod
    def _seen(found: Outputs, output: TargetOutput) -> tuple[torch.Tensor, ...]:
        """Logits, shape (B, N, V), what is seen in them, and features if there are some."""
        seen = output.see(found.logits.flatten(0, 1)).unflatten(0, found.logits.shape[:2])
        return (found.logits, seen, *(() if found.features is None else (found.features,)))

    def _pass(self, tokens: torch.Tensor, depth: torch.Tensor, sees: torch.Tensor) -> Outputs:
        """What the model gives for nodes of these tokens and depths, (B, N), that see some of each other, (B, N, N)."""
        width = tokens.shape[1]
        position = self.context.after_texts + depth
        return self.context.read(tokens, position, sees if width > 1 else None, keep=width)

    def of_nodes(self, found: torch.Tensor) -> torch.Tensor:
        """What belongs to nodes, shape (sum of N, ...), from what belongs to rows, (B, rows, ...)."""
        rows = np.concatenate([own + row * found.shape[1] for row, own in enumerate(self._rows)])
        flat = found.flatten(0, 1)
        if np.array_equal(rows, np.arange(rows.size)):
            return flat[: rows.size]
        return flat[to_device(rows, flat.device)]

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep the roots and the accepted nodes of each tree, and drop the texts that do not go on.

        Features are selected at once, keys and values when the next pass begins.
        """
        columns = [own[[0, *nodes]].tolist() for own, nodes in zip(self._rows, accepted, strict=True)]
        if self._layers:
            self.features = [_rows_of(self._read.states[row], columns[row]) for row in rows]
        self._accepted = columns, rows

    def settle(self) -> None:
        """Move the keys and values that were kept last to where they stay."""
        if self._accepted is not None:
            self.context.commit(*self._accepted)
            self._accepted = None


def _rows_of(states: torch.Tensor, columns: Sequence[int]) -> torch.Tensor:
    """A copy of some rows, ascending: what a run gave the next pass overwrites."""
    if columns[-1] == len(columns) - 1:
        return states[: len(columns)].clone()
    return states.index_select(0, to_device(np.array(columns), states.device))


@cache
def _alone(shape: Shape, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The depths of a shape's slots, shape (1, S or more), and what they see, before there are tokens.

    Rows behind the slots, up to those of a pass, see themselves alone.  Cached for good: graphs have the addresses.
    """
    slots, width = shape.slots, filled_up(shape.slots)
    depth, sees = np.zeros((1, width), dtype=np.int64), np.eye(width, dtype=bool)[None]
    depth[0, :slots] = shape.level
    sees[0, :slots, :slots] = shape.lineage
    return to_device(depth, device), to_device(sees, device)
