"""What lossy rules accept, and their total variation: exact, 0 for lossless ones, and what theory says of lenience."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from otspec import ProblemError
from otspec.auditing.decoder_rules import as_law
from otspec.auditing.lossy_rules import (
    LOSSY,
    LossyFigures,
    LossyRule,
    lenient,
    likely,
    measure_texts,
    measure_token,
    typical,
)
from otspec.paths import Model, Tree, synthetic
from otspec.schemes import TopK
from otspec.verification.trees.tree import Prefix
from tests.each import each
from tests.oracles import Floats

LOSSLESS = ("speculative sampling", "top-k tree against the target only")
MODELS = [synthetic("tiny", 3, seed) for seed in range(3)]
SHARP = Model(lambda prefix: np.array([0.05, 0.92, 0.03]), lambda prefix: np.array([0.6, 0.3, 0.1]))
"""The likely token is not the first to be drafted, so that every threshold has an effect."""


@pytest.mark.parametrize("name", LOSSY)
def test_only_the_lossless_ones_cost_nothing(name: str) -> None:
    found = [measure_texts(LOSSY[name], model, 2) for model in (*MODELS, SHARP)]
    if name in LOSSLESS:
        assert max(one.tv for one in found) <= 1e-15
        assert max(one.text_tv for one in found) <= 1e-15
        assert all(one.acceptance <= one.optimum + 1e-12 for one in found)
    else:
        assert max(one.text_tv for one in found) > 1e-3
        assert all(one.text_tv <= 1.0 for one in found)
        assert all(not one.efficiency > 1 + 1e-9 for one in found)  # nan where nothing is paid
    assert all(one.acceptance - one.optimum <= one.tv + 1e-12 for one in found)  # what is gained is paid for


def test_a_text_is_off_by_what_its_tokens_make_of_it() -> None:
    lossy = LOSSY["lenience 0.5"]
    model = MODELS[0]
    wanted, given = np.ones((3, 3)), np.ones((3, 3))
    for first, second in itertools.product(range(3), repeat=2):
        for prefix, token in (((), first), ((first,), second)):
            p, q = np.asarray(model.target(prefix)), np.asarray(model.draft(prefix))
            wanted[first, second] *= p[token]
            given[first, second] *= measure_token(lossy, p, q).output[token]
    found = measure_texts(lossy, model, 2)
    assert found.text_tv == pytest.approx(np.abs(wanted - given).sum() / 2)
    assert found.tv <= found.text_tv <= 2 * found.tv * 1.5


def always(law: Floats) -> Callable[[Prefix], Floats]:
    """The same law after every prefix."""
    return lambda prefix: law


@each(lenience=(1.0, 0.8, 0.3), model=range(3))
def test_lenience_costs_what_it_accepts_more(lenience: float, model: int) -> None:
    """Its step acceptance is the sum of min(p / l, q), and its TV that less the sum of min(p, q)."""
    p, q = (np.asarray(law(())) for law in (MODELS[model].target, MODELS[model].draft))
    found = measure_token(LossyRule(lenient(lenience), "iid", 1), p, q)
    assert found.tv == pytest.approx(np.minimum(p / lenience, q).sum() - np.minimum(p, q).sum(), abs=1e-15)


def test_typical_acceptance_is_that_of_the_decoder() -> None:
    pytest.importorskip("torch")
    from otspec.decode.methods.typical import Typical

    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = rng.dirichlet(np.full(5, 0.5), 2)
        drafts = TopK(q, 1).support().drafts[0]
        law = as_law(typical(0.09, 0.3))(p, q, drafts)
        tree = Tree.of([drafts], always(p), always(q))
        stop = Typical().stop_law(tree)
        accepted = stop[1].sum()
        np.testing.assert_allclose(law, accepted * np.eye(5)[drafts[0]] + stop[0], atol=1e-15)


@each(seed=range(40), top_k=(1, 2, 10), gap=(0.0, 0.2, 0.6))
def test_relaxed_acceptance_is_that_of_the_engine(seed: int, top_k: int, gap: float) -> None:
    """Its loop over the target's likeliest tokens, on laws with ties and zeros; what it is off is all or nothing."""
    rng = np.random.default_rng(seed)
    p, q = rng.integers(0, 4, (2, 5)) + np.eye(5)[rng.integers(5, size=2)]
    p, q = p / p.sum(), q / q.sum()
    order = np.argsort(-p, kind="stable")
    draft, put_out, accepted = int(np.argsort(-q, kind="stable")[0]), int(order[0]), False
    for place, token in enumerate(order[:top_k].tolist()):
        if place > 0 and p[order[0]] - gap > p[token]:
            break
        if token == draft:
            put_out, accepted = token, True
            break
    found = measure_token(LossyRule(likely(top_k, gap, greedy=True), "top_k", 1, greedy=True), p, q)
    np.testing.assert_array_equal(found.output, np.eye(5)[put_out])
    assert found.acceptance == float(accepted or draft == order[0])
    assert found.tv == float(put_out != order[0]) == found.acceptance - found.optimum


def test_figures_are_ordered_as_the_settings_are() -> None:
    for group in (
        ("lenience 0.9", "lenience 0.7", "lenience 0.5", "lenience 0.3"),
        ("threshold_acc 0.9", "threshold_acc 0.5"),
        ("speculative sampling", "Cactus, delta = 0.01", "Cactus, delta = 0.1", "Cactus, delta = 1"),
    ):
        found: list[LossyFigures] = [measure_texts(LOSSY[name], MODELS[1], 2) for name in group]
        assert all(a.acceptance <= b.acceptance + 1e-12 for a, b in itertools.pairwise(found))


def test_too_many_texts() -> None:
    with pytest.raises(ProblemError, match="3 tokens make 59,049 texts of 10, more than 20,000"):
        measure_texts(LOSSY["lenience 0.5"], MODELS[0], 10)
