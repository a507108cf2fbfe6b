"""Draft models that learn from a target: texts, data, losses, and the loop."""

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.nn import Parameter

from otspec.decode.distillation.losses import OF_FEATURES, TeacherTargets
from otspec.decode.distillation.spec import DraftModelInit
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.decode.drafters.hidden_states import shifted, three_layers
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.drafters.sd2.training import LONGEST, _blocked_offsets, _random_offsets
from otspec.decode.training import KINDS, LOSSES, Forecast, Prediction, TeacherData, TrainingConfig, own_texts, train
from otspec.decode.training.loop import _generator, loss_of
from otspec.decode.training.optimiser import DECAY, OPTIMISERS, Optimiser
from otspec.errors import DataError, ProblemError
from tests.decode.models import calls_of, law_after, pair, tiny

CONFIG = TrainingConfig(steps=6, rate=1e-2)


def _data(target: Any, layers: Any = (), count: int = 8, memory: int = 1 << 30, tokens: Any = None) -> TeacherData:
    texts = np.random.default_rng(0).integers(0, 8, (count, 7))
    return TeacherData(target, texts, layers, batch=4, memory=memory, draft_tokens=tokens)


def _stop_at(number: int) -> Callable[[Any], None]:
    """For what is told how many texts there are, or of a point of the curve."""

    def told(of: Any) -> None:
        if getattr(of, "step", of) == number:
            raise KeyboardInterrupt

    return told


def test_texts_that_were_cut_off_are_gone_on_with(tmp_path: Path) -> None:
    """They begin with their prompts, in turn."""
    path = tmp_path / "texts.safetensors"
    write = partial(own_texts, tiny(), [[1, 2], [3]], 6, 5, batch=2)
    whole = write()
    assert (whole[::2, :2].tolist(), whole[1::2, 0].tolist()) == ([[1, 2]] * 3, [3] * 3)
    with pytest.raises(KeyboardInterrupt):
        write(path=path, progress=_stop_at(4))
    shown: list[int] = []
    assert np.array_equal(write(path=path, progress=shown.append), whole)
    assert shown == [6]
    with pytest.raises(DataError, match="texts whose seed is 0, not 1"):
        write(path=path, seed=1)
    found = own_texts(tiny(), [[1, 2], [3]], 8, 9, temperatures=(1e-3, 1e3))  # each prompt at both
    assert [np.array_equal(found[at], found[at + 4]) for at in range(4)] == [True, False, False, True]
    for prompts, length, why in (([[]], 5, "a prompt is empty"), ([[1]], 66, "at most 1 . 64 positions")):
        with pytest.raises(ProblemError, match=why):
            own_texts(tiny(), prompts, 2, length)


@pytest.mark.parametrize("tokens", [None, [0, 2, 5, 7]], ids=str)
def test_batches_are_what_the_target_says_whether_kept_or_not(tokens: list[int] | None) -> None:
    """Of all tokens, or of some."""
    target, some = tiny(), None if tokens is None else np.array(tokens)
    cached, anew = (_data(target, (0, 1, 2), memory=memory, tokens=some) for memory in (1 << 30, 0))
    found = target(anew.texts[:, :-1], output_hidden_states=True)
    rows = next(anew.order())
    assert rows == next(cached.order())
    for data, tolerance in ((anew, 1e-6), (cached, 2e-3), (cached, 2e-3)):
        batch = data.batch_of(rows)
        assert torch.equal(batch.tokens, anew.texts[rows])
        assert batch.log_law.dtype == torch.float32
        law = found.logits[rows].log_softmax(-1)[..., slice(None) if tokens is None else tokens]
        torch.testing.assert_close(batch.log_law.double(), law, rtol=2 * tolerance, atol=2 * tolerance)
        features = torch.stack([found.hidden_states[layer][rows] for layer in (0, 1, 2)], dim=2)
        torch.testing.assert_close(batch.features.double(), features, rtol=tolerance, atol=tolerance)
    assert not anew._cached
    assert set(cached._cached) == set(rows)
    assert {one.output.dtype for one in cached._cached.values()} == {torch.float16}


