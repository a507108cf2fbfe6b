"""Drafts of a restricted vocabulary: the gathered head, the laws that are verified, and what is refused."""

import copy
from typing import Any

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from transformers import (  # noqa: E402
    Gemma2Config,
    Gemma2ForCausalLM,
    GPTJConfig,
    GPTJForCausalLM,
    LogitsProcessorList,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
)

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from otspec.decode import MultiDraft, multi_draft, shipped  # noqa: E402
from otspec.decode.base.draft_laws import draft_law  # noqa: E402
from otspec.decode.base.sampling import Sampling  # noqa: E402
from otspec.decode.drafters.model import ModelDrafter  # noqa: E402
from otspec.decode.drafters.shortlists.restricted import Restriction  # noqa: E402
from otspec.decode.drafters.shortlists.selection import laid_out  # noqa: E402
from otspec.decode.models.context import Context  # noqa: E402
from otspec.decode.models.head import with_head_for  # noqa: E402
from otspec.decode.models.passes.fused import LlamaReader  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from otspec.vocab import (  # noqa: E402
    affinity,
    affinity_from_counts,
    affinity_from_factor,
    affinity_from_matrix,
    rdk,
)
from tests.decode.models import logits_after, pair, tiny  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = [[1, 2, 3, 4, 5], [6], [7, 7, 1]]
KEPT = [6, 1, 4, 3]


def _model(kind: str) -> Any:
    common: dict[str, Any] = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    common |= {"num_attention_heads": 4, "num_key_value_heads": 2, "attn_implementation": "eager"}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "soft cap, tied":
            config = Gemma2Config(**common, head_dim=4, final_logit_softcapping=2.0, initializer_range=0.5)
            return Gemma2ForCausalLM(config).double().eval()
        if kind == "bias":
            size: dict[str, Any] = {
                "vocab_size": 40,
                "n_embd": 16,
                "n_layer": 1,
                "n_head": 4,
                "rotary_dim": 4,
                "n_positions": 64,
            }
            model = GPTJForCausalLM(GPTJConfig(**size, initializer_range=0.5)).double().eval()
            model.lm_head.bias.normal_()
            return model
        return copy.deepcopy(tiny(40)) if kind == "llama" else shipped.load().draft


def _with_exact_sums(model: Any) -> None:
    """Head and what comes into it as multiples of 2^-12: their products add up to the same in whatever order."""
    norm = model.transformer.ln_f if hasattr(model, "transformer") else model.model.norm
    norm.register_forward_hook(lambda module, given, found: (found * 4096).round() / 4096)
    head = model.get_output_embeddings()
    head.weight.copy_((head.weight * 4096).round() / 4096)
    if head.bias is not None:
        head.bias.copy_((head.bias * 4096).round() / 4096)


@pytest.mark.parametrize("kind", ["llama", "soft cap, tied", "bias", "shipped, tied, float32"])
def test_a_gathered_head_gives_the_logits_of_the_whole_one(kind: str) -> None:
    model = _model(kind)
    if model.dtype == torch.float64:
        _with_exact_sums(model)
    head = model.get_output_embeddings()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tokens = torch.tensor([0, 3, 4, 17, 38])
    narrow = with_head_for(model, tokens)
    assert LlamaReader.takes(narrow) == LlamaReader.takes(model) == (kind == "shipped, tied, float32")
    found = {}
    for name, one in (("whole", model), ("gathered", narrow)):
        context = Context(one, [text[:-1] for text in TEXTS])
        last, width = torch.tensor([text[-1:] for text in TEXTS]), torch.tensor([[len(text) - 1] for text in TEXTS])
        found[name] = [context.read(last, width, None, keep=1).logits]
        found[name].append(context.read(last.expand(-1, 3), width + 1, None, keep=3).logits)
    for whole, gathered in zip(found["whole"], found["gathered"], strict=True):
        assert gathered.shape == (*whole.shape[:-1], 5)
        if whole.dtype == torch.float64:
            assert torch.equal(gathered, whole[..., tokens])
        else:
            torch.testing.assert_close(gathered, whole[..., tokens])
        assert whole.std() > 0.1
    # The model itself is as it was, and lends all its weights but the head's rows.
    assert model.get_output_embeddings() is head
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    lent = {weights.data_ptr() for weights in model.parameters()}
    assert sum(weights.data_ptr() not in lent for weights in narrow.parameters()) == (2 if kind == "bias" else 1)
    everything = torch.arange(model.config.vocab_size)
    assert with_head_for(model, everything) is model


