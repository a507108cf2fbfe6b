"""Shortlists that depend on the context keep the law of the text: by enumeration of all drafts, and by counting texts.

The routers are random ones: whatever a router chooses, it changes how much is accepted and nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec.decode import BY_PLAN, Budget, Frequent, MultiDraft, run  # noqa: E402
from otspec.decode.base.draft_laws import draft_law  # noqa: E402
from otspec.paths import Model  # noqa: E402
from otspec.verification.reference.enumeration import branching_trees, drafted_trees, trees_of  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from otspec.verification.trees.tree import Prefix  # noqa: E402
from tests.decode.models import pair  # noqa: E402
from tests.decode.test_lossless import (  # noqa: E402
    EXACT,
    PATHS,
    PROMPT,
    PROMPTS,
    RULES,
    SETTINGS,
    _deviation,
    _exact,
    _models,
    _pooled,
    _remembering,
)
from tests.decode.test_shortlists import law_on, random_router, routed  # noqa: E402
from tests.oracles import Floats  # noqa: E402

CLUSTERS = [0, 1, 2, 1]


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def _routed_model(settings: dict[str, Any], budget: int) -> tuple[Model, set[tuple[int, ...]]]:
    """Both models after the prompt, drafts from a shortlist of the router; and the shortlists that were met."""
    draft = pair(4)[1]
    router, met = random_router(draft, CLUSTERS, budget, seed=7), set()

    @cache
    def law(prefix: Prefix) -> Floats:
        text = [*PROMPT, *prefix]
        shortlist = routed(router, draft, text, len(prefix))
        met.add(tuple(shortlist.tolist()))
        return law_on(draft, text, shortlist, **settings)

    return Model(_models(settings, PROMPT, 4).target, law), met


@pytest.mark.parametrize("budget", [1, 2])
def test_paths_by_every_rule(budget: int) -> None:
    settings = SETTINGS["temperature 0.6"]
    model, met = _routed_model(settings, budget)
    for rule in RULES:
        made = _remembering(rule, PATHS, "iid")
        trees = list(drafted_trees(model, 2, 2, made.exchangeable))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
        deviation = _deviation(made, trees, model, PATHS, settings, None, 3)
        assert deviation <= (1e-7 if rule == "lp" else EXACT), rule
    assert len(met) >= 2  # the support does depend on the context


@pytest.mark.parametrize("law", ["without_replacement", "greedy"])
def test_siblings_drawn_jointly(law: str) -> None:
    shape, scheme = Shape((2, 2)), draft_law(law).scheme
    model, _ = _routed_model({}, 2)
    for rule in (None, "max_flow", BY_PLAN):
        made = _remembering(rule, shape, law)
        trees = list(branching_trees(model, lambda q: scheme(q, 2), 2))
        assert _deviation(made, trees, model, shape, {}, None, 3) <= EXACT, rule


def test_budgets_that_fall_along_a_path() -> None:
    frequent, shape, draft = Frequent([2, 0, 1], Budget(3, falling=1)), Shape((1, 2, 1)), pair(3)[1]

    @cache
    def law(prefix: Prefix) -> Floats:
        return law_on(draft, [*PROMPT, *prefix], frequent.order[: frequent.budget.at(len(prefix))])

    model = Model(_models({}, PROMPT).target, law)
    assert [np.count_nonzero(law((0,) * level)) for level in range(3)] == [3, 3, 1]
    for rule in ("nested", "traversal", "block", "interval", "rrs"):
        made = _remembering(rule, shape, "iid")
        trees = list(trees_of(model, shape, made.exchangeable))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
        assert _deviation(made, trees, model, shape, {}) <= EXACT, rule


@pytest.mark.parametrize("strategy", ["frequent", "routed", "routed, one token left"])
def test_texts_of_a_batch(strategy: str) -> None:
    runs, length, (target, draft) = 250, 4, pair(3)
    settings: dict[str, Any] = {
        "frequent": {"draft_shortlist": Frequent([2, 0, 1], Budget(2, falling=1)), "branching": (2, 1, 1)},
        "routed": {"draft_shortlist": random_router(draft, [0, 1, 0], Budget(1), seed=7), "paths": 2, "depth": 2},
        "routed, one token left": {
            "draft_shortlist": random_router(draft, [0, 1, 2], Budget(2, falling=2), seed=7),
            "branching": (2, 1, 1),
            "solver": "interval",
        },
    }[strategy]
    width = max(map(len, PROMPTS))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in PROMPTS]).repeat(runs, 1)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in PROMPTS]).repeat(runs, 1)
    found = run(target, MultiDraft(draft, **settings), ids, attention_mask=mask, max_new_tokens=length, seed=1)
    codes = np.array(found.new_tokens) @ 3 ** np.arange(length)[::-1]
    for row, prompt in enumerate(PROMPTS):
        exact = _exact(_models({}, prompt), length, 3)
        counts = np.bincount(codes[row :: len(PROMPTS)], minlength=exact.size)
        assert not counts[exact == 0].any()
        assert chisquare(*_pooled(counts[exact > 0], exact[exact > 0] * runs)).pvalue > 1e-4, prompt
