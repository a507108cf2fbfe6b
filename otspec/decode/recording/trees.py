"""Drafted trees with both models' laws at their nodes, recorded along the target's own text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import LogitsProcessorList

from otspec.data.recorded import Tensor
from otspec.data.trees import TOP_TREES_FORMAT, TREES_FORMAT
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.catalogue import needs_features
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.models.self_check import check_reading
from otspec.decode.recording.positions import (
    STORED,
    Likeliest,
    Recording,
    Stored,
    StoringError,
    begun,
    drafting,
    largest_l1,
    law_of,
    less_the_largest,
    own_places,
)
from otspec.errors import ProblemError
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology


@dataclass(frozen=True, eq=False)
class TreeRecording(Recording):
    """What to record: trees in place of positions, K independent paths of L tokens with the laws at every node.

    Tree i hangs where position i would be.  Its tokens are drawn from the draft laws as they are stored: a file holds
    the very laws that its trees were drawn from.  With `top_k`, drafts are among the k likeliest tokens of each node,
    and these are stored, with the target's mass of the rest.

    Raises
    ------
    ProblemError
        As for `Recording`, and if a tree is too large for memory, or the models cannot read trees, or the temperature
        is 0.
    """

    paths: int = 1
    """K."""
    depth: int = 1
    """L."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shape.check_room(self.vocab)
        if not self.temperature > 0:
            raise ProblemError(
                f"the temperature is {self.temperature:g}, where all paths of a tree are the same; record trees above 0"
            )
        check_reading(self.models.target, "target")
        if not needs_features(self._draft):
            check_reading(self._draft, "draft model")

    @property
    def shape(self) -> Shape:
        """The shape of every tree."""
        return Shape.paths(self.paths, self.depth)

    @property
    def after_prompt(self) -> int:
        """The texts, and then the drafts."""
        return self.new + self.depth

    @cached_property
    def about(self) -> dict[str, Any]:
        """As of `Recording`, and the shape."""
        return {**super().about, "paths": self.paths, "depth": self.depth}

    @property
    def format(self) -> str:
        """The format of the file, for its header."""
        return TREES_FORMAT if self.top_k is None else TOP_TREES_FORMAT

    @property
    def layout(self) -> dict[str, Tensor]:
        """Type and shape of the file's tensors: of a tree with fewer nodes than slots the last rows are zero."""
        kind, trees, slots = STORED[self.stored], self.positions, self.shape.slots
        inner = slots - self.paths
        topology = {
            "paths": Tensor("I32", (trees, self.paths, self.depth)),
            "nodes": Tensor("I32", (trees, self.paths, self.depth + 1)),
        }
        if self.top_k is None:
            target, draft = Tensor(kind, (trees, slots, self.vocab)), Tensor(kind, (trees, inner, self.vocab))
            return {**topology, "target_logits": target, "draft_logits": draft}
        top, tokens = Tensor(kind, (trees, inner, self.top_k)), Tensor("I32", (trees, inner, self.top_k))
        rest = Tensor("F64", (trees, inner))
        return {**topology, "tokens": tokens, "target_top": top, "draft_top": top, "target_rest": rest}

    def arrays(self, prompt: int, rows: range, error: StoringError) -> Stored:
        """What the file holds of some trees, all of one prompt."""
        rng, prompts = self._begun(prompt, rows)
        kind = getattr(torch, self.stored)
        sampling = AsStored(self.temperature, kind, self.top_k)
        generator = torch.Generator(prompts.device)
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**62)))
            texts, after = own_places(self.models.target, prompts, self.new, rng, self.temperature)
            contexts = begun(texts, prompts, after)
            generator.manual_seed(int(rng.integers(2**62)))
            drafter, reading = drafting(self.models.target, self._draft, contexts, self.shape, sampling, generator)
            drafts = drafter.draft(contexts, self._depth(drafter, contexts))
            logits = reading.read(contexts, drafts.trees)
        laws = drafts.over(self.vocab).split([tree.inner for tree in drafts.trees])
        roots = replace(drafts, laws=sampling.roots).over(self.vocab)
        found: dict[str, list[torch.Tensor]] = {name: [] for name in self.layout}
        for tree, seen, drawn_from, root in zip(
            drafts.trees, logits.split([tree.size for tree in drafts.trees]), laws, roots, strict=True
        ):
            for name, values in self._stored(tree, seen, drawn_from, root.cpu(), error).items():
                found[name].append(values)
        error.draft_l1_max = max(error.draft_l1_max, sampling.off)
        return found

    def _depth(self, drafter: LevelDrafter, texts: Sequence[Sequence[int]]) -> int:
        """L, which the draft model has to reach."""
        deepest = drafter.depth(np.array([len(text) for text in texts]))
        if deepest < self.depth:
            raise ProblemError(
                f"{self.names[1]} drafts {deepest} tokens of a path at most, and depth is {self.depth}; record paths "
                "no deeper than that"
            )
        return self.depth

    def _stored(
        self, tree: Topology, logits: torch.Tensor, laws: torch.Tensor, root: torch.Tensor, error: StoringError
    ) -> dict[str, torch.Tensor]:
        """What the file holds of one tree.

        Parameters
        ----------
        tree : Topology
        logits : Tensor, shape (N, V)
            The target's.
        laws : Tensor, shape (inner, V)
            What the drafts were drawn from.
        root : Tensor, shape (V,)
            The first of these before it was rounded.
        error : StoringError
            Counts the tree, but for the draft laws below the root.
        """
        log = (logits.double() / self.temperature).log_softmax(-1).cpu()
        draft = less_the_largest(laws.cpu().log(), getattr(torch, self.stored))
        drawn_from = law_of(draft)
        found = {
            "paths": torch.from_numpy(tree.token[tree.node[:, 1:]]).int(),
            "nodes": torch.from_numpy(tree.node).int(),
        }
        if self.top_k is None:
            target = less_the_largest(log, draft.dtype)
            exact, held, roots = log.exp(), law_of(target), (root[None], drawn_from[:1])
            found |= {"target_logits": target, "draft_logits": draft}
        else:
            tokens = drawn_from.topk(self.top_k, dim=1).indices  # all that can be drawn: the others have probability 0
            likeliest = Likeliest.of(log[: tree.inner], tokens, draft.dtype)
            exact, held = likeliest.exact, likeliest.held
            roots = (pad(root[None].gather(1, tokens[:1]), (0, 1)), pad(drawn_from[:1].gather(1, tokens[:1]), (0, 1)))
            found |= {"tokens": tokens.int(), "draft_top": draft.gather(1, tokens)}
            found |= {"target_top": likeliest.top, "target_rest": likeliest.rest}
        error.add((exact[:1], roots[0]), (held[:1], roots[1]))
        error.target_l1_max = max(error.target_l1_max, largest_l1(exact, held))
        return found


