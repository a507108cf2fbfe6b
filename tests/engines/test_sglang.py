"""Trees verified against the target alone, in place: the walk of the documented kernel, node after node."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from otspec.engines import sglang
from otspec.engines.sglang import chain_speculative_sampling_triton, tree_speculative_sampling_target_only
from tests.each import each
from tests.engines.test_chains import check_logprobs

ROWS, NODES, VOCAB, DEPTH = 6, 8, 9, 4
THRESHOLDS = ((1.0, 1.0), (0.3, 1.0), (1.0, 0.6), (0.0, 1.0))


def random_trees(rng: np.random.Generator) -> dict[str, Any]:
    """Rows of trees in first-child and next-sibling arrays, siblings with different tokens, some laws with zeros."""
    child, sibling = np.full((ROWS, NODES), -1), np.full((ROWS, NODES), -1)
    tokens = rng.integers(VOCAB, size=(ROWS, NODES))
    for b in range(ROWS):
        newest: dict[int, int] = {}
        used: dict[int, set[int]] = {}
        for node in range(1, NODES):
            parent = int(rng.integers(node))
            taken = used.setdefault(parent, set())
            tokens[b, node] = rng.choice([token for token in range(VOCAB) if token not in taken])
            taken.add(int(tokens[b, node]))
            if parent in newest:
                sibling[b, newest[parent]] = node
            else:
                child[b, parent] = node
            newest[parent] = node
    laws = rng.dirichlet(np.full(VOCAB, 0.4), size=(ROWS, NODES)) * (rng.random((ROWS, NODES, VOCAB)) < 0.8)
    laws[..., 0] += 0.1
    return {
        "candidates": torch.from_numpy(tokens),
        "retrive_index": torch.from_numpy(rng.permutation(ROWS * NODES).reshape(ROWS, NODES)),
        "retrive_next_token": torch.from_numpy(child),
        "retrive_next_sibling": torch.from_numpy(sibling),
        "uniform_samples": torch.from_numpy(rng.random((ROWS, NODES))).float(),
        "uniform_samples_for_final_sampling": torch.from_numpy(rng.random(ROWS)).float(),
        "target_probs": torch.from_numpy(laws / laws.sum(axis=2, keepdims=True)).float(),
    }


def outputs() -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.full((ROWS * NODES,), -1, dtype=torch.int32),
        torch.full((ROWS, DEPTH), -1, dtype=torch.int32),
        torch.full((ROWS,), -1, dtype=torch.int32),
    )


def walk(trees: dict[str, Any], single: float, acc: float) -> tuple[Any, Any, Any]:
    """The kernel's statement, in plain Python."""
    predicts, index, count = (output.tolist() for output in outputs())
    given: dict[str, Any] = {name: tensor.tolist() for name, tensor in trees.items()}
    for b in range(ROWS):
        at, accepted, passed, place = 0, 0, 0.0, given["retrive_index"][b][0]
        left = list(given["target_probs"][b][0])
        index[b][0] = place
        node = given["retrive_next_token"][b][0]
        while node != -1 and accepted < DEPTH - 1:
            token = given["candidates"][b][node]
            chance = given["target_probs"][b][at][token]
            passed += chance
            if given["uniform_samples"][b][at] < passed / acc or chance >= single:
                predicts[place] = token
                place, at, passed, accepted = given["retrive_index"][b][node], node, 0.0, accepted + 1
                index[b][accepted] = place
                left = list(given["target_probs"][b][at])
                node = given["retrive_next_token"][b][node]
            else:
                left[token] = 0.0
                node = given["retrive_next_sibling"][b][node]
        count[b] = accepted
        sums = np.cumsum(left)
        coin = given["uniform_samples_for_final_sampling"][b]
        predicts[place] = int(np.searchsorted(sums, coin * sums[-1], side="right"))
    return predicts, index, count


