"""Invariant passes: a row has the same bits alone and among others, so greedy text with drafts is that without."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from otspec.decode import run, shipped  # noqa: E402
from otspec.decode.methods import PromptLookup, Vanilla  # noqa: E402
from otspec.decode.models import self_check  # noqa: E402
from otspec.decode.models.context import Context  # noqa: E402
from otspec.decode.models.target import Target  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from otspec.verification.trees.topology import Topology  # noqa: E402
from tests.decode.families import VOCAB, family  # noqa: E402
from tests.decode.models import logits_after, pair  # noqa: E402

ALONE = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))


def in_dtype(model: Any, dtype: str) -> Any:
    return copy.deepcopy(model).to(getattr(torch, dtype))


def after_each(model: Any, text: Sequence[int], first: int) -> Any:
    """Logits after every token from the first on, each from an invariant pass of one row."""
    target, rows = Target(model, [text[: first + 1]], invariant=True), []
    for stop in range(first + 1, len(text) + 1):
        rows.append(target.read([text[:stop]], [ALONE])[0])
        target.commit([[]], [0])
    return torch.stack(rows)


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize(
    ("name", "dtype"), [("llama", "float32"), ("qwen3", "float32"), ("llama", "bfloat16"), ("qwen2", "bfloat16")]
)
def test_rows_have_the_same_bits_alone_and_in_trees_of_batches(name: str, dtype: str) -> None:
    """Texts are shorter and longer than a block; the second trees come after nodes that were apart became text."""
    model = in_dtype(family(name), dtype)
    rng = np.random.default_rng(5)
    texts = [rng.integers(VOCAB, size=length).tolist() for length in (3, 21)]
    target = Target(model, texts, invariant=True)
    for _ in range(2):
        trees = [Topology.merge(Shape((3, 2)), rng.integers(VOCAB, size=9)) for _ in texts]
        logits = target.read(texts, trees).split([tree.size for tree in trees])
        for text, tree, own in zip(texts, trees, logits, strict=True):
            for path in tree.node:
                alone = after_each(model, [*text, *tree.token[path[1:]].tolist()], len(text) - 1)
                assert torch.equal(own[path], alone)
            near = torch.from_numpy(logits_after(model, text))
            assert (own[0].double() - near).abs().max() < (0.5 if dtype == "bfloat16" else 1e-3)
        nodes = [tree.node[-1][1:].tolist() for tree in trees]
        target.commit(nodes, [0, 1])
        texts = [[*text, *tree.token[own].tolist(), 7] for text, tree, own in zip(texts, trees, nodes, strict=True)]


def test_greedy_text_with_drafts_is_that_without_to_the_last_bit() -> None:
    """And log-probabilities are; also of the text alone, where the other has neighbours."""
    target, draft, tokenizer = shipped.load()
    prompts = [tokenizer(text, return_tensors="pt").input_ids for text in ("import numpy as", "def f(self):")]
    prompts = [ids[:, : min(len(one[0]) for one in prompts)] for ids in prompts]
    settings: dict[str, Any] = {"temperature": 0, "max_new_tokens": 12, "logprobs": 2, "invariant": True}
    both = otspec.generate(target, draft, torch.cat(prompts), branching=(2, 1, 1), **settings)
    alone = run(target, Vanilla(), prompts[1], **settings)
    assert both.new_tokens[1] == alone.new_tokens[0]
    assert both.scores[1] == alone.scores[0]
    assert both.metrics.block_efficiency > 1.2


def test_sampled_text_is_that_of_plain_decoding_where_drafts_are_fixed() -> None:
    target = in_dtype(pair(vocab=6)[0], "bfloat16")
    prompts = torch.tensor([[1, 2, 3, 1, 2], [4, 4, 5, 4, 4]])
    settings: dict[str, Any] = {"seed": [5, 6], "max_new_tokens": 24, "logprobs": 0, "invariant": True}
    drafted, plain = (run(target, one, prompts, **settings) for one in (PromptLookup(depth=5), Vanilla()))
    assert drafted.metrics.target_calls < plain.metrics.target_calls
    assert drafted.scores == plain.scores
    assert drafted.new_tokens == plain.new_tokens


def test_what_has_no_invariant_passes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gemma = family("gemma").float()
    with pytest.raises(
        ProblemError, match=r"the target, GemmaForCausalLM on cpu, has no passes .* leave out invariant"
    ):
        run(gemma, Vanilla(), torch.tensor([[1, 2]]), max_new_tokens=2, invariant=True)
    # Kernels that add otherwise where there are many rows: here it is the rows of other texts that do it.
    read = Context.read
    monkeypatch.setattr(
        Context, "read", lambda self, tokens, *rest, **keep: read(self, tokens, *rest, **keep) + len(tokens)
    )
    with pytest.raises(ProblemError, match=r"in torch.float32, gives a row other bits in a pass of one row than among"):
        self_check.check_invariance(in_dtype(family("llama"), "float32"), "target")
