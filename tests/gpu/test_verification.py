"""The rules for tensors on a GPU: the CPU's tokens for the same uniforms, no waiting, and the same as a CUDA graph.

TRITON_INTERPRET=0 python -m pytest tests/gpu    # the other tests have Triton's kernels interpreted, on the CPU
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import otspec  # noqa: E402
from otspec import AuditVerdict  # noqa: E402
from otspec.engines.chains import verify_chains  # noqa: E402
from otspec.verification.device import trees, verify_logits, verify_rows, verify_trees, verify_truncated  # noqa: E402
from otspec.verification.trees.layout import branching_layout  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.kernels.setting import even_batch  # noqa: E402
from tests.verification.kernels.test_labels import BRANCHINGS, check_labels, check_picks, scattered_layouts  # noqa: E402
from tests.verification.row_batches import KINDS, batch, tensors  # noqa: E402
from tests.verification.tree_batches import DISTINCT, SHAPES, drawn, outputs  # noqa: E402
from tests.verification.tree_batches import batch as batch_of_trees  # noqa: E402

needs_kernels = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="TRITON_INTERPRET=1 was set")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
WAYS = ["sorting", "buckets", pytest.param("triton", marks=needs_kernels)]


def inputs_in(name: str, dtype: Any, vocab: int, n: int, rows: int = 16) -> tuple[Any, ...]:
    """Laws, drafts that they can draw in their own type, and uniforms."""
    p, q, drafts, uniforms = tensors(*batch(KINDS[name], np.random.default_rng([vocab, n]), vocab, n, rows))
    p, q = p.to(dtype), q.to(dtype)
    return p, q, torch.where(q.gather(1, drafts) > 0, drafts, q.argmax(dim=1, keepdim=True)), uniforms


def on_gpu(inputs: Any) -> Any:
    return [tensor.cuda() for tensor in inputs]


def verified(inputs: Any, branching: tuple[int, ...], **settings: Any) -> Any:
    target, draft, tokens, uniforms = inputs
    return verify_trees(target, draft, tokens, branching, uniforms, **settings)


def rows_of(found: Any) -> list[tuple[int, int, bool]]:
    return list(zip(*(part.tolist() for part in found[:3]), strict=True))


@pytest.mark.parametrize("by", WAYS)
@each(name=list(KINDS), dtype=DTYPES, size=((7, 2), (50, 1), (1100, 3), (5000, 8)))
def test_rows_have_the_tokens_of_the_cpu(by: str, name: str, dtype: Any, size: tuple[int, int]) -> None:
    inputs = inputs_in(name, dtype, *size)
    expected = rows_of(verify_rows(*inputs, by="sorting" if by == "sorting" else "buckets"))
    found = rows_of(verify_rows(*on_gpu(inputs), by=by))
    # Two-byte numbers have ties, which the rounding of their totals breaks.
    assert sum(one != other for one, other in zip(found, expected, strict=True)) <= (dtype is torch.bfloat16)


@pytest.mark.parametrize("by", WAYS)
@each(temperature=(0.0, 0.6, 1.0))
def test_logits_have_the_tokens_of_their_laws(by: str, temperature: float) -> None:
    """But for roundings: the softmax is the GPU's, and its weights are added up in another order."""
    p, q, drafts, uniforms = inputs_in("dirichlet", torch.float64, 300, 3, rows=64)
    scores = [law.clamp(min=1e-30).log().float() for law in (p, q)]
    drafts = scores[1].argmax(dim=1, keepdim=True).expand_as(drafts) if temperature == 0 else drafts
    inputs = (*scores, drafts, uniforms)
    expected = rows_of(verify_logits(*inputs, temperature=temperature, by="sorting" if by == "sorting" else "buckets"))
    found = rows_of(verify_logits(*on_gpu(inputs), temperature=temperature, by=by))
    assert sum(one != other for one, other in zip(found, expected, strict=True)) <= 1


@each(dtype=DTYPES)
def test_truncated_drafts_have_the_tokens_of_the_cpu(dtype: Any) -> None:
    p, q, _, uniforms = inputs_in("model", dtype, 400, 3)
    kept = q.double().topk(20, dim=1)
    law = kept.values / kept.values.sum(dim=1, keepdim=True)
    drafts = kept.indices.gather(1, torch.multinomial(law, 3, replacement=True))
    inputs = p, kept.indices, law, drafts, uniforms
    assert rows_of(verify_truncated(*on_gpu(inputs))) == rows_of(verify_truncated(*inputs))


