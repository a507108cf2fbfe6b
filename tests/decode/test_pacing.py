"""Depths that are chosen step by step: near the best of all fixed ones, above them where texts change, and lossless."""

import copy
import itertools
import json
import math
from collections import Counter
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")

from otspec import ProblemError  # noqa: E402
from otspec.decode import Goodput, MeasuredCosts, MultiDraft, PassCosts, PassTimes, StepCosts, generate, run  # noqa: E402
from otspec.decode.drafters.heads.model import MedusaHeads  # noqa: E402
from otspec.decode.drafters.paced import PacedDrafter  # noqa: E402
from otspec.decode.methods import PromptLookup  # noqa: E402
from otspec.decode.pacing.acceptance import PRIOR, Acceptance  # noqa: E402
from otspec.decode.pacing.costs import TIMES, Step  # noqa: E402
from otspec.decode.pacing.goodput import PATIENCE, Pacer  # noqa: E402
from otspec.paths import Block, Model, PathVerifier, TokenWise  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from tests.decode.models import law_after, pair  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

DEEPEST = 8
CHEAP = PassCosts(PassTimes((1, 32), (1.0, 1.3)), PassTimes((1,), (0.12,)))
"""Of a target to which rows are nearly free."""
DEAR = PassCosts(PassTimes((1, 32), (1.0, 2.0)), PassTimes((1,), (0.25,)), rest=0.05)
STEPS, PHASE = 1600, 100


PATH = Shape((1,) * DEEPEST)


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


def _simulated(chances: list[float], costs: PassCosts, seed: int) -> float:
    """Tokens a second of one text whose tokens are accepted by these chances in turn, for `PHASE` steps each."""
    rng, pacer = np.random.default_rng(seed), _pacer(Goodput(costs))
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
    easy, hard = 0.9, 0.3
    best = {}
    for chances in ([easy], [0.5], [hard], [0.05], [easy, hard]):
        fixed = [_per_second(chances, depth, costs) for depth in range(DEEPEST + 1)]
        best[tuple(chances)] = int(np.argmax(fixed))
        found = _simulated(chances, costs, seed=0)
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
    tried, accepted = [0.0] * 3, [0.0] * 3
    refused, expected = [0.0, 0.0], [0.0, 0.0]

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
        for level in range(3):
            tried[level] *= 31 / 32
            accepted[level] *= 31 / 32
        for text, (asked, many) in enumerate(zip(offered, got, strict=True)):
            refused[text] *= 0.75
            expected[text] *= 0.75
            for depth in range(1, asked + 1):
                if many >= depth - 1:
                    tried[depth - 1] += 1
                    accepted[depth - 1] += many >= depth
                    expected[text] += 1 - before[depth - 1]
                    refused[text] += many < depth
        if offered == (3, 2):
            estimates.keep([0])
    often = (refused[0] + weight) / (expected[0] + weight)
    goes_on = [1 - min(often * (1 - own), 1) for own in chances()]
    np.testing.assert_allclose(estimates.reach(), np.cumprod(goes_on))


def test_costs_are_passes_and_a_rest() -> None:
    costs = PassCosts(PassTimes((1, 11), (1.0, 2.0)), PassTimes((1, 5), (0.1, 0.5)), rest=0.01, rest_of_level=0.002)
    assert costs(Step(1, ())) == pytest.approx(1.01)
    # Two texts, two paths behind a stem of one token: 12 rows, draft passes over 2, 2 and 4 rows.
    assert costs(Step(2, (1, 2, 2))) == pytest.approx(2.1 + (0.2 + 0.2 + 0.4) + 0.01 + 0.006)


def test_costs_of_steps_that_were_timed() -> None:
    """Those are as they were; others, and those of several texts, lie on the line through them."""

    def truth(step: Step) -> float:
        branches = max(step.widths, default=1) > 1
        return 3.0 + 0.7 * bool(step.widths) + 0.9 * branches + 0.4 * len(step.widths) + 0.05 * step.rows

    widths = [(), (1,), (1, 1, 1), (1,) * 8, (2, 2), (4, 4), (4, 4, 4, 4)]
    costs = StepCosts(tuple(widths), tuple(truth(Step(1, each)) for each in widths))
    for step in (Step(1, (1, 1)), Step(1, (2, 2, 2)), Step(3, (1,)), Step(2, ())):
        assert costs(step) == pytest.approx(truth(step))
    off = StepCosts(costs.widths, (*costs.seconds[:-1], 99.0))
    assert off(Step(1, (4, 4, 4, 4))) == 99.0
    assert StepCosts.of(json.loads(json.dumps(asdict(costs)))) == costs


