"""Every strategy of decoding, and with it every drafter, by name: what the two contracts are run over.

A new one is a line of `CATALOGUE`.  tests/contracts/test_catalogue.py says which are missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from otspec.decode import BY_PLAN, JOINT, Budget, Frequent, MultiDraft, Strategy, methods
from otspec.decode.base.draft_laws import draft_law
from otspec.decode.drafters.catalogue import CONDITIONED
from otspec.decode.methods import DynamicTree, Lookahead, PromptLookup, Vanilla, block, speculative, typical
from otspec.decode.tuning.trials import Varying
from otspec.logits import law_from_logits
from otspec.schemes import IID
from otspec.verification import Block
from otspec.verification.rules.catalogue import Rule
from otspec.vocab import affinity_from_matrix, rdk
from tests.contracts import draft_models
from tests.contracts.draft_models import (
    Models,
    law_of_foreign,
    law_on,
    logits_after_heads,
    logits_of_eagle,
    logits_of_parallel,
    matching,
    over_all,
    random_router,
    routed,
)
from tests.contracts.oracles import PROMPT
from tests.decode import published
from tests.decode.models import law_after, tiny
from tests.oracles import Floats

eagle, heads = cache(draft_models.eagle), cache(draft_models.heads)
shared, steered = cache(draft_models.shared), cache(draft_models.steered)
"""Draft models of all families: one of each for all entries."""

Make = Callable[[Models], Strategy]
Law = Callable[..., Floats]
"""Called as ``law(models, text, tokens drafted after it, path, temperature=..., ...)``, the settings being the
target's: the law of the next draft of a path, by another way than the package's."""


REPEATED = (1, 2, 0, 1, 2)
"""A prompt whose ending occurs earlier."""


class Entry(NamedTuple):
    """A strategy, and what is known of what it drafts."""

    make: Make
    law: Law | None = None
    """None where drafts have no law, or one that depends on more than the text."""
    settings: tuple[str, ...] = ("temperature 0.6", "top-k")
    """Of the target, where a step is enumerated."""
    vocab: int = 3
    """Of the target, where a step is enumerated."""
    vocabs: bool = True
    """Whether other vocabularies do as well."""
    batch: bool = True
    """Whether it takes more than one text at a time."""
    by_text: bool = False
    """Whether the same text gets the same drafts, whatever was there before."""
    every_rule: bool = False
    """Whether a step is enumerated by solvers too that look at the drafts of a node alone, and at nothing but laws."""
    draws: bool = True
    """Whether a step can be enumerated: transformers' generators draw by themselves, and it takes many texts."""
    tolerance: float = 1e-10
    """Of the draft laws, as entries."""
    prompt: tuple[int, ...] = tuple(PROMPT)
    """Before a step that is enumerated."""


def drafts(**settings: Any) -> Make:
    """Two paths of two tokens of the draft model, or what these settings say."""
    shape = {} if {"branching", "tree"} & settings.keys() else {"paths": 2, "depth": 2}
    return lambda of: MultiDraft(of.draft, **{**shape, **settings})


def drafts_of(model: Callable[[Models], Any], **settings: Any) -> Make:
    """The same of another draft model."""
    return lambda of: MultiDraft(model(of), **{"paths": 2, "depth": 2, **settings})


def plain(**inputs: Any) -> Law:
    """The draft model's own law, with these settings in place of the target's."""
    return lambda of, text, drafted, path, **settings: law_after(of.draft, text + drafted, **{**settings, **inputs})


def of_both(**settings: Any) -> Make:
    """Paths of two draft models."""
    return lambda of: MultiDraft([of.draft, of.other], law="independent", **settings)


def of_each(law: Law) -> Law:
    """Of two draft models, of which each has one path."""
    return lambda of, text, drafted, path, **settings: law(
        of._replace(draft=(of.draft, of.other)[path]), text, drafted, path, **settings
    )


def of_logits(said: Callable[..., Floats], model: Callable[[Models], Any]) -> Law:
    """Of what a model says after a text and what was drafted after it, by its target's states."""

    def law(of: Models, text: list[int], drafted: list[int], path: int, **settings: Any) -> Floats:
        return law_from_logits("logits", said(model(of), of.target, text, drafted), **settings)

    return law


