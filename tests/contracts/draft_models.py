"""Draft models of all families for tiny targets, never trained and far from doing nothing; and what they say, by hand.

Each law is computed by another way than the package's: the whole text anew, without a cache, or by numpy from the
papers' formulas.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from otspec.decode import Budget, Router
from otspec.decode.drafters.cross_tokenizer.retokenised import Retokenised
from otspec.decode.drafters.eagle.layer import begin_norm, layer_settings
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.drafters.shortlists.router import Network
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.models.tokens.spelling import Spelling
from otspec.logits import law_from_logits
from tests.decode import published
from tests.decode.models import logits_after, pair, tiny
from tests.decode.tokenizers_of import byte_level
from tests.oracles import Floats

LAYERS, WIDTH = (0, 1, 2), 16
"""Of the tiny target: all that can be looked at."""


class Models(NamedTuple):
    """A target and what drafts for it."""

    vocab: int
    target: Any
    draft: Any
    """The target's weights, disturbed."""
    other: Any
    """The same, disturbed more."""


@cache
def models(vocab: int, noise: float = 0.3, seed: int = 0) -> Models:
    """A target and two draft models that resemble it."""
    target, draft = pair(vocab, seed, noise)
    return Models(vocab, target, draft, pair(vocab, seed, 0.8)[1])


# --- that look at the target's hidden states


def all_features(target: Any, text: list[int], layers: Any = LAYERS) -> Any:
    """The target's hidden states at every token of a text, shape (tokens, layers, width)."""
    return _features(target, tuple(text))[:, list(layers)]


@lru_cache(1024)
def _features(target: Any, text: tuple[int, ...]) -> Any:
    if not text:
        return torch.zeros(0, len(LAYERS), WIDTH, dtype=torch.float64)
    return torch.stack(
        [states[0] for states in target(torch.tensor([text]), output_hidden_states=True).hidden_states], dim=1
    )


def features_before(target: Any, text: list[int]) -> Any:
    """Those of the token before each of a text, 0 before the first, shape (tokens, layers, width)."""
    nothing = torch.zeros(1, len(LAYERS), WIDTH, dtype=torch.float64)
    return torch.cat((nothing, all_features(target, text)))[: len(text)]


def disturbed(model: Any, parts: tuple[str, ...], strength: float = 0.4) -> Any:
    """The same model with noise in the weights whose names begin so: what begins by doing nothing does something."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.startswith(parts):
                weights += strength * torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    return model


def steered(draft: Any, place: str = "up", strength: float = 0.5) -> Any:
    """A draft model with steering."""
    return disturbed(Steered.of(draft, LAYERS, WIDTH, place), ("steering.layers",), strength)


def eagle(draft: Any) -> Any:
    """A draft model with maps of the target's hidden states and of its own."""
    return disturbed(Eagle.of(draft, LAYERS, WIDTH), ("seen", "own"))


def layer_of(target: Any) -> Any:
    """A layer that is fed what it drafts, the target's last state, with an embedding and a head: of former folders."""
    shown = layer_settings(target, shared=True, own_head=True) | {"features": [2], "feature_width": WIDTH}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = Eagle.made_of("llama", drafts_features=True, **shown).to(target.dtype).eval()
        model.model.embed_tokens.weight.copy_(target.model.embed_tokens.weight)
        model.lm_head.weight.copy_(target.lm_head.weight)
        begin_norm(model.model.norm, target)
    return disturbed(model, ("seen", "token"))


def shared(target: Any, masks: int = 0, draft_tokens: tuple[int, ...] | None = None) -> Any:
    """A layer between the target's embedding and head, token by token or with masks, of some tokens or of all."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokens = None if draft_tokens is None else np.array(draft_tokens)
        model = Eagle.of_target(target, "shared", LAYERS, masks=masks, tokens=tokens).to(target.dtype).eval()
    return disturbed(model, ("seen", "token", "own", "masks"))


HEADS = ("medusa", "mlp", "mlp, tied")


def heads(kind: str, target: Any, strength: float = 0.4) -> Any:
    """Three heads on a target's last hidden state."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "medusa":
            return disturbed(MedusaHeads.of(target, 3, blocks=2), ("",), strength)
        return disturbed(MlpSpeculator.of(target, 3, 12, tied=kind == "mlp, tied"), ("",), strength)


