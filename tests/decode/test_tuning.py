"""Tuning: the cost model against hand values, the choice on clocks of our own, and the settings file."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import otspec
from otspec import DataError, ProblemError
from otspec.decode import Metrics, Tuned, Tuning, tune
from otspec.decode.models.context import Context
from otspec.decode.tuning.candidates import LOOKUP, PLAIN, Candidate, Family, families
from otspec.decode.tuning.costs import CostModel, Trial
from otspec.decode.tuning.race import Raced, SpeedUp, race, winner
from otspec.decode.tuning.trials import TimedStep, trial_of
from tests.contracts.draft_models import shared
from tests.decode.models import pair, tiny

PROMPTS = [[1, 2, 3, 4], [5, 6, 7], [2, 4, 6, 1, 3]]
PROMPT = torch.tensor([[1, 2, 3]])
TARGET, DRAFT = pair(40, noise=0.1)


def small(**settings: Any) -> dict[str, Any]:
    """A tuning that takes a few texts."""
    return {"paths": [1, 2], "depth": 3, "draft_top_k": [3], "seconds": 1.0, "max_new_tokens": 16, **settings}


def on_own_clock(draft_cost: float, row: float = 0.0, models: Any = (TARGET, DRAFT), **settings: Any) -> Tuning:
    """Tune a pair on a clock that passes alone move: the target's takes a second, and `row` for each further token."""
    target, draft = models
    costs: dict[int, Any] = {id(target): lambda rows: 1 + row * (rows - 1), id(draft): lambda rows: draft_cost}
    clock, read = [0.0], Context.read

    def timed(context: Context, tokens: Any, *rest: Any, **more: Any) -> Any:
        clock[0] += costs[id(context.model)](tokens.shape[1]) if id(context.model) in costs else 0
        return read(context, tokens, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "read", timed)
        return tune(target, draft, PROMPTS, now=lambda: clock[0], **small(**settings))


# --- the cost model


def test_the_cost_model_by_hand() -> None:
    """Of two paths, with trials at depths 1 and 3; texts of 10 tokens."""
    trial = Trial({3: 13.5, 1: 7.5}, start=2.0, acceptance=(0.8, 0.5, 0.25))
    model = CostModel(Trial({0: 5.0}, start=1.0), {LOOKUP: trial, Family(2, "nested"): trial}, text=10)
    found = [model.predict(Candidate(Family(2, "nested"), depth)) for depth in (1, 2, 3)]
    assert [one.tokens for one in found] == pytest.approx([1.8, 2.3, 2.55])
    assert [one.step for one in found] == pytest.approx([7.5, 10.5, 13.5])
    assert [one.per_token for one in found] == pytest.approx([7.5 / 1.8 + 0.2, 10.5 / 2.3 + 0.2, 13.5 / 2.55 + 0.2])
    plain = model.predict(PLAIN)
    assert (plain.tokens, plain.step, plain.per_token) == (1.0, 5.0, 5.1)
    assert model.best() == [replace(found[0], candidate=Candidate(LOOKUP, 1)), found[0]]
    assert model.speed_up(found[0]) == pytest.approx(5.1 / (7.5 / 1.8 + 0.2))
    assert [one.candidate.depth for one in model.every()] == [0, 1, 2, 3, 1, 2, 3]


def run(start: float, *steps: tuple[int, float]) -> Any:
    """A text of a trial, by what its prompt took, and the depths and seconds of its steps."""
    return SimpleNamespace(start=start, steps=[TimedStep(*one) for one in steps], metrics=Metrics(accepted=[1]))


def test_a_machine_that_slows_down_changes_no_prediction() -> None:
    """The second text at half the speed, which the family may have left before; and one that is decoded beside it."""
    first, second = ((0, 1.0),) * 3, ((0, 2.0),) * 3
    plain = [run(0.5, *first), run(1.0, *second), run(1.0, *second)]
    whole = [run(0.7, (1, 1.5), (1, 1.5), (2, 1.8)), run(1.4, (1, 3.0), (1, 3.0), (2, 3.6))]
    found = [trial_of(whole[:texts], plain, 2) for texts in (1, 2)]
    assert [one.steps for one in found] == [{1: 3.0, 2: 3.6}] * 2
    assert [one.start for one in found] == pytest.approx([1.4] * 2)
    assert found[0].acceptance == (1 / 3, 0.0)
    assert trial_of(plain, plain, 0) == Trial({0: 2.0}, 1.0, texts=3)


