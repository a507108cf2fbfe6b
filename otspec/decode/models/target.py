"""The target's pass over drafted trees: its logits after every node of every tree, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.transfers import to_device
from otspec.decode.models.context import Context, vocabulary
from otspec.decode.models.passes.signature import Outputs
from otspec.decode.models.passes.workspace import filled_up
from otspec.laws import IntArray
from otspec.verification.trees.topology import Topology

MOST_BYTES = 1 << 29
"""Laws in float64 that a run of the target keeps, at most; beyond, the device has more to do than the host."""


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
        After how many of its layers a drafter wants to see hidden states.
    """

    features: list[torch.Tensor]
    """Hidden states at the tokens that were read of each text since they were last looked at, shape (tokens, layers,
    width); only where layers are wanted."""
    _read: Outputs

    def __init__(
        self,
        model: PreTrainedModel,
        texts: Sequence[Sequence[int]],
        layers: Sequence[int] = (),
    ) -> None:
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
        return self.read_and_prepare(texts, trees, None)[0]

    def read_and_prepare(
        self, texts: Sequence[Sequence[int]], trees: Sequence[Topology], output: TargetOutput | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The same, and what is seen in them.

        A node attends to its text, to the nodes that lead to it and to itself; its position is that of its depth.

        Parameters
        ----------
        texts : sequence of sequences of int
        trees : sequence of Topology
        output : TargetOutput, optional
            What is done with logits, in one run with the pass if that is captured; None in its place otherwise.
        """
        width = max(tree.size for tree in trees)
        packed = np.zeros((len(texts), filled_up(width), 2 + filled_up(width)), dtype=np.int64)
        packed[:, range(packed.shape[1]), range(2, packed.shape[2])] = 1  # what sees nothing would be NaN
        for row, text, tree in zip(packed, texts, trees, strict=True):
            row[: tree.size, 0] = tree.token
            row[0, 0] = text[-1]
            row[: tree.size, 1] = tree.depth
            row[: tree.size, 2 : 2 + tree.size] = tree.lineage
        sizes = [tree.size for tree in trees]
        if output is not None and (found := self._in_one(packed, output)) is not None:
            return self._of_nodes(found[0], sizes), self._of_nodes(found[1], sizes)
        nodes = torch.from_numpy(packed[:, :width, : 2 + width])
        self._read = self._pass(nodes.to(self.context.device, non_blocking=True))
        return self._of_nodes(self._read.logits, sizes), None

    def _in_one(self, packed: IntArray, output: TargetOutput) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Logits and what is seen in them by a run, shape (B, N, ...) both; None where it is not captured."""

        def steps(nodes: torch.Tensor, generator: torch.Generator | None) -> tuple[torch.Tensor, ...]:
            found = self._pass(nodes)
            seen = output.see(found.logits.flatten(0, 1)).unflatten(0, found.logits.shape[:2])
            return (found.logits, seen, *(() if found.features is None else (found.features,)))

        batch, width = packed.shape[:2]
        if 8 * batch * width * vocabulary(self.context.model) > MOST_BYTES:
            return None
        inputs = [torch.from_numpy(packed)]
        outputs = self.context.in_one_graph(("target", output.known_by), steps, inputs, width)
        if outputs is None:
            return None
        logits, seen, *features = outputs
        self._read = Outputs(logits, *features)
        return logits, seen

    def _pass(self, nodes: torch.Tensor) -> Outputs:
        """What the model gives for nodes of which tokens, depths and what they see are said, shape (B, N, 2 + N)."""
        tokens, depth, sees = nodes[..., 0], nodes[..., 1], nodes[..., 2:] != 0
        width = tokens.shape[1]
        position = self.context.after_texts + depth
        return self.context.read(tokens, position, sees if width > 1 else None, keep=width)

    def _of_nodes(self, found: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """What belongs to nodes, shape (sum of N, ...), from what belongs to rows, (B, N, ...)."""
        if len(sizes) == 1:
            return found[0, : sizes[0]]
        real = np.arange(found.shape[1]) < np.array(sizes)[:, None]
        flat = found.flatten(0, 1)
        return flat if real.all() else flat[to_device(np.flatnonzero(real), flat.device)]

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep the roots and the accepted nodes of each tree, and drop the texts that do not go on."""
        kept = [[0, *nodes] for nodes in accepted]
        if self._layers:
            device, states = self.context.device, self._read.states
            self.features = [states[row].index_select(0, to_device(np.array(kept[row]), device)) for row in rows]
        self.context.commit(kept, rows)