def logits_of_heads(model: Any, state: Any, tokens: list[int]) -> Floats:
    """What the last head says of one text and what was drafted after it, by numpy from the papers' formulas."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    s, number = state.numpy(), len(tokens) - 1
    if isinstance(model, MedusaHeads):
        for block in range(model.config.blocks):
            at = f"each.{number}.blocks.{block}"
            inner = weights[f"{at}.weight"] @ s + weights[f"{at}.bias"]
            s = s + inner / (1 + np.exp(-inner))
        found: Floats = weights[f"each.{number}.out.weight"] @ s
        return found
    share = 2 ** (-1 / (2 * model.count))
    s = (s - s.mean()) / np.sqrt(s.var() + 1e-6) / np.sqrt(2)
    for stage, token in enumerate(tokens):
        own = 0 if model.config.tied else stage
        z = weights[f"embedding.{own}.weight"][token] * np.sqrt((1 - share**2) * model.config.width / 2)
        s = share * weights[f"project.{min(stage, 1) if model.config.tied else stage}.weight"] @ s + z
        s = (s - s.mean()) / np.sqrt(s.var() + 1e-6)
        s = weights[f"norm.{own}.weight"] * s + weights[f"norm.{own}.bias"]
        s = s * np.array([1 + math.erf(one / math.sqrt(2)) for one in s]) / 2
    said: Floats = weights[f"out.{0 if model.config.tied else number}.weight"] @ s
    return said


def logits_after_heads(model: Any, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """The same from a text: the state before its last token, and 0 where there is none."""
    states = all_features(target, text[:-1], (2,))
    state = states[-1, 0] if len(states) else torch.zeros(WIDTH, dtype=torch.float64)
    return logits_of_heads(model, state, [text[-1], *drafted])


def logits_of_eagle(model: Any, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """What it says after a text and what was drafted after it: one token after the other, all of them anew."""
    before = all_features(target, text[:-1])[:, model.config.features]
    features = torch.cat((before.new_zeros(1, *before.shape[1:]), before))
    added = model.conditioning(features)[None]
    for at in range(len(drafted) + 1):
        found = model(torch.tensor([[*text, *drafted[:at]]]), added=added, output_hidden_states=True)
        added = torch.cat((added, model.added_of_own(found.hidden_states[-1][:, -1:])), dim=1)
    logits: Floats = found.logits[0, -1].double().numpy()
    return logits


def logits_of_parallel(model: Any, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """What it says so many tokens behind a text, whatever these are: masks stand for them, read anew with the text."""
    before = all_features(target, text[:-1])[:, model.config.features]
    features = torch.cat((before.new_zeros(1, *before.shape[1:]), before))
    masks = [model.config.vocab_size + number for number in range(len(drafted))]
    added = torch.nn.functional.pad(model.conditioning(features), (0, 0, 0, len(masks)))[None]
    logits: Floats = model(torch.tensor([[*text, *masks]]), added=added).logits[0, -1].double().numpy()
    return logits


def over_all(model: Any, logits: Floats) -> Floats:
    """Logits of the tokens that a model drafts over all tokens."""
    if model.draft_tokens is None:
        return logits
    everywhere = np.full(model.config.vocab_size, -np.inf)
    everywhere[model.draft_tokens] = logits
    return everywhere


# --- of a few tokens, by the context


def random_router(model: Any, clusters: list[int], budget: Budget | int, seed: int = 0) -> Router:
    """A router that nobody trained: its choice depends on the context, and on nothing that would make sense."""
    generator = torch.Generator().manual_seed(seed)
    count, width = max(clusters) + 1, model.get_input_embeddings().embedding_dim
    sizes, scales = ((7, 2 * width), (7,), (count, 7), (count,)), (2.0, 0.1, 1.0, 0.1)
    network = Network(*(x * torch.randn(size, generator=generator) for x, size in zip(scales, sizes, strict=True)))
    return Router(np.array(clusters), network, Budget.of(budget), {"draft": fingerprint(model)})


def routed(router: Router, model: Any, text: list[int], level: int, allowed: Any = slice(None)) -> Any:
    """The shortlist of a slot as DynaSpec says it, on the host: tokens, ascending."""
    weights = [getattr(router.network, name).double().numpy() for name in Network.__annotations__]
    embedded = model.get_input_embeddings().weight[text[-1]].double().numpy()
    before = np.zeros(len(embedded))  # the first token; else what the model gives before the last one
    if len(text) > 1:
        before = model.model(torch.tensor([text[:-1]])).last_hidden_state[0, -1].double().numpy()
    hidden = weights[0] @ np.concatenate((embedded, before)) + weights[1]
    scores = weights[2] @ (hidden / (1 + np.exp(-hidden))) + weights[3]
    there = np.unique(router.clusters[allowed])
    best = there[np.argsort(-scores[there])[: router.budget.at(level)]]
    return np.flatnonzero(np.isin(router.clusters, best))


def law_on(model: Any, text: list[int], shortlist: Any, **settings: Any) -> Floats:
    """The model's law over a shortlist, from its whole logits."""
    whole = logits_after(model, text)
    logits = np.full(len(whole), -np.inf)
    logits[shortlist] = whole[shortlist]
    return law_from_logits("logits", logits, **settings)


DRAFT_MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "a model": lambda target, draft: draft,
    "eagle": lambda target, draft: eagle(draft),
    "steered": lambda target, draft: steered(draft),
    "shared, of some tokens": lambda target, draft: shared(target, draft_tokens=(0, 2, 5, 7)),
    "parallel": lambda target, draft: shared(target, masks=2),
    "eagle1": lambda target, draft: published.read(published.eagle(8), target),
    "eagle3": lambda target, draft: published.read(published.eagle3(8, (0, 2, 5, 7), (0, 1)), target),
}
"""Of a target of eight tokens, and of a draft model of its own: those that are captured in one run."""


# --- with another tokenizer


@cache
def matching() -> Matching:
    """A target of four tokens, part of a character and a word among them, and a draft model without the word."""
    spelt = {0: b"a", 1: b"\xc3", 2: b"a word", 3: b"t"}
    target: Any = SimpleNamespace(bytes_of=spelt, begin=[], prepends=False)
    draft = Spelling(byte_level(300), "draft_tokenizer")
    tokens = np.array([0, 1, 3])
    return Matching(target, draft, tokens, np.array([draft.ids[spelt[token]] for token in tokens]), {}, 4)


def law_of_foreign(text: list[int], drafted: list[int], kept: list[int], seed: int = 0, **settings: Any) -> Floats:
    """The law over the kept tokens of the target, by a draft model of 300 tokens that reads the text in its own."""
    read = matching().reading(all_tokens=True)
    own = [*Retokenised(matching()).extend(text), *read[drafted].tolist()]
    logits = np.full(4, -np.inf)
    logits[kept] = logits_after(tiny(300, seed), own)[read[kept]]
    return law_from_logits("logits", logits, **settings)