def test_costs_are_learnt_from_the_times_of_steps() -> None:
    def truth(step: Step) -> float:
        return 3.0 + 0.7 * bool(step.widths) + 0.4 * len(step.widths) + 0.05 * step.rows

    costs, rng = MeasuredCosts(), np.random.default_rng(0)
    wanted = []
    choices = [PATH.cut(depth) for depth in range(DEEPEST + 1)]
    while (shape := costs.wanted(choices)) is not None:
        wanted.append(shape.depth)
        step = Step.of(1, shape)
        costs.note(step, truth(step) * (50.0 if len(wanted) <= 3 else 1.0))  # the first of each kind is slow
    assert wanted == [DEEPEST, 0, 1] * TIMES
    for depth in range(DEEPEST + 1):
        assert costs(Step(1, (1,) * depth)) == pytest.approx(truth(Step(1, (1,) * depth)))
    for texts, depth in itertools.product((1, 4, 16), (0, 1, 3, 8)):
        for _ in range(9):
            step = Step(texts, (1,) * depth)
            costs.note(step, truth(step) * (rng.choice([1.0, 1.0, 1.0, 30.0])))
    assert costs(Step(8, (1,) * 5)) == pytest.approx(truth(Step(8, (1,) * 5)), rel=0.02)


def test_what_was_measured_is_kept() -> None:
    """The lower quartile of the times of every kind of step of one text; what disturbs makes steps longer."""
    costs = MeasuredCosts()
    for seconds in (1.0, 9.0, 1.25, 8.0, 1.5, 7.0, 6.0, 5.0):
        costs.note(Step(1, (1,)), seconds)
        costs.note(Step(1, ()), seconds / 2)
        costs.note(Step(2, ()), seconds)
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
    assert np.mean(chosen[400:600]) > DEEPEST - 1
    assert np.mean(chosen[600:]) > DEEPEST - 1


def test_steps_are_timed_from_one_to_the_next() -> None:
    clock = itertools.count(step=0.25)
    costs = MeasuredCosts(now=lambda: next(clock))
    pacer = _pacer(Goodput(costs))
    for _ in range(8):
        _learn(pacer, pacer.choose(2), [0], [0])
    assert costs(Step(1, (1, 1))) == pytest.approx(0.25)


# Losslessness.

VOCAB, LENGTH, PROMPT = 3, 3, (1, 2, 0)
HASTY = Goodput(DEAR, chance=0.75, weight=0.3, memory=1.5)
"""Changes its mind at every step."""


@cache
def _after(role: int, text: tuple[int, ...]) -> Any:
    return law_after(pair(VOCAB)[role], [*PROMPT, *text])


def _outcomes(text: tuple[int, ...], path: tuple[int, ...], verifier: PathVerifier) -> dict[tuple[int, ...], float]:
    """What a step puts out that drafts this path: probabilities by its tokens."""
    if not path:
        return {(token,): float(chance) for token, chance in enumerate(_after(0, text))}
    target, draft = (partial(lambda role, prefix: _after(role, (*text, *prefix)), role) for role in (0, 1))
    tree = Model(target, draft).tree([path])
    law = verifier.stop_law(tree)
    return {(*tree.prefix(node), token): float(law[node, token]) for node, token in np.ndindex(law.shape)}


