"""Drafts from shortlists that differ from slot to slot: gathered heads, laws, losslessness, and what is refused."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from transformers import LogitsProcessorList, SuppressTokensLogitsProcessor  # noqa: E402

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from otspec.decode import Budget, Frequent, MultiDraft, Router, multi_draft, train_router  # noqa: E402
from otspec.decode.base.draft_laws import draft_law  # noqa: E402
from otspec.decode.base.sampling import Sampling  # noqa: E402
from otspec.decode.drafters.model import ModelDrafter  # noqa: E402
from otspec.decode.drafters.shortlists import router as router_module  # noqa: E402
from otspec.decode.drafters.shortlists.router import Network  # noqa: E402
from otspec.decode.drafters.shortlists.selection import History, Level  # noqa: E402
from otspec.decode.drafters.shortlists.training import _told, spherical_clusters  # noqa: E402
from otspec.decode.models.context import Context  # noqa: E402
from otspec.decode.models.head import without_head  # noqa: E402
from otspec.decode.models.passes.fused import LlamaReader  # noqa: E402
from otspec.errors import DataError  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from tests.contracts.draft_models import (  # noqa: E402
    WIDTH,
    all_features,
    eagle,
    law_on,
    logits_of_eagle,
    logits_of_parallel,
    random_router,
    routed,
    shared,
    steered,
)
from tests.decode.models import pair, tiny  # noqa: E402
from tests.decode.test_restricted import _model, _with_exact_sums  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = [[1, 2, 3, 4, 5], [6], [7, 7, 1], [2, 5]]
ORDER = [6, 1, 4, 3, 0, 7]
WHOLE = Sampling(LogitsProcessorList(), True)


def test_budgets_are_those_of_the_paper_and_never_less_than_their_least() -> None:
    fixed, tokens, clusters = Budget(12), Budget(12, falling=1), Budget(12, falling=2)
    assert [fixed.at(t) for t in range(6)] == [12] * 6
    assert [tokens.at(t) for t in range(14)] == [12, 12, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [clusters.at(t) for t in range(8)] == [12, 12, 2, 1, 1, 1, 1, 1]  # as printed 0 from t = 6 on
    assert [Budget(12, falling=2, least=3).at(t) for t in range(4)] == [12, 12, 3, 3]
    for wrong, message in (
        ({"most": 0}, "most"),
        ({"most": 3, "least": 0}, "least"),
        ({"most": 3, "falling": -1}, "falling"),
        ({"most": 3, "least": 4}, "a budget of at least 4 and at most 3"),
    ):
        with pytest.raises(ProblemError, match=message):
            Budget(**wrong)


@pytest.mark.parametrize("kind", ["llama", "soft cap, tied", "bias", "shipped, tied, float32"])
def test_a_head_taken_off_gives_the_logits_of_the_whole_model(kind: str) -> None:
    model = _model(kind)
    if model.dtype == torch.float64:
        _with_exact_sums(model)
    twin, head = without_head(model)
    assert LlamaReader.takes(twin) == LlamaReader.takes(model)
    tokens = torch.tensor([17, 0, 38, 3])
    last, place = torch.tensor([text[-1:] for text in TEXTS]), torch.tensor([[len(text) - 1] for text in TEXTS])
    found = []
    for one in (model, twin):
        context = Context(one, [text[:-1] for text in TEXTS])
        read = [context.read(last, place, None, keep=1), context.read(last.expand(-1, 3), place + 1, None, 2)]
        found.append([one.logits for one in read])
    for whole, output in zip(*found, strict=True):
        for rows, expected in ((tokens, whole[..., tokens]), (slice(3, 9), whole[..., 3:9])):
            if whole.dtype == torch.float64:
                assert torch.equal(head.rows(rows)(output), expected)
            else:
                torch.testing.assert_close(head.rows(rows)(output), expected)
    assert model.get_output_embeddings() is not twin.get_output_embeddings()
    assert head.weight.data_ptr() == model.get_output_embeddings().weight.data_ptr()


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("kind", ["llama", "soft cap, tied", "bias"])
def test_gathered_logits_are_the_whole_head_s_at_these_tokens(
    kind: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, in float64, of a routed head, copied or block by block: laws over the clusters that were chosen."""
    monkeypatch.setattr(router_module, "BLOCK", 0 if apart else 1 << 17)
    model = _model(kind)
    _with_exact_sums(model)
    rng = np.random.default_rng(0)
    clusters = [*range(6), *rng.integers(6, size=34).tolist()]
    head = random_router(model, clusters, 2).head(model, WHOLE, 40)
    twin, whole = without_head(model)
    tokens = torch.tensor(rng.integers(40, size=(3, 5)))
    output = twin(input_ids=tokens).logits
    history = History(tokens, torch.cat((torch.zeros_like(output[:, :1]), output[:, :-1]), dim=1))
    there = head.choose(history, 0)
    chosen = there.tolist()
    laws = head.laws(output, Level(0, lambda: history))
    assert len({tuple(sorted(one)) for one in chosen}) > 3
    at_once = WHOLE.draft_laws(head.logits_at_once(there, output))  # as a GPU takes them
    assert torch.equal(at_once, laws)
    for clusters_here, logits, law in zip(chosen, whole(output).flatten(0, 1), laws.flatten(0, 1), strict=True):
        kept = torch.tensor(np.isin(clusters, clusters_here))
        assert torch.equal(law, logits.masked_fill(~kept, -torch.inf).softmax(dim=-1))


