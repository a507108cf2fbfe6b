"""A head of 128 256 random rows, and parts of it, by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessorList

from benchmarks.reporting import Record
from otspec.decode import Budget, Router
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.shortlists.router import Network
from otspec.decode.drafters.shortlists.selection import History
from otspec.decode.models.context import Context
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import Head, without_head
from otspec.reporting.tables import TextTable


def large(width: int, dtype: torch.dtype, turns: int) -> list[Record]:
    """Seconds of a head of 128 256 rows and of the layer before it, all of random weights, in turn."""
    vocab, clusters = 128_256, 512
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=1,
        num_attention_heads=width // 128,
        num_key_value_heads=max(width // 512, 1),
        tie_word_embeddings=True,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config).to(dtype).eval()
    twin, head = without_head(model)
    output, rng = torch.randn(1, 1, width, dtype=dtype), np.random.default_rng(0)
    sampling = Sampling(LogitsProcessorList(), True)
    share = rng.dirichlet(np.full(clusters, 4.0))
    of = np.concatenate((np.arange(clusters), rng.choice(clusters, vocab - clusters, p=share)))
    shapes = ((256, 2 * width), (256,), (clusters, 256), (clusters,))
    network = Network(*(0.05 * torch.randn(shape) for shape in shapes))
    router = Router(of, network, Budget(1), {"draft": fingerprint(model)})
    routed = router.head(model, sampling, vocab)
    history = History(torch.tensor([[17]]), output)
    calls: dict[tuple[str, int], Callable[[], object]] = {("whole head", vocab): lambda: head(output)}
    context = Context(twin, [[0] * 100])

    def layer() -> None:
        context.read(history.tokens, torch.tensor([[100]]), None, keep=1)
        context.commit([[]], [0])

    calls["the layer before it", 0] = layer
    calls["router", clusters] = lambda: routed.choose(history, 0)
    calls["softmax and layout", vocab] = lambda: sampling.draft_laws(output.new_full((1, 1, vocab), 0.5))
    for size in (32_768, 27_344, 8_192):
        calls["the first rows, a view (PA-FR)", size] = partial(_product, partial(head.rows, slice(size)), output)
        chosen = rng.permutation(clusters)[: round(clusters * size / vocab)].tolist()
        calls["clusters (DynaSpec)", size] = partial(routed.logits_of, chosen, output)
        tokens = torch.from_numpy(rng.permutation(vocab)[:size])
        calls["tokens one by one, gathered", size] = partial(_product, partial(head.rows, tokens), output)
    seconds: dict[tuple[str, int], list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name in rng.permutation(len(calls)):
            key = list(calls)[name]
            started = time.thread_time()
            calls[key]()
            if turn:
                seconds[key].append(time.thread_time() - started)
    return [{"part": part, "rows": rows, "seconds": float(np.median(each))} for (part, rows), each in seconds.items()]


def _product(rows: Callable[[], Head], output: torch.Tensor) -> torch.Tensor:
    return rows()(output)


def large_table(records: Sequence[Record], width: int, dtype: torch.dtype) -> TextTable:
    """Parts of a draft pass, relative to the whole head."""
    whole = records[0]["seconds"]
    rows: list[tuple[str, ...]] = [
        (one["part"], str(one["rows"] or "-"), f"{1e3 * one['seconds']:.2f}", f"{one['seconds'] / whole:.3f}")
        for one in records
    ]
    note = "Processor time, medians in turn, one thread, one token, random weights."
    title = f"A head of 128 256 tokens, width {width}, {str(dtype).removeprefix('torch.')}"
    return TextTable(title, ("part", "rows", "ms", "of the whole head"), rows, note, labels=1)
