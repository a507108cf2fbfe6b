"""Passes over a cache of fixed size, launched, captured and replayed; what a GPU replays is tested in tests/gpu."""

import copy
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from otspec import generate
from otspec.decode import Budget, Frequent, run
from otspec.decode.base import graphs
from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.decode.methods import DynamicTree
from otspec.decode.models.context import Context
from otspec.decode.models.passes import static
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.single_graph import GraphedSequence
from otspec.decode.models.passes.static import LEAST_COLUMNS, StaticReader, can_stand
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.decode.models.passes.workspace import Workspace, filled_up
from otspec.decode.step.loop import Decoder
from otspec.vocab import affinity_from_counts
from tests.contracts.draft_models import DRAFT_MODELS, random_router
from tests.decode.graph_stand_in import Pool, called_again
from tests.decode.models import calls_of, pair, tiny
from tests.each import each

VOCAB = 8


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take it on a CPU as well."""
    monkeypatch.setattr(StaticReader, "takes", staticmethod(can_stand))


def _workspace(context: Context) -> Workspace:
    assert isinstance(context.reader, StaticReader)
    return context.reader._held[0]


class WithPool(Workspace):
    """Captures, as on a GPU."""

    def __init__(self, *inputs: Any) -> None:
        super().__init__(*inputs)
        self.pool = Pool()


DYNAMIC = {"method": "dynamic-tree"}
SEVERAL, LONG = (3, 5, 2), (LEAST_COLUMNS - 8,)
CASES: tuple[tuple[dict[str, Any], tuple[int, ...]], ...] = (
    ({"paths": 2, "depth": 3}, SEVERAL),
    ({"paths": 1, "depth": 3, "solver": "block"}, (3,)),
)
"""Settings, and lengths of prompts."""
ALONE: tuple[tuple[dict[str, Any], tuple[int, ...]], ...] = (
    ({"paths": 2, "depth": 3, "verify_on": "device"}, (3,)),
    ({"branching": (3, 2), "law": "top_k", "draft_temperature": 1.0, "temperature": 0}, (3,)),
)
"""A text whose next drafts need not wait for the host."""
OF_A_MODEL = (
    *CASES,
    ({"paths": 3, "depth": 3}, LONG),
    ({"paths": 2, "depth": 2, "law": "without_replacement"}, SEVERAL),
    ({"paths": 3, "depth": 3, "temperature": 0}, SEVERAL),
    (DYNAMIC, SEVERAL),
)


SHORTLISTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "": lambda model: {},
    "routed": lambda model: {"draft_shortlist": random_router(model, [0, 1, 2, 3, 2, 1, 0, 2], Budget(3, 2, 2))},
    "frequent": lambda model: {"draft_shortlist": Frequent(np.arange(VOCAB)[::-1], Budget(5, falling=2, least=3))},
    "redistributed": lambda model: {"draft_kernel": affinity_from_counts(np.eye(8) + np.eye(8, k=3)).nearest(2)},
}


@pytest.mark.parametrize(
    ("kind", "case", "shortlist"),
    [
        *(("a model", case, "") for case in OF_A_MODEL),
        *((one, CASES[0], "") for one in [*DRAFT_MODELS][1:]),
        *((one, case, "") for one in ("eagle", "parallel", "eagle3") for case in ALONE),
        ("shared, of some tokens", (DYNAMIC, SEVERAL), ""),
        *(("a model", case, "routed") for case in (*OF_A_MODEL[:3], OF_A_MODEL[-1])),
        ("eagle", CASES[0], "routed"),
        *(("a model", CASES[0], one) for one in ("frequent", "redistributed")),
    ],
)
def test_however_a_pass_is_done_the_text_is_the_same(
    kind: str, case: tuple[dict[str, Any], tuple[int, ...]], shortlist: str
) -> None:
    """By transformers' passes, over a fixed cache, in one run a step, and captured and replayed by a stand-in.

    The last two times the target reads drafts before the host has seen them.

    Several texts accept different numbers of drafts, so that what is new in them is padded; what is filled anew, drawn
    and copied between replays is the same on a GPU.
    """
    settings, lengths = case
    target, draft = (copy.deepcopy(model) for model in pair(VOCAB, positions=2 * LEAST_COLUMNS))
    with torch.no_grad():
        model = DRAFT_MODELS[kind](target, draft)
    chosen = SHORTLISTS[shortlist](model)
    ids = torch.from_numpy(np.random.default_rng(1).integers(VOCAB, size=(len(lengths), max(lengths))))
    mask = torch.tensor([[0] * (max(lengths) - length) + [1] * length for length in lengths])
    rooms: list[Workspace] = []

    def with_pool(*inputs: Any) -> WithPool:
        rooms.append(room := WithPool(*inputs))
        return room

    def text(standing: bool = True, in_one: bool = False, pooled: bool = False, ahead: bool = False) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StaticReader, "takes", staticmethod(lambda model: standing and can_stand(model)))
            patch.setattr(static, "can_be_one", lambda _: in_one)
            runs, early = calls_of(patch, GraphedSequence, "do"), calls_of(patch, EagleDrafter, "launch_next")
            patch.setattr(Decoder, "IN_TURN", () if ahead else ("cpu",))
            if pooled:
                patch.setattr(static, "Workspace", with_pool)
                patch.setattr(graphs, "capture", called_again)
            more: Any = {"attention_mask": mask, "max_new_tokens": 10, "seed": 4}
            if settings == DYNAMIC:
                tree = DynamicTree(model, 3, 3, size=6, **chosen)
                found = run(target, tree, ids, **more, temperature=0)
            else:
                found = generate(target, model, ids, **more, **settings, **chosen)
        assert bool(runs) == in_one
        assert bool(early) == (ahead and (settings, lengths) in ALONE)
        return found.new_tokens, [(one.rows, one.start, one.keep) for one in found.passes["draft"]]

    expected = text(standing=False)[0]
    launched, in_one = text(), text(in_one=True)
    assert launched == in_one
    assert launched[0] == expected
    for one in {target, model}:
        static._FREE.pop(one, None)  # of a shortlist it is a twin that reads
    for in_one, ahead in ((True, False), (True, False), (False, False), (True, True), (True, True)):
        assert text(in_one=in_one, pooled=True, ahead=ahead)[0] == expected  # graphs are kept from text to text
    assert not any(room.refused for room in rooms)
    for which in ("passes", "runs"):
        assert any(one.replayed.captured for room in rooms for one in getattr(room, which).values())


@each(kind=list(DRAFT_MODELS))
def test_lean_passes_write_the_texts_of_transformers(kind: str) -> None:
    """In float32: over a block that grows, and over a cache of fixed size."""
    target, draft = (copy.deepcopy(model) for model in pair(VOCAB, positions=64))
    with torch.no_grad():
        model, texts = copy.deepcopy(DRAFT_MODELS[kind](target, draft)).float(), []
    for lean, fixed in ((False, False), (False, True), (True, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LlamaReader, "takes", staticmethod(lambda _, lean=lean: lean))
            patch.setattr(StaticReader, "takes", staticmethod(lambda _, fixed=fixed: fixed))
            prompts = torch.tensor([[1, 2, 3], [4, 5, 6]])
            found = generate(target.float(), model, prompts, max_new_tokens=24, seed=4, paths=2, depth=3)
            texts.append(found.new_tokens)
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.usefixtures("everywhere")
def test_a_text_takes_the_room_of_the_one_before() -> None:
    """And two at a time have a room each."""
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
    with torch.no_grad():
        one, other = Context(model, [[1, 2]]), Context(model, [[1, 2]])
    assert _workspace(one) is not _workspace(other)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(("texts", "tokens", "short"), [(1, 8, True), (1, 9, False), (2, 8, True), (3, 8, False)])
def test_short_prompts_are_read_where_they_stay(
    texts: int, tokens: int, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlamaReader, "takes", staticmethod(lambda _: False))  # which comes first on a CPU
    monkeypatch.setattr(static, "SHORT", 8)
    monkeypatch.setattr(static, "MOST_ROWS", 16)
    launched = calls_of(monkeypatch, TransformersReader, "read")
    with torch.no_grad():
        Context(copy.deepcopy(tiny(VOCAB)).float(), [[1] * tokens] * texts)
    assert bool(launched) != short


@pytest.mark.usefixtures("everywhere")
def test_a_model_that_cannot_be_captured_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Refused)
    with torch.no_grad():
        context = Context(pair(VOCAB, seed=3)[0], [[1, 2]])
        _workspace(context).pool = object()

        def read() -> Any:
            found = context.read(torch.tensor([[3]]), torch.tensor([[2]]), None, 1).logits
            context.commit([[]], [0])
            return found

        first = read()
        with pytest.warns(UserWarning, match="cannot be captured as CUDA graphs, and are launched: operation not"):
            assert torch.equal(first, read())
        assert torch.equal(first, read())


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


def test_who_is_taken_and_few_counts_of_rows() -> None:
    model = tiny(VOCAB)
    assert can_stand(model)
    assert not StaticReader.takes(model)  # there is no GPU
    hooked, training = copy.deepcopy(model), copy.deepcopy(model).train()
    hooked.model.layers[0].register_forward_hook(lambda *_: None)
    assert not can_stand(hooked)
    assert not can_stand(training)
    model(torch.tensor([[1]]), output_hidden_states=True)  # transformers' own hooks stay, and do nothing
    assert can_stand(model)
    counts = [filled_up(rows) for rows in range(1, 65)]
    assert all(count >= rows for rows, count in enumerate(counts, start=1))
    assert sorted(set(counts)) == [1, 2, 4, 8, 16, 32, 64]


@pytest.fixture
def models(everywhere: None) -> Any:
    """Two models over caches of fixed size."""
    return [copy.deepcopy(model) for model in pair(VOCAB, positions=LEAST_COLUMNS)]


def test_what_a_run_that_broke_off_recorded_to_takes_no_pass(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA has it: a pool whose capture broke off is being recorded to for good."""
    target, draft = models
    prompt = torch.tensor([[1, 2, 3]])
    expected = generate(target, draft, prompt, max_new_tokens=20, seed=2, paths=2, depth=3).new_tokens
    broken: set[int] = set()
    taken: list[object] = []

    def breaking_off(work: Any, pool: object, generator: Any) -> Any:
        if id(pool) in broken:
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        taken.append(pool)  # so that no other has its number
        if generator is not None:
            broken.add(id(pool))
            raise RuntimeError("operation not permitted when stream is capturing")
        return called_again(work, pool, generator)

    for one in models:
        static._FREE.pop(one, None)  # of a shortlist it is a twin that reads
    monkeypatch.setattr(static, "Workspace", WithPool)
    monkeypatch.setattr(static, "can_be_one", lambda _: True)
    monkeypatch.setattr(graphs, "capture", breaking_off)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    assert generate(target, draft, prompt, max_new_tokens=20, seed=2, paths=2, depth=3).new_tokens == expected
    assert broken
    assert any(id(pool) not in broken for pool in taken)


def test_a_gpu_without_room_says_for_what(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*inputs: object) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    monkeypatch.setattr(static, "Workspace", full)
    with pytest.raises(torch.OutOfMemoryError, match="LlamaForCausalLM at 256 tokens of each of 1 texts; decode fewer"):
        generate(models[0], models[1], torch.tensor([[1, 2, 3]]), max_new_tokens=4, seed=2)