def test_a_fixed_budget_is_fr_spec() -> None:
    target, draft = pair(8)
    settings: dict[str, Any] = {"max_new_tokens": 12, "seed": 3, "depth": 3, "solver": "block"}
    prompt = torch.tensor([[1, 2, 0]])
    one, other = (
        otspec.generate(target, draft, prompt, **settings, **kept)
        for kept in ({"draft_tokens": ORDER[:4]}, {"draft_shortlist": Frequent(ORDER, 4)})
    )
    assert one.new_tokens == other.new_tokens
    custom = multi_draft(draft, depth=3, solver="block", seed=3, draft_shortlist=Frequent(ORDER, 4))
    ids = target.generate(prompt, custom_generate=custom, do_sample=True, top_k=0, max_new_tokens=12)
    assert ids.tolist() == one.sequences.tolist()


def test_clusters_are_of_directions() -> None:
    """Rows around three axes, of lengths that would mislead k-means of points."""
    generator = torch.Generator().manual_seed(0)
    axis = torch.arange(60) % 3
    rows = torch.eye(5)[axis] + 0.05 * torch.randn(60, 5, generator=generator)
    rows *= torch.logspace(-3, 3, 60)[:, None]
    rows[7] = 0.0  # a row without a direction is in some cluster
    for seed in range(20):
        found = spherical_clusters(rows, 3, torch.Generator().manual_seed(seed))
        if len(found.unique()) == 3 and all(
            len(found[(axis == a) & (rows.any(dim=1))].unique()) == 1 for a in range(3)
        ):
            break
    else:
        pytest.fail("no start finds three axes")
    # A cluster without a row is dropped, and numbers have no gaps.
    same = spherical_clusters(torch.ones(6, 2), 4, torch.Generator().manual_seed(0))
    assert same.tolist() == [0] * 6


def test_a_router_learns_what_its_draft_model_draws() -> None:
    """Of 10 clusters of 40 tokens, the two that are chosen hold more of the draft law than two at random."""
    model = copy.deepcopy(tiny(40))
    rng = np.random.default_rng(0)
    texts = [rng.integers(40, size=60).tolist() for _ in range(24)]
    settings: dict[str, Any] = {"clusters": 10, "budget": 2, "width": 32, "likeliest": 2}
    losses: list[float] = []
    router = train_router(model, texts, **settings, epochs=150, report=lambda _, loss: losses.append(loss))
    assert losses[-1] < 0.7 * losses[0]
    assert router.about["positions"] == 24 * 60
    once, again = (train_router(model, texts, **settings, epochs=1) for _ in range(2))
    assert torch.equal(once.network.out_weight, again.network.out_weight)

    def retained(one: Router) -> float:
        held = []
        for text in texts[:6]:
            for length in (1, 2, 9, 30):
                law = law_on(model, text[:length], np.arange(40))
                held.append(law[routed(one, model, text[:length], 0)].sum())
        return float(np.mean(held))

    clusters = router.clusters.tolist()
    assert retained(router) > 1.4 * max(retained(random_router(model, clusters, 2, seed)) for seed in range(3))


