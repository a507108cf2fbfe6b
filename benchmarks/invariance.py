"""What invariant passes cost, and what they are for: a table of docs/rollouts.md.

    OMP_NUM_THREADS=1 python -m benchmarks.invariance [--target shipped|smollm2] [--prompts 10] [--tokens 32]

Greedy text without drafts and with those of the target's EAGLE drafter, in passes as they come and in invariant ones.
Seconds are those that the processor spent, of one thread, prompts included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.comparing import ratio
from benchmarks.reporting import show
from otspec.decode import Generation, MultiDraft, Strategy, run, shipped
from otspec.decode.methods import Vanilla
from otspec.decode.pair.loading import load_models
from otspec.laws import FloatArray
from otspec.reporting.tables import TextTable

WAYS = {"as they come": False, "invariant": True}
DEPTH = 5


def runs(target: str, prompts: int, tokens: int) -> Iterator[dict[tuple[str, bool], tuple[Generation, float]]]:
    """Of each prompt what was decoded in which way, and the seconds it took."""
    own = shipped.load().tokenizer
    models = load_models(target, [], "cpu", "float32")
    draft = shipped.eagle() if target == "shipped" else shipped.drafter("eagle", models.target)
    assert draft is not None
    strategies: dict[str, Strategy] = {"no drafts": Vanilla(), "drafts": MultiDraft(draft, depth=DEPTH)}
    for row in [None, *shipped.held_out(32)[:prompts]]:
        ids = models.tokenizer(own.decode(row or [5, 6, 7]), return_tensors="pt").input_ids
        found = {}
        for name, strategy in strategies.items():
            for invariant in WAYS.values():
                started = time.process_time()
                settings = {"temperature": 0, "seed": 0, "max_new_tokens": tokens, "invariant": invariant}
                text = run(models.target, strategy, ids, **settings)  # type: ignore[arg-type]  # of several types
                found[name, invariant] = text, time.process_time() - started
        if row is not None:  # the first one checks the models
            yield found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("shipped", "smollm2"), default="shipped")
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=32, help="new tokens of each text")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = list(runs(given.target, given.prompts, given.tokens))
    rows = []
    for name, invariant in WAYS.items():
        plain, drafted = ([one[kind, invariant] for one in found] for kind in ("no drafts", "drafts"))
        first = [one["no drafts", False] for one in found]
        same = sum(one[0].new_tokens == other[0].new_tokens for one, other in zip(plain, drafted, strict=True))
        share, error = ratio(_seconds(plain), _seconds(drafted))
        price = [f"{float(_seconds(one).sum() / _seconds(first).sum()):.2f}" for one in (plain, drafted)]
        speeds = (
            f"{sum(text.metrics.tokens for text, _ in one) / _seconds(one).sum():.1f}" for one in (plain, drafted)
        )
        rows.append((name, *speeds, f"{share:.2f} ± {error:.2f}", *price, f"{same} of {len(found)}"))
    header = ("passes", "tokens/s, no drafts", "drafts", "ratio", "seconds, no drafts", "drafts", "texts the same")
    note = (
        f"Greedy, {given.tokens} tokens, float32, {DEPTH} tokens drafted; seconds over those of no drafts as they come."
    )
    show(TextTable(f"Invariant passes of {given.target}", header, rows, note, labels=1))


def _seconds(ran: list[tuple[Generation, float]]) -> FloatArray:
    return np.array([seconds for _, seconds in ran])


if __name__ == "__main__":
    main()
