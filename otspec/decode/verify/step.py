"""Who verifies the drafts of a step: chosen once, before the first one.

`step_verifier` chooses.  Greedy texts and fixed drafts are followed: what the target puts after each node is known, and
the longest drafted prefix of that is accepted.  Drafts that were drawn from laws are verified by a rule, on the host or
on the device of the models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from otspec.decode.base.draft_laws import draw
from otspec.decode.base.drafts import Drafts, Launched, Outcome, max_support
from otspec.decode.base.metrics import Clock
from otspec.decode.base.sampling import Prefix, Sampling, softmax
from otspec.decode.base.transfers import HostCopy, to_device
from otspec.decode.models.target import TargetOutput
from otspec.decode.verify.captured import DeviceRule
from otspec.decode.verify.compact import compact_trees
from otspec.decode.verify.laws import LawsOnHost, drawn_of_scores, merged_of_scores, merged_to_host, to_host
from otspec.decode.verify.on_device import can_be_stacked, followed_slots, verify_launched, verify_on_device
from otspec.decode.verify.verifiers import AcceptedTokens, merges, verify
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.verification import PathVerifier
from otspec.verification.trees.topology import NONE, Topology


class Verified(NamedTuple):
    """What comes out of a step."""

    extensions: list[AcceptedTokens]
    """What each text gets."""
    answers: list[int] | None = None
    """The tokens that the target put after the nodes of all trees, one tree after the other, where they are known."""


class Judge(NamedTuple):
    """Verification that has been launched."""

    see: Callable[[Drafts], Verified | None]
    """Waits for it, and returns what comes out of the step; None where `verify` has to."""
    outcome: Outcome
    """The same on the device; where `see` returns None, or raises, it means nothing."""


class StepVerifier(ABC):
    """Verifies the drafts of a batch of texts."""

    sampling: Sampling
    """Of the target."""

    @cached_property
    def blind_output(self) -> TargetOutput | None:
        """`prepare_target` where it depends on logits and numbers alone, else None."""
        if self.sampling.reads_text or self.sampling.known_by is None:
            return None
        compared = type(self).prepare_target, self.sampling.known_by
        return TargetOutput(partial(self.prepare_target, prefixes=()), compared)

    @abstractmethod
    def prepare_target(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """What is needed of the target.

        Parameters
        ----------
        logits : Tensor, shape (N, V)
            After the nodes of all trees, one tree after the other.
        prefixes : sequence of Prefix
            The N texts, where sampling reads them.

        Returns
        -------
        Tensor, shape (N,) or (N, V)
            Its choices, or its laws, or what these are made of.
        """

    def outcome(self, seen: torch.Tensor) -> torch.Tensor:
        """The target's choices, or its laws, of what `prepare_target` returned."""
        return seen

    @abstractmethod
    def verify(self, drafts: Drafts, seen: torch.Tensor, clock: Clock) -> Verified:
        """What the texts get.

        Parameters
        ----------
        drafts : Drafts
        seen : Tensor
            What `prepare_target` returned.
        clock : Clock

        Raises
        ------
        ProblemError
            If a law of the target is invalid.
        """

    def launch(self, drafts: Launched, seen: torch.Tensor) -> Judge | None:
        """Begin to verify what the host has not seen; None where that can only be done by `verify`.

        Parameters
        ----------
        drafts : Launched
        seen : Tensor, shape (B, S or more, ...)
            What `prepare_target` returned, at all slots.
        """
        return None


