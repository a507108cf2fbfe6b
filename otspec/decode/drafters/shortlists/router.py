"""Shortlists that depend on the context: clusters of tokens, chosen at every slot by a small network, the router.

[zhang2025dynaspec], sections 4.2 and 4.3.  There the router works beside the draft model, on a stream of its own; here
it comes after the pass, whatever the device is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import linear, silu
from transformers import PreTrainedModel

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.shortlists.selection import History, Level
from otspec.decode.drafters.shortlists.shortlists import Budget
from otspec.decode.models.context import vocabulary
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import Head, without_head
from otspec.decode.models.passes.conditioned import Conditioned
from otspec.errors import DataError, ProblemError
from otspec.laws import IntArray
from otspec.vocab.tensors import read_tensors, write_tensors

FORMAT = "a router of otspec"
WEIGHTS = ("hidden_weight", "hidden_bias", "out_weight", "out_bias")


@dataclass(frozen=True, eq=False)
class Network:
    """A perceptron of one hidden layer: a score for each cluster from a token's embedding and what came before it."""

    hidden_weight: torch.Tensor
    """Shape (h, 2 d): first for the embedding of the last token, then for what the model gave before it."""
    hidden_bias: torch.Tensor
    """Shape (h,)."""
    out_weight: torch.Tensor
    """Shape (M, h)."""
    out_bias: torch.Tensor
    """Shape (M,)."""

    def __call__(self, embedded: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Scores, shape (..., M), from two arrays of shape (..., d)."""
        hidden = silu(linear(torch.cat((embedded, before), dim=-1), self.hidden_weight, self.hidden_bias))
        return linear(hidden, self.out_weight, self.out_bias)

    def like(self, other: torch.Tensor) -> Network:
        """The same network on the device of another tensor, of any shape, and of its type."""
        return Network(*(getattr(self, name).to(other) for name in WEIGHTS))


@dataclass(frozen=True, eq=False)
class Router:
    """Clusters of tokens, and a network that chooses among them: DynaSpec [zhang2025dynaspec].

    The likeliest clusters, as many as the budget of a slot's level, are its shortlist.  They are chosen from the slot's
    last token and what the draft model gave before it, so from the slot's own prefix, and no router, not even a wrong
    one, changes the law of the text.  Suppressed tokens, and those that the target does not know, are in no cluster.

    Make one with `otspec.decode.train_router`, or `load` it.

    Examples
    --------
    >>> from otspec.decode import Budget, shipped
    >>> router = shipped.shortlist("dynaspec")
    >>> router.count, router.within(Budget(16, falling=2, least=4)).budget.at(0)  # clusters, and those drafted from
    (64, 16)
    """

    clusters: IntArray
    """Shape (V,): the cluster of every token of the draft model, each of 0 .. M - 1 at least once."""
    network: Network
    budget: Budget
    """Of clusters."""
    about: Mapping[str, Any]
    """Where it comes from, fit for JSON; ``draft`` is the fingerprint of the draft model."""

    def __post_init__(self) -> None:
        if self.budget.most > self.count:
            raise ProblemError(f"the budget is {self.budget.most} clusters, and the router has {self.count}; pass less")

    @property
    def count(self) -> int:
        """M."""
        return len(self.network.out_bias)

    def within(self, budget: Budget | int) -> Router:
        """The same with another budget of clusters; a number is a fixed budget.

        Raises
        ------
        ProblemError
            If it is more than there are.
        """
        return replace(self, budget=Budget.of(budget))

    def head(self, model: PreTrainedModel, sampling: Sampling, vocab: int) -> RoutedHead:
        """As `otspec.decode.drafters.shortlists.selection.Selection.head`.

        Raises
        ------
        ProblemError
            If the router is of another draft model, the model's head cannot be computed apart from the rest, or
            sampling suppresses all tokens.
        """
        found = fingerprint(model)
        if self.about["draft"] != found or vocabulary(model) != len(self.clusters):
            raise ProblemError(
                f"the router is of draft model {self.about['draft']}, with {len(self.clusters)} tokens, and this is "
                f"{found}, with {vocabulary(model)}; train one for it (otspec.decode.train_router)"
            )
        return RoutedHead(self, model, sampling, vocab)

    def save(self, path: Path | str) -> None:
        """Write it to a safetensors file, whole or not at all; weights in float16."""
        arrays: dict[str, npt.NDArray[Any]] = {
            name: getattr(self.network, name).cpu().half().numpy() for name in WEIGHTS
        }
        arrays["clusters"] = self.clusters.astype(np.uint16 if self.count <= 1 << 16 else np.int64)
        write_tensors(Path(path), arrays, {**self.about, "format": FORMAT, "budget": asdict(self.budget)})

    @classmethod
    def load(cls, path: Path | str, budget: Budget | int | None = None) -> Router:
        """Read what `save` wrote.

        Parameters
        ----------
        path : Path or str
        budget : Budget or int, optional
            By default the one of the file.

        Raises
        ------
        DataError
            If there is no such file, or it is damaged or holds something else.
        ProblemError
            If the budget is more clusters than there are.
        """
        arrays, about = read_tensors(Path(path), FORMAT)
        try:
            network = Network(*(torch.from_numpy(arrays[name]).float() for name in WEIGHTS))
            clusters = arrays["clusters"].astype(np.int64)
            count, hidden = network.out_weight.shape
            shapes = network.hidden_weight.shape[0], network.hidden_bias.shape, network.out_bias.shape
            if shapes != (hidden, (hidden,), (count,)) or not np.array_equal(np.unique(clusters), np.arange(count)):
                raise ValueError(f"{count} clusters, and arrays of other shapes")
            if not all(np.isfinite(arrays[name]).all() for name in WEIGHTS):
                raise ValueError("weights that are not finite; train the router again")
            own = Budget(**about.pop("budget"))
            del about["format"]
            made = cls(clusters, network, own, {"draft": about.pop("draft"), **about})
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
        return made if budget is None else made.within(budget)


def vectors_of(model: PreTrainedModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """What a draft model reads for tokens, shape (..., d) of (...): its embedding, or what it makes of its target's."""
    return model.vectors if isinstance(model, Conditioned) else model.get_input_embeddings()


BLOCK = 1 << 17
"""Bytes of a cluster's rows, in the mean, from which a product for each cluster is cheaper than one product for a copy
of all: on a CPU a call costs some 5 microseconds, and a copy that outgrows the caches more than the product itself."""


class RoutedHead:
    """A head whose rows are in the order of clusters: what a slot multiplies are views of a few blocks, or their copy.

    Slots of a level have shortlists of their own, of unequal size, so the slots are taken one by one.  What a product
    costs is to fetch the rows, and a slot fetches only its own.  One product for the union of all shortlists would
    fetch more, and so would rows filled up to the largest.  Small blocks are put together first, see `BLOCK`.  The
    choice comes to the host once a level.

    Elsewhere than on a CPU that would be to wait for the device, and to launch for every slot: there all slots are
    taken at once, their shortlists filled up to the largest, and the choice stays where it is.
    """

    columns: torch.Tensor | None = None

    def __init__(self, router: Router, model: PreTrainedModel, sampling: Sampling, vocab: int) -> None:
        self.model, head = without_head(model)
        self.sampling, self.vocab, self.budget = sampling, vocab, router.budget
        self._vectors = vectors_of(model)
        clusters = torch.from_numpy(router.clusters).to(head.weight.device)
        tokens = clusters.argsort(stable=True)
        tokens = tokens[tokens < vocab]
        tokens = tokens[sampling.allowed(vocab, tokens.device)[tokens]]
        if not len(tokens):
            raise ProblemError("all tokens are suppressed by the logits processors (suppress_tokens)")
        sizes = clusters[tokens].bincount(minlength=router.count)
        left = sizes.nonzero().squeeze(1)
        each = sizes[left].tolist()
        network = router.network.like(head.weight)
        self.network = replace(network, out_weight=network.out_weight[left], out_bias=network.out_bias[left])
        rows = head.rows(tokens)
        self._cap, self._tokens, self._weight = rows.cap, tokens.split(each), rows.weight.split(each)
        self._bias = None if rows.bias is None else rows.bias.split(each)
        self._apart = rows.weight.numel() * rows.weight.element_size() >= BLOCK * len(each)
        self._widest = sum(sorted(each)[-self.budget.most :])
        self._rows, self._order = rows, tokens
        starts, column = sizes[left].cumsum(0) - sizes[left], torch.arange(max(each), device=tokens.device)
        self._places = torch.where(column < sizes[left][:, None], starts[:, None] + column, len(tokens))
        """Shape (M, tokens of the largest cluster): which rows are a cluster's, their number where it has no more."""

    @property
    def support(self) -> int | None:
        """As sampling leaves it, or as many as the largest clusters have."""
        sampled = self.sampling.support
        return self._widest if sampled is None else min(sampled, self._widest)

    @property
    def known_by(self) -> object:
        """As `DraftHead.known_by`; the model is a twin that no other head has."""
        return None if (known := self.sampling.known_by) is None else (known, id(self))

    def choose(self, history: History, level: int) -> torch.Tensor:
        """The clusters of every slot, shape (B W, m)."""
        scores = self.network(self._vectors(history.tokens), history.before).flatten(0, -2)
        return scores.topk(min(self.budget.at(level), scores.shape[1])).indices

    def logits(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `otspec.decode.drafters.shortlists.selection.DraftHead.logits`."""
        chosen = self.choose(level.history(), level.number)
        if output.device.type != "cpu":
            return self.logits_at_once(chosen, output)
        everywhere = output.new_full((*output.shape[:-1], self.vocab), -torch.inf)
        slots = zip(everywhere.flatten(0, -2), output.flatten(0, -2), chosen.tolist(), strict=True)
        for row, before, clusters in slots:
            row[torch.cat([self._tokens[one] for one in clusters])] = self.logits_of(clusters, before)
        return everywhere

    def laws(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """As `otspec.decode.drafters.shortlists.selection.DraftHead.laws`."""
        return self.sampling.draft_laws(self.logits(output, level))

    def logits_at_once(self, chosen: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Those of the tokens of some clusters of every slot, shape (B W, m), over all tokens, (B, W, V)."""
        places, count = self._places[chosen].flatten(1), len(self._order)
        rows = self._rows.rows(places.clamp(max=count - 1))
        found = (rows.weight @ output.flatten(0, -2).unsqueeze(-1)).squeeze(-1)
        found = self._rows.capped(found if rows.bias is None else found + rows.bias)
        token = torch.where(places < count, self._order[places.clamp(max=count - 1)], self.vocab)  # one more, dropped
        everywhere = output.new_full((len(places), self.vocab + 1), -torch.inf).scatter(1, token, found)
        return everywhere[:, : self.vocab].unflatten(0, output.shape[:-1])

    def logits_of(self, clusters: list[int], output: torch.Tensor) -> torch.Tensor:
        """Those of the tokens of some clusters, one after the other, shape (..., k), from (..., d)."""
        if self._apart:
            return torch.cat([self._block(one)(output) for one in clusters], dim=-1)
        bias = None if self._bias is None else torch.cat([self._bias[one] for one in clusters])
        return Head(torch.cat([self._weight[one] for one in clusters]), bias, self._cap)(output)

    def _block(self, cluster: int) -> Head:
        return Head(self._weight[cluster], None if self._bias is None else self._bias[cluster], self._cap)
