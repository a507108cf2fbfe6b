"""Shapes that are chosen from a menu step by step: lossless, near the best one, and what is refused."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError  # noqa: E402
from otspec.decode import Goodput, MeasuredCosts, PassCosts, PassTimes, generate, run  # noqa: E402
from otspec.decode.methods import PromptLookup  # noqa: E402
from otspec.decode.models.fed import FedLlama  # noqa: E402
from otspec.decode.models.heads import MedusaHeads  # noqa: E402
from otspec.decode.models.steered import SteeredLlama  # noqa: E402
from otspec.decode.pacing.costs import Step  # noqa: E402
from otspec.decode.pacing.goodput import Pacer  # noqa: E402
from otspec.decode.pacing.kernels import best_of  # noqa: E402
from otspec.decode.pacing.menu import MOST, NONE, USUAL, beginnings, cuts, members, menu_of, prefixes  # noqa: E402
from otspec.decode.training.kinds import three_layers  # noqa: E402
from otspec.paths import Model, Nested, PathVerifier, TokenWise  # noqa: E402
from otspec.paths.enumeration import trees_of  # noqa: E402
from otspec.paths.shape import Shape  # noqa: E402
from otspec.paths.tree import Tree  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402
from tests.decode.paces import DEAR, MENU, PROMPTS, drawn  # noqa: E402

VOCAB, LENGTH, PROMPT = 3, 3, (1, 2, 0)


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


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
    "selector": Goodput(_close(1.29, 1.4, 1.5, 1.6), selector=drawn(scale=1.0, seed=4)),
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


def test_the_choice_of_the_most_tokens_a_second() -> None:
    rng, shapes = np.random.default_rng(0), [NONE, *menu_of(USUAL)]
    branchings = prefixes(menu_of(USUAL))
    for texts in (1, 5):
        reach, seconds = texts * rng.random(len(branchings)), rng.random(len(shapes)) + 0.5
        given = [
            texts + sum(reach[branchings.index(shape.branching[:depth])] for depth in range(1, shape.depth + 1))
            for shape in shapes
        ]
        assert best_of(texts, members(shapes, branchings), reach, seconds) == np.argmax(np.array(given) / seconds)
    alike = np.ones(len(shapes))
    assert best_of(1, members(shapes, branchings), np.zeros(len(branchings)), alike) == 0  # the first of several


# Menus, and what is refused.


def test_menus() -> None:
    assert [shape.branching for shape in menu_of([(1, 1), [1, 1], (2,)])] == [(1, 1), (2,)]
    assert prefixes(menu_of(MENU)) == [(1,), (2,), (1, 2), (2, 1)]
    assert [shape.branching for shape in cuts(Shape((3, 1, 1)))] == [(3,), (3, 1), (3, 1, 1)]
    assert len(menu_of(USUAL)) <= 12
    assert beginnings([(1,), (2,), (1, 2)]).tolist() == [[0, 3], [1, 3], [0, 2]]
    assert members([NONE, Shape((1, 2))], [(1,), (2,), (1, 2)]).tolist() == [[0, 0, 0], [1, 0, 1]]


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