# --- what is tried, and the race


def test_what_is_tried() -> None:
    sampled = families([2, 1, 1], [20, 50, 100], {"temperature": 1.0, "top_k": 50}, 2048)
    assert sampled == [
        *(Family(1, "block"), Family(1, "block", draft_top_k=20)),
        *(Family(2, "nested"), Family(2, "nested", draft_top_k=20), Family(2, "nested", stem=2), LOOKUP),
    ]
    greedy = families([1, 2, 9], [20], {"temperature": 0}, 8)
    assert [one.settings(3) for one in greedy] == [
        {"paths": 1, "depth": 3, "solver": "block"},
        {"paths": 2, "depth": 3, "law": "top_k", "draft_temperature": 1.0},
        {"paths": 2, "depth": 3},
        {"paths": 2, "depth": 3, "prompt_lookup": 3},
        {"depth": 3},
    ]
    methods = ["multi-draft", "multi-draft", "dynamic-tree", "dynamic-tree", "prompt-lookup"]
    assert [Candidate(one, 5).method for one in greedy] == methods
    assert Candidate(greedy[3], 5).name == "dynamic trees, K = 2, beside a copied path, L = 5"
    assert Candidate(sampled[0], 5).name == "block, K = 1, L = 5"
    assert Candidate(sampled[3], 5).name == "nested, K = 2, drafts of top-k 20, L = 5"
    stem = sampled[-2]
    for branching in ([1, 1, 2, 1, 1], [1, 1, 2], [1, 1], [1]):
        assert stem.settings(len(branching)) == {"branching": branching, "solver": "nested"}


def test_the_interval_of_a_speed_up() -> None:
    """Logarithms of the ratios 1, 2 and 4: mean log 2, standard error log 2 / sqrt 3, and Student's law by tables."""
    found = SpeedUp.of([3.0, 4.0, 8.0], [3.0, 2.0, 2.0])
    reach = 2.0 ** (4.302653 / math.sqrt(3))
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0 / reach, 2.0 * reach), rel=1e-6)
    both = SpeedUp.of([3.0, 4.0, 8.0], [3.0, 2.0, 2.0], comparisons=2)
    assert both.high == pytest.approx(2.0 * 2.0 ** (6.205347 / math.sqrt(3)), rel=1e-6)
    one = SpeedUp.of([3.0], [1.0])
    assert (one.low, one.high) == (0.0, math.inf)
    assert str(SpeedUp(1.384, 1.3, 1.5)) == "1.38 [1.30, 1.50]"
    with pytest.raises(ValueError, match="shape"):
        SpeedUp.of([1.0, 2.0], [1.0, 2.0, 3.0])
    assert Raced(PLAIN, (1.0, 1.0), SpeedUp.of([1.0, 1.0], [1.0, 1.0])).speed_up == SpeedUp(1.0, 1.0, 1.0)


def test_a_race_is_fair_and_won_beyond_doubt_only() -> None:
    fast, unsure = Candidate(Family(1, "block"), 2), Candidate(Family(2, "nested"), 2)
    numbers: list[int] = []
    noise = itertools.cycle((0.2, 2.0))

    def timed(prompt: int) -> list[float]:
        numbers.append(prompt)
        return [1.0, 0.8 + 0.01 * prompt, next(noise)]

    raced = race([fast, unsure], timed, 7, 0.0, lambda: 0.0)
    assert numbers == list(range(7, 13))
    assert [one.candidate for one in raced] == [PLAIN, fast, unsure]
    assert raced[2].speed_up.value > raced[1].speed_up.value > 1 > raced[2].speed_up.low
    plain = next(iter(raced)).per_token
    assert raced[1].speed_up == SpeedUp.of(plain, raced[1].per_token, comparisons=2)
    assert winner(raced).candidate == fast
    assert winner([raced[0], raced[2]]).candidate == PLAIN
    assert winner([raced[0], replace(raced[1], speed_up=SpeedUp(1.0, 1.0, 1.0))]).candidate == PLAIN
    _, alone = race([fast], lambda prompt: timed(prompt)[:2], 7, 0.0, lambda: 0.0)
    assert alone.speed_up == SpeedUp.of(plain, alone.per_token)


