"""With a seed for each prompt, a text depends on its own alone; its law is the target's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from otspec.decode import MultiDraft, run  # noqa: E402
from otspec.decode.methods import Vanilla, plain  # noqa: E402
from tests.contracts.catalogue import CATALOGUE  # noqa: E402
from tests.contracts.draft_models import models  # noqa: E402
from tests.contracts.oracles import PROMPTS, after_prompt, batch_of, check_counts, codes_of, law_of_texts  # noqa: E402
from tests.decode.models import pair  # noqa: E402

SEEDS = [5, 6, 2**40 + 5, 0]
DRAWN = (
    *("one path", "tree", "without replacement", "several models", "drafts top-k", "a confident path"),
    *("routed", "eagle", "parallel", "mlp", "foreign"),
)
FIXED = ("prompt lookup", "lookahead", "dynamic tree")


def texts(name: str, prompts: list[list[int]], seeds: list[int], **settings: Any) -> list[list[int]]:
    """New tokens, of prompts that end at different times and are of different lengths."""
    entry = CATALOGUE[name]
    of = models(entry.vocab)
    given = {"max_new_tokens": 7, "eos_token_id": 1, **batch_of(prompts), **settings}
    return run(of.target, entry.make(of), seed=seeds, **given).new_tokens


@pytest.mark.parametrize("name", [*DRAWN, *FIXED])
def test_a_text_is_what_it_is_alone(name: str) -> None:
    """In a batch and alone, and in another order; beside neighbours that are further on, too."""
    together = texts(name, PROMPTS, SEEDS)
    alone = [texts(name, [prompt], [seed]) for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    assert together == [own[0] for own in alone]
    assert texts(name, PROMPTS[::-1], SEEDS[::-1]) == together[::-1]
    assert texts(name, PROMPTS, [seed + 1 for seed in SEEDS]) != together
    if name in FIXED:  # the number of a place decides its token, whatever is drafted
        assert together == texts("vanilla", PROMPTS, SEEDS)


@pytest.mark.parametrize("settings", [{}, {"solver": "interval"}, {"paths": 1}], ids=str)
def test_where_the_device_verifies_it_is_so_too(settings: dict[str, Any]) -> None:
    target, draft = pair()

    def found(rows: slice) -> list[list[int]]:
        prompts = batch_of(PROMPTS[rows])
        own = {"paths": 2, "depth": 3, **settings}
        return otspec.generate(
            target, draft, seed=SEEDS[rows], max_new_tokens=9, verify_on="device", **prompts, **own
        ).new_tokens

    together = found(slice(None))
    assert together == [found(slice(at, at + 1))[0] for at in range(len(PROMPTS))]
    assert together[1:3] == found(slice(1, 3))


@pytest.mark.parametrize("name", ["paths", "a confident path", "prompt lookup", "lookahead"])
def test_texts_have_the_law_of_the_target(name: str) -> None:
    """Counted over seeds that follow each other, two steps and more."""
    entry, runs, length = CATALOGUE[name], 400, 3
    of = models(entry.vocab)
    given = {**batch_of(PROMPTS[:1], runs), "max_new_tokens": length}
    found = run(of.target, entry.make(of), seed=range(runs), **given).new_tokens
    law = law_of_texts(after_prompt({}, PROMPTS[0], of.vocab), length, of.vocab)
    check_counts(codes_of(found, of.vocab), law)


def test_what_is_no_list_of_seeds_is_refused() -> None:
    target, draft = pair()
    ids = torch.tensor([[1, 2], [3, 4]])
    for seed in ([1, -2], "ab", [0.5, 1], [], 0.5):
        with pytest.raises(ProblemError, match=r"pass an integer >= 0, or a list|0 seeds and 2 prompts"):
            run(target, Vanilla(), ids, seed=seed, max_new_tokens=2)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="3 seeds and 2 prompts"):
        run(target, MultiDraft(draft), ids, seed=[1, 2, 3], max_new_tokens=2)
    with pytest.raises(ProblemError, match="transformers draws for all prompts"):
        plain(target, ids, seed=[1, 2], max_new_tokens=2)
    assert run(target, Vanilla(), ids, seed=np.array([1, 2]).tolist(), max_new_tokens=2).metrics.tokens == 4