@each(name=("model", "zeros", "close"), length=(1, 8), vocab=(50, 5000))
def test_chains_have_the_tokens_of_the_cpu(name: str, length: int, vocab: int) -> None:
    p, q, drafts, uniforms = inputs_in(name, torch.float32, vocab, 1, rows=8 * (length + 1))
    chain = p.view(8, length + 1, vocab), q.view(8, length + 1, vocab)[:, :length].contiguous()
    tokens = drafts.view(8, length + 1)[:, :length].contiguous()
    numbers = uniforms.view(8, length + 1, 2, 3)[..., 0, 0].contiguous()
    expected = rows_of(verify_chains(*chain, tokens, numbers))
    assert rows_of(verify_chains(*on_gpu((*chain, tokens, numbers)))) == expected
    assert rows_of(verify_chains(*on_gpu((*chain, tokens, numbers)), kernels=False)) == expected


def with_kernels(*names: str) -> list[Any]:
    return [pytest.param(name, marks=needs_kernels) for name in names]


TREE_WAYS: dict[str, dict[str, Any]] = {
    "block": {"rule": "block"},
    **{by: {"rule": "interval", "by": by} for by in ("sorting", "buckets", "triton")},
}


@pytest.mark.parametrize("way", ["block", "sorting", "buckets", *with_kernels("triton")])
@each(family=DISTINCT, branching=SHAPES, vocab=(2, 7))
def test_trees_have_the_tokens_of_the_cpu(way: str, family: str, branching: tuple[int, ...], vocab: int) -> None:
    inputs: Any = batch_of_trees(drawn(family, vocab, branching, 8))
    on_cpu = TREE_WAYS["buckets" if way == "triton" else way]
    expected = outputs(verified(inputs, branching, **on_cpu))
    assert outputs(verified(on_gpu(inputs), branching, **TREE_WAYS[way])) == expected


@needs_kernels
@each(family=("tiny", "zeros", "peaked"), branching=((4, 1, 1), (2, 2, 2), (3, 2)), dtype=DTYPES, vocab=(3, 5000))
def test_every_slot_is_that_of_torch(family: str, branching: tuple[int, ...], dtype: Any, vocab: int) -> None:
    """Token by token by buckets, on the same laws; of three tokens many slots have one text."""
    target, draft, tokens, uniforms = on_gpu(batch_of_trees(drawn(family, vocab, branching, 16)))
    inputs = (target.to(dtype), draft.to(dtype), tokens, uniforms)
    found, expected = (verified(inputs, branching, **TREE_WAYS[way]) for way in ("triton", "buckets"))
    assert found.valid.equal(expected.valid)
    # Totals are added up in another order, which two-byte numbers and ties let decide.
    assert (found.slots != expected.slots).any(dim=1).sum() <= 1
    assert verified(inputs, branching, rule="interval").slots.equal(found.slots)


@needs_kernels
@each(family=DISTINCT, branching=((4, 1, 1), (1, 2, 1), (2, 2)), sigma=(0.0, 0.5), vocab=(7, 5000))
def test_labels_are_those_of_the_cpu(family: str, branching: tuple[int, ...], sigma: float, vocab: int) -> None:
    """By kernels, and to the last bit: of laws that are divided by the same totals all sums are integers."""
    inputs = batch_of_trees(drawn(family, vocab, branching, 8))
    check_labels(even_batch(inputs, branching), inputs[3], sigma, "cuda")


@needs_kernels
def test_labels_of_more_trees_than_a_gpu_has_room_for() -> None:
    """Programs that come later read what those before them must have left alone."""
    inputs = batch_of_trees(drawn("tiny", 600, (4, 1, 1, 1, 1, 1), 96))
    check_labels(even_batch(inputs, (4, 1, 1, 1, 1, 1)), inputs[3], 0.5, "cuda")


@needs_kernels
@each(ties=(False, True))
def test_lines_are_those_of_the_cpu(ties: bool) -> None:
    """Of trees with few leaves and with many, of one branching and of their own."""
    layouts = [
        branching_layout(branching, 8, torch.device("cpu")) for branching in (*BRANCHINGS, (4, *7 * (1,)), 7 * (2,))
    ]
    for layout in (*layouts, *(layout for seed in range(12) for layout in scattered_layouts(seed))):
        check_picks(layout, ties, "cuda")


