"""The law of the text is the target's: by enumeration of all drafts over real passes, and by counting texts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import GenerationConfig  # noqa: E402

from otspec.decode import BY_PLAN, MultiDraft, methods, run  # noqa: E402
from otspec.decode.base.draft_laws import DRAFT_LAWS, draft_law  # noqa: E402
from otspec.decode.base.drafts import Drafts, widest  # noqa: E402
from otspec.decode.base.sampling import DraftSampling, Sampling  # noqa: E402
from otspec.decode.drafters.cross_tokenizer.retokenised import Retokenised  # noqa: E402
from otspec.decode.models.target import Target  # noqa: E402
from otspec.decode.models.tokens.matching import Matching  # noqa: E402
from otspec.decode.models.tokens.spelling import Spelling  # noqa: E402
from otspec.decode.verify.laws import LocalTree, Merged, local_trees, merged_to_host, to_host  # noqa: E402
from otspec.decode.verify.verifiers import merges, verifier  # noqa: E402
from otspec.laws import law_from_logits  # noqa: E402
from otspec.paths import Model, Nested, PathVerifier, TokenWise, Tree  # noqa: E402
from otspec.verification.reference.enumeration import branching_trees, drafted_trees, law_over, prefixes, trees_of  # noqa: E402
from otspec.verification.rules.catalogue import JOINT, Rule  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from otspec.verification.trees.topology import NONE, Topology  # noqa: E402
from otspec.verification.trees.tree import Prefix  # noqa: E402
from otspec.vocab import affinity_from_matrix, rdk  # noqa: E402
from tests.decode.models import law_after, logits_after, pair, tiny  # noqa: E402
from tests.decode.tokenizers_of import byte_level  # noqa: E402
from tests.oracles import Floats  # noqa: E402

EXACT = 1e-9
PROMPT = [1, 2, 0]
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 0.6": {"temperature": 0.6},
    "top-k": {"top_k": 2},
    "top-p": {"temperature": 1.3, "top_p": 0.8},
}
OF_DRAFTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "drafts top-k, target whole": ({}, {"top_k": 2}),
    "drafts top-p, target hot": ({"temperature": 1.3}, {"top_p": 0.7}),
    "drafts cold, target top-k": ({"top_k": 2}, {"temperature": 0.5, "top_k": 0}),
    "certain drafts": ({"temperature": 0.8}, {"temperature": 0}),
    "drafts top-k, target greedy": ({"temperature": 0}, {"temperature": 1.2, "top_k": 2}),
}
"""Settings of the target, and what the drafts have in their place."""
PATHS = Shape.paths(2, 2)
JOINTLY = [name for name in DRAFT_LAWS if name not in ("iid", "independent")]


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def _sampling(temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Sampling:
    """What transformers prepares for these settings."""
    if temperature == 0:
        config = GenerationConfig(do_sample=False)
    else:
        config = GenerationConfig(do_sample=True, temperature=temperature, top_k=top_k or 0, top_p=top_p or 1.0)
    return Sampling(pair(3)[0]._get_logits_processor(config, device="cpu", model_kwargs={}), do_sample=config.do_sample)


def _models(
    settings: dict[str, Any],
    prompt: list[int],
    vocab: int = 3,
    drafts: dict[str, Any] | None = None,
    noise: float = 0.3,
) -> Model:
    """Both models after a prompt, read from the start each time; `drafts` are settings in place of the target's."""
    target, draft = pair(vocab, noise=noise)
    of_drafts = {**settings, **(drafts or {})}
    of_drafts["top_k"] = of_drafts.get("top_k") or None
    laws: dict[tuple[int, Prefix], Floats] = {}

    def law(role: int, prefix: Prefix) -> Floats:
        if (role, prefix) not in laws:
            laws[role, prefix] = law_after((target, draft)[role], [*prompt, *prefix], **(settings, of_drafts)[role])
        return laws[role, prefix]

    return Model(lambda prefix: law(0, prefix), lambda prefix: law(1, prefix))