class AsStored(Sampling):
    """Draft laws as a file holds them, so that what is drawn is drawn from these, and not from something close.

    Parameters
    ----------
    temperature : float
    kind : torch.dtype
        Of the logits that are stored.
    top_k : int, optional
        Keep the likeliest tokens alone.
    """

    roots: torch.Tensor
    """The laws of the first level before they were rounded, shape (texts, V)."""
    off = 0.0
    """The largest L1 distance that rounding has put between a law as stored and as computed."""

    def __init__(self, temperature: float, kind: torch.dtype, top_k: int | None) -> None:
        super().__init__(LogitsProcessorList(), do_sample=True)
        self._temperature, self._kind, self._top_k = temperature, kind, top_k

    @property
    def support(self) -> int | None:
        """How many tokens a law has at most; None for all."""
        return self._top_k

    def draft_laws(self, logits: torch.Tensor) -> torch.Tensor:
        """Laws from logits, shape (..., V) both."""
        log = (logits.double() / self._temperature).log_softmax(-1)
        if self._top_k is not None:
            top = log.topk(self._top_k, dim=-1)
            log = torch.full_like(log, -torch.inf).scatter(-1, top.indices, top.values.log_softmax(-1))
        exact, held = log.exp(), law_of(less_the_largest(log, self._kind))
        self.off = max(self.off, largest_l1(exact, held))
        if not hasattr(self, "roots"):
            self.roots = exact[:, 0]
        return held