def of_heads(kind: str) -> Law:
    """Of heads on the target's states."""
    return of_logits(logits_after_heads, lambda of: heads(kind, of.target, 0.1))


def of_eagle(model: Callable[[Models], Any]) -> Law:
    """Of a draft model that reads the target's states, and its own."""
    return of_logits(logits_of_eagle, model)


def of_shared(model: Callable[[Models], Any]) -> Law:
    """Of a layer that shares the target's embedding and head."""

    def said(own: Any, *after: Any) -> Floats:
        return over_all(own, (logits_of_parallel if own.config.masks else logits_of_eagle)(own, *after))

    return of_logits(said, model)


def sharing(masks: int = 0, all_tokens: bool = True) -> Callable[[Models], Any]:
    """Such a layer, of all tokens or of every other."""
    return lambda of: shared(of.target, masks, None if all_tokens else tuple(range(0, of.vocab, 2)))


published_mlp = cache(published.mlp)
"""As others publish it, by the size of the vocabulary; tests/decode/test_published.py has all formats."""


# --- of fewer tokens


def kept(of: Models) -> list[int]:
    """Every other token, not in order."""
    return list(range(of.vocab))[1::2][::-1]


def last(of: Models) -> list[int]:
    """A single one."""
    return [of.vocab - 1]


def on(tokens: Callable[[Models], list[int]]) -> Law:
    """The draft model's law over these tokens."""
    return lambda of, text, drafted, path, **settings: law_on(of.draft, text + drafted, tokens(of), **settings)


def kept_of(tokens: Callable[[Models], list[int]], **settings: Any) -> Make:
    """Drafts of these tokens alone."""
    return lambda of: drafts(draft_tokens=tokens(of), **settings)(of)


def kernel(of: Models, tokens: list[int] | None = None) -> Any:
    """Where the mass of kept tokens goes: some of it to the next one, some to those further on, some nowhere."""
    tokens = kept(of) if tokens is None else tokens
    moves = np.zeros((len(tokens), of.vocab))
    for row, token in enumerate(tokens):
        for step, share in ((0, 0.1), (1, 0.6), (3, 0.3)):
            moves[row, (token + step) % of.vocab] += share
    return affinity_from_matrix(moves, tokens=tokens)


def redistributed(of: Models, text: list[int], drafted: list[int], path: int, **settings: Any) -> Floats:
    """RDK of the law over the kept tokens."""
    return rdk(law_on(of.draft, text + drafted, kept(of), **settings), kernel(of))


def frequent(of: Models) -> Frequent:
    """Most of the tokens, and fewer the deeper a node is."""
    return Frequent(list(range(of.vocab))[::-1], Budget(of.vocab - 1, falling=1))


def of_frequent(of: Models, text: list[int], drafted: list[int], path: int, **settings: Any) -> Floats:
    """The draft model's law over these."""
    shortlist = list(range(of.vocab))[::-1][: frequent(of).budget.at(len(drafted))]
    return law_on(of.draft, text + drafted, shortlist, **settings)


def router(budget: Budget | int) -> Callable[[Models], Any]:
    """Chooses clusters of one or more tokens."""
    return lambda of: random_router(of.draft, [token % 4 % 3 for token in range(of.vocab)], budget, seed=7)


def routing(budget: Budget | int, **settings: Any) -> Make:
    """Drafts of the tokens that it chooses."""
    return lambda of: drafts(draft_shortlist=router(budget)(of), **settings)(of)


def of_routed(budget: Budget | int) -> Law:
    """The draft model's law over these."""
    made = cache(router(budget))

    def law(of: Models, text: list[int], drafted: list[int], path: int, **settings: Any) -> Floats:
        shortlist = routed(made(of), of.draft, text + drafted, len(drafted))
        return law_on(of.draft, text + drafted, shortlist, **settings)

    return law


def eagle_of(of: Models) -> Any:
    """An EAGLE-style draft model."""
    return eagle(of.draft)


# --- of another tokenizer