class _Compact:
    """A verifier that sees of each tree what a decoding step hands it."""

    def __init__(self, verifier: PathVerifier) -> None:
        self.verifier = verifier
        self.merging = False
        """Whether all tokens that a node cannot draft are one to it."""
        self.exchangeable = verifier.exchangeable
        self.local: dict[int, LocalTree] = {}

    def verify(self, tree: Tree, rng: np.random.Generator) -> Any:
        raise NotImplementedError

    def stop_law(self, tree: Tree) -> Floats:
        local = self.local[id(tree)]
        seen = self.verifier.stop_law(local.tree)
        law = np.zeros_like(tree.target)
        if not self.merging:
            np.put_along_axis(law, local.tokens, seen, axis=1)
            return law
        for node, (tokens, own) in enumerate(zip(local.tokens, seen, strict=True)):
            apart = tokens[:-1][tokens[:-1] != NONE]
            assert not own[:-1][tokens[:-1] == NONE].any()
            law[node, apart] = own[:-1][tokens[:-1] != NONE]
            others = np.where(np.isin(np.arange(law.shape[1]), apart), 0.0, tree.target[node])
            assert (own[-1] > 0) <= (others[tokens[-1]] > 0)  # the token that the rest stands for is one of them
            law[node] += own[-1] * others / max(others.sum(), 1e-300)
        return law


def _decoded(
    verifier: _Compact,
    trees: list[tuple[float, Tree]],
    model: Model,
    shape: Shape,
    settings: dict[str, Any],
    drafts: dict[str, Any],
    kept: int | None = None,
) -> Iterator[tuple[float, Tree]]:
    """The same drafts, merged and read in one pass by the target, with its laws brought to the host.

    Where a draft model keeps so many tokens only, these are foreseen.
    """
    merged = [Topology.merge(shape, _slot_tokens(shape, tree)) for _, tree in trees]
    texts = [PROMPT] * len(merged)
    sampling = _sampling(**settings)
    target = sampling.target_laws(Target(pair(np.size(model.target(())))[0], texts).read(texts, merged), [])
    draft, of_paths = [tree.draft for _, tree in trees], None
    if draft[0].ndim == 3:  # a law for each token of each path
        each = np.arange(draft[0][..., 0].size).reshape(draft[0].shape[:2])
        of_paths = [at * each.size + each for at in range(len(trees))]
    of_drafts = DraftSampling(**drafts).of(sampling)
    laws = np.concatenate([law.reshape(-1, law.shape[-1]) for law in draft])
    supports = [support for support in (of_drafts.support, kept) if support is not None]
    drafted = Drafts(merged, torch.tensor(laws), min(supports, default=None), of_paths)
    if (drafts or kept) and merges(verifier.verifier):
        rows = merged_to_host(target, drafted, torch.Generator().manual_seed(0))
    else:
        rows = to_host(torch.cat((target, drafted.laws)), widest(sampling.support, drafted.support))
    verifier.merging = isinstance(rows, Merged)
    for (chance, full), local in zip(trees, local_trees(drafted, rows), strict=True):
        verifier.local[id(full)] = local
        yield chance, full


def _slot_tokens(shape: Shape, tree: Tree) -> Any:
    tokens = np.empty(shape.slots - 1, dtype=np.int64)
    for slots, nodes in zip(shape.paths_of_slots, tree.node, strict=True):
        tokens[slots[1:] - 1] = tree.token[nodes[1:]]
    return tokens


def _deviation(
    rule: PathVerifier,
    trees: list[tuple[float, Tree]],
    model: Model,
    shape: Shape,
    settings: dict[str, Any],
    drafts: dict[str, Any] | None = None,
    kept: int | None = None,
) -> float:
    verifier = _Compact(rule)
    decoded = _decoded(verifier, trees, model, shape, settings, drafts or {}, kept)
    return law_over(decoded, verifier, model, shape.depth).deviation


RULES: list[Rule] = [
    "nested",
    "pick_then_block",
    "greedy_multi_path",
    "traversal",
    "layer",
    "block",
    "interval",
    "max_flow",
    "lp",
    "single",
    "naive",
    "kseq",
    "rrs",
    ["lp:max_cells=1", "interval"],
]


