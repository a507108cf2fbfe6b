"""Drafting with a model that has another tokenizer: Token-Level Intersection [timor2025accelerating]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.drafts import Drafts
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.cross_tokenizer.retokenised import Retokenised
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.shortlists.restricted import Restriction
from otspec.decode.models.context import Context, positions
from otspec.decode.models.tokens.matching import Matching
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology


class ForeignDrafter(ModelDrafter):
    """Drafts the tokens of the target that a draft model of another tokenizer knows, as its own tokens of that text.

    The texts are put into the draft model's tokens by their bytes.  When a text has grown its last word may be other
    tokens than before: of what was read, the tokens that still begin the text are kept, and the rest is read anew.  The
    head is computed for the tokens in common alone.  Their logits are laid out over the target's vocabulary before
    sampling makes laws of them, so that temperature, truncation and suppressed tokens act as always.

    Parameters
    ----------
    model, shape, law, sampling, vocab, generator
        As for `ModelDrafter`.
    restriction : Restriction
        The tokens that may be drafted, matched: `Restriction.matched`.
    matching : Matching
        Within the two models' vocabularies.
    confidence : float
        As for `ModelDrafter`.

    Raises
    ------
    ProblemError
        As for `ModelDrafter`.
    """

    in_one = False

    def __init__(
        self,
        model: PreTrainedModel,
        shape: Shape,
        law: DraftLaw,
        sampling: Sampling,
        vocab: int,
        generator: torch.Generator,
        restriction: Restriction,
        matching: Matching,
        confidence: float = 0.0,
    ) -> None:
        super().__init__(model, shape, law, sampling, vocab, generator, restriction, confidence)
        self.matching = matching
        self._reading = matching.reading(all_tokens=restriction.affinity is not None)
        self._reading_there = torch.from_numpy(self._reading).to(model.device)
        self._texts: list[Retokenised] = []
        self._tokens: list[list[int]] = []
        """Of each text: the draft model's tokens, as of the last draft."""
        self._held: list[list[int]] = []
        """Of each text: the tokens that the draft model's cache holds."""
        self._sure: list[int] = []
        """Of each text: how many of these begin the text however it goes on."""
        self._trees: Sequence[Topology] = ()

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens.

        Raises
        ------
        ProblemError
            If one is too long in the draft model's tokens.
        """
        self._texts = [Retokenised(self.matching) for _ in texts]
        self._retokenise(texts)
        if (longest := max(map(len, self._tokens))) > positions(self.model):
            raise ProblemError(
                f"a prompt has {longest} tokens of the draft model's, which reads {positions(self.model)}; shorten it"
            )
        self._hold([tokens[:-1] for tokens in self._tokens])
        self.context = Context(self.model, self._held)

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape; drafting finds how long the texts are in the draft model's tokens."""
        return self.shape.depth

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft, as deep as the draft model's positions last behind the texts in its own tokens."""
        self._retokenise(texts)
        depth = int(min(depth, max(positions(self.model) - max(map(len, self._tokens)) + 1, 0)))
        drafts = super().draft(texts, depth) if depth else Drafts.none(len(texts), self.vocab, self.context.device)
        self._trees = drafts.trees
        return drafts

    def launch(self, texts: Sequence[Sequence[int]], depth: int) -> None:
        """Nothing: what becomes text is read again in the draft model's tokens."""

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read of the text and of its accepted tokens."""
        if self.context.trial:
            self._hold(
                [
                    [*tokens, *self._reading[self._tokens_read(tree, slots)].tolist()]
                    for tokens, tree, slots in zip(self._tokens, self._trees, accepted, strict=True)
                ]
            )
        super().commit(accepted, rows)
        self._texts, self._held = [self._texts[row] for row in rows], [self._held[row] for row in rows]
        self._sure = [self._sure[row] for row in rows]

    def _hold(self, tokens: list[list[int]]) -> None:
        self._held = tokens
        self._sure = [min(len(text.final), len(own)) for text, own in zip(self._texts, tokens, strict=True)]

    def _retokenise(self, texts: Sequence[Sequence[int]]) -> None:
        self._tokens = [own.extend(text) for own, text in zip(self._texts, texts, strict=True)]

    def _unread(self, texts: Sequence[Sequence[int]]) -> list[list[int]]:
        """What follows the tokens that cache and text begin with; at least the last token, whose logits are wanted."""
        settled = [
            min(_common(held, tokens, sure), len(tokens) - 1)
            for held, tokens, sure in zip(self._held, self._tokens, self._sure, strict=True)
        ]
        self.context.forget(settled)
        return [tokens[begin:] for tokens, begin in zip(self._tokens, settled, strict=True)]

    def _tokens_read(self, tree: Topology, slots: Sequence[int]) -> list[int]:
        """The tokens at slots of a tree, as far as these were read."""
        token = dict(zip(tree.slot.tolist(), tree.token.tolist(), strict=True))
        return [token[slot] for slot in slots if 0 < self._places[slot] < self._drafted_slots]

    def as_read(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens that the other tokenizer has for drafted ones, shape as given."""
        return self._reading_there[tokens]


def _common(one: Sequence[int], other: Sequence[int], sure: int) -> int:
    """How many tokens two texts begin with alike, the first of which surely are."""
    least = min(len(one), len(other))
    return next((at for at in range(sure, least) if one[at] != other[at]), least)
