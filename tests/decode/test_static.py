"""Passes over a cache of fixed size give the logits of ordinary ones; what a GPU replays is tested in tests/gpu."""

import copy
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from otspec import generate  # noqa: E402
from otspec.decode.base import graphs  # noqa: E402
from otspec.decode.models.context import Context  # noqa: E402
from otspec.decode.models.passes import static  # noqa: E402
from otspec.decode.models.passes.single_graph import Run  # noqa: E402
from otspec.decode.models.passes.static import LEAST_COLUMNS, StaticReader, can_stand, filled_up  # noqa: E402
from otspec.decode.models.passes.transformers_reader import TransformersReader  # noqa: E402
from tests.contracts.draft_models import eagle, layer_of, shared, steered  # noqa: E402
from tests.decode.graph_stand_in import called_again  # noqa: E402
from tests.decode.models import pair, tiny  # noqa: E402
from tests.each import each  # noqa: E402

VOCAB = 8


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take it on a CPU as well."""
    monkeypatch.setattr(StaticReader, "takes", staticmethod(can_stand))


def _workspace(context: Context) -> static.Workspace:
    assert isinstance(context.reader, StaticReader)
    return context.reader._held[0]


def _context(model: Any, texts: list[list[int]], kind: Any, layers: tuple[int, ...] = ()) -> Context:
    context = Context(model, [[] for _ in texts], layers)
    context.reader = kind(model, layers)
    context.length = np.array([len(text) for text in texts])
    context._note_lengths()
    if context.end:
        context._read_first(texts)
    return context


@each(
    attention=("sdpa", "eager"),
    lean=(True, False),
    case=(((3, 1, 0, 5, 2), (0, 2)), ((0,), ()), ((LEAST_COLUMNS - 20,), ())),
)
def test_logits_are_those_of_ordinary_passes(
    attention: str, lean: bool, case: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Trees of many sizes, texts of many lengths, some of which end; a cache that is outgrown."""
    lengths, layers = case
    model, rng = tiny(VOCAB, attention=attention, positions=2 * LEAST_COLUMNS), np.random.default_rng(len(lengths))
    if attention == "eager" or lean:  # the softmax of eager is in float32, where the least float64 is -inf
        model = copy.deepcopy(model).float()
    texts = [rng.integers(VOCAB, size=length).tolist() for length in lengths]
    near = {"rtol": 1e-9, "atol": 1e-9} if model.dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    with torch.no_grad():
        contexts = [_context(model, texts, kind, layers) for kind in (StaticReader, TransformersReader)]
        assert isinstance(contexts[0].reader, StaticReader)
        assert (contexts[0].reader._llama is not None) == (lean and attention == "sdpa")
        for count, keep in ((1, 1), (3, 3), (9, 9), (2, 1), (11, 11), (5, 2), (17, 17)):
            batch = len(contexts[0].length)
            tokens = torch.from_numpy(rng.integers(VOCAB, size=(batch, count)))
            position = torch.from_numpy(contexts[0].length)[:, None] + torch.arange(count)
            sees = torch.from_numpy(np.tril(rng.random((batch, count, count)) < 0.7) | np.eye(count, dtype=bool))
            found = [one.read(tokens, position, sees if count > 1 else None, keep) for one in contexts]
            torch.testing.assert_close(*(one.logits for one in found), **near)
            if layers:
                torch.testing.assert_close(*(one.states for one in found), **near)
            chosen = [sorted(rng.choice(count, rng.integers(count + 1), replace=False).tolist()) for _ in range(batch)]
            rows = list(range(batch)) if count % 2 or batch == 1 else [row for row in range(batch) if row != 1]
            for one in contexts:
                one.commit(chosen, rows)


@pytest.mark.usefixtures("everywhere")
@each(settings=({"paths": 3, "depth": 3}, {"paths": 1, "depth": 4, "solver": "block"}, {"branching": (2, 2, 1)}))
def test_greedy_texts_are_the_targets_own(settings: dict[str, Any]) -> None:
    target, draft = pair(VOCAB, positions=128)
    ids = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 0, 1]])
    own = target.generate(ids, max_new_tokens=30, min_new_tokens=30, do_sample=False)
    assert generate(target, draft, ids, max_new_tokens=30, temperature=0, **settings).new_tokens == own[:, 3:].tolist()
    assert static._FREE[target]


