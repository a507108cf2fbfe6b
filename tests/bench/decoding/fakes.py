"""Records of decoding that nobody measured, and a benchmark of tiny models."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from otspec.bench.decoding.cells import DecodingCell
from otspec.bench.decoding.driver import DecodingBenchmark
from otspec.decode.base.metrics import Metrics
from otspec.decode.pair.conversations import Conversation
from otspec.decode.pair.loading import Models
from tests.decode.models import pair

VANILLA, GENERATE = DecodingCell("vanilla"), DecodingCell("generate")
NESTED, INTERVAL = (DecodingCell("multi-draft", rule, 2, 8) for rule in ("nested", "interval"))
ASSISTED = DecodingCell("assisted", paths=1)


def benchmark(cells: list[DecodingCell], **settings: Any) -> DecodingBenchmark:
    """Three prompts of a tiny pair."""
    target, draft = pair()
    prompts = [[1, 2], [3], [4, 5, 6]]
    settings = {"first": 3, "max_new_tokens": 5, "budget_s": 1e6} | settings
    mute = SimpleNamespace(decode=lambda *_, **__: "")
    conversations = [Conversation(prompt) for prompt in prompts]
    return DecodingBenchmark(Models(target, mute, draft), ("t", "d"), cells, conversations, **settings)


def record(
    cell: DecodingCell, prompt: int, tokens: int, steps: int, seconds: float = 1.0, **changes: Any
) -> dict[str, Any]:
    """One measurement, with changes."""
    spent = {**Metrics().seconds, "target": seconds}
    metrics = Metrics(tokens, steps, steps, 2 * steps, [steps], [tokens - steps], spent, tokens)
    about = {"trial": False, "prompt": prompt, "repeat": 0, "seed": prompt, "lossless": True, "message": ""}
    return asdict(cell) | about | metrics.record() | changes