def _remembering(rule: Rule, shape: Shape, law: str) -> PathVerifier:
    made = verifier(rule, shape, draft_law(law))
    if isinstance(made, TokenWise):
        return TokenWise(made.solver, 1000, rule not in ("single", "naive", "kseq", "rrs"), made.scheme)
    return made


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_paths(rule: Rule) -> None:
    for name, settings in SETTINGS.items():
        made, model = _remembering(rule, PATHS, "iid"), _models(settings, PROMPT)
        trees = list(drafted_trees(model, 2, 2, made.exchangeable))
        assert _deviation(made, trees, model, PATHS, settings) <= (1e-7 if rule == "lp" else EXACT), name


@pytest.mark.parametrize("name", OF_DRAFTS)
def test_drafts_sampled_in_a_way_of_their_own(name: str) -> None:
    settings, drafts = OF_DRAFTS[name]
    model = _models(settings, PROMPT, 4, drafts)
    for rule in RULES:
        made = _remembering(rule, PATHS, "iid")
        trees = list(drafted_trees(model, 2, 2, made.exchangeable))
        deviation = _deviation(made, trees, model, PATHS, settings, drafts)
        assert deviation <= (1e-7 if rule == "lp" else EXACT), rule


@pytest.mark.parametrize("rule", [None, "max_flow", BY_PLAN], ids=str)
@pytest.mark.parametrize("law", JOINTLY)
def test_siblings_drawn_jointly(law: str, rule: Rule) -> None:
    shape, scheme = Shape((2, 2)), draft_law(law).scheme
    for name in ("temperature 0.6", "top-k"):
        made, model = _remembering(rule, shape, law), _models(SETTINGS[name], PROMPT)
        trees = list(branching_trees(model, lambda q: scheme(q, 2), 2))
        assert _deviation(made, trees, model, shape, SETTINGS[name]) <= EXACT, name
    settings, drafts = OF_DRAFTS["drafts top-k, target whole"]
    made, model = _remembering(rule, shape, law), _models(settings, PROMPT, 4, drafts)
    trees = list(branching_trees(model, lambda q: scheme(q, 2), 2))
    assert _deviation(made, trees, model, shape, settings, drafts) <= EXACT


@pytest.mark.parametrize("drafts", [{}, {"top_k": 2}, {"temperature": 0}], ids=str)
@pytest.mark.parametrize("rule", [None, "max_flow", "rrs", "naive"], ids=str)
def test_paths_of_several_draft_models(rule: Rule, drafts: dict[str, Any]) -> None:
    shape, models = Shape.paths(2, 2), [_models({}, PROMPT, 4, drafts, noise) for noise in (0.3, 0.8)]
    trees: list[tuple[float, Tree]] = []
    for paths in itertools.product(itertools.product(range(4), repeat=2), repeat=2):
        laws = [[model.draft(path[:i]) for i in range(2)] for model, path in zip(models, paths, strict=True)]
        chance = math.prod(
            float(law[token])
            for own, path in zip(laws, paths, strict=True)
            for law, token in zip(own, path, strict=True)
        )
        if chance:
            tree = Topology.merge(shape, np.array(paths).T.ravel())
            nodes = [tuple(tree.token[tree.line(node)].tolist()) for node in range(tree.size)]
            target = np.array([models[0].target(node) for node in nodes])
            trees.append((chance, Tree.with_laws(tree, target, np.array(laws))))
    assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
    made = _remembering(rule, shape, "independent")
    assert _deviation(made, trees, models[0], shape, {}, drafts) <= EXACT


@pytest.mark.parametrize("rule", [None, *JOINT, "interval", "rrs"], ids=str)
def test_branching_trees_of_independent_children(rule: Rule) -> None:
    """n-ary trees, and paths behind a stem."""
    for branching, name in (((2, 2), "top-k"), ((2, 2), "temperature 1"), ((1, 2, 1), "temperature 0.6")):
        shape, model = Shape(branching), _models(SETTINGS[name], PROMPT)
        made = _remembering(rule, shape, "iid")
        assert isinstance(made, Nested) == (rule in (None, "nested"))
        trees = list(trees_of(model, shape, made.exchangeable))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
        assert _deviation(made, trees, model, shape, SETTINGS[name]) <= EXACT, (branching, name)