def _law_of_texts(verifier: PathVerifier, looks_ahead: bool) -> tuple[Any, Counter[int]]:
    """The exact law of texts of `LENGTH` tokens, and how many steps there are of each depth.

    A pacer that looks ahead drops the second of two drafted tokens where it is unlikely, which it may not.
    """
    law, depths = np.zeros((VOCAB,) * LENGTH), Counter[int]()
    known: dict[Any, dict[tuple[int, ...], float]] = {}

    def go_on(text: tuple[int, ...], pacer: Pacer, chance: float) -> None:
        if len(text) >= LENGTH:
            law[text[:LENGTH]] += chance
            return
        pacer = copy.deepcopy(pacer)
        depth = pacer.choose(2)
        depths[depth] += 1
        if (text, depth) not in known:
            ends: dict[tuple[int, ...], float] = {}
            for path in itertools.product(range(VOCAB), repeat=depth):
                drawn = math.prod(_after(1, (*text, *path[:i]))[token] for i, token in enumerate(path))
                unlikely = depth == 2 and _after(1, (*text, path[0]))[path[1]] < 0.3
                for tokens, part in _outcomes(text, path[:1] if looks_ahead and unlikely else path, verifier).items():
                    ends[tokens] = ends.get(tokens, 0.0) + float(drawn) * part
            known[text, depth] = ends
        for tokens, part in known[text, depth].items():
            after = copy.deepcopy(pacer)
            _learn(after, depth, [len(tokens) - 1], [0])
            go_on((*text, *tokens), after, chance * part)

    go_on((), _pacer(HASTY, Shape((1, 1))), 1.0)
    return law, depths


@pytest.mark.parametrize("verifier", [Block(), TokenWise("single")], ids=["block", "single"])
def test_the_text_has_the_law_of_the_target(verifier: PathVerifier) -> None:
    """By enumeration of all that may come up in all steps; and not if the pacer sees the drafts of its own step."""
    target = np.ones((VOCAB,) * LENGTH)
    for size in range(LENGTH):
        for prefix in itertools.product(range(VOCAB), repeat=size):
            target[prefix] *= _after(0, prefix).reshape((-1,) + (1,) * (LENGTH - 1 - size))
    law, depths = _law_of_texts(verifier, looks_ahead=False)
    assert depths.keys() == {0, 1, 2}
    np.testing.assert_allclose(law, target, atol=1e-12)
    assert np.abs(_law_of_texts(verifier, looks_ahead=True)[0] - target).sum() > 0.01


def test_texts_of_a_batch() -> None:
    """Counted, at depths that costs make change from step to step."""
    runs, turn = 400, itertools.count()

    def costs(step: Step) -> float:
        return (0.1 if len(step.widths) == (2 + next(turn) // 3) % 3 else 1.0) * (1 + len(step.widths))

    prompts = torch.tensor([PROMPT]).repeat(runs, 1)
    text = generate(*pair(VOCAB), prompts, branching=(2, 1), pace=Goodput(costs), max_new_tokens=LENGTH + 1, seed=1)
    assert text.metrics.sequence_steps > text.metrics.offered[0] > text.metrics.offered[1] > 0
    expected = np.full((VOCAB,) * LENGTH, float(runs))
    for size in range(LENGTH):
        for prefix in itertools.product(range(VOCAB), repeat=size):
            expected[prefix] *= _after(0, prefix).reshape((-1,) + (1,) * (LENGTH - 1 - size))
    codes = np.array(text.new_tokens)[:, :LENGTH] @ VOCAB ** np.arange(LENGTH)[::-1]
    counts, wanted = np.bincount(codes, minlength=expected.size), expected.ravel()
    small = wanted < 5
    pooled = [np.append(part[~small], part[small].sum() + 1e-9) for part in (counts, wanted)]
    assert chisquare(pooled[0], pooled[1]).pvalue > 1e-4


# In the loop.

PROMPTS = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])


def _watching(target: Any) -> Any:
    return MedusaHeads.of(target, 3)


@pytest.mark.parametrize("more", [{"paths": 3, "law": "top_k"}, {"pace": Goodput(DEAR), "heads": True}], ids=str)
def test_greedy_decoding(more: dict[str, Any]) -> None:
    target, draft = pair(40)
    settings = dict(more)
    if settings.pop("heads", False):
        draft = _watching(target)
    plain = target.generate(PROMPTS, max_new_tokens=24, do_sample=False).tolist()
    text = generate(target, draft, PROMPTS, **{"pace": "goodput", **settings}, max_new_tokens=24, temperature=0)
    assert text.sequences.tolist() == plain