def _matrix(rng: Any, tokens: Any, vocab: int = 8) -> Any:
    """Row-stochastic and sparse, no row of which stays where it is."""
    values = rng.random((len(tokens), vocab)) * (rng.random((len(tokens), vocab)) < 0.4)
    values[np.arange(len(tokens)), (np.array(tokens) + 3) % vocab] += 0.1
    return sparse.csr_array(values / values.sum(axis=1, keepdims=True))


def _sampling(*more: Any) -> Sampling:
    return Sampling(LogitsProcessorList([*more, TemperatureLogitsWarper(0.7), TopKLogitsWarper(3)]), do_sample=True)


def _kernels(rng: Any) -> dict[str, Any]:
    covariance = rng.standard_normal((4, 8))
    return {
        "dense": affinity(covariance, 0.5, tokens=KEPT),
        "sparse": affinity_from_matrix(_matrix(rng, KEPT), tokens=KEPT),
        "counts": affinity_from_counts(sparse.csr_array(np.rint(9 * _matrix(rng, KEPT).toarray()) + 1), tokens=KEPT),
        "nearest": affinity_from_factor(rng.standard_normal((8, 3)), tokens=KEPT).nearest(3),
        "rows for all": affinity_from_matrix(_matrix(rng, range(8))),
        "tails": affinity_from_matrix(np.array([[1 - 1e-300, 1e-300, *[0.0] * 6]]), tokens=[5]),
    }


