"""Drafts of fewer tokens, the same everywhere or chosen slot by slot: heads, kernels, routers, suppressed tokens.

tests/contracts has their laws at every node and those of the texts; test_refusals.py has what is refused.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList, SuppressTokensLogitsProcessor, TopKLogitsWarper

import otspec
from otspec import ProblemError
from otspec.decode import Budget, Frequent, MultiDraft, Router, shipped, train_router
from otspec.decode.base.draft_laws import draft_law
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.shortlists import router as router_module
from otspec.decode.drafters.shortlists.restricted import Restriction
from otspec.decode.drafters.shortlists.selection import History, Level
from otspec.decode.drafters.shortlists.training import _read_fed
from otspec.decode.models.context import Context
from otspec.decode.models.head import with_head_for, without_head
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.errors import DataError
from otspec.verification.trees.shape import Shape
from otspec.vocab.tensors import read_tensors, write_tensors
from tests.contracts import draft_models
from tests.contracts.draft_models import eagle, random_router, routed, shared, steered
from tests.decode.families import made
from tests.decode.models import pair, tiny

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = [[1, 2, 3, 4, 5], [6], [7, 7, 1], [2, 5]]
ORDER, KEPT = [6, 1, 4, 3, 0, 7], [6, 1, 4, 3]
WHOLE = Sampling(LogitsProcessorList(), True)
CLUSTERS = [0, 1, 2, 3, 2, 1, 0, 2]


HEADS = ("llama", "gemma2", "gptj", "shipped")
"""Plain; tied, with a soft cap; with a bias; tied, in float32."""


def _model(kind: str) -> Any:
    """Head and what comes into it as multiples of 2^-12: their products add up to the same in whatever order."""
    if kind == "shipped":
        return shipped.load().draft
    model = made(kind, 40, num_hidden_layers=1, rotary_dim=4, attn_implementation="eager")
    norm, head = model.transformer.ln_f if kind == "gptj" else model.model.norm, model.get_output_embeddings()
    norm.register_forward_hook(lambda module, inputs, found: (found * 4096).round() / 4096)
    for weights in (head.weight, *([] if head.bias is None else [head.bias.normal_()])):
        weights.copy_((weights * 4096).round() / 4096)
    return model


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_of_some_rows_gives_the_logits_of_the_whole_one(kind: str) -> None:
    """In the model's place, or taken off; the model itself is as it was."""
    model, tokens = _model(kind), torch.tensor([0, 3, 4, 17, 38])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    narrow, (twin, head) = with_head_for(model, tokens), without_head(model)
    last, place = torch.tensor([text[-1:] for text in TEXTS]), torch.tensor([[len(text) - 1] for text in TEXTS])
    found = []
    for one in (model, narrow, twin):
        assert LlamaReader.takes(one) == (kind == "shipped")
        context = Context(one, [text[:-1] for text in TEXTS])
        read = [context.read(last, place, None, keep=1), context.read(last.expand(-1, 3), place + 1, None, keep=3)]
        found.append([each.logits for each in read])
    for whole, gathered, output in zip(*found, strict=True):
        assert whole.std() > 0.1
        near: dict[str, Any] = {"rtol": 0, "atol": 0} if whole.dtype == torch.float64 else {}
        torch.testing.assert_close(gathered, whole[..., tokens], **near)
        for rows in (tokens, slice(3, 9)):
            torch.testing.assert_close(head.rows(rows)(output), whole[..., rows], **near)
    assert head.weight.data_ptr() == model.get_output_embeddings().weight.data_ptr()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    lent = {weights.data_ptr() for weights in model.parameters()}
    assert sum(weights.data_ptr() not in lent for weights in narrow.parameters()) == (2 if kind == "gptj" else 1)
    assert with_head_for(model, torch.arange(model.config.vocab_size)) is model


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("kind", HEADS[:3])
def test_gathered_logits_are_the_whole_head_s_at_these_tokens(
    kind: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, in float64, of a routed head, copied or block by block: laws over the clusters that were chosen."""
    monkeypatch.setattr(router_module, "BLOCK", 0 if apart else 1 << 17)
    model, rng = _model(kind), np.random.default_rng(0)
    clusters = [*range(6), *rng.integers(6, size=34).tolist()]
    head = random_router(model, clusters, 2).head(model, WHOLE, 40)
    assert head.support == sum(sorted(np.bincount(clusters))[-2:])
    twin, whole = without_head(model)
    tokens = torch.tensor(rng.integers(40, size=(3, 5)))
    output = twin(input_ids=tokens).logits
    history = History(tokens, torch.cat((torch.zeros_like(output[:, :1]), output[:, :-1]), dim=1))
    there = head.choose(history, 0)
    laws = head.laws(output, Level(0, lambda: history))
    assert len({tuple(sorted(one)) for one in there.tolist()}) > 3
    assert torch.equal(WHOLE.draft_laws(head.logits_at_once(there, output)), laws)  # as a GPU takes them
    for chosen, logits, law in zip(there.tolist(), whole(output).flatten(0, 1), laws.flatten(0, 1), strict=True):
        kept = torch.tensor(np.isin(clusters, chosen))
        assert torch.equal(law, logits.masked_fill(~kept, -torch.inf).softmax(dim=-1))


def test_models_whose_logits_are_not_their_heads_alone() -> None:
    class Scaled(type(tiny(40))):  # type: ignore[misc]
        def forward(self, *inputs: Any, **named: Any) -> Any:
            found = super().forward(*inputs, **named)
            found.logits = found.logits.exp()
            return found

    wrapped, hooked, scaled = _model("gemma2"), _model("gptj"), Scaled(tiny(40).config).double().eval()
    wrapped.lm_head = torch.nn.Sequential(wrapped.lm_head)
    hooked.lm_head.register_forward_hook(lambda *_: None)
    for model, message in (
        (wrapped, "the head of Gemma2ForCausalLM cannot be computed for some tokens only"),
        (hooked, "without hooks"),
        (scaled, "neither its head nor a soft cap"),
    ):
        with pytest.raises(ProblemError, match=message):
            without_head(model)
        if model is not scaled:
            with pytest.raises(ProblemError, match=message):
                with_head_for(model, torch.tensor([1]))


def test_all_ways_to_say_some_tokens_are_one() -> None:
    """As ids, a mask or a fixed budget; a matrix that moves nothing is none."""
    target, draft = pair(8)
    prompt, mask = torch.tensor([[1, 2, 0]]), np.isin(np.arange(8), KEPT)
    settings: dict[str, Any] = {"max_new_tokens": 12, "seed": 3, "depth": 3}
    ways: list[dict[str, Any]] = [
        *({"draft_tokens": kept} for kept in (KEPT, mask, torch.tensor(mask))),
        {"draft_shortlist": Frequent(ORDER, 4)},
        *({"draft_kernel": np.eye(8)}, {}),
    ]
    one, *others, staying, plain = (
        otspec.generate(target, draft, prompt, **more, **settings).sequences.tolist() for more in ways
    )
    assert all(other == one for other in others)
    assert staying == plain != one


@pytest.mark.parametrize("greedy", [False, True])
def test_suppressed_tokens_take_no_place_on_a_shortlist(greedy: bool) -> None:
    """Every shortlist has a token that may be drafted, so no law is without mass, whatever is suppressed."""
    processors = LogitsProcessorList([SuppressTokensLogitsProcessor([6, 1, 0, 2]), TopKLogitsWarper(3)])
    sampling, left = Sampling(processors, not greedy), [3, 4, 5, 7]
    router = random_router(tiny(), CLUSTERS, Budget(1))  # nothing is left of cluster 0
    for selection, shortlist in (
        (Restriction.of(KEPT, None, 8), lambda text, level: [3, 4]),
        (Frequent(ORDER, Budget(3, falling=1)), lambda text, level: [[4, 3, 7], [4, 3, 7], [4]][level]),
        (router, lambda text, level: np.intersect1d(routed(router, tiny(), text, level, left), left)),
    ):
        generator = torch.Generator().manual_seed(0)
        drafter = ModelDrafter(tiny(), Shape((2, 2, 1)), draft_law("iid"), sampling, 8, generator, selection)
        drafter.start(TEXTS)
        drafts, row = drafter.draft(TEXTS, 3), 0
        laws = drafts.over(8)
        for text, tree in zip(TEXTS, drafts.trees, strict=True):
            for node in range(tree.inner):
                prefix = text + tree.token[tree.line(node)].tolist()
                q = draft_models.law_on(tiny(), prefix, shortlist(prefix, int(tree.depth[node])), top_k=3)
                np.testing.assert_allclose(laws[row], np.eye(8)[q.argmax()] if greedy else q, atol=1e-10)
                row += 1
    everything = Sampling(LogitsProcessorList([SuppressTokensLogitsProcessor([*ORDER, 2, 5])]), not greedy)
    for one, message in ((Frequent(ORDER, 2), "all 6 tokens of the order"), (router, "all tokens are suppressed")):
        with pytest.raises(ProblemError, match=message):
            one.head(tiny(), everything, 8)
    with pytest.raises(ProblemError, match="all 2 tokens of the order are suppressed"):
        Frequent([7, 6], 1).head(tiny(), WHOLE, 6)  # a target of six tokens


@pytest.mark.parametrize("more", [{"eta_cutoff": 0.1}, {"remove_invalid_values": True}, {"temperature": 0}], ids=str)
def test_all_kept_tokens_suppressed(more: dict[str, Any]) -> None:
    target, draft = pair(8)
    inputs: dict[str, Any] = {"suppress_tokens": [1, 4, 3, 6], "max_new_tokens": 4, **more}
    with pytest.raises(ProblemError, match="all 4 tokens that may be drafted are suppressed"):
        otspec.generate(target, draft, torch.tensor([[1, 2]]), draft_tokens=KEPT, **inputs)
    found = otspec.generate(target, draft, torch.tensor([[1, 2]]), draft_tokens=[*KEPT, 5], **inputs)
    assert set(found.new_tokens[0]) <= {0, 2, 5, 7}


def test_budgets_are_those_of_the_paper_and_never_less_than_their_least() -> None:
    fixed, tokens, clusters = Budget(12), Budget(12, falling=1), Budget(12, falling=2)
    assert [fixed.at(t) for t in range(6)] == [12] * 6
    assert [tokens.at(t) for t in range(14)] == [12, 12, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [clusters.at(t) for t in range(8)] == [12, 12, 2, 1, 1, 1, 1, 1]  # as printed 0 from t = 6 on
    assert [Budget(12, falling=2, least=3).at(t) for t in range(4)] == [12, 12, 3, 3]


def test_a_router_learns_what_its_draft_model_draws() -> None:
    """Of 10 clusters of 40 tokens, the two that are chosen hold more of the draft law than two at random."""
    model, rng = tiny(40), np.random.default_rng(0)
    texts = [rng.integers(40, size=60).tolist() for _ in range(24)]
    settings: dict[str, Any] = {"clusters": 10, "budget": 2, "width": 32, "likeliest": 2}
    losses: list[float] = []
    router = train_router(model, texts, **settings, epochs=150, report=lambda _, loss: losses.append(loss))
    assert losses[-1] < 0.7 * losses[0]
    assert router.about["positions"] == 24 * 60
    once, again = (train_router(model, texts, **settings, epochs=1) for _ in range(2))
    assert torch.equal(once.network.out_weight, again.network.out_weight)
    prefixes = [text[:length] for text in texts[:6] for length in (1, 2, 9, 30)]
    laws = [draft_models.law_on(model, prefix, np.arange(40)) for prefix in prefixes]

    def retained(one: Router) -> float:
        each = zip(prefixes, laws, strict=True)
        return float(np.mean([law[routed(one, model, prefix, 0)].sum() for prefix, law in each]))

    clusters = router.clusters.tolist()
    assert retained(router) > 1.4 * max(retained(random_router(model, clusters, 2, seed)) for seed in range(3))


def test_saved_and_read_again(tmp_path: Path) -> None:
    path, router = tmp_path / "router.safetensors", random_router(tiny(), CLUSTERS, Budget(3, falling=2, least=2))
    router.save(path)
    again = Router.load(path)
    assert (again.clusters.tolist(), again.budget, again.about) == (CLUSTERS, router.budget, router.about)
    torch.testing.assert_close(vars(again.network), vars(router.network), rtol=1e-3, atol=1e-3)
    assert Router.load(path, 1).budget == Budget(1)
    train_router(tiny(), [[1], [2]], clusters=4, epochs=1).save(path)  # before their tokens all is 0
    assert Router.load(path).network.hidden_weight.isfinite().all()
    router.save(path)
    arrays, about = read_tensors(path, "a router of otspec")
    for name, wrong in (("clusters", arrays["clusters"] * 2), ("out_bias", arrays["out_bias"] * np.inf)):
        write_tensors(tmp_path / f"{name}.safetensors", {**arrays, name: wrong}, about)
    calls: list[Any] = [
        (lambda: Router.load(path, 5), ProblemError, "the budget is 5 clusters, and the router has 4"),
        (lambda: Router.load(tmp_path / "none.safetensors"), DataError, "there is no file"),
        (lambda: Router.load(tmp_path / "clusters.safetensors"), DataError, "arrays of other shapes"),
        (lambda: Router.load(tmp_path / "out_bias.safetensors"), DataError, "weights that are not finite"),
        (lambda: again.head(pair(8)[1], WHOLE, 8), ProblemError, "the router is of draft model"),
    ]
    for call, kind, message in calls:
        with pytest.raises(kind, match=message):
            call()


@pytest.mark.parametrize("kind", ["eagle", "shared", "parallel"])
def test_a_router_of_a_fed_model_learns_from_its_drafts(kind: str) -> None:
    """At every place and depth: what is likeliest on its own outputs, and what decoding would ask the router by."""
    target, text, likeliest = pair(8)[0], [3, 1, 4, 1, 5, 2], 2
    model = eagle(pair(8)[1]) if kind == "eagle" else shared(target, masks=2 * (kind == "parallel"))
    says = draft_models.logits_of_parallel if kind == "parallel" else draft_models.logits_of_eagle
    found = _read_fed(model, target, text)
    # Norms add so many squares in float32, whatever else is in float64, and passes of other shapes in another order.
    norms = sum("RMSNorm" in type(one).__name__ for both in (target, model) for one in both.modules())
    rounding = norms * draft_models.WIDTH * torch.finfo(torch.float32).eps
    assert [len(one.tokens) for one in found] == [5, 4, 3]
    strategy = MultiDraft(model, paths=1, depth=1, draft_shortlist=random_router(model, list(range(8)), 4))
    for root in range(len(text) - 1):
        read = text[: root + 1]
        for number, one in enumerate(found[: len(text) - 1 - root]):
            logits = says(model, target, read, text[root + 1 : root + 1 + number])
            assert set(one.likeliest(likeliest)[root].tolist()) == set(np.argsort(-logits)[:likeliest].tolist())
            assert one.tokens[root] == text[root if kind == "parallel" else root + number]
        drafter: Any = strategy.prepare(8, WHOLE, torch.Generator()).drafter
        drafter.observe([draft_models.all_features(target, read, drafter.layers)[:-1]])
        drafter.start([read])
        drafter.draft([read], 1)
        asked_by = drafter.history_of_roots()
        atol = rounding * float(found[0].before[root].abs().max())
        torch.testing.assert_close(asked_by.before[0, 0], found[0].before[root], atol=atol, rtol=0)
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
    found = [train_router(model, texts, target=one, **settings).about["loss"] for one in (target, target, None)]
    assert found[0] == found[1] != found[2]
    short = pair(8, positions=32)[0]
    assert train_router(model, [[3, 1] * 30], target=short, **settings).about["positions"] == 32
    with pytest.raises(ProblemError, match="reads no target, and a router learns from it alone; leave out target"):
        train_router(draft, texts, target=target, **settings)
