"""Decoding on a GPU: the target's law, its own greedy texts, and one copy to the host in a step."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.gpu.synchronisations import counted  # noqa: E402
from otspec import generate  # noqa: E402
from otspec.decode import MultiDraft, run  # noqa: E402
from otspec.decode.base.drafts import Drafts  # noqa: E402
from otspec.decode.drafters.model import ModelDrafter  # noqa: E402
from otspec.decode.methods import DynamicTree  # noqa: E402
from otspec.decode.models.passes import static  # noqa: E402
from otspec.decode.pair.loading import SHIPPED, load_models  # noqa: E402
from otspec.decode.shipped import held_out  # noqa: E402
from otspec.decode.step.loop import Decoder  # noqa: E402
from otspec.decode.verify import captured  # noqa: E402
from otspec.decode.verify.on_device import verify_on_device  # noqa: E402
from tests.contracts.draft_models import DRAFT_MODELS  # noqa: E402
from tests.contracts.oracles import SETTINGS, after_prompt, check_counts, codes_of, law_of_texts  # noqa: E402
from tests.decode.models import calls_of, pair  # noqa: E402
from tests.decode.test_on_device import together  # noqa: E402
from tests.decode.test_static import SHORTLISTS  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.tree_batches import drawn  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


STRATEGIES: dict[str, dict[str, Any]] = {
    "nested": {"paths": 2, "depth": 2},
    "interval": {"paths": 2, "depth": 2, "solver": "interval"},
    "block": {"paths": 1, "depth": 2, "solver": "block"},
    "truncated": {"branching": (2, 2), "draft_top_k": 2},
    "max_flow": {"paths": 2, "depth": 2, "solver": "max_flow"},
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_texts_have_the_law_of_the_target(strategy: dict[str, Any]) -> None:
    runs, length, vocab, prompt = 1000, 3, 3, [1, 2, 0]
    settings = SETTINGS["temperature 0.6"]
    target, draft = (copy.deepcopy(model).cuda() for model in pair(vocab))  # others share them
    ids = torch.tensor([prompt], device="cuda").repeat(runs, 1)
    texts = run(target, MultiDraft(draft, **strategy), ids, max_new_tokens=length, seed=1, **settings).new_tokens
    check_counts(codes_of(texts, vocab), law_of_texts(after_prompt(settings, prompt, vocab), length, vocab))


@each(rule=("nested", "block", "interval"), branching=((3, 1), (2, 2)), vocab=(3, 4200))
def test_a_graph_puts_out_what_its_launches_do(rule: str, branching: tuple[int, ...], vocab: int) -> None:
    """Step after step, with more and fewer rows of laws: equal prefixes share them."""
    sizes, found = set(), []
    for seed in range(5):
        trees = drawn("tiny", vocab, branching, 4, seed=seed)
        drafts, laws = together(trees)
        sizes.add(len(laws))
        drafts = Drafts(drafts.trees, drafts.laws.cuda())
        both = []
        for room in (captured.MOST_BYTES, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(captured, "MOST_BYTES", room)
                generator = torch.Generator("cuda").manual_seed(seed)
                both.append(verify_on_device(captured.DeviceRule(rule), drafts, laws.cuda(), generator))
        found.append(both)
    assert len(sizes) > 1 or vocab > 3
    assert all(one == other for one, other in found)
    assert len(captured._GRAPHS) <= captured.MOST_GRAPHS


@each(
    settings=(
        {"paths": 2, "depth": 3},
        {"paths": 1, "depth": 4, "solver": "block"},
        {"branching": (2, 2), "draft_top_k": 3, "solver": "interval"},
        {"paths": 2, "depth": 2, "law": "without_replacement"},
    ),
    batch=(1, 3),
)
def test_replayed_passes_write_the_texts_of_launched_ones(settings: dict[str, Any], batch: int) -> None:
    """Time after time: launched at first, captured then, and replayed."""
    target, draft = (copy.deepcopy(model).cuda() for model in pair(8, positions=128))
    ids = torch.arange(3 * batch, device="cuda").view(batch, 3) % 8
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(static.SWITCH, "0")
        expected = generate(target, draft, ids, max_new_tokens=60, seed=2, **settings).new_tokens
    assert target not in static._FREE
    for _ in range(3):
        assert generate(target, draft, ids, max_new_tokens=60, seed=2, **settings).new_tokens == expected
    for model in (target, draft):
        (room,) = [one for one in static._FREE[model] if one.batch == batch]
        assert not room.refused
        assert any(one.replayed.captured for one in room.runs.values())


@pytest.mark.parametrize(
    "settings",
    [
        {"paths": 3, "depth": 3},
        {"paths": 1, "depth": 3, "solver": "block"},
        {"branching": (2, 2), "draft_top_k": 3, "solver": "interval"},
        {"paths": 2, "depth": 2, "law": "without_replacement"},
        {"branching": (3, 2, 1), "law": "top_k", "draft_temperature": 1.0, "temperature": 0.0},
    ],
)
@each(case=(("a model", 3), ("eagle", 1), ("steered", 3), ("parallel", 1)))
def test_drafts_that_are_read_ahead_write_what_others_do(settings: dict[str, Any], case: tuple[str, int]) -> None:
    """Before the host has seen them, and after, equal prefixes merged; time after time."""
    kind, batch = case
    target, draft = pair(8, positions=128)
    with torch.no_grad():
        model = copy.deepcopy(DRAFT_MODELS[kind](target, draft)).to("cuda")
    target = copy.deepcopy(target).to("cuda")
    ids = torch.arange(3 * batch, device="cuda").view(batch, 3) % 8
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "IN_TURN", ("cuda",))
        expected = generate(target, model, ids, max_new_tokens=20, seed=2, **settings)
    for _ in range(3):
        found = generate(target, model, ids, max_new_tokens=20, seed=2, **settings)
        assert found.new_tokens == expected.new_tokens
        assert found.metrics.drafted_nodes == expected.metrics.drafted_nodes


@each(kind=("a model", "shared, of some tokens"), batch=(1, 3))
def test_a_dynamic_tree_of_one_graph_is_that_of_levels(kind: str, batch: int) -> None:
    target, draft = pair(8, positions=128)
    with torch.no_grad():
        model = copy.deepcopy(DRAFT_MODELS[kind](target, draft)).to("cuda")
    target = copy.deepcopy(target).to("cuda")
    ids, strategy = torch.arange(3 * batch, device="cuda").view(batch, 3) % 8, DynamicTree(model, 3, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelDrafter, "_grown_in_one", lambda *_: None)
        expected = run(target, strategy, ids, max_new_tokens=20, temperature=0.0)
    for _ in range(3):
        found = run(target, strategy, ids, max_new_tokens=20, temperature=0.0)
        assert found.new_tokens == expected.new_tokens
        assert found.metrics.drafted_nodes == expected.metrics.drafted_nodes


@each(shortlist=("routed", "frequent", "redistributed"), batch=(1, 3))
def test_drafts_of_a_shortlist_in_one_graph_are_those_of_levels(shortlist: str, batch: int) -> None:
    target, draft = (copy.deepcopy(model).cuda() for model in pair(8, positions=128))
    ids = torch.arange(3 * batch, device="cuda").view(batch, 3) % 8
    settings: dict[str, Any] = {"paths": 2, "depth": 3, "max_new_tokens": 40, "seed": 2} | SHORTLISTS[shortlist](draft)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelDrafter, "_in_one", lambda *_: None)
        expected = generate(target, draft, ids, **settings).new_tokens
    with pytest.MonkeyPatch.context() as patch:
        replayed = calls_of(patch, torch.cuda.CUDAGraph, "replay")
        found = generate(target, draft, ids, **settings)
    assert found.new_tokens == expected
    assert len(replayed) > found.metrics.target_calls  # drafts, too


@pytest.mark.parametrize("kind", ["eagle", "steered", "shared, of some tokens", "parallel", "eagle1", "eagle3"])
@each(dtype=(torch.float32, torch.float64), batch=(1, 3))
def test_what_looks_at_the_target_drafts_in_one_graph(kind: str, dtype: Any, batch: int) -> None:
    """Time after time the same texts, by our passes and by transformers'."""
    target, draft = (copy.deepcopy(model).to(dtype) for model in pair(8, positions=128))
    with torch.no_grad():
        model = DRAFT_MODELS[kind](target, draft).to("cuda")
    target.to("cuda")
    ids = torch.arange(3 * batch, device="cuda").view(batch, 3) % 8
    texts = [generate(target, model, ids, paths=2, depth=3, max_new_tokens=40, seed=2).new_tokens for _ in range(3)]
    assert texts[0] == texts[1] == texts[2]
    rooms = [one for one in static._FREE[model] if one.batch == batch]
    assert not any(room.refused for room in rooms)
    assert any(one.replayed.captured for room in rooms for one in room.runs.values())


@pytest.mark.parametrize("verify_on", ["device", "host"])
def test_greedy_texts_of_the_shipped_pair_are_the_targets_own(verify_on: str) -> None:
    models = load_models(SHIPPED, SHIPPED, "cuda", "float32")
    ids = torch.tensor(held_out(32)[:2], device="cuda")
    found = generate(models.target, models.draft, ids, max_new_tokens=40, temperature=0, verify_on=verify_on)
    own = models.target.generate(ids, max_new_tokens=40, min_new_tokens=40, do_sample=False)
    assert found.new_tokens == own[:, 32:].tolist()


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_waits_for_the_device_once_for_each_copy() -> None:
    """Drafted tokens to build the tree from, and what is accepted of it."""
    models = load_models(SHIPPED, SHIPPED, "cuda", "float32")
    ids = torch.tensor(held_out(32)[:4], device="cuda")
    device = torch.device("cuda")
    generate(models.target, models.draft, ids, max_new_tokens=8)
    with counted(device) as count:
        metrics = generate(models.target, models.draft, ids, max_new_tokens=24).metrics
    waits = count.per_step(metrics.target_calls)
    assert waits is None or waits <= 2, count.places