TO_OTHERS = np.array([[0.1, 0.0, 0.6, 0.3], [0.0, 0.5, 0.0, 0.5]])
"""Where the mass of two kept tokens goes."""
RESTRICTED: dict[str, tuple[list[int], Floats | None]] = {
    "two kept": ([1, 3], None),
    "one kept": ([2], None),
    "redistributed": ([0, 3], TO_OTHERS),
}


def _restricted(name: str, settings: dict[str, Any]) -> Model:
    """Both models after the prompt, drafts of a restricted vocabulary."""
    kept, matrix = RESTRICTED[name]
    moves = None if matrix is None else affinity_from_matrix(matrix, tokens=kept)

    @cache
    def draft(prefix: Prefix) -> Floats:
        logits = np.full(4, -np.inf)
        logits[kept] = logits_after(pair(4)[1], [*PROMPT, *prefix])[kept]
        q = law_from_logits("logits", logits, **settings)
        return q if moves is None else rdk(q, moves)

    return Model(_models(settings, PROMPT, 4).target, draft)


@pytest.mark.parametrize("name", RESTRICTED)
def test_drafts_of_a_restricted_vocabulary(name: str) -> None:
    """By every rule, token-wise and jointly, though many of the target's tokens are never drafted."""
    kept, matrix = RESTRICTED[name]
    settings = SETTINGS["temperature 0.6"]
    model = _restricted(name, settings)
    for rule in RULES:
        made = _remembering(rule, PATHS, "iid")
        trees = list(drafted_trees(model, 2, 2, made.exchangeable))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
        deviation = _deviation(made, trees, model, PATHS, settings, None, len(kept) if matrix is None else None)
        assert deviation <= (1e-7 if rule == "lp" else EXACT), rule


@pytest.mark.parametrize("law", JOINTLY)
def test_siblings_of_a_restricted_vocabulary(law: str) -> None:
    shape, scheme = Shape((2, 2)), draft_law(law).scheme
    for name, (kept, matrix) in RESTRICTED.items():
        if len(kept) < 2:
            continue  # such a tree has fewer children than its shape; see test_texts_of_a_batch
        model = _restricted(name, {})
        for rule in (None, "max_flow", BY_PLAN):
            made = _remembering(rule, shape, law)
            trees = list(branching_trees(model, lambda q: scheme(q, 2), 2))
            deviation = _deviation(made, trees, model, shape, {}, None, len(kept) if matrix is None else None)
            assert deviation <= EXACT, (name, rule)


def test_typical_acceptance_is_lossy() -> None:
    model = _models({}, PROMPT)
    trees = list(drafted_trees(model, 2, 2, False))
    assert _deviation(methods.Typical(), trees, model, PATHS, {}) > 0.05


def test_global_resolution_errs_by_no_more_than_it_promises() -> None:
    """Theorem R.1: at most 15 L tau in 1-norm after L steps [thomas2025global]."""
    model = _models({}, PROMPT)
    for tau in (1e-2, 1e-3):
        made = _remembering(f"global_resolution:tau={tau}", PATHS, "iid")
        deviation = _deviation(made, list(drafted_trees(model, 2, 2, True)), model, PATHS, {})
        assert 0 < deviation <= 15 * PATHS.depth * tau, tau


def _exact(model: Model, length: int, vocab: int) -> Floats:
    """The target's law of the next tokens."""
    law = np.ones((vocab,) * length)
    for prefix in prefixes(vocab, length - 1):
        law[prefix] *= np.reshape(model.target(prefix), (-1,) + (1,) * (length - 1 - len(prefix)))
    return law.ravel()