@pytest.mark.parametrize(("room", "keeps"), [(1 << 30, True), (5 * 8 * 6 * (8 + 3 * 16) // 2, False)])
def test_hidden_states_beyond_half_precision_are_kept_as_they_are(room: int, keeps: bool) -> None:
    """Or not at all, where there is no room for them in single precision."""
    target = copy.deepcopy(tiny())
    with torch.no_grad():
        target.get_input_embeddings().weight.mul_(2e5)
    cached, anew = _data(target, (0, 1, 2), memory=room), _data(target, (0, 1, 2), memory=0)
    assert cached.is_cached
    for rows in itertools.islice(cached.order(), 4):
        found, wanted = cached.batch_of(rows), anew.batch_of(rows)
        assert wanted.features.abs().max() > torch.finfo(torch.float16).max
        torch.testing.assert_close(found.features, wanted.features, rtol=1e-6, atol=0)
        torch.testing.assert_close(found.log_law, wanted.log_law, rtol=1e-5, atol=1e-5)
    assert cached.is_cached == keeps
    assert len(cached._cached) == (8 if keeps else 0)


def test_a_loss_or_an_acceptance_that_is_not_finite_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, model, data = _begun("distilled")
    checkpoint, calls = tmp_path / "checkpoint.pt", itertools.count()

    def diverging(*arguments: Any) -> Any:
        return loss_of(*arguments) * (1.0 if next(calls) < 3 else math.nan)

    monkeypatch.setattr("otspec.decode.training.loop.loss_of", diverging)
    points: list[Any] = []
    with pytest.raises(DataError, match=r"the loss is nan at step 4: .*lower --rate"):
        train(kind, model, data, data, CONFIG, points.append, every=2, checkpoint=checkpoint)
    assert [point.step for point in points] == [0, 2]
    weights = torch.load(checkpoint)["model"].values()
    assert all(one.isfinite().all() for one in weights)
    broken = copy.deepcopy(data.target)
    with torch.no_grad():
        broken.lm_head.weight[0, 0] = math.nan
    _, model, _ = _begun("distilled")
    with pytest.raises(DataError, match=r"the acceptance is nan at step 0"):
        train(kind, model, data, _data(broken), CONFIG)


def test_every_epoch_has_every_text_once_in_another_order() -> None:
    order = _data(tiny()).order()
    epochs = [next(order) + next(order) for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(8))] * 2
    assert epochs[0] != epochs[1]


def test_drafts_in_a_row_are_weighted_by_their_number() -> None:
    target = tiny()
    batch = _data(target, (2,)).batch_of([0, 1])
    rng = np.random.default_rng(1)
    said = [Prediction(torch.from_numpy(rng.normal(size=(2, 6 - number, 8)))) for number in range(3)]
    each = [LOSSES["kl"](TeacherTargets(batch.log_law[:, number:]), one).item() for number, one in enumerate(said)]
    for name, weights in (("medusa", (1, 0.8, 0.64)), ("eagle", (1, 1, 1))):
        found = loss_of(KINDS[name], CONFIG, said, batch).item()
        assert found == pytest.approx(np.average(each, weights=weights), rel=1e-6)


def test_the_rate_rises_and_falls_between_a_tenth_and_its_height() -> None:
    config = TrainingConfig(steps=100, rate=2.0, warm_up=0.2)
    rates = [config.rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[20] == max(rates) == pytest.approx(2.0)
    assert rates[60] == pytest.approx(2 * (0.1 + 0.9 / 2))
    assert 0.2 < rates[99] < 0.203
    assert (rates[:21], rates[20:]) == (sorted(rates[:21]), sorted(rates[20:], reverse=True))


def test_steering_is_that_of_the_token_so_many_earlier() -> None:
    features = torch.arange(2 * 6 * 3 * 2.0).reshape(2, 6, 3, 2) + 1
    offsets = torch.randint(1, LONGEST + 1, (2, 6), generator=torch.Generator().manual_seed(0))
    found = shifted(features, offsets)
    for row in range(2):
        for at in range(6):
            source = at - int(offsets[row, at])
            assert torch.equal(found[row, at], features[row, source] if source >= 0 else torch.zeros(3, 2))


def test_offsets_are_random_or_as_in_decoding() -> None:
    batch = TeacherBatch(torch.zeros(200, 20, dtype=torch.long), torch.empty(0), torch.empty(0))
    generator = torch.Generator().manual_seed(0)
    drawn = _random_offsets(batch, generator)
    assert drawn.shape == (200, 19)
    assert chisquare(torch.bincount(drawn.flatten())[1:].numpy()).pvalue > 1e-4
    blocked = _blocked_offsets(batch, generator)
    assert set(blocked[:, 0].tolist()) == set(range(1, LONGEST + 1))
    assert torch.equal(blocked[:, 1:], blocked[:, :-1] % LONGEST + 1)


@pytest.mark.parametrize(("layers", "expected"), [(2, (1, 1, 1)), (5, (2, 2, 3)), (6, (3, 3, 4)), (24, (3, 12, 22))])
def test_three_layers_of_the_target_are_looked_at(layers: int, expected: tuple[int, ...]) -> None:
    assert three_layers(tiny(layers=layers)) == expected


def _begun(name: str, dropout: float = 0.0) -> tuple[Any, Any, TeacherData]:
    target, draft = pair(noise=1.0, layers=3 if name == "eagle3" else 2)
    draft = copy.deepcopy(draft)  # it learns itself
    draft.config.attention_dropout = dropout  # of copies
    kind = KINDS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind.begin(DraftModelInit(target, None if kind.of_target else draft.float(), kind.ahead or 1))
    return kind, model.float(), _data(target, kind.layers(target))


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        *((name, kind.loss) for name, kind in KINDS.items()),
        *(("distilled", loss) for loss in LOSSES if loss not in {"kl", *OF_FEATURES}),
        ("eagle1", "eagle+topk:3"),
    ],
)
def test_what_is_learnt_makes_the_loss_small(name: str, loss: str) -> None:
    kind, model, data = _begun(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    points: list[Any] = []
    config = TrainingConfig(steps=40, rate=1e-2, loss=loss)
    train(kind, model, data, data, config, points.append, every=30)
    assert [point.step for point in points] == [0, 30, 40]
    assert math.isnan(points[0].loss)
    assert points[2].loss < points[1].loss
    assert points[2].acceptance > points[0].acceptance + 0.02
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    learning = set(before)
    if name == "sd2-frozen":
        learning = {key for key in before if key.startswith("steering.")}
    elif kind.of_target and not hasattr(model.config, "heads"):
        learning -= {"model.embed_tokens.weight", "tokens"} | (set() if name == "eagle3" else {"lm_head.weight"})
    assert changed == learning
    assert len(points[2].by_draft) == (kind.measured if kind.measured > 1 else getattr(model.config, "heads", 1))
    assert points[2].acceptance == pytest.approx(np.mean(points[2].by_draft))
    assert 0 < min(points[0].by_draft) < max(points[2].by_draft) <= 1
    assert isinstance(model, Steered) == name.startswith("sd2")


def test_what_it_will_take_is_told_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (kind, model, data), (_, untold, _) = (_begun("sd2", dropout=0.5) for _ in range(2))
    with monkeypatch.context() as patch:  # a second for each of two parts
        patch.setattr("otspec.decode.training.loop.time.perf_counter", itertools.count().__next__)
        shown = Forecast.of(kind, model, data, data, CONFIG, every=2)
    assert shown.weights == sum(one.numel() for one in model.parameters())
    assert [shown.tokens, shown.seconds] == pytest.approx([6 * 4 * 7, 2 + 2 + 6 + 4 * 2 / 3])
    curve: list[float] = []
    for one in (model, untold):
        train(kind, one, data, data, CONFIG, lambda point: curve.append(point.acceptance))
    assert curve[:2] == curve[2:]
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), untold.parameters(), strict=True))