@dataclass(frozen=True, eq=False)
class Greedy(StepVerifier):
    """Follows the target's choices."""

    sampling: Sampling

    def prepare_target(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """The choices, shape (N,)."""
        return self.sampling.target_choices(logits, prefixes)

    def verify(self, drafts: Drafts, seen: torch.Tensor, clock: Clock) -> Verified:
        """Accept what agrees with the choices."""
        return _followed(drafts.trees, seen, clock)

    def launch(self, drafts: Launched, seen: torch.Tensor) -> Judge:
        """Send the choices to the host."""
        choices = HostCopy(seen)

        def judge(drafts: Drafts) -> Verified:
            rows = zip(choices.numpy(), drafts.trees, strict=True)
            return _matched(drafts.trees, np.concatenate([row[tree.slot] for row, tree in rows]))

        return Judge(judge, Outcome(seen, followed_slots))


Rule = Callable[[Drafts, torch.Tensor, Clock], list[AcceptedTokens]]
"""Returns what texts get by drafts that were drawn from laws, and what `prepare_target` returned."""


@dataclass(frozen=True, eq=False)
class OnHost(StepVerifier):
    """Draws and follows where drafts are fixed, and shows others to a verifier on the host."""

    sampling: Sampling
    verifier: PathVerifier
    rng: np.random.Generator
    generator: torch.Generator
    """Of the device, for what is drawn there."""
    goes_past: ClassVar[bool] = True
    """Whether the target need not have a law after drafts that no text gets to."""

    def prepare_target(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """The laws, shape (N, V)."""
        return self.sampling.target_laws(logits, prefixes)

    def verify(self, drafts: Drafts, seen: torch.Tensor, clock: Clock) -> Verified:
        """Verify; where nothing was drawn, a token that the target draws after each node is followed.

        What comes to the host waits for the target's pass, and is timed on the device, lest the pass be timed twice.
        """
        if len(drafts.laws):
            judge = self.judged if drafts.drawn is None else self._beside_fixed
            try:
                return Verified(judge(drafts, seen, clock))
            except ProblemError:
                lawless = self.outcome(seen).sum(dim=-1).isnan()
                if not self.goes_past or not bool(lawless.any()):  # else nothing was drawn yet
                    raise
                return Verified(_past(lawless, judge, drafts, seen, clock))
        with clock.on_device("verification"):
            drawn = self._drawn(seen)
        return _followed(drafts.trees, drawn, clock)

    def _drawn(self, seen: torch.Tensor) -> torch.Tensor:
        """Tokens drawn after nodes, shape (N,), `NONE` where a law is none."""
        laws = self.outcome(seen)
        greedy = getattr(self.verifier, "greedy", False)  # of rules that are not lossless
        return torch.where(laws.sum(dim=-1).isnan(), NONE, laws.argmax(-1) if greedy else draw(laws, self.generator))

    def _beside_fixed(self, drafts: Drafts, seen: torch.Tensor, clock: Clock) -> list[AcceptedTokens]:
        """The tokens that a rule adds for drafts drawn from laws, and from there on one drawn after each fixed node.

        What a lossless rule adds to a text, its last token included, has the target's law, whatever is drafted beside:
        so it goes on by draws from the target's laws, and those after fixed drafts are known.
        """
        drawn = drafts.drawn
        assert drawn is not None
        starts = np.cumsum([0, *(tree.size for tree in drafts.trees)])
        rows = np.concatenate([start + part.node for start, part in zip(starts, drawn, strict=False)])
        fixed = np.setdiff1d(np.arange(starts[-1]), rows)
        with clock.on_device("verification"):
            mine, others = (seen.index_select(0, to_device(which, seen.device)) for which in (rows, fixed))
            after = self._drawn(others)
        judged = self.judged(drafts.without_fixed(), mine, clock)
        tokens = np.full(starts[-1], NONE)
        with clock.on_device("verification"):
            tokens[fixed] = _checked(after.cpu().numpy())
        with clock.on_host("verification"):
            return [
                _gone_on(tree, AcceptedTokens(part.node[one.nodes].tolist(), one.token), own.tolist())
                for tree, part, one, own in zip(
                    drafts.trees, drawn, judged, np.split(tokens, starts[1:-1]), strict=True
                )
            ]

    def judged(self, drafts: Drafts, seen: torch.Tensor, clock: Clock) -> list[AcceptedTokens]:
        """The tokens that a rule adds for drafts drawn from laws."""
        with clock.on_device("verification"):
            on_host = self._to_host(drafts, seen)
        with clock.on_host("verification"):
            local = compact_trees(drafts, on_host)
            found = [verify(self.verifier, tree, one, self.rng) for tree, one in zip(drafts.trees, local, strict=True)]
            return self._ended(drafts.trees, found, seen)

    def _ended(
        self, trees: Sequence[Topology], found: list[AcceptedTokens], seen: torch.Tensor
    ) -> list[AcceptedTokens]:
        """The same with tokens after nodes without drafts, of which a CPU draws those that are wanted."""
        starts = np.cumsum([0, *(tree.size for tree in trees)])
        rows = [start + one.last for start, one in zip(starts, found, strict=False) if one.token == NONE]
        if not rows:
            return found
        drawn = iter(_checked(self._drawn(seen[rows]).numpy()))
        return [one if one.token != NONE else one._replace(token=next(drawn)) for one in found]

    def _to_host(self, drafts: Drafts, laws: torch.Tensor) -> LawsOnHost:
        """All laws: what a verifier of the user's reads is not known."""
        both = torch.cat((laws, drafts.over(laws.shape[1])))
        return to_host(both, max_support(self.sampling.support, drafts.support))


class OnHostMerged(OnHost):
    """The same for verifiers that may be shown all tokens which a node cannot draft as one."""

    def _to_host(self, drafts: Drafts, laws: torch.Tensor) -> LawsOnHost:
        return merged_to_host(laws, drafts, self.generator)


class OnHostOfScores(OnHostMerged):
    """The same on a CPU, where tokens are sampled: laws of all tokens are made where they are wanted alone."""

    def prepare_target(self, logits: torch.Tensor, prefixes: Sequence[Prefix]) -> torch.Tensor:
        """The scores whose softmax the laws are, shape (N, V)."""
        return self.sampling.target_scores(logits, prefixes)

    def outcome(self, seen: torch.Tensor) -> torch.Tensor:
        """The laws, shape (N, V)."""
        return softmax(seen)

    def _drawn(self, seen: torch.Tensor) -> torch.Tensor:
        return drawn_of_scores(seen, self.generator)

    def _to_host(self, drafts: Drafts, scores: torch.Tensor) -> LawsOnHost:
        return merged_of_scores(scores, drafts, self.generator)


@dataclass(frozen=True, eq=False)
class OnDevice(OnHostMerged):
    """Verifies on the device of the models where the trees of a step can be stacked, and on the host elsewhere."""

    rule: DeviceRule
    goes_past = False  # the next drafts may be launched by then

    def judged(self, drafts: Drafts, laws: torch.Tensor, clock: Clock) -> list[AcceptedTokens]:
        """The tokens that a rule adds for drafts drawn from laws."""
        if not can_be_stacked(drafts):
            return super().judged(drafts, laws, clock)
        with clock.on_device("verification"):
            return verify_on_device(self.rule, drafts, laws, self.generator)

    def launch(self, drafts: Launched, seen: torch.Tensor) -> Judge:
        """By the rule, where it turns out that the trees can be stacked."""
        found, outcome = verify_launched(self.rule, drafts, seen, self.generator)
        return Judge(lambda merged: Verified(found(merged.trees)) if can_be_stacked(merged) else None, outcome)


def step_verifier(
    verifier: PathVerifier,
    sampling: Sampling,
    rng: np.random.Generator,
    generator: torch.Generator,
    rule: DeviceRule | None = None,
) -> StepVerifier:
    """The verifier of the steps of a run.

    Parameters
    ----------
    verifier : PathVerifier
    sampling : Sampling
        Of the target.
    rng : numpy.random.Generator
    generator : torch.Generator
        On the device of the models.
    rule : DeviceRule, optional
        The verifier's counterpart on that device, if that is to verify.
    """
    shows_rest = merges(verifier)
    if not sampling.do_sample and shows_rest:
        return Greedy(sampling)
    if rule is not None:
        return OnDevice(sampling, verifier, rng, generator, rule)
    of_scores = sampling.do_sample and generator.device.type == "cpu"
    merged = OnHostOfScores if of_scores else OnHostMerged
    return (merged if shows_rest else OnHost)(sampling, verifier, rng, generator)


def _followed(trees: Sequence[Topology], wanted: torch.Tensor, clock: Clock) -> Verified:
    """What the texts get where the target puts these tokens after the nodes of their trees, shape (N,)."""
    with clock.on_device("verification"):
        chosen = wanted.cpu().numpy()
    with clock.on_host("verification"):
        return _matched(trees, chosen)


def _past(lawless: torch.Tensor, judge: Rule, drafts: Drafts, seen: torch.Tensor, clock: Clock) -> list[AcceptedTokens]:
    """The tokens that a rule adds where the target has no law after some nodes; no matter if no text gets there.

    A lossless rule gives what comes before a node the target's law, whatever law stands after the node.

    Parameters
    ----------
    lawless : Tensor of bool, shape (N,)
    judge : callable
    drafts : Drafts
    seen : Tensor, shape (N, V)
        What was made of the target's logits.
    clock : Clock
    """
    found = judge(drafts, seen.masked_fill(lawless[:, None], 1 / seen.shape[1]), clock)
    starts = np.cumsum([0, *(tree.size for tree in drafts.trees)])
    reached = [start + node for start, one in zip(starts, found, strict=False) for node in (0, *one.nodes)]
    _checked(np.where(lawless[reached].cpu().numpy(), NONE, 0))
    return found


def _matched(trees: Sequence[Topology], chosen: IntArray) -> Verified:
    """The longest drafted prefixes of what the target writes: all that lossless rules can accept of fixed drafts.

    Parameters
    ----------
    chosen : array of int, shape (N,)
        What the target puts after each node, drawn or likeliest; `NONE` where it has no law, if no text gets there.
    """
    start, found, tokens = 0, list[AcceptedTokens](), chosen.tolist()
    for tree in trees:
        nodes, node = [], 0
        while (node := tree.node_of.get((node, tokens[start + node]), 0)) > 0:
            nodes.append(node)
        found.append(AcceptedTokens(nodes, tokens[start + (nodes[-1] if nodes else 0)]))
        start += tree.size
    _checked(np.array([one.token for one in found]))
    return Verified(found, None if NONE in tokens else tokens)


def _gone_on(tree: Topology, extension: AcceptedTokens, tokens: Sequence[int]) -> AcceptedTokens:
    """An extension, and below it the nodes that what the target puts after them agrees with.

    Parameters
    ----------
    tree : Topology
    extension : AcceptedTokens
    tokens : sequence of int
        What the target puts after each node; `NONE` of nodes that are not gone on to.
    """
    while tokens[node := tree.node_of.get((extension.last, extension.token), 0)] != NONE:
        extension = AcceptedTokens([*extension.nodes, node], tokens[node])
    return extension


def _checked(chosen: IntArray) -> list[int]:
    """Tokens.

    Raises
    ------
    ProblemError
        If there was none to choose.
    """
    tokens: list[int] = chosen.tolist()
    if NONE in tokens:
        raise ProblemError("the target has no law after a text")  # `refusals.no_law` names the text, and why
    return tokens
