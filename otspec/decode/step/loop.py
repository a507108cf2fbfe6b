"""The decoding loop: draft, one target pass, verify, commit what was accepted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.drafts import Drafts
from otspec.decode.base.logprobs import Scorer, TokenLogprob
from otspec.decode.base.metrics import Clock, Metrics
from otspec.decode.base.sampling import Prefix
from otspec.decode.base.text import Request, StepRecord, StoppingRules, Streamer
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.models.context import Pass
from otspec.decode.models.target import Target
from otspec.decode.verify.refusals import no_law
from otspec.decode.verify.step import Judge, StepVerifier, Verified
from otspec.decode.verify.verifiers import AcceptedTokens
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.verification.trees.topology import Topology


class Read(NamedTuple):
    """What the target has read in a step."""

    drafts: Drafts
    seen: Callable[[], torch.Tensor]
    """Returns what the verifier made of the logits at all nodes."""
    prefixes: list[Prefix]
    """The text at each node, where anything reads them."""
    judge: Judge | None = None
    """Where verification has been launched."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """How texts are made longer.

    The drafter's tokens come to the host once a step, so that equal prefixes can be merged, and the laws of all nodes
    once, after the target's pass; where the device verifies, what is accepted comes in their place.  On a GPU the
    target reads the drafts of even trees, and a rule verifies them, before the host has seen any.
    """

    target: PreTrainedModel
    drafter: Drafter
    verifier: StepVerifier
    ending: StoppingRules
    reads_text: bool
    """Whether the target's laws depend on the texts beside its logits."""
    streamer: Streamer | None = None
    scorer: Scorer | None = None
    """Where log-probabilities are requested."""
    IN_TURN: ClassVar[Collection[str]] = ("cpu",)
    """Devices that do nothing while the host handles drafts: there equal prefixes are merged first, and read once."""

    def step(self, going: list[Request], target: Target, clock: Clock, metrics: Metrics) -> list[Request]:
        """Make texts longer by one step; which of them go on."""
        tokens = [text.tokens for text in going]
        lengths, left = np.array([len(text) for text in tokens]), max(map(self.ending.left, going))
        depth = self._depth(lengths, left, target)

        def goes_on() -> bool:  # as deep, whatever is accepted
            return all(self._depth(lengths + new, left - new, target) == depth for new in (1, depth + 1))

        read = self._ahead(tokens, depth, goes_on, target, clock) or self._in_turn(going, tokens, depth, target, clock)
        drafts = read.drafts
        try:
            extensions, answers = self._verified(read, clock)
        except ProblemError as error:
            found = self.verifier.outcome(read.seen())
            raise no_law(going, drafts.trees, target.logits, found) or error from error
        scores = self._scores(target, read.prefixes, drafts.trees, extensions, clock)
        if answers is not None:
            with clock.on_host(self.drafter.phase):
                self.drafter.learn(drafts.trees, answers)
        metrics.target_calls += 1
        rows = []
        for row, (text, tree, extension, own) in enumerate(zip(going, drafts.trees, extensions, scores, strict=True)):
            before = len(text.tokens)
            if text.blocks is not None:
                text.blocks.append(StepRecord.of(tree, extension.nodes, extension.token))
            ended = self.ending.extend(text, extension.tokens(tree))
            for one in (metrics, text.metrics):
                one.step(tree.length, len(extension.nodes), tree.size, len(text.tokens) - before)
            text.metrics.target_calls += 1
            text.scores += own[: len(text.tokens) - before]
            if self.streamer is not None:
                self.streamer.put(torch.tensor(text.tokens[before:]))
            if not ended:
                rows.append(row)
        if rows:
            accepted = [extension.nodes for extension in extensions]
            slots = [tree.slot[nodes].tolist() for tree, nodes in zip(drafts.trees, accepted, strict=True)]
            with clock.on_device("target") as phases:
                target.commit(accepted, rows)
                phases.then(self.drafter.phase)
                self.drafter.commit(slots, rows)
                self.drafter.observe(target.features)
        return [going[row] for row in rows]

    def _scores(
        self,
        target: Target,
        prefixes: Sequence[Prefix],
        trees: Sequence[Topology],
        extensions: Sequence[AcceptedTokens],
        clock: Clock,
    ) -> list[list[TokenLogprob]]:
        """The target's log-probabilities of each token that the texts get; nothing where they are not requested."""
        if self.scorer is None:
            return [[]] * len(extensions)
        starts = np.cumsum([0, *(tree.size for tree in trees)]).tolist()
        rows = [start + node for start, one in zip(starts, extensions, strict=False) for node in (0, *one.nodes)]
        tokens = [one.tokens(tree) for tree, one in zip(trees, extensions, strict=True)]
        with clock.on_device("verification"):
            read = [prefixes[row] for row in rows] if prefixes else []
            found = iter(self.scorer.score(target.logits[rows], read, [token for own in tokens for token in own]))
        return [list(islice(found, len(own))) for own in tokens]

    def _depth(self, lengths: IntArray, left: float, target: Target) -> int:
        """As deep as texts of these lengths may still grow, the models' positions allow and the drafter will go."""
        left -= 1
        depth = min(target.context.positions - lengths.max(), self.drafter.depth(lengths))
        if target.context.device.type == "cpu" or left <= 0:
            # Elsewhere the last trees of a text are as deep as the others: passes of one shape are replayed, and each
            # of another one would be compiled and captured.  What is behind the end is dropped with it.
            depth = min(depth, left)
        return int(max(depth, 0))

    def _in_turn(
        self, going: Sequence[Request], tokens: Sequence[Sequence[int]], depth: int, target: Target, clock: Clock
    ) -> Read:
        """Drafts that come to the host, and the target's pass over them, equal prefixes merged."""
        if depth == 0:
            drafts = Drafts.fixed([[]] * len(tokens))
        else:
            with clock.on_device(self.drafter.phase):
                drafts = self.drafter.draft(tokens, depth)
        with clock.on_device("target"):
            seen = target.read_and_prepare(tokens, drafts.trees, self.verifier.blind_output)
            prefixes = self._prefixes(going, drafts.trees)
            if seen is None:
                seen = self.verifier.prepare_target(target.logits, prefixes)
        return Read(drafts, lambda: seen, prefixes)

    def _ahead(
        self, tokens: Sequence[Sequence[int]], depth: int, goes_on: Callable[[], bool], target: Target, clock: Clock
    ) -> Read | None:
        """Drafts, the target's pass over them and verification, all on the device before the host sees any.

        What the host has to do with the drafts it does while the device is at work, on the next ones if the text surely
        goes on and the drafter can launch them.  None where it has to see them first.
        """
        output = self.verifier.blind_output
        if depth == 0 or output is None or target.context.device.type in self.IN_TURN:
            return None
        with clock.on_device(self.drafter.phase) as phases:
            launched = self.drafter.launch(tokens, depth)
            if launched is None:
                return None
            phases.then("target")
            seen = target.read_slots(tokens, launched, output)
            phases.then("verification")
            judge = self.verifier.launch(launched, seen)
            if judge is not None and goes_on():
                phases.then(self.drafter.phase)
                self.drafter.launch_next(launched, judge.outcome, target.states)
        drafts = launched.see()
        target.merge(drafts.trees)
        return Read(drafts, lambda: target.of_nodes(seen), [], judge)

    def _verified(self, read: Read, clock: Clock) -> Verified:
        """What the texts get."""
        found = None if read.judge is None else read.judge.see(read.drafts)
        return self.verifier.verify(read.drafts, read.seen(), clock) if found is None else found

    def _prefixes(self, going: Sequence[Request], trees: Sequence[Topology]) -> list[Prefix]:
        """The texts after which the target gives its laws, where anything reads them."""
        if not self.reads_text:
            return []
        return [
            Prefix(text.row, text.padded(path := tree.token[tree.line(node)].tolist()), len(path))
            for text, tree in zip(going, trees, strict=True)
            for node in range(tree.size)
        ]