@pytest.mark.parametrize(("name", "config"), [("sd2", CONFIG), ("distilled", replace(CONFIG, on_policy=0.5, rate=0.1))])
def test_a_run_that_was_killed_ends_with_the_same_weights(name: str, config: TrainingConfig, tmp_path: Path) -> None:
    """Text of its own is written again."""
    kind, whole, data = _begun(name, dropout=0.5)
    train(kind, whole, data, data, config, every=2)
    checkpoint = tmp_path / "checkpoint.pt"
    for stop in (4, 6):  # the point of step 4 is reported before it is kept: the second run begins at step 2
        _, model, _ = _begun(name, dropout=0.5)
        with pytest.raises(KeyboardInterrupt):
            train(kind, model, data, data, config, _stop_at(stop), every=2, checkpoint=checkpoint)
    steps: list[int] = []
    for _ in range(2):  # the second time all is done already, and nothing is reported
        _, model, _ = _begun(name, dropout=0.5)
        train(kind, model, data, data, config, lambda one: steps.append(one.step), every=2, checkpoint=checkpoint)
        assert steps == [6]
    for part, weights in whole.state_dict().items():
        assert torch.equal(model.state_dict()[part], weights)
    if config.on_policy:
        _, other, _ = _begun(name)
        train(kind, other, data, data, replace(config, on_policy=0.0))
        assert not torch.equal(other.lm_head.weight, whole.lm_head.weight)


