"""Simulated decoding along a text has the law of decoding: the same acceptance, and the same text in the end."""

from __future__ import annotations

import itertools
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.selector import COSTS, ROOM, Recorded, Simulated, Way, compare, table  # noqa: E402
from otspec.decode import Selector, run  # noqa: E402
from otspec.decode.methods import Vanilla  # noqa: E402
from otspec.decode.pacing.costs import Step  # noqa: E402
from otspec.decode.pacing.menu import USUAL, menu_of, prefixes  # noqa: E402
from otspec.paths import Model, Nested, tree_law  # noqa: E402
from otspec.paths.shape import Shape  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402


def recorded(seed: int, new: int = 56) -> Recorded:
    target, draft = pair(8)
    prompt = [1, 2, 3]
    with torch.no_grad():
        (more,) = run(target, Vanilla(), torch.tensor([prompt]), max_new_tokens=new, seed=seed).new_tokens
        ids = torch.tensor([[*prompt, *more]])
        laws = [model(input_ids=ids[:, :-1]).logits[0].softmax(-1).numpy() for model in (target, draft)]
    return Recorded(laws[0], laws[1], ids[0].numpy(), 3, np.random.default_rng(seed).random(ids.shape[1]))


@pytest.mark.parametrize("branching", [(1, 1), (2, 1), (1, 2), (3,)], ids=str)
def test_as_much_is_accepted_as_in_decoding(branching: tuple[int, ...]) -> None:
    """Over all texts of the target, exactly; and what is accepted of a text is the share of luck below that."""
    depth, begin = len(branching), (1, 2, 0)
    laws = [cache(partial(_after, model)) for model in pair(3)]
    accepted = np.zeros(depth)
    for text in itertools.product(range(3), repeat=depth + 1):
        said, drawn = (np.array([law((*begin, *text)[: at + 1]) for at in range(len(begin) + depth)]) for law in laws)
        one = Recorded(said, drawn, np.array([*begin, *text]), len(begin), np.zeros(len(begin) + depth + 1))
        chance = np.prod(said[len(begin) - 1 :][np.arange(depth + 1), text])
        accepted += chance * Simulated(one)._kept_of(len(begin), branching)
    model = Model(*(partial(lambda law, prefix: law((*begin, *prefix)), law) for law in laws))
    assert accepted.sum() == pytest.approx(tree_law(Nested(), model, branching).mean_accepted, abs=1e-9)


def _after(model: Any, text: tuple[int, ...]) -> Any:
    return law_after(model, text)


def test_a_text_is_gone_along() -> None:
    text = recorded(0)
    simulated, taken = Simulated(text), list[tuple[int, int]]()

    class Counted(Way):
        def learn(self, shape: Shape, accepted: int, shared: Any) -> None:
            taken.append((accepted, len(shared)))

    found = simulated.seconds_a_token(lambda: Counted(Shape((2, 1))), COSTS["a core"])
    tokens, at = sum(accepted + 1 for accepted, _ in taken), text.begin
    assert found == pytest.approx(len(taken) * COSTS["a core"](Step.of(1, Shape((2, 1)))) / tokens)
    for accepted, known in taken:
        kept = simulated._kept_of(at, (2, 1, 1, 1, 1, 1))[:2]
        assert accepted == sum(kept >= text.luck[at])
        assert known == min(accepted + 1, 2)
        at += accepted + 1
    assert at >= len(text.tokens) - ROOM > at - 3


def test_what_is_shown() -> None:
    count = len(prefixes(menu_of(USUAL)))
    flat = Selector(USUAL, np.zeros((count, 21)), np.zeros(5), np.ones(5))
    texts = {
        kind: [Simulated(recorded(seed)) for seed in seeds] for kind, seeds in {"one": (1, 2), "two": (3, 4)}.items()
    }
    records = list(compare(texts, flat))
    shown = table(records)
    assert len(shown.rows) == 4 * len(COSTS)
    nothing = next(one for one in records if one["way"] == "()")
    chosen = next(one for one in records if one["way"] == "menu by the selector")  # which expects nothing of any draft
    for kind, seconds in chosen["seconds"].items():
        assert all(mine > theirs for mine, theirs in zip(seconds, nothing["seconds"][kind], strict=True))
    assert all(len(text.text.tokens) - ROOM > 3 for those in texts.values() for text in those)
