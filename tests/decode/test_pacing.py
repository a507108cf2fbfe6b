"""Where drafts end: by their prefix alone, or at depths that are chosen step by step, near the best of all."""

import copy
import itertools
import json
import math
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from otspec.decode import Goodput, MeasuredCosts, MultiDraft, PassCosts, PassTimes, StepCosts, generate, run
from otspec.decode.drafters.paced import PacedDrafter
from otspec.decode.methods import PromptLookup
from otspec.decode.pacing.acceptance import PRIOR, Acceptance
from otspec.decode.pacing.costs import TIMES, Step
from otspec.decode.pacing.goodput import PATIENCE, Pacer
from otspec.paths import Block
from otspec.verification.trees.shape import Shape
from tests.contracts.draft_models import heads, models
from tests.contracts.enumeration import every_draft
from tests.contracts.oracles import PROMPT, SETTINGS, after_prompt, law_of_texts, sampling_of
from tests.contracts.playing import Play
from tests.decode.models import pair

pytestmark = pytest.mark.usefixtures("no_gradients")

DEEPEST = 8
CHEAP = PassCosts(PassTimes((1, 32), (1.0, 1.3)), PassTimes((1,), (0.12,)))
"""Of a target to which rows are nearly free."""
DEAR = PassCosts(PassTimes((1, 32), (1.0, 2.0)), PassTimes((1,), (0.25,)), rest=0.05)
STEPS, PHASE = 1600, 100
PATH = Shape((1,) * DEEPEST)
HASTY = Goodput(DEAR, chance=0.75, weight=0.3, memory=1.5)
"""Changes its mind at every step."""
PROMPTS = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])


# --- confidence; tests/contracts has the laws that these are drawn from, and that of the text


@pytest.mark.parametrize("name", ["temperature 1", "temperature 0.6", "top-k"])
def test_a_path_ends_where_it_gets_unlikely(name: str) -> None:
    """By the model's own probabilities, whatever the settings; a stem that ends is all of its tree."""
    of, own, confidence = models(3), after_prompt({}, PROMPT).draft, 0.3
    for shape, most in (((1, 1, 1), 3), ((1, 2), 2)):
        strategy = MultiDraft(of.draft, branching=shape, draft_confidence=confidence)
        lengths = set()
        for tree in every_draft(strategy, of, PROMPT, sampling_of(of, **SETTINGS[name])).drafts.trees:
            path = tuple(tree.token[tree.line(tree.size - 1)].tolist())
            sure = np.cumprod([own(path[:at])[token] for at, token in enumerate(path)])[: tree.length]
            goes_on = shape.count(1) if shape[-1] > 1 else most - 1  # levels after which a path may end
            assert (sure[: tree.length - 1][:goes_on] >= confidence).all()
            assert tree.length == most or sure[-1] < confidence
            lengths.add(tree.length)
        assert lengths == set(range(1, most + 1))


def test_nothing_is_read_of_a_path_that_has_ended() -> None:
    of, lengths = models(3), set()
    strategy = MultiDraft(of.draft, paths=1, depth=3, draft_confidence=0.3)
    for seed in range(12):
        play = Play(strategy, of, [PROMPT], {}, seed)
        lengths.add(length := play.draft(3).trees[0].length)
        assert len(play.drafter.passes) == length  # the text, then each token but the last
    assert len(lengths) > 1


# --- depths


def _pacer(rule: Goodput, shape: Shape = PATH, texts: int = 1) -> Pacer:
    pacer = Pacer(rule, shape)
    pacer.begin(texts)
    return pacer


def _learn(pacer: Pacer, depth: int, accepted: list[int], rows: list[int]) -> None:
    """A step that drafted paths of that length to all texts."""
    pacer.learn(depth, [depth] * len(accepted), accepted, rows)


def _per_second(chances: list[float], depth: int, costs: PassCosts) -> float:
    """Tokens a second at a fixed depth, where each token is accepted by one of these chances, in equally many steps."""
    tokens = np.mean([sum(chance**d for d in range(depth + 1)) for chance in chances])
    return float(tokens / costs(Step(1, (1,) * depth)))


