"""Shapes that are chosen step by step, by acceptance or by a selector: lossless, near the best one, and as foretold."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

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
from otspec.decode.models.fed import FedLlama  # noqa: E402
from otspec.decode.models.heads import MedusaHeads  # noqa: E402
from otspec.decode.models.steered import SteeredLlama  # noqa: E402
from otspec.decode.pacing.costs import MeasuredCosts, Step  # noqa: E402
from otspec.decode.pacing.goodput import Pacer  # noqa: E402
from otspec.decode.pacing.menu import MOST, NONE, USUAL, cuts, menu_of, prefixes  # noqa: E402
from otspec.decode.pacing.selector import OF_TEXT, Seen, remembered  # noqa: E402
from otspec.decode.training.kinds import three_layers  # noqa: E402
from otspec.errors import DataError  # noqa: E402
from otspec.paths import Model, Nested, PathVerifier, TokenWise  # noqa: E402
from otspec.paths.enumeration import trees_of  # noqa: E402
from otspec.paths.shape import Shape  # noqa: E402
from otspec.paths.tree import Tree  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402

MENU = [(1,), (1, 2), (2, 1)]
DEAR = PassCosts(PassTimes((1, 32), (1.0, 2.0)), PassTimes((1,), (0.25,)), rest=0.05)
VOCAB, LENGTH, PROMPT = 3, 3, (1, 2, 0)
PROMPTS = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def drawn(menu: Any = MENU, scale: float = 0.4, seed: int = 0, **about: Any) -> Selector:
    """A selector of no sense, whose mind changes with every sign."""
    rng, count = np.random.default_rng(seed), len(prefixes(menu_of(menu)))
    weights = scale * rng.normal(size=(count, 21))
    weights[:, 0] = rng.uniform(0.3, 0.9, size=count)
    return Selector(menu, weights, np.array([0.6, 0.6, 0.6, 0.9, 0.5]), np.array([0.1, 0.1, 0.2, 0.2, 0.1]), about)


# Losslessness.


@cache
def _after(role: int, text: tuple[int, ...]) -> Any:
    return law_after(pair(VOCAB)[role], [*PROMPT, *text])


def _law_of_target() -> Any:
    target = np.ones((VOCAB,) * LENGTH)
    for size in range(LENGTH):
        for prefix in itertools.product(range(VOCAB), repeat=size):
            target[prefix] *= _after(0, prefix).reshape((-1,) + (1,) * (LENGTH - 1 - size))
    return target


def _without_second(tree: Tree) -> bool:
    return tree.shape.branching[:1] == (2,) and len(tree.children[0]) == 2


VERIFIERS: dict[str, PathVerifier] = {"nested": Nested(), "interval": TokenWise("interval")}


@cache
def _ends(by: str, text: tuple[int, ...], branching: tuple[int, ...], peeks: bool) -> dict[tuple[int, ...], float]:
    """What a step of some shape puts out, over all that it may draft.

    One that peeks looks at the siblings: where two have been drawn that differ, the first path is all it keeps.
    """
    if not branching:
        return {(token,): float(chance) for token, chance in enumerate(_after(0, text))}
    laws = [partial(lambda role, prefix: _after(role, (*text, *prefix)), role) for role in (0, 1)]
    model, ends = Model(*laws), dict[tuple[int, ...], float]()
    for chance, tree in trees_of(model, Shape(branching), exchangeable=False):
        kept = model.tree([tree.prefix(int(tree.node[0, -1]))]) if peeks and _without_second(tree) else tree
        law = VERIFIERS[by].stop_law(kept)
        for node, token in np.ndindex(law.shape):
            put_out = (*kept.prefix(node), token)
            ends[put_out] = ends.get(put_out, 0.0) + chance * float(law[node, token])
    return ends


def _law_of_texts(verifier: str, rule: Goodput, peeks: bool) -> tuple[Any, Counter[tuple[int, ...]]]:
    """The exact law of texts of `LENGTH` tokens, and how often each shape is chosen."""
    law, chosen = np.zeros((VOCAB,) * LENGTH), Counter[tuple[int, ...]]()

    def go_on(text: tuple[int, ...], pacer: Pacer, chance: float) -> None:
        if len(text) >= LENGTH:
            law[text[:LENGTH]] += chance
            return
        pacer = copy.deepcopy(pacer)
        shape = pacer.choose(2, torch.tensor(_after(1, text))[None])
        chosen[shape.branching] += 1
        for tokens, part in _ends(verifier, text, shape.branching, peeks).items():
            if part == 0.0:
                continue
            after, accepted = copy.deepcopy(pacer), len(tokens) - 1
            inner = [(*text, *tokens[:at]) for at in range(min(accepted + 1, shape.depth))]
            after.compare([[float(np.minimum(_after(0, one), _after(1, one)).sum()) for one in inner]])
            after.learn(shape, [shape.depth], [accepted], [0])
            go_on((*text, *tokens), after, chance * part)

    pacer = Pacer(rule, menu_of(MENU))
    pacer.begin(1)
    go_on((), pacer, 1.0)
    return law, chosen


def _close(one: float, two: float, later: float, twice: float) -> Any:
    """Seconds that make the shapes of the menu nearly as good: of a token, a pair, a pair behind one, and two pairs."""
    seconds = {(): 1.0, (1,): one, (2,): two, (1, 2): later, (2, 2): twice}
    return lambda step: seconds[step.widths]


BY = {
    "acceptance": Goodput(_close(1.39, 1.4, 1.52, 1.78), chance=0.7, weight=0.1, memory=1.5),
    "selector": Goodput(_close(1.29, 1.4, 1.5, 1.6), selector=drawn(scale=1.0, seed=12)),
}
"""Both change their minds at every step."""


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("by", BY)
def test_the_text_has_the_law_of_the_target(by: str, verifier: str) -> None:
    """By enumeration of all that may come up in all steps; and not if a shape is chosen by the siblings drawn in it."""
    law, chosen = _law_of_texts(verifier, BY[by], peeks=False)
    assert (2, 1) in chosen
    assert len(chosen) >= 3
    np.testing.assert_allclose(law, _law_of_target(), atol=1e-12)
    peeked, _ = _law_of_texts(verifier, BY[by], peeks=True)
    assert np.abs(peeked - _law_of_target()).sum() > 0.002


@pytest.mark.parametrize("by", ["acceptance", "selector"])
def test_texts_of_a_batch(by: str) -> None:
    """Counted, of shapes that costs make change from step to step."""
    runs, turn, kinds = 400, itertools.count(), [(2, 2), (1,), (1, 2), ()]

    def costs(step: Step) -> float:
        return (0.01 if step.widths == kinds[next(turn) // 4 % len(kinds)] else 1.0) * (1 + len(step.widths))

    pace = Goodput(costs, selector=drawn() if by == "selector" else None)
    prompts = torch.tensor([PROMPT]).repeat(runs, 1)
    text = generate(*pair(VOCAB), prompts, menu=MENU, pace=pace, max_new_tokens=LENGTH + 2, seed=1)
    assert text.metrics.sequence_steps > text.metrics.offered[0] > text.metrics.offered[1] > 0
    expected = runs * _law_of_target().ravel()
    codes = np.array(text.new_tokens)[:, :LENGTH] @ VOCAB ** np.arange(LENGTH)[::-1]
    counts, small = np.bincount(codes, minlength=expected.size), expected < 5
    pooled = [np.append(part[~small], part[small].sum() + 1e-9) for part in (counts, expected)]
    assert chisquare(pooled[0], pooled[1]).pvalue > 1e-4


# Worth.

CHANCES = {"easy": 0.9, "fair": 0.6, "hard": 0.25}
SHAPES = [Shape((1,) * 2), Shape((1,) * 6), Shape((3, 1)), Shape((3, *(1,) * 4)), Shape((1, 3, 1, 1))]
WIDE = PassCosts(PassTimes((1, 32), (1.0, 1.3)), PassTimes((1,), (0.12,)))
"""Of a target to which rows are nearly free."""


def _goes_on(chance: float, branching: tuple[int, ...]) -> float:
    """Three paths are worth two chances where they part, and one elsewhere."""
    return 1 - (1 - chance) ** (2 if branching[-1] > 1 else 1)


def _given(chance: float, shape: Shape) -> float:
    """Tokens of a step on average."""
    goes_on = [_goes_on(chance, shape.branching[:depth]) for depth in range(1, shape.depth + 1)]
    return 1 + float(np.cumprod(goes_on).sum())


def _simulated(chances: list[float], costs: PassCosts, phase: int = 150, steps: int = 1500) -> float:
    """Tokens a second where acceptance changes after so many steps."""
    rng, pacer = np.random.default_rng(0), Pacer(Goodput(costs), SHAPES)
    pacer.begin(1)
    tokens, seconds = 0, 0.0
    for step in range(steps):
        shape, chance = pacer.choose(8), chances[step // phase % len(chances)]
        accepted = 0
        while accepted < shape.depth and rng.random() < _goes_on(chance, shape.branching[: accepted + 1]):
            accepted += 1
        tokens += accepted + 1
        seconds += costs(Step.of(1, shape))
        pacer.learn(shape, [shape.depth], [accepted], [0])
    return tokens / seconds


@pytest.mark.parametrize("costs", [WIDE, DEAR], ids=["wide", "dear"])
def test_near_the_best_shape_and_above_all_where_texts_change(costs: PassCosts) -> None:
    fixed = {
        name: [_given(chance, shape) / costs(Step.of(1, shape)) for shape in (NONE, *SHAPES)]
        for name, chance in CHANCES.items()
    }
    best = {name: int(np.argmax(rates)) for name, rates in fixed.items()}
    for name, chance in CHANCES.items():
        assert 0.95 * max(fixed[name]) <= _simulated([chance], costs) <= 1.03 * max(fixed[name]), name
    assert best["easy"] != best["hard"]
    mixed = [
        sum(_given(chance, shape) for chance in (0.9, 0.25)) / (2 * costs(Step.of(1, shape)))
        for shape in (NONE, *SHAPES)
    ]
    assert _simulated([0.9, 0.25], costs) >= 1.05 * max(mixed)


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
        def tokens(self, shapes: Any) -> Any:
            seen.append(super().tokens(selector.shapes))
            return super().tokens(shapes)

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
    np.testing.assert_allclose(remembered(np.full(OF_TEXT, 0.6), 0.9), [0.6 + 0.3 / 8, 0.6 + 0.3 / 24, 0.9])


# In the loop.


@pytest.mark.parametrize("kind", ["plain", "heads", "steered", "fed", "nothing", "without_replacement", "foreign menu"])
def test_greedy_decoding(kind: str) -> None:
    target, draft = pair(40)
    settings: dict[str, Any] = {"pace": Goodput(DEAR, selector=drawn())}
    if kind == "heads":
        draft = MedusaHeads.of(target, 3)
    elif kind == "steered":
        draft = SteeredLlama.of(draft, three_layers(target), 16)
    elif kind == "fed":
        draft = FedLlama.of(draft, three_layers(target), 16)
    elif kind == "nothing":
        settings["pace"] = Goodput(DEAR, selector=drawn(scale=0.0, menu=[(1,)]))
        settings["pace"].selector.weights[:] = 0.0
    elif kind == "without_replacement":
        settings |= {"law": "without_replacement"}
    elif kind == "foreign menu":
        settings |= {"menu": [(1, 2)]}
    plain = target.generate(PROMPTS, max_new_tokens=24, do_sample=False).tolist()
    text = generate(target, draft, PROMPTS, **settings, max_new_tokens=24, temperature=0)
    assert text.sequences.tolist() == plain
    if kind == "nothing":  # after a while it drafts to see
        assert 0 < sum(text.metrics.offered) < 6
    assert generate(target, draft, PROMPTS, **settings, max_new_tokens=24, seed=1).metrics.tokens == 48


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


def test_costs_that_are_given_make_a_seed_repeat_the_text() -> None:
    target, draft = pair(8)
    for pace in BY.values():
        settings: dict[str, Any] = {"pace": pace, "menu": MENU, "max_new_tokens": 40}
        one, same, other = (generate(target, draft, PROMPTS, **settings, seed=seed) for seed in (1, 1, 2))
        assert one.sequences.tolist() == same.sequences.tolist() != other.sequences.tolist()
        assert one.metrics.sequence_steps > one.metrics.offered[0] > 0


def test_costs_of_a_menu_are_learnt() -> None:
    def truth(step: Step) -> float:
        branches = max(step.widths, default=1) > 1
        return 3.0 + 0.7 * bool(step.widths) + 0.9 * branches + 0.4 * len(step.widths) + 0.05 * step.rows

    costs, tried = MeasuredCosts(), Counter[tuple[int, ...]]()
    while (shape := costs.wanted([NONE, *SHAPES])) is not None:
        tried[shape.branching] += 1
        costs.note(Step.of(1, shape), truth(Step.of(1, shape)))
    assert tried == dict.fromkeys([(1,) * 6, (), (1, 1), (3, 1, 1, 1, 1), (3, 1)], 2)
    for shape in (NONE, *SHAPES):
        assert costs(Step.of(1, shape)) == pytest.approx(truth(Step.of(1, shape)))


# Copies.


def test_copies_are_paced_where_rows_are_dear() -> None:
    """Copied text that is never right is soon copied no longer; text that repeats itself is."""
    target = pair(40, seed=1)[0]  # whose greedy text repeats itself
    per_row = PassCosts(PassTimes((1, 9), (1.0, 2.0)), PassTimes((1,), (0.0,)))

    def drafted(pace: Any, **settings: Any) -> Any:
        return run(target, PromptLookup(8, pace=pace), PROMPTS, max_new_tokens=50, **settings)

    plain = target.generate(PROMPTS, max_new_tokens=50, do_sample=False).tolist()
    for pace in (Goodput(per_row), "goodput"):
        assert drafted(pace, temperature=0).sequences.tolist() == plain
    wild = {"temperature": 3.0, "seed": 1}
    assert drafted(Goodput(per_row), **wild).metrics.drafted_nodes < 0.5 * drafted(None, **wild).metrics.drafted_nodes
    paced = drafted(Goodput(per_row), temperature=0).metrics
    assert paced.block_efficiency > 1.2
    several = PromptLookup(pace=Goodput(per_row), menu=[(1, 1), (3, 1, 1)])
    assert run(target, several, PROMPTS, max_new_tokens=50, temperature=0).sequences.tolist() == plain


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
    for wrong in ("{", "[]", text.replace('"format": 1', '"format": 9'), text.replace('"mean"', '"means"')):
        path.write_text(wrong)
        with pytest.raises(DataError, match="is no selector: "):
            Selector.load(path)


def test_menus() -> None:
    assert [shape.branching for shape in menu_of([(1, 1), [1, 1], (2,)])] == [(1, 1), (2,)]
    assert prefixes(menu_of(MENU)) == [(1,), (2,), (1, 2), (2, 1)]
    assert [shape.branching for shape in cuts(Shape((3, 1, 1)))] == [(3,), (3, 1), (3, 1, 1)]
    assert len(menu_of(USUAL)) <= 12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"menu": MENU}, "menu is what a pace chooses among; pass pace='goodput'"),
        ({"menu": MENU, "pace": "goodput", "depth": 2}, "menu and depth both say what is drafted"),
        ({"menu": [], "pace": "goodput"}, "the menu has 0 shapes"),
        ({"menu": [(at + 1,) for at in range(MOST + 1)], "pace": "goodput"}, "the menu has 65 shapes"),
        ({"menu": [(1,), ()], "pace": "goodput"}, "the menu has a shape without levels"),
        ({"menu": [(1, 0)], "pace": "goodput"}, "branching is 0"),
        (
            {"menu": [(2,), (3,)], "pace": "goodput", "law": "greedy", "solver": "pick_by_plan"},
            "as many children in all",
        ),
        ({"menu": [(1,), (9,)], "pace": "goodput", "law": "top_k"}, "9 different children of one node"),
        ({"menu": [(1, 1, 1)], "pace": Goodput(DEAR, selector=drawn())}, "the selector was not made for branching"),
    ],
    ids=str,
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        generate(*pair(8), PROMPTS, **settings, max_new_tokens=2)


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