def foreign(several: bool = False, **settings: Any) -> Make:
    """Drafts of a model of 300 tokens, three of which the target has; or of two such models."""
    return lambda of: MultiDraft(
        [tiny(300), tiny(300, seed=1)] if several else tiny(300), matching=matching(), paths=2, depth=2, **settings
    )


def of_foreign(several: bool) -> Law:
    """Over the tokens in common; of several, the model of a path."""
    return lambda of, text, drafted, path, **settings: law_of_foreign(
        text, drafted, [0, 1, 3], seed=path if several else 0, **settings
    )


def of_foreign_redistributed(of: Models, text: list[int], drafted: list[int], path: int, **settings: Any) -> Floats:
    """RDK of the law over two of the tokens in common."""
    return rdk(law_of_foreign(text, drafted, [0, 3], **settings), kernel(of, [0, 3]))


ALL = ("temperature 1", "temperature 0.6", "top-k", "top-p", "greedy")
WOR = Budget(2, falling=2)

CATALOGUE: Mapping[str, Entry] = {
    "paths": Entry(drafts(), plain(), ALL, every_rule=True),
    "tree": Entry(drafts(branching=(2, 2)), plain(), ("top-k",), every_rule=True),
    "paths of the user's own rule": Entry(drafts(solver=type("Own", (Block,), {})(), paths=1), plain()),
    "uneven tree": Entry(drafts(tree="0,1,0.0,0.1,0.0.0"), plain(), ("temperature 0.6", "greedy")),
    "uneven tree without replacement": Entry(
        drafts(tree="0,1,1.0,1.1,1.1.0", law="without_replacement"), plain(), ("temperature 0.6", "top-k")
    ),
    "uneven tree, kept": Entry(kept_of(kept, tree="0,1,1.0,1.1,0.0,1.1.0"), on(kept), vocab=4),
    "speculative": Entry(lambda of: speculative(of.draft, 3), plain()),
    "block": Entry(lambda of: block(of.draft, 3), plain()),
    # Siblings drawn jointly, and paths of several models.
    "without replacement": Entry(
        drafts(branching=(2, 2), law="without_replacement"), plain(), ("temperature 0.6", "top-k", "greedy")
    ),
    "greedy": Entry(drafts(branching=(2, 2), law="greedy"), plain()),
    "top_k": Entry(drafts(branching=(2, 2), law="top_k"), plain()),
    "top_k, of all tokens": Entry(drafts(branching=(3, 1), law="top_k"), plain()),
    "hub pairs": Entry(drafts(branching=(2, 2), law="hub_pairs"), plain()),
    "hub pairs, then one, by SpecHub": Entry(drafts(branching=(2, 1), law="hub_pairs", solver="spechub"), plain()),
    "several models": Entry(of_both(paths=2, depth=2), of_each(plain()), vocab=4),
    # Drafts sampled in a way of their own.
    "drafts top-k": Entry(drafts(draft_top_k=2), plain(top_k=2), ("temperature 1", "greedy"), 4, every_rule=True),
    "drafts cold, of all tokens": Entry(
        drafts(draft_temperature=0.5, draft_top_k=0), plain(temperature=0.5, top_k=None), ("top-k", "greedy"), 4
    ),
    "certain drafts": Entry(drafts(draft_temperature=0, paths=1), plain(temperature=0), ("temperature 1",)),
    "a confident path": Entry(drafts(paths=1, depth=3, draft_confidence=0.3), plain(), ("temperature 1", "greedy")),
    "a confident stem": Entry(drafts(branching=(1, 2), draft_confidence=0.5), plain()),
    # Of fewer tokens.
    "kept": Entry(kept_of(kept), on(kept), vocab=4, every_rule=True),
    "one kept": Entry(kept_of(last), on(last)),
    "redistributed": Entry(lambda of: drafts(draft_kernel=kernel(of))(of), redistributed, vocab=4),
    "frequent": Entry(lambda of: drafts(branching=(1, 2, 1), draft_shortlist=frequent(of))(of), of_frequent),
    "routed to one cluster": Entry(routing(1), of_routed(1), vocab=4),
    "routed": Entry(routing(2), of_routed(2), vocab=4),
    "routed, falling": Entry(routing(WOR, branching=(2, 1, 1)), of_routed(WOR), ("temperature 0.6",), 4),
    # Of the target's hidden states.
    "steered": Entry(drafts_of(lambda of: steered(of.draft))),
    "steered, after": Entry(drafts_of(lambda of: steered(of.draft, "after"))),
    "eagle": Entry(drafts_of(lambda of: eagle(of.draft)), of_eagle(lambda of: eagle(of.draft))),
    "eagle, routed": Entry(
        lambda of: drafts_of(eagle_of, draft_shortlist=random_router(eagle_of(of), [0, 1, 2, 0], WOR, seed=7))(of),
        vocab=4, vocabs=False,
    ),
    "shared": Entry(drafts_of(sharing()), of_shared(sharing()), tolerance=1e-6),
    "shared, some tokens": Entry(drafts_of(sharing(0, False)), of_shared(sharing(0, False)), tolerance=1e-6),
    "parallel": Entry(drafts_of(sharing(2)), of_shared(sharing(2)), tolerance=1e-6),
    "parallel, some tokens": Entry(drafts_of(sharing(2, False)), of_shared(sharing(2, False)), tolerance=1e-6),
    "medusa": Entry(drafts_of(lambda of: heads("medusa", of.target, 0.1)), of_heads("medusa")),
    "mlp": Entry(drafts_of(lambda of: heads("mlp", of.target, 0.1)), of_heads("mlp")),
    "MLP, published": Entry(
        drafts_of(lambda of: published.read(published_mlp(of.vocab), of.target)),
        of_logits(published.logits_of_mlp, lambda of: published_mlp(of.vocab)), tolerance=1e-5,
    ),
    # With another tokenizer.
    "foreign": Entry(foreign(), of_foreign(several=False), ("temperature 1", "top-k"), 4, vocabs=False),
    "foreign, redistributed": Entry(  # to the word that it does not have as well
        lambda of: foreign(draft_kernel=kernel(of, [0, 3]))(of),
        of_foreign_redistributed, ("temperature 1",), 4, vocabs=False,
    ),
    "foreign, several models": Entry(
        foreign(several=True, law="independent"), of_foreign(several=True), ("top-k",), 4, vocabs=False
    ),
    # A copied path beside what is drawn.
    "beside a copy": Entry(drafts(prompt_lookup=3, depth=1), plain(), ("top-k", "greedy"), prompt=REPEATED),
    "beside a copy, one path": Entry(drafts(prompt_lookup=3, paths=1), plain(), ("temperature 0.6",), prompt=REPEATED),
    "beside a copy, eagle": Entry(
        drafts_of(eagle_of, prompt_lookup=2, paths=1), of_eagle(eagle_of), ("temperature 0.6",), prompt=REPEATED
    ),
    "beside a copy, dynamic tree": Entry(
        lambda of: DynamicTree(of.draft, 2, 2, prompt_lookup=3), prompt=REPEATED, by_text=True
    ),
    # Of depths that vary from step to step.
    "varying": Entry(lambda of: Varying(drafts()(of), 2), plain(), batch=False, draws=False),
    # Fixed drafts.
    "vanilla": Entry(lambda of: Vanilla(), by_text=True),
    "prompt lookup": Entry(lambda of: PromptLookup(3, 2), settings=ALL, by_text=True, prompt=REPEATED),
    "prompt lookup, several": Entry(lambda of: PromptLookup(2, 2, 3), settings=ALL, by_text=True, prompt=REPEATED),
    "lookahead": Entry(lambda of: Lookahead(2, 1, 3)),
    "dynamic tree": Entry(lambda of: DynamicTree(of.draft, 2, 2), by_text=True),
    "dynamic tree, steered": Entry(lambda of: DynamicTree(steered(of.draft), 2, 2)),
    "dynamic tree, shared": Entry(lambda of: DynamicTree(sharing(0, False)(of), 2, 2), by_text=True),
    "dynamic tree, parallel": Entry(lambda of: DynamicTree(sharing(2, False)(of), 2, 3, 4), by_text=True),
    "dynamic tree, eagle": Entry(lambda of: DynamicTree(eagle(of.draft), 2, 2), by_text=True),
    "static tree": Entry(lambda of: DynamicTree(of.draft, tree="0,1,2,0.0,1.0,1.1,1.1.0"), settings=ALL, by_text=True),
    "static tree, parallel": Entry(lambda of: DynamicTree(sharing(2, False)(of), tree="0,1,1.0,1.1"), by_text=True),
    "dynamic tree, kept": Entry(lambda of: DynamicTree(of.draft, 2, 2, draft_tokens=kept(of)), vocab=4, by_text=True),
    "dynamic tree, parallel, routed": Entry(
        lambda of: DynamicTree(
            sharing(2)(of), 2, 2, draft_shortlist=random_router(sharing(2)(of), [0, 1, 2, 0], WOR, seed=7)
        ),
        vocab=4, vocabs=False, by_text=True,
    ),
    "dynamic tree, medusa": Entry(lambda of: DynamicTree(heads("medusa", of.target, 0.1), 2, 2), by_text=True),
}  # fmt: skip
"""All of them keep the law of the target."""