def test_saved_and_read_again(tmp_path: Path) -> None:
    model = tiny()
    router = random_router(model, [0, 1, 2, 3, 2, 1, 0, 2], Budget(3, falling=2, least=2))
    router.save(tmp_path / "router.safetensors")
    again = Router.load(tmp_path / "router.safetensors")
    assert (again.clusters.tolist(), again.budget, again.about) == (
        router.clusters.tolist(),
        router.budget,
        router.about,
    )
    for name in Network.__annotations__:
        torch.testing.assert_close(getattr(again.network, name), getattr(router.network, name), rtol=1e-3, atol=1e-3)
    assert Router.load(tmp_path / "router.safetensors", 1).budget == Budget(1)
    with pytest.raises(ProblemError, match="the budget is 5 clusters, and the router has 4"):
        Router.load(tmp_path / "router.safetensors", 5)
    with pytest.raises(DataError, match="there is no file"):
        Router.load(tmp_path / "none.safetensors")
    random_router(model, [0, 1, 2, 3, 3, 3, 3, 3], 1).save(tmp_path / "gap.safetensors")
    from otspec.vocab.tensors import read_tensors, write_tensors

    arrays, about = read_tensors(tmp_path / "gap.safetensors", "a router of otspec")
    write_tensors(tmp_path / "gap.safetensors", {**arrays, "clusters": arrays["clusters"] * 2}, about)
    with pytest.raises(DataError, match="cannot be read"):
        Router.load(tmp_path / "gap.safetensors")
    with pytest.raises(ProblemError, match="the router is of draft model"):
        again.head(pair(8)[1], WHOLE, 8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Frequent([], 1), "order has shape"),
        (lambda: Frequent([0.5], 1), "order has shape"),
        (lambda: Frequent([[1]], 1), "order has shape"),
        (lambda: Frequent([1, 1], 1), "twice"),
        (lambda: Frequent([-1, 1], 1), "below 0"),
        (lambda: Frequent([1, 2], 3), "the budget is 3 tokens, and order ranks 2"),
        (lambda: Frequent([1, 2], 0), "most"),
        (
            lambda: Frequent([1, 9], 2).head(tiny(), WHOLE, 8),
            "order holds 9, and the draft model's tokens run from 0 to 7",
        ),
        (lambda: random_router(tiny(), [0, 1] * 4, 3), "the budget is 3 clusters, and the router has 2"),
        (
            lambda: MultiDraft(tiny(), draft_tokens=[1], draft_shortlist=Frequent([1, 2], 1)),
            "draft_shortlist and draft_tokens are both given",
        ),
        (
            lambda: MultiDraft(tiny(), draft_kernel=np.eye(8), draft_shortlist=Frequent([1, 2], 1)),
            "draft_shortlist and draft_kernel are both given",
        ),
        (lambda: train_router(tiny(), [[]]), "there are no texts"),
        (lambda: train_router(tiny(), [[1]], clusters=9), "9 clusters"),
        (lambda: train_router(tiny(), [[1]], clusters=0), "clusters"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        make()


@pytest.mark.parametrize("greedy", [False, True])
def test_suppressed_tokens_take_no_place_on_a_shortlist(greedy: bool) -> None:
    """Every shortlist has a token that may be drafted, so no law is without mass, whatever is suppressed."""
    processors = LogitsProcessorList([SuppressTokensLogitsProcessor([6, 1, 0, 2])])
    sampling, left = Sampling(processors, not greedy), [3, 4, 5, 7]
    router = random_router(tiny(), [0, 1, 2, 3, 2, 1, 0, 2], Budget(1))  # nothing is left of cluster 0
    for selection, shortlist in (
        (Frequent(ORDER, Budget(3, falling=1)), lambda text, level: [[4, 3, 7], [4, 3, 7], [4]][level]),
        (router, lambda text, level: np.intersect1d(routed(router, tiny(), text, level, left), left)),
    ):
        generator = torch.Generator().manual_seed(0)
        drafter = ModelDrafter(tiny(), Shape((2, 2, 1)), draft_law("iid"), sampling, 8, generator, selection)
        drafter.start(TEXTS)
        drafts, row = drafter.draft(TEXTS, 3), 0
        for text, tree in zip(TEXTS, drafts.trees, strict=True):
            for node in range(tree.inner):
                prefix = text + tree.token[tree.line(node)].tolist()
                q = law_on(tiny(), prefix, shortlist(prefix, int(tree.depth[node])))
                expected = np.eye(8)[q.argmax()] if greedy else q
                np.testing.assert_allclose(drafts.laws[row], expected, atol=1e-10)
                row += 1
    everything = Sampling(LogitsProcessorList([SuppressTokensLogitsProcessor([*ORDER, 2, 5])]), not greedy)
    for one, message in ((Frequent(ORDER, 2), "all 6 tokens of the order"), (router, "all tokens are suppressed")):
        with pytest.raises(ProblemError, match=message):
            one.head(tiny(), everything, 8)
    with pytest.raises(ProblemError, match="all 2 tokens of the order are suppressed"):
        Frequent([7, 6], 1).head(tiny(), WHOLE, 6)  # a target of six tokens


def test_models_whose_logits_are_not_their_heads_alone() -> None:
    model = _model("soft cap, tied")
    model.lm_head = torch.nn.Sequential(model.lm_head)
    with pytest.raises(ProblemError, match="the head of Gemma2ForCausalLM cannot be computed for some tokens only"):
        without_head(model)

    class Scaled(type(copy.deepcopy(tiny(40)))):  # type: ignore[misc]
        def forward(self, *given: Any, **named: Any) -> Any:
            found = super().forward(*given, **named)
            found.logits = found.logits.exp()
            return found

    scaled = Scaled(tiny(40).config).double().eval()
    with pytest.raises(ProblemError, match="neither its head nor a soft cap"):
        without_head(scaled)


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "parallel"])
def test_a_router_of_a_fed_model_learns_from_its_drafts(kind: str) -> None:
    """At every place and depth: what is likeliest on its own outputs, and what decoding would ask the router by."""
    target, text, likeliest = pair(8)[0], [3, 1, 4, 1, 5, 2], 2
    model = eagle(pair(8)[1]) if kind == "eagle" else shared(target, masks=2 * (kind == "parallel"))
    says = logits_of_parallel if kind == "parallel" else logits_of_eagle
    told = _told(model, target, text)
    # Norms add so many squares in float32, whatever else is in float64, and passes of other shapes in another order.
    norms = sum("RMSNorm" in type(one).__name__ for both in (target, model) for one in both.modules())
    rounding = norms * WIDTH * torch.finfo(torch.float32).eps
    assert [len(one.tokens) for one in told] == [5, 4, 3]
    strategy = MultiDraft(model, paths=1, depth=1, draft_shortlist=random_router(model, list(range(8)), 4))
    for root in range(len(text) - 1):
        read = text[: root + 1]
        for number, one in enumerate(told[: len(text) - 1 - root]):
            logits = says(model, target, read, text[root + 1 : root + 1 + number])
            assert set(one.likeliest(likeliest)[root].tolist()) == set(np.argsort(-logits)[:likeliest].tolist())
            assert one.tokens[root] == text[root if kind == "parallel" else root + number]
        drafter: Any = strategy.prepare(8, WHOLE, torch.Generator()).drafter
        drafter.observe([all_features(target, read, drafter.layers)[:-1]])
        drafter.start([read])
        drafter.draft([read], 1)
        asked_by = drafter.history_of_roots([read])
        atol = rounding * float(told[0].before[root].abs().max())
        torch.testing.assert_close(asked_by.before[0, 0], told[0].before[root], atol=atol, rtol=0)
    made = train_router(model, [text] * 4, target=target, clusters=4, width=8, epochs=2)
    assert made.about["positions"] == 4 * 12
    with pytest.raises(ProblemError, match="a router learns from it so; pass target"):
        train_router(model, [text])


def test_a_router_of_a_steered_model_learns_from_what_its_target_makes_of_it() -> None:
    target, draft = pair(8)
    texts = [[3, 1, 4, 1, 5, 2]] * 4
    settings: dict[str, Any] = {"clusters": 4, "width": 8, "epochs": 2}
    alone = train_router(draft, texts, **settings).about
    begun = steered(draft, strength=0.0)  # steering that does nothing yet
    assert train_router(begun, texts, target=target, **settings).about["loss"] == alone["loss"]
    model = steered(draft)
    told = [train_router(model, texts, target=one, **settings).about["loss"] for one in (target, target, None)]
    assert told[0] == told[1] != told[2]
    with pytest.raises(ProblemError, match="looks at no target, and a router learns from it alone; leave out target"):
        train_router(draft, texts, target=target, **settings)
