"""A router for a draft model: clusters of its head's rows, and a network that learns which of them it draws from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize
from transformers import PreTrainedModel

from otspec.decode.distillation.teacher import TeacherData
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.eagle.training import answers
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.drafters.sd2.training import steered_by
from otspec.decode.drafters.shortlists.router import Network, Router, vectors_of
from otspec.decode.drafters.shortlists.shortlists import Budget
from otspec.decode.models.context import positions, vocabulary
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import without_head
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.settings import Seed, check_value

BATCH, RATE, STEPS = 512, 2e-3, 50
"""Positions of a training step and its largest rate; rounds of k-means, which most often needs fewer."""
DRAFTS = 2
"""How many drafts in a row after a token a fed model's router learns from."""
AT_ONCE = 512
"""Rows that a product with all tokens, or all clusters, is made for at a time."""


def train_router(
    draft: PreTrainedModel,
    texts: Sequence[Sequence[int]],
    *,
    target: PreTrainedModel | None = None,
    clusters: int = 64,
    budget: Budget | int | None = None,
    width: int = 128,
    likeliest: int = 8,
    epochs: int = 6,
    seed: int = 0,
    report: Callable[[int, float], None] | None = None,
) -> Router:
    """Cluster the tokens of a draft model, and train a router for them [zhang2025dynaspec, sections 4.2 and A.2].

    Clusters are those of spherical k-means on the rows of the head, of unequal sizes.  The router is trained by binary
    cross-entropy on hard labels: at each position of the texts a cluster is positive if it has one of the draft model's
    likeliest tokens there.  Of a model that is fed a target's hidden states, every position is taken as a root of
    drafts, and `DRAFTS` of them after it as well, each on the model's own outputs, as in decoding.  A steered model
    reads as it learnt to: each token is steered by the target's states some tokens before, at a random offset.

    Parameters
    ----------
    draft : PreTrainedModel
    texts : sequence of sequences of int
        Such as will be decoded, best of all texts that the target has sampled.  All positions of each are learnt from,
        as far as both models have positions.
    target : PreTrainedModel, optional
        Whose hidden states such a draft model is fed, or steered by; without it a steered one is read as it is alone.
    clusters : int
        M; some may turn out to be empty, and are dropped.
    budget : Budget or int, optional
        Of clusters; by default a quarter of them, falling as in the paper to no less than a sixteenth.
    width : int
        Of the router's hidden layer.
    likeliest : int
        L, tokens that are positive at a position.
    epochs : int
        How often every position is learnt from.
    seed : int
    report : callable, optional
        Called after every epoch with its number and its mean loss a position.

    Raises
    ------
    ProblemError
        If a number is no count or more than there are tokens, there is no text, or a token in one that the model does
        not know, the head cannot be computed apart from the rest, the draft model is fed by a target and there is none,
        or there is one and it reads none.

    Examples
    --------
    >>> from otspec.decode import shipped, train_router
    >>> texts = shipped.held_out(tokens=32)[:4]
    >>> router = train_router(shipped.load().draft, texts, clusters=8, width=8, epochs=1)
    >>> router.count, router.budget.most
    (8, 2)
    """
    for name, count in (("clusters", clusters), ("width", width), ("likeliest", likeliest), ("epochs", epochs)):
        as_count(name, count)
    check_value("seed", seed, Seed)
    if not any(len(text) for text in texts):
        raise ProblemError("there are no texts to learn from; pass at least one of one token")
    fed = isinstance(draft, Eagle)
    if fed and target is None:
        raise ProblemError(
            f"{type(draft).__name__} is fed its target's hidden states, and a router learns from it so; pass target"
        )
    if isinstance(draft, Eagle) and draft.config.published:
        raise ProblemError("EAGLE's published layers draft without a router; pass a fed draft model, or a shared layer")
    if isinstance(draft, Eagle) and draft.draft_tokens is not None:
        raise ProblemError(
            f"the draft model drafts {draft.draft_tokens.size} tokens that it was trained with, and no others; a "
            "router is for one that drafts all"
        )
    shifts = None
    if target is not None and not fed:
        if not isinstance(draft, Steered):
            raise ProblemError(
                f"a {type(draft).__name__} reads no target, and a router learns from it alone; leave out target"
            )
        shifts = partial(_shifts, draft, target, torch.Generator().manual_seed(seed))
    vocab = vocabulary(draft)
    if max(clusters, likeliest) > vocab:
        raise ProblemError(f"{clusters} clusters and {likeliest} likeliest tokens, and there are {vocab} tokens in all")
    if foreign := next((token for text in texts for token in text if not 0 <= token < vocab), None):
        raise ProblemError(f"token {foreign} of a text is none of the draft model's {vocab}; use its own tokenizer")
    most = min(positions(model) for model in (draft, target) if model is not None)
    texts = [text[: int(most)] if len(text) > most else text for text in texts]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        cluster_of = spherical_clusters(without_head(draft)[1].weight, clusters, generator)
        count = int(cluster_of.max()) + 1
        passes = [_read_fed(draft, target, text) if fed else _read(draft, text, shifts) for text in texts if len(text)]
        seen = [_labelled(one, cluster_of, count, likeliest) for own in passes for one in own]
        if not seen:
            raise ProblemError("no text has two tokens, which it takes to draft after one; pass longer ones")
        examples = Examples(*(torch.cat(parts) for parts in zip(*seen, strict=True)))
    network, loss = _trained(draft, examples, width, epochs, generator, report)
    if budget is None:
        budget = Budget(max(count // 4, 1), falling=2, least=max(count // 16, 1))
    about = {
        "draft": fingerprint(draft),
        "positions": len(examples.tokens),
        "likeliest": likeliest,
        "epochs": epochs,
        "seed": seed,
        "loss": round(loss, 4),
    }
    return Router(cluster_of.cpu().numpy(), network, Budget.of(budget), about)


def spherical_clusters(weight: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """The cluster of every row, shape (V,), by k-means of directions; clusters are numbered without gaps.

    Parameters
    ----------
    weight : Tensor, shape (V, d)
    count : int
        Clusters; those that are empty in the end are dropped.
    generator : Generator
        On the host; draws the rows that the centres begin with.
    """
    unit = normalize(weight.float(), dim=1)
    start = torch.randperm(len(unit), generator=generator)[:count].to(unit.device)
    centres, nearest = unit[start], torch.empty(0)
    for _ in range(STEPS):
        before, nearest = nearest, torch.cat([(part @ centres.T).argmax(dim=1) for part in unit.split(AT_ONCE)])
        if torch.equal(nearest, before):
            break
        sums = torch.zeros_like(centres).index_add_(0, nearest, unit)
        # An empty cluster stays where it is, and may win some back.
        centres = torch.where(sums.any(dim=1, keepdim=True), normalize(sums, dim=1), centres)
    return nearest.unique(return_inverse=True)[1]


class Examples(NamedTuple):
    """What a router is to learn, by position."""

    tokens: torch.Tensor
    """Shape (N,)."""
    before: torch.Tensor
    """Shape (N, d): what the model gave before each of them, zero at the beginning of a text."""
    positive: torch.Tensor
    """Shape (N, M), bool."""


class Places(NamedTuple):
    """A draft model's likeliest tokens at some places of a text, and the inputs of its router there."""

    tokens: torch.Tensor
    """Shape (N,)."""
    before: torch.Tensor
    """Shape (N, d), as in `Examples`."""
    likeliest: Callable[[int], torch.Tensor]
    """So many likeliest tokens at each, shape (N, L)."""


def _labelled(at: Places, cluster_of: torch.Tensor, count: int, likeliest: int) -> Examples:
    """The clusters of the likeliest tokens."""
    positive = torch.zeros(len(at.tokens), count, dtype=torch.bool, device=at.tokens.device)
    return Examples(at.tokens, at.before.float(), positive.scatter_(1, cluster_of[at.likeliest(likeliest)], True))


def _after_none(outputs: torch.Tensor) -> torch.Tensor:
    """What a model gave at the token before each, shape (N, d), zero before the first."""
    return torch.cat((torch.zeros_like(outputs[:1]), outputs[:-1]))


def _shifts(draft: Steered, target: PreTrainedModel, generator: torch.Generator, text: Sequence[int]) -> torch.Tensor:
    """What a target adds to a draft model's layers while it reads a text, as in training."""
    batch = TeacherData(target, np.array([[*text, text[-1]]]), draft.config.features, 1, memory=0).batch_of([0])
    return steered_by(draft, batch, generator)


def _read(
    draft: PreTrainedModel, text: Sequence[int], shifts: Callable[[Sequence[int]], torch.Tensor] | None = None
) -> list[Places]:
    """Every position of a text that a draft model reads, steered or not."""
    twin, head = without_head(draft)
    tokens = torch.tensor(text, device=draft.device)
    steered = {} if shifts is None else {"shifts": shifts(text)}
    outputs = twin(input_ids=tokens[None], use_cache=False, **steered).logits[0]

    def likeliest(count: int) -> torch.Tensor:
        return torch.cat([head(part).topk(count).indices for part in outputs.split(AT_ONCE)])

    return [Places(tokens, _after_none(outputs), likeliest)]


def _read_fed(draft: PreTrainedModel, target: PreTrainedModel, text: Sequence[int]) -> list[Places]:
    """Every position of a text as a root of drafts, and those after it."""
    if len(text) < 2:
        return []
    batch = TeacherData(target, np.array([text]), draft.config.features, 1, memory=0).batch_of([0])
    steps = answers(draft, batch, torch.Generator(), DRAFTS + 1)
    tokens = batch.tokens[0, :-1]
    before = [_after_none(one.features[0]) for one in steps if one.features is not None]
    found = []
    for number, step in enumerate(steps):
        logits = step.logits[0, number:]  # tokens before have not so many drafts behind a root
        if draft.config.masks:  # all depths are drafted at the root
            router_inputs = tokens[: len(logits)], before[0][: len(logits)]
        else:
            router_inputs = tokens[number:], before[max(number - 1, 0)][number:]
        if len(logits):
            found.append(Places(*router_inputs, partial(_likeliest, logits)))
    return found


def _likeliest(logits: torch.Tensor, count: int) -> torch.Tensor:
    return logits.topk(count).indices


def _trained(
    draft: PreTrainedModel,
    examples: Examples,
    width: int,
    epochs: int,
    generator: torch.Generator,
    report: Callable[[int, float], None] | None,
) -> tuple[Network, float]:
    """The router's network and the mean loss of its last epoch."""
    vectors = vectors_of(draft)

    def features(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat((vectors(examples.tokens[rows]).float(), examples.before[rows]), dim=1)

    some = features(torch.randperm(len(examples.tokens), generator=generator)[:8192].to(draft.device))
    # Embeddings and outputs differ in scale; what standardises them is part of the first layer afterwards.
    # By the deviation of one that hardly changes, weights would become too large for float16, in which they are kept.
    mean, scale = some.mean(dim=0), some.std(dim=0, correction=0)
    scale = torch.where(scale > 1e-3 * mean.abs() + 1e-5, scale, 1.0)
    hidden, out = _layer(some.shape[1], width, generator), _layer(width, examples.positive.shape[1], generator)
    net = nn.Sequential(hidden, nn.SiLU(), out).to(draft.device)
    steps = epochs * -(-len(examples.tokens) // BATCH)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps + 1)
    loss = 0.0
    with torch.enable_grad():
        for epoch in range(epochs):
            total = 0.0
            for rows in _batches(len(examples.tokens), generator):
                here = rows.to(draft.device)
                scores = net((features(here) - mean) / scale)
                wrong = binary_cross_entropy_with_logits(scores, examples.positive[here].float(), reduction="sum")
                optimiser.zero_grad()
                (wrong / len(rows)).backward()
                optimiser.step()
                schedule.step()
                total += wrong.item()
            loss = total / len(examples.tokens)
            if report is not None:
                report(epoch + 1, loss)
    weight = hidden.weight.detach() / scale
    bias = hidden.bias.detach() - weight @ mean
    parts = (weight, bias, out.weight.detach(), out.bias.detach())
    return Network(*(part.cpu() for part in parts)), loss


def _layer(width: int, into: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with weights that the generator draws."""
    layer = nn.Linear(width, into)
    with torch.no_grad():
        layer.weight.normal_(0.0, width**-0.5, generator=generator)
        layer.bias.zero_()
    return layer


def _batches(count: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Rows of an epoch."""
    yield from torch.randperm(count, generator=generator).split(BATCH)