# --- on clocks of our own


def test_a_fast_draft_model_pays_as_predicted() -> None:
    found = on_own_clock(0.01, seconds=250.0, max_new_tokens=32)
    best = found.tuned
    assert best.method == "multi-draft"
    chosen = next(one for one in found.raced if one.candidate.settings == best.settings)
    assert chosen.speed_up.low > 1
    assert best.figures["measured_speed_up"] == chosen.speed_up.value
    assert best.figures["predicted_speed_up"] == pytest.approx(chosen.speed_up.value, rel=0.25)
    assert f"{chosen.speed_up} times as fast as plain decoding" in best.why
    # Nothing but passes takes time on this clock: a draft pass a hundredth of the target's.
    assert found.prediction(PLAIN).step == pytest.approx(1.0)
    assert found.prediction(Candidate(Family(2, "nested"), 3)).step == pytest.approx(1.03)
    assert all(one.start < 0.02 for one in (found.model.plain, *found.model.trials.values()))


def test_a_drafter_of_few_tokens_is_tried_as_deep_as_it_goes() -> None:
    few: dict[str, Any] = {"paths": [1], "depth": 4, "draft_top_k": []}
    found = on_own_clock(0.01, models=(tiny(12), shared(tiny(12), masks=2)), **few)
    trial = found.model.trials[Family(1, "block")]
    assert (set(trial.steps), len(trial.acceptance)) == ({1, 3}, 3)  # a path has no more tokens than masks and one
    assert list(trial.steps.values()) == pytest.approx([1.01, 1.01])  # all depths in one pass


def test_a_draft_as_slow_as_the_target_means_plain_decoding() -> None:
    found = on_own_clock(1.0, row=0.5)
    assert (found.tuned.method, found.tuned.settings) == ("vanilla", {})
    assert "nothing is faster than plain decoding beyond doubt; the best," in found.tuned.why
    assert all(one.speed_up.value < 1 for one in found.raced if one.candidate != PLAIN)
    drafted = [one for one in found.model.every()[1:] if one.candidate.family != LOOKUP]
    assert all(found.model.speed_up(one) < 1 for one in drafted)
    again = otspec.generate(TARGET, DRAFT, PROMPT, **found.tuned.for_generate, max_new_tokens=9, seed=4)
    assert (again.metrics.target_calls, again.metrics.offered, again.metrics.drafted_nodes) == (9, [], 0)
    assert found.tuned.generate(TARGET, DRAFT, PROMPT, max_new_tokens=9, seed=4).new_tokens == again.new_tokens


def test_what_the_text_repeats_is_copied_where_the_draft_model_is_slow(tmp_path: Path) -> None:
    """The greedy texts of this model go round in circles; and a step of copies costs the target's pass alone."""
    target, draft = models = tiny(16, seed=1), tiny(16, seed=2)
    found = on_own_clock(1.0, models=models, temperature=0, max_new_tokens=48, seconds=3000.0)
    assert found.tuned.method == "prompt-lookup"
    assert any(family.dynamic for family in found.model.trials)
    trial = found.model.trials[LOOKUP]
    assert all(later <= sooner for sooner, later in itertools.pairwise(trial.acceptance))
    assert 0 < trial.acceptance[0] < 1  # at first there is nothing to copy, which counts
    assert list(trial.steps.values()) == pytest.approx([1.0, 1.0])
    best = found.tuned.figures
    assert best["predicted_speed_up"] == pytest.approx(best["measured_speed_up"], rel=0.25)
    found.tuned.save(tmp_path / "settings.json")
    text = Tuned.load(tmp_path / "settings.json").generate(target, draft, PROMPT, max_new_tokens=30)
    assert text.sequences.tolist() == target.generate(PROMPT, do_sample=False, max_new_tokens=30).tolist()
    assert text.metrics.target_calls < 30
    with pytest.raises(ProblemError, match=r"the fastest here is prompt-lookup; call tuned\.generate"):
        found.tuned.for_generate  # noqa: B018


