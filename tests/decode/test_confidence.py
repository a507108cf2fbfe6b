"""Drafts that end early: by their prefix alone they leave the law of the text as it is, and otherwise they do not."""

import itertools
import math
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from transformers import GenerationConfig  # noqa: E402

from otspec import ProblemError  # noqa: E402
from otspec.decode import MultiDraft, generate  # noqa: E402
from otspec.decode.base.draft_laws import DraftLaw  # noqa: E402
from otspec.decode.base.sampling import Sampling  # noqa: E402
from otspec.decode.drafters.model import ModelDrafter  # noqa: E402
from otspec.paths import Block, Model, PathVerifier, TokenWise, Tree  # noqa: E402
from otspec.schemes import IID  # noqa: E402
from otspec.verification.reference.enumeration import law_over  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

VOCAB, DEPTH, PROMPT = 3, 3, [1, 2, 0]
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 0.6": {"temperature": 0.6},
    "top-k": {"top_k": 2},
}
EVERY = list(itertools.product(range(VOCAB), repeat=DEPTH))
VERIFIERS: list[PathVerifier] = [Block(), TokenWise("single"), TokenWise("interval")]


def _sampling(temperature: float = 1.0, top_k: int = 0) -> Sampling:
    config = GenerationConfig(do_sample=True, temperature=temperature, top_k=top_k, top_p=1.0)
    return Sampling(pair(VOCAB)[0]._get_logits_processor(config, device="cpu", model_kwargs={}), True)


def _model(**settings: Any) -> Model:
    target, draft = pair(VOCAB)
    return Model(*(cache(partial(_after, model, tuple(settings.items()))) for model in (target, draft)))


def _after(model: Any, settings: tuple[tuple[str, Any], ...], prefix: tuple[int, ...]) -> Any:
    return law_after(model, [*PROMPT, *prefix], **dict(settings))


def _drafted(confidence: float, paths: list[tuple[int, ...]], sampling: Sampling, branching: tuple[int, ...]) -> Any:
    """What is drafted where these are the tokens that come up."""
    level = itertools.count()

    def scripted(laws: Any, n: int, generator: Any) -> Any:
        at = next(level)
        return torch.tensor([path[at] for path in paths]).view(-1, 1, 1).expand(-1, laws.shape[1], n)

    law = DraftLaw("scripted", scripted, IID)
    drafter = ModelDrafter(
        pair(VOCAB)[1], Shape(branching), law, sampling, VOCAB, torch.Generator(), confidence=confidence
    )
    texts = [PROMPT] * len(paths)
    drafter.start(texts)
    return drafter, drafter.draft(texts, len(branching))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_path_ends_where_it_gets_unlikely(name: str) -> None:
    """By the model's own probabilities, whatever the settings; tests/contracts has the law of the text after it."""
    model, raw, confidence = _model(**SETTINGS[name]), _model(), 0.3
    drafts = _drafted(confidence, EVERY, _sampling(**SETTINGS[name]), (1,) * DEPTH)[1]
    row, lengths = 0, set()
    for path, tree in zip(EVERY, drafts.trees, strict=True):
        own = np.cumprod([raw.draft(path[:i])[token] for i, token in enumerate(path)])
        assert tree.length == min([*(np.flatnonzero(own < confidence) + 1), DEPTH])
        laws = [model.draft(path[:i]) for i in range(tree.length)]
        np.testing.assert_allclose(drafts.laws[row : row + tree.length], laws, atol=1e-9)
        row += tree.length
        lengths.add(tree.length)
    assert row == len(drafts.laws)
    assert lengths == {1, 2, 3}


def test_a_token_that_is_looked_at_and_dropped_is_missed() -> None:
    """The same rule, but the token that makes a path unlikely is not drafted: then unlikely tokens are too rare."""
    model, confidence = _model(), 0.3
    chances: dict[tuple[int, ...], float] = {}
    for path in EVERY:
        chance = np.cumprod([model.draft(path[:i])[token] for i, token in enumerate(path)])
        kept = path[: max(int((chance >= confidence).sum()), 1)]  # one token at least, whatever it is
        chances[kept] = chances.get(kept, 0.0) + float(chance[-1])
    trees: list[tuple[float, Tree]] = [(chance, model.tree([prefix])) for prefix, chance in chances.items()]
    for verifier in VERIFIERS:
        assert law_over(trees, verifier, model, DEPTH).deviation > 0.02, verifier


def test_one_text_ends_as_it_does_among_others() -> None:
    sampling = _sampling()
    for path in EVERY[::4]:
        together = _drafted(0.3, EVERY, sampling, (1,) * DEPTH)[1].trees[EVERY.index(path)]
        drafter, alone = _drafted(0.3, [path], sampling, (1,) * DEPTH)
        assert alone.trees[0].token.tolist() == together.token.tolist()
        assert len(drafter.passes) == alone.trees[0].length  # the text, then each token but the last


def test_a_stem_that_ends_is_all_of_the_tree() -> None:
    unlikely, likely = sorted(range(VOCAB), key=lambda token: _model().draft(())[token])[:: VOCAB - 1]
    own = float(_model().draft(())[likely])
    for path, levels in (((unlikely,) * DEPTH, 1), ((likely,) * DEPTH, 2)):
        drafts = _drafted(own, [path], _sampling(), (1, 2))[1]
        assert drafts.trees[0].length == levels
        assert len(drafts.laws) == levels


def test_what_is_refused() -> None:
    target, draft = pair()
    prompts = torch.tensor([[1, 2]])
    for value in (-0.1, 1.5, math.nan):
        with pytest.raises(ProblemError, match=r"draft_confidence is .*; it is a probability"):
            MultiDraft(draft, draft_confidence=value)
    with pytest.raises(ProblemError, match="draft_confidence goes by the draft model's own probabilities"):
        MultiDraft(draft, draft_confidence=0.5, draft_kernel=np.eye(8))
    with pytest.raises(ProblemError, match="and 2 are drafted side by side here"):
        generate(target, draft, prompts, paths=2, draft_confidence=0.5, max_new_tokens=2)