def test_what_a_checkpoint_is_not_of_is_refused(tmp_path: Path) -> None:
    kind, whole, data = _begun("sd2")
    checkpoint = tmp_path / "checkpoint.pt"
    train(kind, whole, data, data, CONFIG, every=2, checkpoint=checkpoint)
    _, model, _ = _begun("sd2")
    fewer = TeacherData(data.target, data.texts.numpy(), data.layers, batch=2)
    others, learnt_from = _data(data.target, data.layers, count=12), "has learnt from other texts than these"
    for draft, learnt, held_out, config, message in (
        (model, data, data, replace(CONFIG, seed=1), "is of a training with seed 0, not 1"),
        (whole, data, data, CONFIG, "began with another draft model than this one"),
        (model, fewer, data, CONFIG, "is of a training with batch 4, not 2"),
        (model, others, data, CONFIG, learnt_from),
        (model, data, others, CONFIG, learnt_from),
    ):
        with pytest.raises(DataError, match=f"{message}; remove it to start anew"):
            train(kind, draft, learnt, held_out, config, checkpoint=checkpoint)
    state = torch.load(checkpoint)
    del state["texts"]
    torch.save(state, checkpoint)
    for message in ("has no 'texts': another version wrote it; remove it", r"cannot be read as .* \(remove it"):
        with pytest.raises(DataError, match=message):
            train(kind, model, data, data, CONFIG, checkpoint=checkpoint)
        checkpoint.write_bytes(checkpoint.read_bytes()[:-9])


def test_large_seeds_are_seeds_and_every_step_has_its_own() -> None:
    kind, model, data = _begun("sd2")
    for seed in (10**16, 2**62):
        train(kind, model, data.again(seed), data, replace(CONFIG, seed=seed, steps=1))
        assert next(data.again(seed).order()) != next(data.again(seed + 1).order())
    configs = [replace(CONFIG, seed=seed) for seed in (0, 1, 2**62)]
    assert len({_generator(config, step).initial_seed() for config in configs for step in range(3)}) == 9


