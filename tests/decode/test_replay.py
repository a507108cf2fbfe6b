"""The passes of a run are told, and done again with nothing around them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import otspec  # noqa: E402
from otspec.decode.models.context import Pass  # noqa: E402
from otspec.decode.models.passes.transformers_reader import TransformersReader  # noqa: E402
from otspec.decode.models.replay import floor, least_seconds  # noqa: E402
from tests.decode.models import pair  # noqa: E402

PROMPTS = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])


def test_the_passes_of_a_chain() -> None:
    target, draft = pair()
    generation = otspec.generate(target, draft, PROMPTS[:1], paths=1, depth=3, max_new_tokens=9, seed=2)
    steps = generation.metrics.target_calls
    assert len(generation.passes["target"]) == steps
    assert len(generation.passes["draft"]) <= 3 * steps
    assert generation.passes["target"][0] == Pass(1, 4, 3, 4, True)
    assert generation.passes["draft"][:3] == [Pass(1, 1, 3 + level, 1, False) for level in range(3)]


@pytest.mark.parametrize("paths", [1, 3])
def test_they_are_done_again_as_they_were(paths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = (copy.deepcopy(model) for model in pair())
    generation = otspec.generate(
        target, draft, PROMPTS, paths=paths, depth=3, max_new_tokens=12, eos_token_id=[5], pad_token_id=0, seed=4
    )
    batches = {one.batch for one in generation.passes["target"]}
    assert batches == {1, 2}  # one text ended before the other
    done: list[tuple[int, ...]] = []
    plain = TransformersReader.read

    def told(reader: Any, tokens: Any, position: Any, mask: Any, start: int, keep: int) -> Any:
        logits = plain(reader, tokens, position, mask, start, keep)
        done.append((*tokens.shape, start, logits.shape[1], mask is not None))
        return logits

    monkeypatch.setattr(TransformersReader, "read", told)

    def shapes(passes: Any) -> list[tuple[int, ...]]:
        return [(one.batch, one.rows, one.start, one.keep, one.masked) for one in passes]

    for model, phase in ((target, "target"), (draft, "draft")):
        done.clear()
        assert floor(model, generation.passes[phase]) > 0
        assert done == shapes(generation.passes[phase])
    done.clear()
    assert min(least_seconds({"target": target, "draft": draft}, generation.passes).values()) > 0
    together = sorted([*generation.passes["target"], *generation.passes["draft"]], key=lambda one: one.moment)
    assert done == shapes(together)
    assert done[:4] == [*shapes(generation.passes["draft"][:3]), *shapes(generation.passes["target"][:1])]
    assert floor(draft, []) == 0
