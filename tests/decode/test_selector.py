"""Selectors: what they see of a text, what they foretell, when they choose, and their files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError  # noqa: E402
from otspec.decode import (  # noqa: E402
    Goodput,
    MultiDraft,
    PassCosts,
    PassTimes,
    Selector,
    generate,
    run,
    train_selector,
)
from otspec.decode.drafters.paced import SelectedDrafter, SelectedWatching  # noqa: E402
from otspec.decode.methods import PromptLookup  # noqa: E402
from otspec.decode.models.heads import MedusaHeads  # noqa: E402
from otspec.decode.pacing.costs import Step  # noqa: E402
from otspec.decode.pacing.goodput import Pacer  # noqa: E402
from otspec.decode.pacing.menu import members, menu_of, prefixes  # noqa: E402
from otspec.decode.pacing.selector import MOST_OFF, OF_TEXT, Seen, remembered, signs_of_law, standardised, terms  # noqa: E402
from otspec.errors import DataError  # noqa: E402
from otspec.paths.shape import Shape  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402
from tests.decode.paces import DEAR, MENU, PROMPTS, drawn  # noqa: E402


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


# What is foretold.


def _this_deep(wanted: int, step: Step) -> float:
    """Seconds that leave no choice."""
    return 1.0 if len(step.widths) == wanted else 1e6


def test_a_selector_foretells_what_decoding_gives() -> None:
    """Learnt from texts alone; what it expects on average is what steps of fixed shapes then give."""
    target, draft = pair(8)
    prompts = [[1, 2, 3], [4, 5], [6, 7, 1, 2], [2, 2], [5, 1, 4]] * 3
    menu = [(1, 1, 1), (3, 1)]
    selector = train_selector(target, draft, prompts, menu=menu, max_new_tokens=24, positions=250, seed=3)
    assert 200 < selector.about["positions"] < 300
    seen: list[Any] = []

    class Noted(Seen):
        def reach(self) -> Any:
            found = super().reach()
            seen.append(1 + members(selector.shapes, selector.branchings) @ found)
            return found

    for number, branching in enumerate(menu):
        seen.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Selector, "begin", lambda own, texts: Noted(own, texts))
            pace = Goodput(partial(_this_deep, len(branching)), selector=selector)
            texts = [
                run(target, MultiDraft(draft, pace=pace), torch.tensor([prompt]), max_new_tokens=30, seed=seed)
                for seed, prompt in enumerate(prompts)
            ]
        given = sum(text.metrics.tokens for text in texts) / sum(text.metrics.sequence_steps for text in texts)
        assert np.mean(seen, axis=0)[number] == pytest.approx(given, abs=0.12)


class Puts:
    """A streamer that counts the tokens of each step."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def put(self, value: Any) -> None:
        self.counts.append(value.numel())

    def end(self) -> None:
        self.counts = self.counts[1:]  # the prompt came first


@pytest.mark.parametrize("temperature", [0.7, 0.0])
def test_what_the_laws_have_in_common_is_told(monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    """Along what was accepted, where something was drafted; at temperature 0 it is 1 or 0."""
    target, draft = pair(8)
    told: list[list[float]] = []

    class Noted(Seen):
        def compare(self, shared: Any) -> None:
            told.extend(shared)

    monkeypatch.setattr(Selector, "begin", lambda own, texts: Noted(own, texts))
    costs = PassCosts(PassTimes((1,), (1.0,)), PassTimes((1,), (0.0,)))
    strategy, puts = MultiDraft(draft, pace=Goodput(costs, selector=drawn([(2, 1)], scale=0.0))), Puts()
    settings: dict[str, Any] = {"max_new_tokens": 40, "seed": 2, "temperature": temperature, "streamer": puts}
    text = run(target, strategy, PROMPTS[:1], **settings)
    tokens, at = [*PROMPTS[0].tolist(), *text.new_tokens[0]], PROMPTS.shape[1]
    assert len(told) == len(puts.counts) - 1  # the last step is nobody's past
    assert {1, 2} == {len(shared) for shared in told}
    for shared, came in zip(told, puts.counts, strict=False):
        assert len(shared) == min(came, 2, len(tokens) - at - 1)
        for more, value in enumerate(shared):
            logits = [model(input_ids=torch.tensor([tokens[: at + more]])).logits[0, -1] for model in (target, draft)]
            if temperature:
                laws = [(each / temperature).softmax(-1) for each in logits]
                assert value == pytest.approx(float(torch.minimum(*laws).sum()), abs=1e-9)
            elif more + 1 < came:
                assert value == 1.0
            else:
                assert value == float(logits[0].argmax() == logits[1].argmax()) == 0.0
        at += came


def test_signs_are_of_the_text_before() -> None:
    """Averages by hand, of two texts, the first of which leaves; and the draft model's law."""
    seen = drawn().begin(texts=2)
    seen.look(torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64))
    seen.compare([[0.9, 0.1], []])
    seen.keep([0])
    of_late, longer = 0.6, 0.6
    for value in (0.9, 0.1):
        of_late, longer = of_late + (value - of_late) / 8, longer + (value - longer) / 24
    np.testing.assert_allclose(seen._signs, [[of_late, longer, 0.1, np.log(2), 0.5]])
    np.testing.assert_allclose(remembered([0.6] * OF_TEXT, 0.9), [0.6 + 0.3 / 8, 0.6 + 0.3 / 24, 0.9])