def test_a_draft_model_learns_from_text_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the share that is asked for, by its own law behind what the target wrote, and the target's laws as labels."""
    target, draft = tiny(4, seed=1), tiny(6, seed=2)  # which writes what the target reads
    texts = np.tile([[1, 2, 3]], (400, 1))
    data = TeacherData(target, texts, (), batch=200)
    calls = calls_of(monkeypatch, data, "batch_on")
    kind, config = KINDS["distilled"], TrainingConfig(steps=60, rate=1e-9, on_policy=0.5)
    train(kind, copy.deepcopy(draft), data, TeacherData(target, texts[:2], (), batch=2), config, every=60)
    inputs: list[TeacherBatch] = [batch for _, batch in calls]
    assert 18 <= len(inputs) <= 42
    drawn = np.concatenate([one.tokens.numpy() for one in inputs])
    assert (drawn[:, 0] == 1).all()
    cached = [(one.tokens[:, 1] == 2).all().item() for one in inputs]
    assert 0 < sum(cached) < len(cached)  # it begins at all places
    third = np.concatenate([one.tokens[:, 2].numpy() for one, whole in zip(inputs, cached, strict=True) if whole])
    second = np.concatenate([one.tokens[:, 1].numpy() for one, whole in zip(inputs, cached, strict=True) if not whole])
    for found, prefix in ((third, [1, 2]), (second, [1])):
        counts = np.bincount(found, minlength=4)
        own = law_after(draft, prefix)[:4]
        assert chisquare(counts, len(found) * own / own.sum()).pvalue > 1e-4
        assert chisquare(counts, len(found) * law_after(target, prefix)).pvalue < 1e-9
    whole = target(inputs[0].tokens[:, :-1]).logits.log_softmax(-1)
    torch.testing.assert_close(inputs[0].log_law.double(), whole, rtol=1e-5, atol=1e-5)


def test_what_a_kind_cannot_learn_by_is_refused() -> None:
    for name, config, why in (
        ("sd2", replace(CONFIG, on_policy=0.5), "this kind needs its target's hidden states"),
        ("distilled", replace(CONFIG, on_policy=1.5), "share of on-policy text is 1.5"),
        ("eagle", replace(CONFIG, loss="eagle"), "loss 'eagle' is of hidden states that a model drafts"),
    ):
        kind, model, data = _begun(name)
        with pytest.raises(ProblemError, match=why):
            train(kind, model, data, data, config)


# --- what changes weights: torch's own optimisers, each for its weights, at the rate of the step

RATES = (0.1, 0.05, 0.2)


def _weights() -> list[Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [Parameter(torch.randn(size, generator=generator)) for size in ((5, 3), (4,), (3, 3), (2, 2, 2))]


def _descend(step: Callable[[float], object], weights: list[Parameter], rates: tuple[float, ...]) -> None:
    for rate in rates:
        sum((one.sin().square().sum() for one in weights), torch.zeros(())).backward()
        step(rate)
        assert all(one.grad is None for one in weights)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_each_weight_goes_as_its_own_optimiser_of_torch_has_it(name: str) -> None:
    """Also where another one goes on from the state that it was in after the first step."""
    own, other = _weights(), _weights()
    matrices = [one for one in other if one.ndim == 2 and name == "muon"]
    rest = [one for one in other if not any(one is matrix for matrix in matrices)]
    torchs: list[Any] = [torch.optim.AdamW(rest, lr=1.0, weight_decay=DECAY)]
    if matrices:
        torchs.append(torch.optim.Muon(matrices, lr=1.0, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"))

    def by_hand(rate: float) -> None:
        for one in torchs:
            for group in one.param_groups:
                group["lr"] = rate
            one.step()
            one.zero_grad()

    first, second = (Optimiser(name, own, 1.0) for _ in range(2))
    _descend(first.step, own, RATES[:1])
    second.load_state_dict(first.state_dict())
    _descend(second.step, own, RATES[1:])
    _descend(by_hand, other, RATES)
    for one, two in zip(own, other, strict=True):
        assert torch.equal(one, two)


def test_a_torch_without_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    Optimiser("adamw", _weights(), 1.0)
    with pytest.raises(ProblemError, match=r"torch .* has no Muon; update it to 2.9 or newer"):
        Optimiser("muon", _weights(), 1.0)
