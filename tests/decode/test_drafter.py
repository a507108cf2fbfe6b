"""Drafts have the laws that verification is told, and the draft model's cache follows the text."""

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import (
    LogitNormalization,
    LogitsProcessorList,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from otspec.decode.base.draft_laws import DRAFT_LAWS, draft_law
from otspec.decode.base.sampling import DraftSampling, Sampling
from otspec.decode.drafters.model import ModelDrafter
from otspec.logits import law_from_logits
from otspec.tolerances import MASS_TOL
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import NONE
from tests.decode.models import tiny
from tests.each import each

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = [[1, 2, 3, 4, 5], [6], [7, 7, 1]]


def _generator() -> Any:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("name", DRAFT_LAWS)
def test_drafts_are_drawn_as_the_scheme_says(name: str) -> None:
    q, runs = np.array([0.3, 0.02, 0.3, 0.0, 0.38]), 20_000
    for n in range(1, min(3, draft_law(name).most or 3) + 1):
        drawn = draft_law(name).draw(torch.tensor(q).expand(runs, -1), n, _generator())
        support = draft_law(name).scheme(q, n).support()
        counts = Counter(map(tuple, drawn.tolist()))
        expected = support.probabilities / support.probabilities.sum() * runs
        observed = [counts.pop(tuple(drafts), 0) for drafts in support.drafts.tolist()]
        assert not counts, n
        if len(expected) > 1:
            assert chisquare(observed, expected).pvalue > 1e-4, n
        else:
            assert observed == [runs], n


def test_a_law_of_fewer_tokens_than_drafts() -> None:
    laws = torch.tensor([[0.0, 0.75, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    for name in ("without_replacement", "greedy", "top_k"):
        drawn = draft_law(name).draw(laws, 3, _generator())
        assert sorted(drawn[0].tolist()) == [NONE, 1, 2], name
        assert drawn.tolist() == [[*drawn[0, :2].tolist(), NONE], [3, NONE, NONE], [0, NONE, NONE]], name
    for _ in range(10):
        drawn = draft_law("hub_pairs").draw(laws, 2, _generator())
        assert sorted(drawn[0].tolist()) == [1, 2]
        assert drawn[1:].tolist() == [[3, NONE], [0, NONE]]


def test_tiny_tokens_are_drawn_as_often_as_they_should() -> None:
    law = torch.tensor([1.0, 1e-5, 2e-5], dtype=torch.float64)
    tokens = draft_law("iid").draw(law, 2_000_000, _generator())
    assert chisquare(np.bincount(tokens, minlength=3), (law / law.sum()).numpy() * 2_000_000).pvalue > 1e-4


def test_settings_of_the_drafts_stand_in_for_those_of_the_target() -> None:
    """Against `law_from_logits`, whatever the target has and wherever the list has it."""
    logits = 3 * torch.randn(4, 12, generator=_generator(), dtype=torch.float64)
    suppressed = logits.index_fill(1, torch.tensor([2]), -torch.inf)
    target: dict[str, Any] = {"temperature": 0.7, "top_k": 6, "top_p": 0.9}
    warpers = [TemperatureLogitsWarper(0.7), TopKLogitsWarper(6), TopPLogitsWarper(0.9)]
    settings: list[dict[str, Any]] = [{}, {"temperature": 1.0}, {"temperature": 1.8, "top_k": 3}]
    settings += [{"top_k": 0, "top_p": 1.0}, {"top_p": 0.4}, {"temperature": 0}]
    for inputs in settings:
        wanted = {**target, **inputs}
        wanted["top_k"] = wanted["top_k"] or None
        processors = LogitsProcessorList([SuppressTokensLogitsProcessor([2]), *warpers, LogitNormalization()])
        laws = DraftSampling(**inputs).of(Sampling(processors, True)).draft_laws(logits)
        for law, row in zip(laws, suppressed, strict=True):
            expected = law_from_logits("logits", row, **wanted)
            np.testing.assert_allclose(law, expected, atol=1e-12, err_msg=str(inputs))
    # With nothing to replace, each finds the place that transformers would give it.
    plain = LogitsProcessorList([SuppressTokensLogitsProcessor([2]), MinPLogitsWarper(0.1)])
    made = DraftSampling(0.5, 4, 0.8).of(Sampling(plain, True))
    suppressing, min_p = plain
    assert [type(one) for one in made.processors] == [*map(type, (suppressing, *warpers, min_p))]
    assert (made.support, made.do_sample, len(plain)) == (4, True, 2)


LARGE = 262_144
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def test_laws_sum_to_one() -> None:
    """At the vocabulary of real models, whatever the dtype."""
    generator, off = _generator(), 0.0
    for width in (1.0, 4.0, 12.0):
        logits = width * torch.randn(3, LARGE, generator=generator, dtype=torch.float64)
        for dtype in DTYPES:
            at = f"{dtype}, logits of width {width}"
            for processors in ([], [TopPLogitsWarper(0.9)]):
                laws = Sampling(LogitsProcessorList(processors), do_sample=True).draft_laws(logits.to(dtype))
                assert laws.dtype == torch.float64, at
                assert (laws.sum(dim=-1) - 1).abs().max() < 1e-12, at
            plain = logits.to(dtype).to(torch.promote_types(dtype, torch.float32)).softmax(dim=-1)
            off = max(off, float((plain.double().sum(dim=-1) - 1).abs().max()))
            close = Sampling(LogitsProcessorList(), do_sample=True).draft_laws(logits.to(dtype))
            assert torch.allclose(close, plain.double(), rtol=1e-3, atol=torch.finfo(torch.float32).tiny), at
        greedy = Sampling(LogitsProcessorList(), do_sample=False).draft_laws(logits)
        assert greedy.dtype == torch.float64
        assert (greedy.sum(dim=-1) == 1).all()
    assert off > MASS_TOL  # or the softmax alone would do


def test_greedy_targets_and_their_drafts() -> None:
    greedy = Sampling(LogitsProcessorList(), do_sample=False)
    assert DraftSampling().of(greedy) is greedy
    for inputs in ({"top_k": 3}, {"top_p": 0.5}, {"temperature": 0}):
        assert not DraftSampling(**inputs).of(greedy).do_sample, inputs
    sampled = DraftSampling(temperature=1.0, top_k=3).of(greedy)
    assert (sampled.do_sample, sampled.support) == (True, 3)
    scores = torch.tensor([[torch.nan, 1.0], [torch.inf, 0.0], [-torch.inf, -torch.inf], [1.0, 2.0]])
    assert greedy.target_laws(scores, []).isnan().tolist() == [[True] * 2] * 3 + [[False] * 2]
    assert greedy.target_choices(scores, []).tolist() == [NONE] * 3 + [1]


@each(n=(1, 3, 8, 9, 20), ties=(False, True))
def test_the_likeliest_are_in_the_order_of_the_scheme(n: int, ties: bool) -> None:
    """By searches and by a sort; a tie is for the lowest id, and what is impossible is not drafted."""
    rng = np.random.default_rng(n)
    laws = rng.dirichlet(np.ones(20), (4, 3))
    laws[..., ::3] = 0.0
    if ties:
        laws = laws.round(1)
    tokens = draft_law("top_k").draw(torch.from_numpy(laws), n, torch.Generator()).numpy()
    order = np.argsort(-laws, axis=-1, kind="stable")[..., :n]
    np.testing.assert_array_equal(tokens, np.where(np.take_along_axis(laws, order, -1) > 0, order, -1))


class _Jolted(Sampling):
    """Rounds every column of a batch in its own way."""

    def draft_laws(self, logits: Any) -> Any:
        return super().draft_laws(logits * (1 + 1e-3 * torch.rand(logits.shape[:-1]).unsqueeze(-1)))


def test_slots_of_one_prefix_share_the_law_that_is_verified() -> None:
    """Each reads its prefix in a column of its own, which rounds differently; one law is drawn from, to the bit."""
    model, apart = copy.deepcopy(tiny(vocab=4)).bfloat16(), 0
    for shape, name in ((Shape((4, 1, 1)), "iid"), (Shape((3, 2, 2)), "iid"), (Shape((3, 2, 1)), "top_k")):
        drawn_from: list[Any] = []
        law = draft_law(name)

        def draw(laws: Any, n: int, generator: Any, law: Any = law, seen: Any = drawn_from) -> Any:
            seen.append(laws.clone())
            return law.draw(laws, n, generator)

        sampling = _Jolted(LogitsProcessorList(), do_sample=True)
        drafter = ModelDrafter(model, shape, law._replace(draw=draw), sampling, 4, _generator())
        drafter.start(TEXTS)
        for step in range(5):
            drawn_from.clear()
            drafts, row = drafter.draft([[*text, *[2] * step] for text in TEXTS], 3), 0
            for text, tree in enumerate(drafts.trees):
                verified = {tuple(tree.token[tree.line(node)]): drafts.laws[row + node] for node in range(tree.inner)}
                row += tree.inner
                for nodes, slots in zip(tree.node, tree.draw, strict=True):
                    for level, laws in enumerate(drawn_from):
                        own = laws[text, slots[level] - shape.offsets[level]]
                        prefix = tuple(tree.token[nodes[1 : level + 1]])
                        assert torch.equal(own, verified[prefix]), (shape, prefix)
                        apart += slots[level] != tree.slot[nodes[level]]
            drafter.commit([[] for _ in TEXTS], range(len(TEXTS)))
    assert apart > 50  # slots that were not the first of their prefix
