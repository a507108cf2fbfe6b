"""Tree attention and compaction, against models that read every text from its start without a cache."""

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import otspec
from otspec import ProblemError
from otspec.decode.models.context import Context, sliding_window
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.static import StaticReader, can_stand
from otspec.decode.models.target import Target
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from tests.decode.families import family
from tests.decode.models import logits_after, pair, tiny
from tests.each import each

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = [[1, 2, 3, 4, 5], [6], [7, 7, 1]]


@pytest.fixture(params=["sdpa", "lean", "eager", "learned positions"])
def model(request: pytest.FixtureRequest) -> Any:
    if request.param == "learned positions":
        return family("gpt2", 8)
    model = tiny(attention="eager" if request.param == "eager" else "sdpa")
    # The lean pass is one in float32; and eager attention has its softmax there, where a float64 model's mask is -inf.
    return copy.deepcopy(model).float() if request.param in ("eager", "lean") else model


@pytest.fixture(params=["a cache that grows", "a cache of fixed size"])
def _cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the target: on a CPU, and as on a GPU."""
    if request.param == "a cache of fixed size":
        monkeypatch.setattr(LlamaReader, "takes", staticmethod(lambda model: False))
        monkeypatch.setattr(StaticReader, "takes", staticmethod(can_stand))


def _trees(rng: np.random.Generator, count: int) -> list[Topology]:
    """Trees of different shapes: paths, n-ary, and none."""
    shapes = [Shape((3, 1, 1)), Shape((2, 2, 2)), Shape(()), Shape((4,))]
    return [Topology.merge(shape, rng.integers(8, size=shape.slots - 1)) for shape in shapes[:count]]


@pytest.mark.usefixtures("_cache")
def test_every_node_of_every_tree_step_after_step(model: Any) -> None:
    """While texts end and leave the cache, which what is read next goes by."""
    rng, tolerance = np.random.default_rng(0), 1e-4 if model.dtype == torch.float32 else 1e-10
    texts, target = [list(text) for text in TEXTS], Target(model, TEXTS)
    for rows in ([0, 1, 2], [0, 1, 2], [2, 0], [1], [0]):
        trees = _trees(rng, len(texts))
        nodes = [(text, tree, node) for text, tree in zip(texts, trees, strict=True) for node in range(tree.size)]
        for logits, (text, tree, node) in zip(target.read(texts, trees), nodes, strict=True):
            whole = logits_after(model, text + tree.token[tree.line(node)].tolist())
            np.testing.assert_allclose(logits, whole, rtol=0, atol=tolerance)
        accepted = [tree.line(int(rng.integers(tree.size))) for tree in trees]
        target.commit(accepted, rows)
        target.settle()
        texts = [[*texts[row], *trees[row].token[accepted[row]].tolist(), int(rng.integers(8))] for row in rows]


@each(dtype=(torch.float64, torch.float32))
def test_each_token_of_a_long_text_is_read_once(dtype: torch.dtype) -> None:
    """By transformers' passes and, in float32, by the lean one."""
    paths, depth, prompt = 3, 3, 4
    target, draft = (copy.deepcopy(model).to(dtype) for model in pair(8, positions=256))
    ids = torch.arange(1, 1 + prompt)[None]
    found = otspec.generate(target, draft, ids, paths=paths, depth=depth, seed=3, max_new_tokens=120)
    read, drafted = found.passes["target"], found.passes["draft"]
    assert len(read) == found.metrics.target_calls
    assert all(one.rows <= 1 + paths * depth for one in read)
    assert read[0].start == prompt - 1
    assert all(1 <= after.start - before.start <= depth + 1 for before, after in pairwise(read))
    assert len(read) - 1 <= len(drafted) <= depth * len(read)
    assert all(one.rows <= max(paths, depth + 1) for one in drafted)


def test_models_that_cannot_read_trees() -> None:
    for name, value, message in (
        ("_attn_implementation", "flash_attention_2", 'load it with attn_implementation="sdpa" or "eager"'),
        ("is_encoder_decoder", True, "encoder-decoder"),
        ("layer_types", ["full_attention", "linear_attention"], "a tree of drafts needs it in every layer"),
    ):
        model = copy.deepcopy(tiny(seed=9))
        setattr(model.config, name, value)
        with pytest.raises(ProblemError, match=message):
            Context(model, [[1]])


def test_which_layers_slide() -> None:
    model = copy.deepcopy(tiny(seed=8))
    config = model.config
    for types, window, expected in (
        (None, None, float("inf")),
        (None, 5, 5),
        (["full_attention"], 5, float("inf")),
        (["full_attention", "sliding_attention"], 5, 5),
    ):
        config.layer_types, config.sliding_window = types, window
        assert sliding_window(model) == expected
    config.use_sliding_window = False
    assert sliding_window(model) == float("inf")