FEW = (
    *("paths", "paths of the user's own rule", "uneven tree", "without replacement", "a confident path", "kept"),
    *("redistributed", "frequent", "routed", "several models", "steered", "eagle", "shared", "parallel"),
    *("beside a copy", "beside a copy, eagle", "beside a copy, dynamic tree"),
    *("medusa", "mlp", "MLP, published", "foreign", "foreign, several models", "varying"),
    *("vanilla", "prompt lookup", "lookahead", "static tree", "static tree, parallel"),
    *("dynamic tree", "dynamic tree, steered", "dynamic tree, eagle", "dynamic tree, shared", "dynamic tree, parallel"),
    "dynamic tree, medusa",
)
"""One of each class of strategies, drafters and draft models, for what laws and shapes do not change."""

LOSSY: Mapping[str, Entry] = {
    "typical": Entry(lambda of: typical(of.draft, 2, 2), plain(), ("temperature 1",)),
    "greedy lenience": Entry(lambda of: methods.greedy_lenience(of.draft, 2), plain(temperature=0), ("temperature 1",)),
    "lenience": Entry(drafts(paths=1, solver=["single:lenience=0.5"], lossless=False), plain(), ("temperature 1",)),
}
"""What the contract of lossless strategies has to tell from them."""


IID_RULES: list[Rule] = [
    "nested", "greedy_multi_path", "traversal", "layer", "block", "match", "interval", "max_flow",
    "lp", "single", "naive", "kseq", "rrs", ["lp:max_cells=1", "interval"],
]  # fmt: skip
SIBLINGS_RULES: list[Rule] = [None, "max_flow", BY_PLAN]
SEVERAL_RULES: list[Rule] = [None, "max_flow", "rrs", "naive"]


def rules_for(strategy: Strategy, every: bool) -> Mapping[str, Strategy]:
    """The strategy as it is, and with other rules that verify such drafts: every one, or all but most solvers.

    They see laws, whatever looks at the target to make them: they are tried with models that read text alone.
    """
    found = {"its own": strategy}
    if not isinstance(strategy, MultiDraft) or not isinstance(strategy.settings.solver, str | None):
        return found
    if any(isinstance(model, tuple(CONDITIONED)) for model in strategy.models):
        return found
    law, branching = draft_law(strategy.settings.law), strategy.settings.branching
    rules = SEVERAL_RULES if law.several else SIBLINGS_RULES
    if law.scheme is IID:
        rules = IID_RULES if every else [*JOINT, "interval", "rrs"]
    if strategy.settings.tree is not None and law.scheme is IID:
        rules = [None, "traversal", "match", "interval", "rrs"]
    elif strategy.settings.tree is not None or (branching is not None and len(set(branching)) > 1):
        rules = [rule for rule in rules if rule != BY_PLAN]
    for rule in rules:
        found[str(rule)] = MultiDraft.of(strategy.draft, replace(strategy.settings, solver=rule), strategy.matching)
    return found