def test_what_is_foretold_by_hand() -> None:
    """Of two texts: linear in the signs and their products, a chance, and no more than what it begins with."""
    menu, rng = [(1, 1), (2, 1)], np.random.default_rng(0)
    selector = drawn(menu, scale=0.3)
    seen, signs = selector.begin(texts=2), selector.mean + selector.scale * 4 * rng.normal(size=(2, 5))
    seen._signs = signs
    foretold = (terms(standardised(signs, selector.mean, selector.scale)) @ selector.weights.T).clip(0.0, 1.0)
    assert prefixes(menu_of(menu)) == [(1,), (2,), (1, 1), (2, 1)]
    assert np.abs((signs - selector.mean) / selector.scale).max() > MOST_OFF
    foretold[:, 2:] = np.minimum(foretold[:, 2:], foretold[:, :2])
    np.testing.assert_allclose(seen.reach(), foretold.sum(axis=0))


@pytest.mark.parametrize("vocab", [2, 40])
def test_signs_of_laws(vocab: int) -> None:
    laws = torch.softmax(torch.randn(3, vocab, dtype=torch.float64), dim=-1)
    laws[1] = 0.0
    laws[1, 0] = 1.0
    expected = [[-float((law**2).sum().log()), float(law.max())] for law in laws]
    np.testing.assert_allclose(signs_of_law(laws), expected, atol=1e-12)
    np.testing.assert_allclose(signs_of_law(torch.stack((laws, laws), dim=1)[:, 1]), expected, atol=1e-12)


# When it chooses.


def test_a_shape_that_is_chosen_by_the_first_law() -> None:
    """Of a batch, none included: the law told is that of the text, those of the tree are those of its nodes."""
    from transformers import LogitsProcessorList

    from otspec.decode.drafters.draft_laws import draft_law
    from otspec.decode.drafters.model import ModelDrafter
    from otspec.decode.sampling import Sampling

    draft = pair(8)[1]
    sampling = Sampling(LogitsProcessorList(), True)
    drafter = ModelDrafter(draft, Shape((1,)), draft_law("iid"), sampling, 8, torch.Generator().manual_seed(0))
    texts, told = [[1, 2, 3], [4]], list[Any]()
    drafter.start(texts)
    for chosen in ((2, 1), (), (1, 2), (), (), (3,)):

        def choose(law: Any, chosen: tuple[int, ...] = chosen) -> Shape:
            told.append(law)
            return Shape(chosen)

        drafts = drafter.draft_by(texts, choose)
        rows = iter(drafts.laws)
        for at, (text, tree) in enumerate(zip(texts, drafts.trees, strict=True)):
            np.testing.assert_allclose(told[-1][at], law_after(draft, text), atol=1e-12)
            assert tree.shape.branching == chosen
            for node in range(tree.inner):
                expected = law_after(draft, [*text, *tree.token[tree.line(node)].tolist()])
                np.testing.assert_allclose(next(rows), expected, atol=1e-12)
        assert next(rows, None) is None
        lines = [tree.line(tree.size - 1) for tree in drafts.trees]
        drafter.settle([tree.slot[line].tolist() for tree, line in zip(drafts.trees, lines, strict=True)], [0, 1])
        texts = [
            [*text, *tree.token[line].tolist(), 5] for text, tree, line in zip(texts, drafts.trees, lines, strict=True)
        ]