TO_NEXT = np.array([[0.2, 0.8, 0.0], [0.0, 0.2, 0.8], [0.5, 0.0, 0.5]])
PROMPTS = [[1, 2, 0], [2], [0, 0, 1, 2, 1], [1, 1]]


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        ({}, "temperature 1"),
        ({"solver": "interval"}, "temperature 0.6"),
        ({"branching": (2, 2), "law": "greedy"}, "top-p"),
        ({"solver": "traversal", "paths": 3}, "top-k"),
        ({"solver": "nested", "branching": (1, 3)}, "temperature 1"),
        ({"branching": (2, 2)}, "temperature 0.6"),
        ({"draft_top_k": 2}, "temperature 1"),
        ({"draft_top_p": 0.7, "draft_temperature": 1.5, "solver": "interval"}, "temperature 0.6"),
        ({"draft_top_k": 0, "draft_temperature": 0.5, "branching": (2, 2), "law": "without_replacement"}, "top-k"),
        ({"draft_temperature": 0, "paths": 1}, "temperature 1"),
        ({"branching": (2, 2), "law": "systematic"}, "temperature 1"),
        ({"law": "independent", "solver": "rrs"}, "temperature 0.6"),
        ({"law": "independent", "solver": "max_flow", "draft_top_k": 2}, "temperature 1"),
        ({"branching": (2, 1), "law": "hub_pairs", "draft_top_k": 2}, "temperature 1"),
        ({"branching": (2, 2), "law": "hub_pairs", "solver": BY_PLAN}, "temperature 0.6"),
        ({"draft_tokens": [2, 0]}, "temperature 1"),
        ({"draft_tokens": [1], "branching": (2, 2), "law": "without_replacement"}, "temperature 0.6"),
        ({"draft_tokens": [0, 1], "solver": "interval", "draft_top_k": 1}, "temperature 1"),
        ({"draft_kernel": TO_NEXT, "paths": 3}, "temperature 0.6"),
        ({"draft_kernel": TO_NEXT, "branching": (2, 1), "law": "greedy"}, "top-p"),
        ({"draft_tokens": [0, 2], "law": "independent", "solver": "rrs"}, "temperature 1"),
    ],
    ids=str,
)
def test_texts_of_a_batch(strategy: dict[str, Any], name: str) -> None:
    runs, length = 600, 3
    width = max(map(len, PROMPTS))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in PROMPTS]).repeat(runs, 1)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in PROMPTS]).repeat(runs, 1)
    target, draft = pair(3)
    drafts = [draft, pair(3, noise=0.8)[1]] if strategy.get("law") == "independent" else draft
    generation = run(
        target,
        MultiDraft(drafts, **{"paths": 2, "depth": 2, **strategy}),
        ids,
        attention_mask=mask,
        max_new_tokens=length,
        seed=1,
        **SETTINGS[name],
    )
    codes = np.array(generation.new_tokens) @ 3 ** np.arange(length)[::-1]
    for row, prompt in enumerate(PROMPTS):
        exact = _exact(_models(SETTINGS[name], prompt), length, 3)
        counts = np.bincount(codes[row :: len(PROMPTS)], minlength=exact.size)
        assert not counts[exact == 0].any()
        assert chisquare(*_pooled(counts[exact > 0], exact[exact > 0] * runs)).pvalue > 1e-4, prompt


@pytest.mark.parametrize(
    "strategy", [{"draft_top_k": 1}, {"branching": (2, 1), "law": "systematic"}, {"law": "independent"}], ids=str
)
def test_texts_one_by_one(strategy: dict[str, Any]) -> None:
    runs, length, prompt = 300, 2, [2]
    target, draft = pair(3)
    drafts = [draft, pair(3, noise=0.8)[1]] if strategy.get("law") == "independent" else draft
    method = MultiDraft(drafts, **{"paths": 2, "depth": 2, **strategy})
    texts = [run(target, method, torch.tensor([prompt]), max_new_tokens=length, seed=seed) for seed in range(runs)]
    codes = np.array([text.new_tokens[0] for text in texts]) @ 3 ** np.arange(length)[::-1]
    exact = _exact(_models({}, prompt), length, 3)
    counts = np.bincount(codes, minlength=exact.size)
    assert chisquare(*_pooled(counts, exact * runs)).pvalue > 1e-4