@each(seed=range(30), thresholds=THRESHOLDS)
def test_the_walk_is_that_of_the_kernel(seed: int, thresholds: tuple[float, float]) -> None:
    trees, found = random_trees(np.random.default_rng(seed)), outputs()
    single, acc = thresholds
    logprobs = tree_speculative_sampling_target_only(
        *found, **trees, threshold_single=single, threshold_acc=acc, logprobs=True
    )
    predicts, index, count = expected = walk(trees, *thresholds)
    assert [output.tolist() for output in found] == list(expected)
    assert logprobs is not None
    nodes = {place: node for row in trees["retrive_index"].tolist() for node, place in enumerate(row)}
    for b in range(ROWS):
        path = index[b][: count[b] + 1]
        laws = trees["target_probs"][b, [nodes[place] for place in path]].numpy()
        check_logprobs(logprobs[b], laws, [predicts[place] for place in path])


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton is not interpreted")
@each(seed=range(4), thresholds=THRESHOLDS)
def test_the_kernels_walk_likewise(seed: int, thresholds: tuple[float, float]) -> None:
    pytest.importorskip("triton")
    trees, found = random_trees(np.random.default_rng(seed)), outputs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sglang, "runs_on", lambda values: True)
        tree_speculative_sampling_target_only(
            *found, **trees, threshold_single=thresholds[0], threshold_acc=thresholds[1]
        )
    expected = walk(trees, *thresholds)
    assert [output.tolist() for output in found] == list(expected)


@each(kernels=(False, True) if os.environ.get("TRITON_INTERPRET") == "1" else (False,))
def test_no_coin_accepts_what_has_no_probability(kernels: bool) -> None:
    trees, found = random_trees(np.random.default_rng(3)), outputs()
    trees["uniform_samples"][:] = 0.0
    for b in range(ROWS):  # of the first child of each root
        trees["target_probs"][b, 0, trees["candidates"][b, trees["retrive_next_token"][b, 0]]] = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sglang, "runs_on", lambda values: kernels)
        tree_speculative_sampling_target_only(*found, **trees)
    for b in range(ROWS):
        refused = trees["retrive_index"][b, trees["retrive_next_token"][b, 0]]
        assert refused not in found[1][b]


def test_a_tree_is_lossless_and_nothing_waits_for_the_device() -> None:
    """The first token after the root has the law of the target there, over a fine grid of both coins."""
    trees = random_trees(np.random.default_rng(1))
    counts, steps = torch.zeros(VOCAB, dtype=torch.float64), 24
    root = trees["retrive_index"][0, 0]
    for one in range(steps):
        for other in range(steps):
            trees["uniform_samples"][:, 0] = (one + 0.5) / steps
            trees["uniform_samples_for_final_sampling"][:] = (other + 0.5) / steps
            found = outputs()
            tree_speculative_sampling_target_only(*found, **trees)
            counts[found[0][root]] += 1 / steps**2
    assert (counts - trees["target_probs"][0, 0]).abs().max() < 1.5 / steps
    meta: dict[str, Any] = {name: tensor.to("meta") for name, tensor in trees.items()}
    predicts, index, count = (output.to("meta") for output in outputs())
    tree_speculative_sampling_target_only(predicts, index, count, **meta)


KEYWORDS = [
    *("predicts", "accept_index", "accept_token_num", "candidates", "retrive_index", "retrive_next_token"),
    *("retrive_next_sibling", "uniform_samples", "uniform_samples_for_final_sampling", "target_probs", "draft_probs"),
    *("threshold_single", "threshold_acc", "deterministic"),
]


@pytest.mark.parametrize(
    ("ours", "more"),
    [(tree_speculative_sampling_target_only, []), (chain_speculative_sampling_triton, ["block_verification"])],
)
def test_keywords_are_those_of_sglang(ours: Callable[..., Any], more: list[str]) -> None:
    assert list(inspect.signature(ours).parameters) == [*KEYWORDS, *more, "logprobs"]