@pytest.mark.parametrize("name", _kernels(np.random.default_rng(0)))
def test_kernels_on_the_device_are_rdk(name: str) -> None:
    matrix = _kernels(np.random.default_rng(1))[name]
    restriction = Restriction.of(None, matrix, 8)
    assert restriction is not None
    kept = restriction.on(torch.device("cpu"))
    logits = 3 * torch.randn(5, 2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole = logits.softmax(dim=-1)
    laws = kept.redistributed(
        Sampling(LogitsProcessorList(), True).draft_laws(laid_out(logits[..., kept.tokens], kept.tokens, 8))
    )
    np.testing.assert_allclose(laws, rdk(whole, matrix), rtol=1e-12, atol=0)
    single = kept.redistributed(
        Sampling(LogitsProcessorList(), True).draft_laws(laid_out(logits[..., kept.tokens].float(), kept.tokens, 8))
    )
    np.testing.assert_allclose(single, rdk(whole, matrix), atol=1e-6)


def test_of_a_matrix_as_an_array_and_of_tokens_as_a_mask() -> None:
    target, draft = pair(8)
    prompt = torch.tensor([[1, 2, 0]])
    settings: dict[str, Any] = {"max_new_tokens": 12, "seed": 3, "temperature": 1.0, "depth": 3}
    mask = np.isin(np.arange(8), KEPT)
    ways: list[Any] = [
        otspec.generate(target, draft, prompt, draft_tokens=one, **settings) for one in (KEPT, mask, torch.tensor(mask))
    ]
    custom = multi_draft(draft, depth=3, seed=3, draft_tokens=KEPT)
    ways.append(target.generate(prompt, custom_generate=custom, do_sample=True, top_k=0, max_new_tokens=12))
    texts = [getattr(one, "sequences", one).tolist() for one in ways]
    assert texts.count(texts[0]) == 4
    staying = otspec.generate(target, draft, prompt, draft_kernel=np.eye(8), **settings)
    plain = otspec.generate(target, draft, prompt, **settings)
    assert staying.new_tokens == plain.new_tokens
    assert texts[0] != plain.sequences.tolist()


def test_processors_find_tokens_by_their_ids() -> None:
    """Of four kept tokens two are suppressed; top-k keeps more than are left."""
    sampling = Sampling(LogitsProcessorList([SuppressTokensLogitsProcessor([6, 4, 0]), TopKLogitsWarper(3)]), True)
    drafter = ModelDrafter(
        tiny(), Shape((3, 1)), draft_law("iid"), sampling, 8, torch.Generator(), Restriction.of(KEPT, None, 8)
    )
    drafter.start(TEXTS)
    laws = drafter.draft(TEXTS, 1).over(8).numpy()
    for text, law in zip(TEXTS, laws, strict=True):
        logits = logits_after(tiny(), text)
        expected = np.exp(logits[[1, 3]] - logits[[1, 3]].max())
        np.testing.assert_allclose(law[[1, 3]], expected / expected.sum(), atol=1e-10)
        assert not law[[0, 2, 4, 5, 6, 7]].any()


@pytest.mark.parametrize(
    "more", [{}, {"eta_cutoff": 0.1}, {"remove_invalid_values": True}, {"temperature": 0}], ids=str
)
def test_all_kept_tokens_suppressed(more: dict[str, Any]) -> None:
    target, draft = pair(8)
    ids = torch.tensor([[1, 2]])
    suppress: dict[str, Any] = {"suppress_tokens": [1, 4, 3, 6], "max_new_tokens": 4}
    with pytest.raises(ProblemError, match="all 4 tokens that may be drafted are suppressed"):
        otspec.generate(target, draft, ids, draft_tokens=KEPT, **suppress, **more)
    new = otspec.generate(target, draft, ids, draft_tokens=[*KEPT, 5], **suppress, **more).new_tokens[0]
    assert set(new) <= {0, 2, 5, 7}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draft_tokens": []}, "draft_tokens holds no token; pass the ids"),
        ({"draft_tokens": np.zeros(8, dtype=bool)}, "draft_tokens holds no token"),
        ({"draft_tokens": [2, 8]}, "draft_tokens holds 8; token ids run from 0 to 7"),
        ({"draft_tokens": [-1]}, "draft_tokens holds -1"),
        ({"draft_tokens": [3, 3]}, "draft_tokens holds token 3 2 times"),
        ({"draft_tokens": [0.5]}, "draft_tokens is float64"),
        ({"draft_tokens": [[1], [2]]}, r"draft_tokens has shape \(2, 1\)"),
        ({"draft_tokens": np.ones((2, 8), dtype=bool)}, r"draft_tokens is a mask of shape \(2, 8\)"),
        ({"draft_tokens": [1], "draft_kernel": np.eye(8)}, "draft_tokens and draft_kernel are both given"),
        ({"draft_kernel": np.eye(8) / 2}, "row 0 of affinity sums to 0.5"),
        (
            {"draft_kernel": np.eye(9)},
            "draft_kernel has a row for token 8, and the draft model's tokens run from 0 to 7",
        ),
        ({"draft_kernel": affinity_from_factor(np.ones((8, 1)))}, r"pass its \.nearest\(64\)"),
        ({"draft_kernel": affinity(sparse.eye_array(8))}, r"pass its \.nearest\(64\)"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_when_it_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        MultiDraft(tiny(), **settings)


def test_tokens_that_the_target_does_not_know() -> None:
    for settings, message in (
        ({"draft_tokens": [1, 9]}, "draft_tokens holds 9, and the target's tokens run from 0 to 7"),
        ({"draft_kernel": np.eye(10)}, "draft_kernel is for 10 tokens, and the target has 8"),
    ):
        strategy = MultiDraft(tiny(10), **settings)
        with pytest.raises(ProblemError, match=message):
            strategy.prepare(8, _sampling(), torch.Generator())
    drafter = MultiDraft(tiny(10), draft_tokens=[1, 7]).prepare(8, _sampling(), torch.Generator()).drafter
    assert drafter is not None
    drafter.start([[1, 2]])
    drafts = drafter.draft([[1, 2]], 1)
    assert drafts.laws.shape == (1, 2)
    assert np.flatnonzero(drafts.over(8)[0]).tolist() == [1, 7]


def test_heads_that_cannot_be_gathered() -> None:
    model = _model("soft cap, tied")
    model.lm_head = torch.nn.Sequential(model.lm_head)
    with pytest.raises(ProblemError, match="the head of Gemma2ForCausalLM cannot be computed for some tokens only"):
        with_head_for(model, torch.tensor([1]))
    model = _model("bias")
    model.lm_head.register_forward_hook(lambda *_: None)
    with pytest.raises(ProblemError, match="without hooks"):
        with_head_for(model, torch.tensor([1]))