def _simulated(chances: list[float], costs: PassCosts) -> float:
    """Tokens a second of one text whose tokens are accepted by these chances in turn, for `PHASE` steps each."""
    rng, pacer = np.random.default_rng(0), _pacer(Goodput(costs))
    tokens, seconds = 0, 0.0
    for step in range(STEPS):
        depth = pacer.choose(DEEPEST)
        refused = rng.random(depth) >= chances[step // PHASE % len(chances)]
        accepted = int(refused.argmax()) if refused.any() else depth
        tokens += accepted + 1
        seconds += costs(Step(1, (1,) * depth))
        _learn(pacer, depth, [accepted], [0])
    return tokens / seconds


@pytest.mark.parametrize("costs", [CHEAP, DEAR], ids=["cheap", "dear"])
def test_near_the_best_fixed_depth_and_above_all_where_texts_change(costs: PassCosts) -> None:
    easy, hard, best = 0.9, 0.3, {}
    for chances in ([easy], [0.5], [hard], [0.05], [easy, hard]):
        fixed = [_per_second(chances, depth, costs) for depth in range(DEEPEST + 1)]
        best[tuple(chances)] = int(np.argmax(fixed))
        found = _simulated(chances, costs)
        if len(chances) == 1:
            assert 0.95 * max(fixed) <= found <= 1.02 * max(fixed), chances
        else:
            assert found >= 1.08 * max(fixed)
    assert best[(easy,)] > best[(hard,)] + 2  # so there is something to choose


def test_what_is_not_drafted_is_tried_now_and_then() -> None:
    never = PassCosts(PassTimes((1,), (1.0,)), PassTimes((1,), (9.0,)))
    pacer, depths = _pacer(Goodput(never)), []
    for _ in range(3 * (PATIENCE + 1)):
        depths.append(pacer.choose(DEEPEST))
        _learn(pacer, depths[-1], [0], [0])
    assert depths == ([0] * PATIENCE + [1]) * 3
    assert _pacer(Goodput(never)).choose(0) == 0


def test_the_more_texts_the_shorter_the_drafts() -> None:
    """Rows are free up to some number of them, and then they are what a pass takes."""
    costs = PassCosts(PassTimes((1, 16, 512), (1.0, 1.0, 32.0)), PassTimes((1, 64, 512), (0.1, 0.1, 0.8)))
    depths = [_pacer(Goodput(costs, chance=0.7), texts=texts).choose(DEEPEST) for texts in (1, 4, 8, 16, 64)]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[1] > depths[2] > depths[-1] == 0


def test_a_batch_counts_the_tokens_of_all_its_texts() -> None:
    """One text of two is good and leaves: then the other decides alone."""
    pacer = _pacer(Goodput(DEAR), texts=2)
    for _ in range(30):
        pacer.choose(DEEPEST)
        _learn(pacer, DEEPEST, [DEEPEST, 0], [0, 1])
    together = pacer.choose(DEEPEST)
    _learn(pacer, DEEPEST, [DEEPEST, 0], [1])
    assert pacer.choose(DEEPEST) <= 1 < together


def test_estimates_are_ratios_of_counts() -> None:
    """Of two texts, the second of which leaves: written out for two paths behind a token."""
    chance, weight, memory = 0.6, 1.5, 4.0
    worth = [1.0, 2**0.5, 2**0.25]
    steps = [((3, 0), (3, 0)), ((3, 2), (1, 2)), ((2,), (0,)), ((0,), (0,)), ((2,), (2,)), ((3,), (3,)), ((2,), (1,))]
    estimates = Acceptance(2, Shape((1, 2, 1)), chance, weight, memory)
    tried, accepted = np.zeros(3), np.zeros(3)
    refused, expected = np.zeros(2), np.zeros(2)

    def chances() -> list[float]:
        found, refusal = [], 1 - chance
        for level in range(3):
            total = PRIOR * refusal
            if tried[level]:
                total += tried[level] * (1 - accepted[level] / tried[level]) ** (1 / worth[level])
            refusal = total / (PRIOR + tried[level])
            found.append((PRIOR * (1 - refusal ** worth[level]) + accepted[level]) / (PRIOR + tried[level]))
        return found

    for offered, got in steps:
        before = chances()
        estimates.note(offered, got)
        tried *= 31 / 32
        accepted *= 31 / 32
        for text, (asked, many) in enumerate(zip(offered, got, strict=True)):
            refused[text] *= 0.75
            expected[text] *= 0.75
            for depth in range(1, min(asked, many + 1) + 1):
                tried[depth - 1] += 1
                accepted[depth - 1] += many >= depth
                expected[text] += 1 - before[depth - 1]
                refused[text] += many < depth
        if offered == (3, 2):
            estimates.keep([0])
    often = (refused[0] + weight) / (expected[0] + weight)
    goes_on = [1 - min(often * (1 - own), 1) for own in chances()]
    np.testing.assert_allclose(estimates.reach(), np.cumprod(goes_on))


# --- costs


def _truth(step: Step) -> float:
    branches = max(step.widths, default=1) > 1
    return 3.0 + 0.7 * bool(step.widths) + 0.9 * branches + 0.4 * len(step.widths) + 0.05 * step.rows


def test_costs_are_passes_and_a_rest_or_those_of_steps_that_were_timed() -> None:
    """Those are as they were; others, and those of several texts, lie on the line through them."""
    costs = PassCosts(PassTimes((1, 11), (1.0, 2.0)), PassTimes((1, 5), (0.1, 0.5)), rest=0.01, rest_of_level=0.002)
    assert costs(Step(1, ())) == pytest.approx(1.01)
    # Two texts, two paths behind a stem of one token: 12 rows, draft passes over 2, 2 and 4 rows.
    assert costs(Step(2, (1, 2, 2))) == pytest.approx(2.1 + (0.2 + 0.2 + 0.4) + 0.01 + 0.006)
    widths = ((), (1,), (1, 1, 1), (1,) * 8, (2, 2), (4, 4), (4, 4, 4, 4))
    timed = StepCosts(widths, tuple(_truth(Step(1, each)) for each in widths))
    for step in (Step(1, (1, 1)), Step(1, (2, 2, 2)), Step(3, (1,)), Step(2, ())):
        assert timed(step) == pytest.approx(_truth(step))
    assert StepCosts(widths, (*timed.seconds[:-1], 99.0))(Step(1, widths[-1])) == 99.0
    assert StepCosts.of(json.loads(json.dumps(asdict(timed)))) == timed


def test_costs_are_learnt_from_the_times_of_steps() -> None:
    costs, rng, wanted = MeasuredCosts(), np.random.default_rng(0), list[int]()
    choices = [PATH.cut(depth) for depth in range(DEEPEST + 1)]
    while (shape := costs.wanted(choices)) is not None:
        wanted.append(shape.depth)
        step = Step.of(1, shape)
        costs.note(step, _truth(step) * (50.0 if len(wanted) <= 3 else 1.0))  # the first of each kind is slow
    assert wanted == [DEEPEST, 0, 1] * TIMES
    for depth in range(DEEPEST + 1):
        assert costs(Step(1, (1,) * depth)) == pytest.approx(_truth(Step(1, (1,) * depth)))
    for texts, depth in itertools.product((1, 4, 16), (0, 1, 3, 8)):
        for _ in range(9):
            step = Step(texts, (1,) * depth)
            costs.note(step, _truth(step) * (rng.choice([1.0, 1.0, 1.0, 30.0])))
    assert costs(Step(8, (1,) * 5)) == pytest.approx(_truth(Step(8, (1,) * 5)), rel=0.02)


def test_what_was_measured_is_kept() -> None:
    """The lower quartile of the times of every kind of step of one text; what disturbs makes steps longer."""
    costs = MeasuredCosts()
    for seconds in (1.0, 9.0, 1.25, 8.0, 1.5, 7.0, 6.0, 5.0):
        for step, share in ((Step(1, (1,)), 1), (Step(1, ()), 2), (Step(2, ()), 1)):
            costs.note(step, seconds / share)
    assert costs.kept() == StepCosts(((1,), ()), (1.5, 0.75))


def test_what_was_timed_on_a_busy_machine_is_timed_anew() -> None:
    """Drafts looked dear at first; and later the whole machine gets slower, which changes nothing."""
    chosen, clock = list[int](), [0.0]
    pacer = _pacer(Goodput(MeasuredCosts(now=lambda: clock[0])))
    for step in range(800):
        depth = pacer.choose(DEEPEST)
        busy = 10.0 if depth and step < 40 else 3.0 if step > 600 else 1.0
        clock[0] += busy * CHEAP(Step(1, (1,) * depth))
        chosen.append(depth)
        _learn(pacer, depth, [depth], [0])
    assert np.mean(chosen[10:40]) < 2
    assert min(np.mean(chosen[400:600]), np.mean(chosen[600:])) > DEEPEST - 1


def test_steps_are_timed_from_one_to_the_next() -> None:
    clock = itertools.count(step=0.25)
    costs = MeasuredCosts(now=lambda: next(clock))
    pacer = _pacer(Goodput(costs))
    for _ in range(8):
        _learn(pacer, pacer.choose(2), [0], [0])
    assert costs(Step(1, (1, 1))) == pytest.approx(0.25)


# --- losslessness

VOCAB, LENGTH = 3, 3


def _law_of_texts(looks_ahead: bool) -> tuple[Any, Counter[int]]:
    """The exact law of texts of `LENGTH` tokens, and how many steps there are of each depth.

    A pacer that looks ahead drops the second of two drafted tokens where it is unlikely, which it may not.
    """
    law, depths = np.zeros((VOCAB,) * LENGTH), Counter[int]()
    known: dict[Any, Counter[tuple[int, ...]]] = {}

    def ends(text: tuple[int, ...], depth: int) -> Counter[tuple[int, ...]]:
        """What a step puts out, with its probability."""
        model, found = after_prompt({}, [*PROMPT, *text]), Counter[Any]()
        for path in itertools.product(range(VOCAB), repeat=depth):
            chances = [model.draft(path[:at])[token] for at, token in enumerate(path)]
            if not path:
                return Counter({(token,): float(chance) for token, chance in enumerate(model.target(()))})
            tree = model.tree([path[:1] if looks_ahead and depth == 2 and chances[1] < 0.3 else path])
            stop = Block().stop_law(tree)
            for node, token in np.ndindex(stop.shape):
                found[(*tree.prefix(node), token)] += math.prod(chances) * float(stop[node, token])
        return found

    def go_on(text: tuple[int, ...], pacer: Pacer, chance: float) -> None:
        if len(text) >= LENGTH:
            law[text[:LENGTH]] += chance
            return
        pacer = copy.deepcopy(pacer)
        depth = pacer.choose(2)
        depths[depth] += 1
        if (text, depth) not in known:
            known[text, depth] = ends(text, depth)
        for tokens, part in known[text, depth].items():
            after = copy.deepcopy(pacer)
            _learn(after, depth, [len(tokens) - 1], [0])
            go_on((*text, *tokens), after, chance * part)

    go_on((), _pacer(HASTY, Shape((1, 1))), 1.0)
    return law.ravel(), depths


def test_the_text_has_the_law_of_the_target() -> None:
    """By enumeration of all that may come up in all steps; and not if the pacer sees the drafts of its own step."""
    target = law_of_texts(after_prompt({}, PROMPT), LENGTH, VOCAB)
    law, depths = _law_of_texts(looks_ahead=False)
    assert depths.keys() == {0, 1, 2}
    np.testing.assert_allclose(law, target, atol=1e-12)
    assert np.abs(_law_of_texts(looks_ahead=True)[0] - target).sum() > 0.01


# --- in the loop


def test_costs_that_are_given_make_a_seed_repeat_the_text() -> None:
    """Of one draft model, and of two that are paced together."""
    target, draft = pair(8)
    for drafts, more in ((draft, {}), ([draft, pair(8, noise=0.6)[1]], {"law": "independent", "depth": 2})):
        settings: dict[str, Any] = {"pace": HASTY, "max_new_tokens": 20, **more}
        one, same, other = (generate(target, drafts, PROMPTS, **settings, seed=seed) for seed in (1, 1, 2))
        assert one.sequences.tolist() == same.sequences.tolist() != other.sequences.tolist()
        assert one.metrics.offered == same.metrics.offered
        assert one.metrics.sequence_steps > one.metrics.offered[0] > one.metrics.offered[1] > 0


def test_what_is_measured_serves_the_next_text() -> None:
    target, draft = pair(8)
    costs = MeasuredCosts()
    strategy = MultiDraft(draft, pace=Goodput(costs))
    run(target, strategy, PROMPTS[:1], max_new_tokens=40, seed=0)
    assert None in {costs.wanted([PATH.cut(depth) for depth in range(DEEPEST + 1)]) for _ in range(2)}
    seconds = [costs(Step(1, (1,) * depth)) for depth in range(DEEPEST + 1)]
    assert all(0 < one <= next_ for one, next_ in itertools.pairwise(seconds))
    by_name = MultiDraft(draft, pace="goodput")
    assert by_name.pace is by_name.pace


def test_copies_are_paced_where_rows_are_dear() -> None:
    """Copied text that is never right is soon copied no longer; text that repeats itself is."""
    target = pair(40, seed=1)[0]  # whose greedy text repeats itself
    per_row = Goodput(PassCosts(PassTimes((1, 9), (1.0, 2.0)), PassTimes((1,), (0.0,))))

    def drafted(pace: Any, paths: int = 1, **settings: Any) -> Any:
        return run(target, PromptLookup(8, paths=paths, pace=pace), PROMPTS, max_new_tokens=50, **settings)

    plain = target.generate(PROMPTS, max_new_tokens=50, do_sample=False).tolist()
    for found in (
        drafted(per_row, temperature=0),
        drafted("goodput", temperature=0),
        drafted(per_row, 3, temperature=0),
    ):
        assert found.sequences.tolist() == plain
    wild: dict[str, Any] = {"temperature": 3.0, "seed": 1}
    assert drafted(per_row, **wild).metrics.drafted_nodes < 0.5 * drafted(None, **wild).metrics.drafted_nodes
    assert drafted(per_row, temperature=0).metrics.block_efficiency > 1.2


def test_who_looks_at_the_target_still_does() -> None:
    of = models(8)
    for model, layers in ((of.draft, []), (heads("medusa", of.target), [2])):
        drafter = MultiDraft(model, pace="goodput").prepare(8, sampling_of(of), torch.Generator()).drafter
        assert type(drafter) is PacedDrafter
        assert list(drafter.layers) == layers