# --- what was found


@pytest.fixture(scope="module")
def found() -> Tuning:
    return on_own_clock(0.01, temperature=0.8, top_k=30)


@pytest.fixture
def path(found: Tuning, tmp_path: Path) -> Path:
    """Of a settings file."""
    found.tuned.save(tmp_path / "settings.json")
    return tmp_path / "settings.json"


def test_settings_are_read_as_they_were_written(found: Tuning, path: Path) -> None:
    tuned, again = found.tuned, Tuned.load(path)
    assert again == tuned
    text = again.generate(TARGET, DRAFT, PROMPT, max_new_tokens=9, seed=4)
    same = otspec.generate(TARGET, DRAFT, PROMPT, **again.for_generate, max_new_tokens=9, seed=4)
    assert text.new_tokens == same.new_tokens
    assert again.for_generate == {**tuned.settings, "temperature": 0.8, "top_k": 30}
    path.write_text(json.dumps({**json.loads(path.read_text()), "costs": None}))  # as an older version wrote it
    assert Tuned.load(path) == tuned


def test_settings_for_something_else_say_so(found: Tuning) -> None:
    tuned, inputs = found.tuned, {"max_new_tokens": 4}
    with pytest.raises(ProblemError, match=r"tuned for the draft model 'draft' .* tune again"):
        tuned.generate(TARGET, tiny(40, seed=5), PROMPT, **inputs)
    with pytest.raises(ProblemError, match="tuned for the target 'target'"):
        tuned.generate(tiny(40, seed=5), DRAFT, PROMPT, **inputs)
    with pytest.warns(UserWarning, match=r"temperature 0.5 \(it was 0.8\), top_k None \(it was 30\)"):
        tuned.generate(TARGET, DRAFT, PROMPT, **inputs, temperature=0.5)
    other = Tuned(**{**vars(tuned), "machine": {**tuned.machine, "threads": 99}})
    with pytest.warns(UserWarning, match=r"threads \d+ \(it was 99\)"):
        other.generate(TARGET, DRAFT, PROMPT, **inputs)


def test_files_that_are_no_settings(path: Path) -> None:
    good = json.loads(path.read_text())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": 2}, "its format is 2, and this version reads 1"),
        ({"method": "magic"}, "its method is 'magic', which is not multi-draft or dynamic-tree or"),
        ({"settings": [1]}, r"its settings are \[1\]"),
        ({"settings": {"speed": 9}}, "multi-draft has no speed; it takes paths"),
        ({"sampling": {"heat": 1}}, "its sampling has heat"),
        ({"target": {"name": "a"}}, "fingerprint"),
    ]
    texts = [(json.dumps(good | change), message) for change, message in changes]
    texts += [("{", "is no file of tuned settings"), ("[]", "it holds a list"), ("{}", "it has no 'format'")]
    for text, message in texts:
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            Tuned.load(path)
    path.unlink()
    with pytest.raises(DataError, match=r"there is no file .*settings.json; `otspec tune --out"):
        Tuned.load(path)


def test_bad_input() -> None:
    wrong: list[tuple[list[list[int]], dict[str, Any], str]] = [
        ([], {}, "no prompts"),
        ([[1], []], {}, "or an empty one"),
        ([[1]], {"seconds": "x"}, "seconds is 'x'"),
        ([[1]], {"seed": -1}, "seed is -1"),
        ([[1]], {"max_new_tokens": 9}, "max_new_tokens is 9; texts of fewer than 16 tokens"),
        ([[1]], {"max_new_tokens": 64}, "the models leave no position for a prompt"),
        ([[1]], {"paths": [2.5]}, "paths is 2.5"),
        ([[1]], {"paths": []}, "no numbers of paths"),
    ]
    for prompts, settings, message in wrong:
        with pytest.raises(ProblemError, match=message):
            tune(TARGET, DRAFT, prompts, **small(**settings))
    with pytest.raises(ProblemError, match="paths is 0"):
        families([0], [], {}, 8)
    with pytest.raises(ProblemError, match="all texts ended within one step"):
        trial_of([], [run(0, (0, 1.0))], 1)