@pytest.mark.usefixtures("everywhere")
def test_a_text_takes_the_room_of_the_one_before() -> None:
    model = copy.deepcopy(tiny(VOCAB))
    workspaces = []
    for change in (None, None, "weights"):
        if change:
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
        with torch.no_grad():
            context = Context(model, [[1, 2], [3]])
        workspaces.append(_workspace(context))
        del context
        gc.collect()
    assert workspaces[0] is workspaces[1]
    assert workspaces[2] is not workspaces[0]
    assert len(static._FREE[model]) <= static.MOST_ROOMS


@pytest.mark.usefixtures("everywhere")
def test_two_texts_at_a_time_have_a_room_each() -> None:
    model = copy.deepcopy(tiny(VOCAB))
    with torch.no_grad():
        one, other = Context(model, [[1, 2]]), Context(model, [[1, 2]])
    assert _workspace(one) is not _workspace(other)


@pytest.mark.usefixtures("everywhere")
def test_a_model_that_cannot_be_captured_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Refused)
    target, _ = pair(VOCAB, seed=3)
    tokens, position = torch.tensor([[3]]), torch.tensor([[2]])
    with torch.no_grad():
        context = Context(target, [[1, 2]])
        _workspace(context).pool = object()
        first = context.read(tokens, position, None, 1)
        context.commit([[]], [0])
        with pytest.warns(UserWarning, match="cannot be captured as CUDA graphs, and are launched: operation not"):
            again = context.read(tokens, position, None, 1)
        context.commit([[]], [0])
        last = context.read(tokens, position, None, 1)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.logits, last.logits)


@pytest.mark.usefixtures("everywhere")
@each(case=(({"paths": 2, "depth": 3}, 3), ({"branching": (2, 2), "draft_top_k": 4}, 3), ({"paths": 1, "depth": 4}, 1)))
def test_replayed_passes_write_the_texts_of_launched_ones(case: tuple[dict[str, Any], int]) -> None:
    """With a stand-in for graphs: what is filled anew, drawn and copied between replays is the same on a GPU."""
    settings, batch = case
    target, draft = (copy.deepcopy(model) for model in pair(VOCAB, positions=LEAST_COLUMNS))
    ids = torch.arange(3 * batch).view(batch, 3) % VOCAB

    workspaces: list[static.Workspace] = []

    class WithPool(static.Workspace):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.pool = object()
            workspaces.append(self)

    def text() -> list[list[int]]:
        return generate(target, draft, ids, max_new_tokens=20, seed=2, **settings).new_tokens

    expected = text()
    static._FREE.pop(target), static._FREE.pop(draft)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "Workspace", WithPool)
        patch.setattr(static, "can_be_one", lambda _: True)
        patch.setattr(graphs, "capture", called_again)
        assert text() == expected
    assert not any(room.refused for room in workspaces)
    for kind in ("passes", "runs"):
        assert any(one.replayed.captured for room in workspaces for one in getattr(room, kind).values())


@pytest.mark.usefixtures("everywhere")
def test_what_overflowed_in_one_text_does_not_reach_the_next() -> None:
    model = copy.deepcopy(tiny(VOCAB))
    with torch.no_grad():
        context = Context(model, [[1, 2, 3, 4]])
        _workspace(context).blocks[0].entries.fill_(torch.nan)
        del context
        gc.collect()
        context = Context(model, [[1, 2]])
        logits = context.read(torch.tensor([[3]]), torch.tensor([[2]]), None, 1).logits
    assert logits.isfinite().all()


def test_who_is_taken() -> None:
    model = tiny(VOCAB)
    assert can_stand(model)
    assert not StaticReader.takes(model)  # there is no GPU
    hooked = copy.deepcopy(model)
    hooked.model.layers[0].register_forward_hook(lambda *_: None)
    training = copy.deepcopy(model).train()
    assert not can_stand(hooked)
    assert not can_stand(training)
    model(torch.tensor([[1]]), output_hidden_states=True)  # transformers' own hooks stay, and do nothing
    assert can_stand(model)