def test_to_look_and_draft_nothing_costs_a_pass() -> None:
    """Where a look is dear, drafting is: what was looked for is spent either way."""
    draft = PassTimes((1, 4), (0.6, 0.6))
    costs = PassCosts(PassTimes((1, 32), (1.0, 1.0)), draft)
    law, flat = torch.full((1, 8), 0.125, dtype=torch.float64), drawn([(1,)], scale=0.0)
    flat.weights[:] = 0.0
    flat.weights[0, 0] = 0.5
    pacers = [Pacer(Goodput(costs, chance=0.5), menu_of([(1,)])), Pacer(Goodput(costs, selector=flat), menu_of([(1,)]))]
    for pacer in pacers:
        pacer.begin(texts=1)
    assert [pacer.choose(1, law).depth for pacer in pacers] == [0, 1]  # 1.5 tokens in 1.6 s, beside 1 in 1.0 or in 1.6


def test_who_chooses_by_the_first_law() -> None:
    from otspec.decode.sampling import Sampling

    target, draft = pair(40)
    sampling = Sampling(target._get_logits_processor(target.generation_config, device="cpu", model_kwargs={}), True)

    def drafter(model: Any) -> Any:
        pace = Goodput(DEAR, selector=drawn())
        return MultiDraft(model, pace=pace).prepare(40, sampling, torch.Generator()).drafter

    assert type(drafter(draft)) is SelectedDrafter
    watching = drafter(MedusaHeads.of(target, 3))
    assert type(watching) is SelectedWatching
    assert list(watching.layers) == list(MedusaHeads.of(target, 3).config.features)


# Files, and what is refused.


def test_a_selector_is_kept_in_a_file(tmp_path: Path) -> None:
    target, draft = pair(8)
    path = tmp_path / "selector.json"
    made = train_selector(target, draft, [[1, 2, 3]] * 3, menu=[(1, 1), (2,)], max_new_tokens=12, positions=60)
    made.save(path)
    found = Selector.load(path)
    assert (list(found.menu), found.about) == ([(1, 1), (2,)], made.about)
    for name in ("weights", "mean", "scale"):
        assert (getattr(found, name) == getattr(made, name)).all()
    again = train_selector(target, draft, [[1, 2, 3]] * 3, menu=[(1, 1), (2,)], max_new_tokens=12, positions=60)
    assert (again.weights == made.weights).all()
    with pytest.raises(ProblemError, match=r"the selector is of draft model .*; make one for it"):
        generate(target, pair(8, noise=0.6)[1], PROMPTS, pace=Goodput(DEAR, selector=found), max_new_tokens=2)
    text = path.read_text()
    with pytest.raises(DataError, match="there is no file"):
        Selector.load(tmp_path / "none.json")
    for wrong in ("{", "[]", text.replace('"format": 2', '"format": 9'), text.replace('"mean"', '"means"')):
        path.write_text(wrong)
        with pytest.raises(DataError, match="is no selector: "):
            Selector.load(path)


def test_what_else_is_refused() -> None:
    target, draft = pair(8)
    pace = Goodput(DEAR, selector=drawn([(2, 1)]))
    with pytest.raises(ProblemError, match="a selector looks at the law of one draft model, and here are 2"):
        generate(target, [draft, draft], PROMPTS, law="independent", pace=pace, max_new_tokens=2)
    with pytest.raises(ProblemError, match="copies have none"):
        PromptLookup(pace=pace)
    with pytest.raises(ProblemError, match="menu is what a pace chooses among"):
        PromptLookup(menu=MENU)
    with pytest.raises(ProblemError, match="copies are paths from the root"):
        PromptLookup(pace="goodput", menu=MENU)
    with pytest.raises(ProblemError, match="selector is 3"):
        Goodput(selector=3)  # type: ignore[arg-type]
    fine = drawn()
    for name in ("weights", "mean", "scale"):
        for wrong in (np.zeros(2), np.full_like(getattr(fine, name), np.nan)):
            arrays = {each: getattr(fine, each) for each in ("weights", "mean", "scale")} | {name: wrong}
            with pytest.raises(ProblemError, match=f"{name} has shape"):
                Selector(MENU, **arrays)
    with pytest.raises(ProblemError, match="standard deviations are above 0"):
        Selector(MENU, fine.weights, fine.mean, np.zeros(5))
    for settings, message in (
        ({"prompts": []}, "no prompts, or an empty one"),
        ({"temperatures": [0.0]}, "temperatures are"),
        ({"max_new_tokens": 2}, "max_new_tokens is 2, and the menu drafts 2"),
        ({"positions": 0}, "positions is 0"),
        ({"max_new_tokens": 64}, "leave no position for a prompt"),
        ({"draft": pair(9)[1]}, "pass a pair of one vocabulary"),
    ):
        given: dict[str, Any] = {"draft": draft, "prompts": [[1, 2]], "menu": MENU, "max_new_tokens": 8, **settings}
        with pytest.raises(ProblemError, match=message):
            train_selector(target, given.pop("draft"), given.pop("prompts"), **given)
