"""The target's pass over drafted trees: its logits after every node of every tree, in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.sending import send
from otspec.decode.models.context import Context
from otspec.decode.models.passes.signature import Outputs
from otspec.verification.trees.topology import Topology


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
        """Logits after all nodes, one tree after the other, shape (sum of N, V).

        A node attends to its text, to the nodes that lead to it and to itself; its position is that of its depth.
        """
        device, width = self.context.device, max(tree.size for tree in trees)
        tokens, depth = np.zeros((2, len(texts), width), dtype=np.int64)
        sees = np.zeros((len(texts), width, width), dtype=bool)
        real = np.zeros((len(texts), width), dtype=bool)
        for row, (text, tree) in enumerate(zip(texts, trees, strict=True)):
            tokens[row, : tree.size] = tree.token
            tokens[row, 0] = text[-1]
            depth[row, : tree.size] = tree.depth
            sees[row, : tree.size, : tree.size] = tree.lineage
            real[row, : tree.size] = True
        found = self.context.read(
            send(tokens, device),
            send(self.context.length[:, None] + depth, device),
            send(sees, device) if width > 1 else None,
            keep=width,
        )
        self._read = found
        return found.logits.flatten(0, 1)[send(np.flatnonzero(real), device)]

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep the roots and the accepted nodes of each tree, and drop the texts that do not go on."""
        kept = [[0, *nodes] for nodes in accepted]
        if self._layers:
            device, states = self.context.device, self._read.states
            self.features = [states[row].index_select(0, send(np.array(kept[row]), device)) for row in rows]
        self.context.commit(kept, rows)