@each(family=DISTINCT, branching=((3, 1, 1), (2, 2)), vocab=(7, 5000))
def test_labels_have_the_tokens_of_the_cpu(family: str, branching: tuple[int, ...], vocab: int) -> None:
    """But for roundings: the totals of laws are sums of floats, which a GPU adds up in another order."""
    inputs: Any = batch_of_trees(drawn(family, vocab, branching, 16))
    expected = outputs(verified(inputs, branching))
    there = on_gpu(inputs)
    found = outputs(verified(there, branching))
    assert sum(one != other for one, other in zip(found, expected, strict=True)) <= 1


CALLS: dict[str, Callable[..., Any]] = {
    **{by: lambda *inputs, by=by: verify_rows(*inputs, by=by) for by in ("sorting", "buckets", "triton")},
    "logits": lambda *inputs: verify_logits(*inputs, by="triton"),
    "truncated": lambda p, q, drafts, uniforms: verify_truncated(
        p, torch.arange(q.shape[1], device=q.device).expand_as(q), q, drafts, uniforms
    ),
}
OF_KERNELS = ("triton", "logits")
NAMED = [pytest.param(name, marks=needs_kernels) if name in OF_KERNELS else name for name in CALLS]


@contextmanager
def no_waiting() -> Iterator[None]:
    """Whatever makes the host wait for the GPU is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode is a prototype, it says
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def parts_of(found: Any) -> list[Any]:
    """The tensors that were asked for: log-probabilities are not."""
    return [part for part in found if part is not None]


def check_a_graph(call: Callable[[], Any], uniforms: Any) -> None:
    """Called without waiting, and captured and replayed with other uniforms, it puts out what it does as called."""
    first = [part.clone() for part in parts_of(call())]
    with no_waiting():
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    graph.replay()
    assert all(map(torch.equal, parts_of(captured), first))
    uniforms.uniform_()
    expected = parts_of(call())
    graph.replay()
    assert all(map(torch.equal, parts_of(captured), expected))
    assert not all(map(torch.equal, expected, first))


@pytest.mark.parametrize("name", NAMED)
def test_rows_wait_for_nothing_and_are_captured(name: str) -> None:
    inputs = on_gpu(inputs_in("model", torch.float32, 3000, 4, rows=64))
    check_a_graph(lambda: CALLS[name](*inputs), inputs[-1])


@pytest.mark.parametrize("rule", trees.RULES)
@each(vocab=(7, 5000), branching=((3, 1, 1), (4, 4, 4)))
def test_trees_wait_for_nothing_and_are_captured(rule: str, vocab: int, branching: tuple[int, ...]) -> None:
    inputs: Any = on_gpu(batch_of_trees(drawn("tiny", vocab, branching, 64 if branching[1] == 1 else 16)))
    check_a_graph(lambda: verified(inputs, branching, rule=rule), inputs[3])


@each(vocab=(7, 5000))
def test_sorted_trees_wait_for_nothing_and_are_captured(vocab: int) -> None:
    inputs: Any = on_gpu(batch_of_trees(drawn("tiny", vocab, (3, 1, 1), 64)))
    check_a_graph(lambda: verified(inputs, (3, 1, 1), rule="interval", by="sorting"), inputs[3])


@needs_kernels
@each(rule=trees.RULES, vocab=(7, 5000))
def test_trees_compile_to_one_graph_with_kernels(rule: str, vocab: int) -> None:
    inputs: Any = on_gpu(batch_of_trees(drawn("tiny", vocab, (3, 1), 4)))
    expected = verified(inputs, (3, 1), rule=rule)
    compiled = torch.compile(lambda *tensors: verified(tensors, (3, 1), rule=rule), fullgraph=True, backend="aot_eager")
    assert all(map(torch.equal, parts_of(compiled(*inputs)), parts_of(expected)))


@pytest.mark.parametrize("by", WAYS)
def test_the_audit_passes_it(by: str) -> None:
    def rule(p: Any, q: Any, drafts: Any, generator: Any) -> tuple[Any, Any]:
        # Where the audit's own tensors are is for the audit to say.
        uniforms = torch.rand((len(drafts), 4, 3), dtype=torch.float64, generator=generator, device=generator.device)
        found = verify_rows(*on_gpu((p, q, drafts, uniforms)), by=by)
        return found.tokens.to(drafts.device), found.accepted.to(drafts.device)

    audit = otspec.audit(rule, n=3, budget=150_000, resolution=0.06)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert audit.outcome.draws > 80_000