def test_several_draft_models_are_paced_together() -> None:
    target, draft = pair(8)
    settings: dict[str, Any] = {"law": "independent", "depth": 3, "pace": HASTY, "max_new_tokens": 30, "seed": 0}
    text = generate(target, [draft, pair(8, noise=0.6)[1]], PROMPTS, **settings)
    assert len(set(text.metrics.offered)) > 1
    assert all(len(new) == 30 for new in text.new_tokens)


def test_costs_that_are_given_make_a_seed_repeat_the_text() -> None:
    target, draft = pair(8)
    settings: dict[str, Any] = {"pace": HASTY, "max_new_tokens": 40}
    one, same, other = (generate(target, draft, PROMPTS, **settings, seed=seed) for seed in (1, 1, 2))
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
    per_row = PassCosts(PassTimes((1, 9), (1.0, 2.0)), PassTimes((1,), (0.0,)))

    def drafted(pace: Any, **settings: Any) -> Any:
        return run(target, PromptLookup(8, pace=pace), PROMPTS, max_new_tokens=50, **settings)

    plain = target.generate(PROMPTS, max_new_tokens=50, do_sample=False).tolist()
    for pace in (Goodput(per_row), "goodput"):
        assert drafted(pace, temperature=0).sequences.tolist() == plain
    wild = {"temperature": 3.0, "seed": 1}
    assert drafted(Goodput(per_row), **wild).metrics.drafted_nodes < 0.5 * drafted(None, **wild).metrics.drafted_nodes
    assert drafted(Goodput(per_row), temperature=0).metrics.block_efficiency > 1.2
    several = PromptLookup(paths=3, pace=Goodput(per_row))
    assert run(target, several, PROMPTS, max_new_tokens=50, temperature=0).sequences.tolist() == plain


def test_a_rule_that_needs_as_many_children_everywhere_is_not_paced_on_others() -> None:
    settings: dict[str, Any] = {"law": "greedy", "solver": "pick_by_plan", "pace": HASTY, "max_new_tokens": 2}
    with pytest.raises(ProblemError, match="needs as many children on every level"):
        generate(*pair(8), PROMPTS, branching=(2, 1), **settings)


def test_who_looks_at_the_target_still_does() -> None:
    target, draft = pair(40)

    def drafter(model: Any) -> Any:
        from otspec.decode.base.sampling import Sampling

        sampling = Sampling(target._get_logits_processor(target.generation_config, device="cpu", model_kwargs={}), True)
        return MultiDraft(model, pace="goodput").prepare(40, sampling, torch.Generator()).drafter

    assert type(drafter(draft)) is PacedDrafter
    assert not drafter(draft).layers
    assert list(drafter(_watching(target)).layers) == list(_watching(target).config.features)


def test_what_is_refused() -> None:
    target, draft = pair()
    for pace in ("fast", 3, ""):
        with pytest.raises(ProblemError, match=r"pace is .*; it is 'goodput', or an otspec.decode.Goodput"):
            MultiDraft(draft, pace=pace)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="pace and draft_confidence both say where drafts end"):
        MultiDraft(draft, pace="goodput", draft_confidence=0.5)
    with pytest.raises(ProblemError, match="pace chooses how much to draft, and branching is"):
        generate(target, draft, PROMPTS, pace="goodput", branching=[], max_new_tokens=2)
    with pytest.raises(ProblemError, match=r"costs gives .* seconds by branching"):
        generate(target, draft, PROMPTS, pace=Goodput(lambda step: math.nan), max_new_tokens=4)
    for rows, seconds in (((), ()), ((1, 2), (1.0,)), ((2, 1), (1.0, 1.0)), ((1,), (-1.0,)), ((1,), (math.nan,))):
        with pytest.raises(ProblemError, match="passes"):
            PassTimes(rows, seconds)
    for widths, seconds in (((), ()), (((),), (1.0, 2.0))):
        with pytest.raises(ProblemError, match="pass as many of both"):
            StepCosts(widths, seconds)
    for wrong in (0.0, math.nan, math.inf):
        with pytest.raises(ProblemError, match="all are finite, and above 0"):
            StepCosts(((),), (wrong,))
    for name, value in (("chance", 1.0), ("chance", math.nan), ("weight", 0.0), ("memory", 1), ("costs", 3)):
        with pytest.raises(ProblemError, match=f"{name} is {value}"):
            Goodput(**{name: value})  # type: ignore[arg-type]