class Decoding:
    """Texts in the making: prompts are read at once, and every step makes them longer, in place.

    Parameters
    ----------
    decoder : Decoder
    texts : sequence of Request
    """

    def __init__(self, decoder: Decoder, texts: Sequence[Request]) -> None:
        self._decoder, self._going = decoder, list(texts)
        self._clock, self._metrics = Clock(decoder.target.device), Metrics()
        with self._clock.running(), self._clock.on_device("prompt"):
            prompts = [text.tokens for text in texts]
            self._target = Target(decoder.target, prompts, decoder.drafter.layers)
            decoder.drafter.observe(self._target.features)
            decoder.drafter.start(prompts)

    def step(self) -> bool:
        """Make the texts that go on longer; whether any goes on after that."""
        with self._clock.running():
            self._going = self._decoder.step(self._going, self._target, self._clock, self._metrics)
        if not self._going and self._decoder.streamer is not None:
            self._decoder.streamer.end()
        return bool(self._going)

    @property
    def metrics(self) -> Metrics:
        """What it took so far; on a GPU the host waits for it."""
        self._metrics.seconds = self._clock.seconds()
        return self._metrics

    @property
    def passes(self) -> Mapping[str, Sequence[Pass]]:
        """The models' passes so far, by phase."""
        return {"draft": self._decoder.drafter.passes, "target": self._target.context.passes}