SEVERAL, LONG = (3, 5, 2), (LEAST_COLUMNS - 8,)
IN_ONE: tuple[tuple[dict[str, Any], tuple[int, ...]], ...] = (
    ({"paths": 3, "depth": 3}, SEVERAL),
    ({"paths": 3, "depth": 3}, LONG),
    ({"branching": (2, 2, 1), "draft_top_k": 4}, (1,)),
    ({"branching": (2, 2, 1), "draft_top_k": 4}, SEVERAL),
    ({"paths": 1, "depth": 4, "solver": "block"}, LONG),
    ({"paths": 2, "depth": 2, "law": "without_replacement"}, SEVERAL),
)


@pytest.mark.usefixtures("everywhere")
@each(case=IN_ONE)
def test_drafting_in_one_is_drafting_level_by_level(case: tuple[dict[str, Any], tuple[int, ...]]) -> None:
    """The same numbers drawn, so the same texts, whatever is settled in between; nothing is captured here."""
    (settings, lengths), found = case, []
    target, draft = (copy.deepcopy(model) for model in pair(VOCAB, positions=2 * LEAST_COLUMNS))
    width = max(lengths)
    ids = torch.from_numpy(np.random.default_rng(1).integers(VOCAB, size=(len(lengths), width)))
    mask = torch.tensor([[0] * (width - length) + [1] * length for length in lengths])
    for in_one in (True, False):
        runs: list[Run] = []

        class Counted(Run):
            def do(self, *given: Any) -> Any:
                runs.append(self)  # noqa: B023
                return super().do(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(static, "can_be_one", lambda _: in_one)  # noqa: B023
            patch.setattr(static, "Run", Counted)
            run = generate(target, draft, ids, attention_mask=mask, max_new_tokens=20, seed=4, **settings)
        found.append((run.new_tokens, [(one.rows, one.start, one.keep) for one in run.passes["draft"]]))
        assert bool(runs) == in_one
    assert found[0] == found[1]


CONDITIONED: dict[str, Callable[[Any, Any], Any]] = {
    "eagle": lambda target, draft: eagle(draft),
    "layer of the target": lambda target, draft: layer_of(target),
    "steered": lambda target, draft: steered(draft),
    "shared, of some tokens": lambda target, draft: shared(target, kept=(0, 2, 5, 7)),
    "parallel": lambda target, draft: shared(target, masks=2),
}


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("kind", CONDITIONED)
@each(case=(({"paths": 2, "depth": 3}, 3), ({"paths": 1, "depth": 3, "solver": "block"}, 1)))
def test_what_looks_at_the_target_drafts_in_one_as_well(kind: str, case: tuple[dict[str, Any], int]) -> None:
    """Launched by transformers' passes, over a fixed cache, in one run, and replayed: the same texts.

    Several texts accept different numbers of drafts, so that what is new in them is padded.
    """
    settings, batch = case
    target, draft = (copy.deepcopy(model) for model in pair(VOCAB, positions=LEAST_COLUMNS))
    model = CONDITIONED[kind](target, draft)
    ids = torch.arange(3 * batch).view(batch, 3) % VOCAB
    rooms: list[static.Workspace] = []

    class WithPool(static.Workspace):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.pool = object()
            rooms.append(self)

    def text() -> list[list[int]]:
        return generate(target, model, ids, max_new_tokens=20, seed=2, **settings).new_tokens

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticReader, "takes", staticmethod(lambda _: False))
        expected = text()
    assert text() == expected
    for one in (target, model):
        static._FREE.pop(one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "Workspace", WithPool)
        patch.setattr(static, "can_be_one", lambda _: True)
        patch.setattr(graphs, "capture", called_again)
        for _ in range(2):  # heads are made anew for each text, and graphs are not
            assert text() == expected
    assert not any(room.refused for room in rooms)
    runs = [one for room in rooms for one in room.runs.values()]
    assert any(one.replayed.captured for one in runs)


def test_few_counts_of_rows() -> None:
    counts = [filled_up(rows) for rows in range(1, 65)]
    assert all(count >= rows for rows, count in enumerate(counts, start=1))
    assert sorted(set(counts)) == [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]