def _pooled(counts: Any, expected: Floats) -> tuple[Any, Floats]:
    """Cells of small expectation together in one."""
    small = expected < 5
    if not small.any():
        return counts, expected
    return np.append(counts[~small], counts[small].sum()), np.append(expected[~small], expected[small].sum())


@cache
def _matching() -> Matching:
    """A target of four tokens, part of a character and a word among them, and a draft model without the word."""
    spelt = {0: b"a", 1: b"\xc3", 2: b"a word", 3: b"t"}
    target: Any = SimpleNamespace(bytes_of=spelt, begin=[], prepends=False)
    draft = Spelling(byte_level(300), "draft_tokenizer")
    tokens = np.array([0, 1, 3])
    return Matching(target, draft, tokens, np.array([draft.ids[spelt[token]] for token in tokens]), {}, 4)


FOREIGN: dict[str, tuple[list[int], Floats | None]] = {
    "in common": ([0, 1, 3], None),
    "redistributed": ([0, 3], TO_OTHERS),  # to the word as well
}


def _foreign(name: str, settings: dict[str, Any], prompt: list[int]) -> Model:
    """Both models after the prompt, the draft model's law of the tokens in common."""
    kept, matrix = FOREIGN[name]
    moves, matching = None if matrix is None else affinity_from_matrix(matrix, tokens=kept), _matching()
    read = matching.reading(all_tokens=True)

    @cache
    def draft(prefix: Prefix) -> Floats:
        own = [*Retokenised(matching).extend(prompt), *read[list(prefix)].tolist()]
        logits = np.full(4, -np.inf)
        logits[kept] = logits_after(tiny(300), own)[read[kept]]
        q = law_from_logits("logits", logits, **settings)
        return q if moves is None else rdk(q, moves)

    return Model(_models(settings, prompt, 4).target, draft)


@pytest.mark.parametrize("name", FOREIGN)
def test_drafts_of_another_tokenizer(name: str) -> None:
    kept, matrix = FOREIGN[name]
    for setting in ("temperature 1", "top-k"):
        model = _foreign(name, SETTINGS[setting], PROMPT)
        for rule in ("nested", "block", "interval", "max_flow"):
            made = _remembering(rule, PATHS, "iid")
            trees = list(drafted_trees(model, 2, 2, made.exchangeable))
            assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
            foreseen = len(kept) if matrix is None else None
            assert _deviation(made, trees, model, PATHS, SETTINGS[setting], None, foreseen) <= EXACT, (setting, rule)


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("strategy", [{}, {"solver": "interval"}, {"paths": 1, "solver": "block"}], ids=str)
def test_texts_drafted_by_another_tokenizer(strategy: dict[str, Any], name: str) -> None:
    runs, length, settings = 400, 3, SETTINGS["temperature 0.6"]
    prompts = [[1, 2, 0], [2], [0, 0, 1, 2, 1], [3, 1]]
    ids = torch.tensor([[0] * (5 - len(prompt)) + prompt for prompt in prompts]).repeat(runs, 1)
    mask = torch.tensor([[0] * (5 - len(prompt)) + [1] * len(prompt) for prompt in prompts]).repeat(runs, 1)
    kept, matrix = FOREIGN[name]
    kernel = None if matrix is None else affinity_from_matrix(matrix, tokens=kept)
    strategy = {"paths": 2, "depth": 2, "draft_kernel": kernel, **strategy}
    method = MultiDraft(tiny(300), **strategy, matching=_matching())
    found = run(pair(4)[0], method, ids, attention_mask=mask, max_new_tokens=length, seed=1, **settings)
    codes = np.array(found.new_tokens) @ 4 ** np.arange(length)[::-1]
    for row, prompt in enumerate(prompts):
        exact = _exact(_foreign(name, settings, prompt), length, 4)
        counts = np.bincount(codes[row :: len(prompts)], minlength=exact.size)
        assert chisquare(*_pooled(counts, exact * runs)).pvalue > 1e-4, prompt
