"""The decoding loop: draft, one target pass, verify, keep what was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.captured import DeviceRule
from otspec.decode.drafters.draft_laws import draw
from otspec.decode.drafters.protocol import Drafter, Drafts, Listening, Watching
from otspec.decode.laws import local_trees, merged_to_host, to_host, widest
from otspec.decode.metrics import Clock, Metrics
from otspec.decode.models.context import Pass
from otspec.decode.models.target import Target
from otspec.decode.on_device import can_be_stacked, verify_on_device
from otspec.decode.sampling import Prefix, Sampling
from otspec.decode.text import Ending, Text
from otspec.decode.verifiers import Extension, merges, verify
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.paths import PathVerifier
from otspec.paths.topology import NONE, Topology


class Streamer(Protocol):
    """What transformers' streamers answer."""

    def put(self, value: torch.Tensor) -> None:
        """Take new tokens."""

    def end(self) -> None:
        """Flush."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """How texts are made longer.

    The drafter's tokens come to the host once a step, so that equal prefixes can be merged, and the laws of all nodes
    once, after the target's pass; where the device verifies, what is accepted comes in their place.
    """

    target: PreTrainedModel
    drafter: Drafter | None
    """None drafts nothing: plain sampling from the target."""
    verifier: PathVerifier
    sampling: Sampling
    ending: Ending
    rng: np.random.Generator
    generator: torch.Generator
    """Of the device, for what is drawn there."""
    streamer: Streamer | None = None
    device_rule: DeviceRule | None = None
    """The verifier's twin on the device of the models, if that is to verify."""

    def run(self, texts: Sequence[Text]) -> tuple[Metrics, Mapping[str, Sequence[Pass]]]:
        """Make the texts longer, in place, until each has ended; what it took, and the models' passes by phase."""
        clock, metrics = Clock(self.target.device), Metrics()
        going = list(texts)
        with clock.on_device("prompt"):
            layers = self.drafter.layers if isinstance(self.drafter, Watching) else ()
            target = Target(self.target, [text.tokens for text in going], layers)
            if isinstance(self.drafter, Watching):
                self.drafter.watch(target.features)
            if self.drafter is not None:
                self.drafter.start([text.tokens for text in going])
        while going:
            going = self._step(going, target, clock, metrics)
        if self.streamer is not None:
            self.streamer.end()
        metrics.seconds = clock.seconds()
        return metrics, {"draft": [] if self.drafter is None else self.drafter.passes, "target": target.context.passes}

    def _step(self, going: list[Text], target: Target, clock: Clock, metrics: Metrics) -> list[Text]:
        """One step; the texts that go on."""
        tokens = [text.tokens for text in going]
        drafts = self._draft(going, tokens, target.context.positions, clock)
        with clock.on_device("target"):
            logits = target.read(tokens, drafts.trees)
            prefixes = self._prefixes(going, drafts.trees)
            if greedy := not self.sampling.do_sample and merges(self.verifier):
                wanted = self.sampling.target_choices(logits, prefixes)
            else:
                laws = self.sampling.target_laws(logits, prefixes)
        extensions = self._followed(drafts.trees, wanted, clock) if greedy else self._verify(drafts, laws, clock)
        metrics.target_calls += 1
        rows = []
        for row, (text, tree, extension) in enumerate(zip(going, drafts.trees, extensions, strict=True)):
            before = len(text.tokens)
            ended = self.ending.extend(text, [*tree.token[extension.nodes].tolist(), extension.token])
            metrics.step(tree.length, len(extension.nodes), tree.size)
            metrics.tokens += len(text.tokens) - before
            if self.streamer is not None:
                self.streamer.put(torch.tensor(text.tokens[before:]))
            if not ended:
                rows.append(row)
        if rows:
            with clock.on_device("target"):
                target.settle([extension.nodes for extension in extensions], rows)
            if self.drafter is not None:
                slots = [
                    tree.slot[extension.nodes].tolist()
                    for tree, extension in zip(drafts.trees, extensions, strict=True)
                ]
                with clock.on_device("draft"):
                    self.drafter.settle(slots, rows)
                    if isinstance(self.drafter, Watching):
                        self.drafter.watch(target.features)
        return [going[row] for row in rows]

    def _verify(self, drafts: Drafts, laws: torch.Tensor, clock: Clock) -> list[Extension]:
        """What the texts get, from the target's laws at all nodes of their trees.

        What comes to the host waits for the target's pass, and is timed on the device, lest the pass be timed twice.
        """
        if not len(drafts.laws):  # drafts are fixed, or there are none
            with clock.on_device("verification"):
                drawn = torch.where(laws.sum(dim=-1).isnan(), NONE, draw(laws, self.generator))
            return self._followed(drafts.trees, drawn, clock)
        with clock.on_device("verification"):
            if self.device_rule is not None and can_be_stacked(drafts):
                return verify_on_device(self.device_rule, drafts, laws, self.generator)
            if merges(self.verifier):
                on_host = merged_to_host(laws, drafts, self.generator)
            else:
                on_host = to_host(torch.cat((laws, drafts.laws)), widest(self.sampling.support, drafts.support))
        with clock.on_host("verification"):
            local = local_trees(drafts, on_host)
            return [verify(self.verifier, tree, one, self.rng) for tree, one in zip(drafts.trees, local, strict=True)]

    def _followed(self, trees: Sequence[Topology], wanted: torch.Tensor, clock: Clock) -> list[Extension]:
        """What the texts get where the target puts these tokens after the nodes of their trees, shape (N,)."""
        with clock.on_device("verification"):
            tokens = _tokens(wanted)
        if isinstance(self.drafter, Listening):
            with clock.on_host("draft"):
                self.drafter.hear(trees, tokens)
        with clock.on_host("verification"):
            return _matched(trees, tokens)

    def _draft(
        self, going: Sequence[Text], tokens: Sequence[Sequence[int]], target_positions: float, clock: Clock
    ) -> Drafts:
        """Drafts as deep as the texts may still grow, the models' positions allow and the drafter will go."""
        lengths: IntArray = np.array([len(text) for text in tokens])
        depth = min(max(self.ending.left(text) for text in going) - 1, target_positions - lengths.max())
        if self.drafter is not None:
            depth = min(depth, self.drafter.depth(lengths))
            if depth > 0:
                with clock.on_device("draft"):
                    return self.drafter.draft(tokens, int(depth))
        return Drafts.fixed([[]] * len(tokens))

    def _prefixes(self, going: Sequence[Text], trees: Sequence[Topology]) -> list[Prefix]:
        """The texts after which the target gives its laws, where anyone looks at them."""
        if not self.sampling.reads_text:
            return []
        return [
            Prefix(text.row, text.padded(tree.token[tree.line(node)].tolist()))
            for text, tree in zip(going, trees, strict=True)
            for node in range(tree.size)
        ]


def _matched(trees: Sequence[Topology], tokens: Sequence[int]) -> list[Extension]:
    """The longest drafted prefixes of what the target writes: all that lossless rules can accept of fixed drafts.

    Parameters
    ----------
    tokens : sequence of int
        What the target puts after each node of all trees: drawn from its law, or the likeliest token.
    """
    start, found = 0, []
    for tree in trees:
        drafted = zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True)
        below = {draft: node for node, draft in enumerate(drafted, start=1)}
        nodes, node = [], 0
        while (node := below.get((node, tokens[start + node]), 0)) > 0:
            nodes.append(node)
        found.append(Extension(nodes, tokens[start + (nodes[-1] if nodes else 0)]))
        start += tree.size
    return found


def _tokens(chosen: torch.Tensor) -> list[int]:
    """Tokens on the host.

    Raises
    ------
    ProblemError
        If there was none to choose.
    """
    tokens: list[int] = chosen.tolist()
    if NONE in tokens:
        raise ProblemError(
            "the target gives logits that are nan; has it overflown in half precision, or is the temperature too small?"
        )
    return tokens
