"""What a draft model with another tokenizer gives: acceptance, block efficiency and speed, beside the pair's own draft.

    python -m benchmarks.foreign_draft [--prompts 24] [--new 64] [--depth 3] [--out report_foreign]

First, acceptance of one draft, the sum of min(p, q), at the same places of the same texts for every drafter: held-out
prompts of the shipped pair, gone on with by the target.  Then texts from the same prompts and seeds, decoded in turn
by every drafter, so that a busy machine slows all of them alike; time is that of the processor, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessorList

from benchmarks.comparing import ratio
from benchmarks.reporting import Record, finish
from benchmarks.tables import with_error
from otspec.data import open_source
from otspec.decode import MultiDraft, Strategy, run
from otspec.decode.base.sampling import Sampling
from otspec.decode.methods import Vanilla
from otspec.decode.models.tokens.matching import matching_of
from otspec.decode.shipped import foreign, held_out, load
from otspec.laws import FloatArray
from otspec.reporting.console import progress_as_ours
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable
from otspec.vocab import Affinity, Estimate, Moments, PairCounts, acceptance_rate

EVERY = 4
"""New tokens between two places."""
TAUS = (0.1, 0.3, 1.0)
NEAREST = 64
TLI = "TLI"
OWN = "the pair's own draft"
ALIGNED = "RDK, aligned counts"


@dataclass(frozen=True)
class Ways:
    """The shipped target, and who drafts for it."""

    target: Any
    drafters: dict[str, dict[str, Any]]
    """Settings of `MultiDraft` by name."""

    def strategy(self, name: str, **more: Any) -> MultiDraft:
        """The drafter of that name."""
        return MultiDraft(**self.drafters[name], **more)


def ways(affinities: dict[str, Affinity]) -> tuple[Ways, float]:
    """The pair's own draft, and the foreign one without and with kernels; and the share of tokens in common."""
    pair, other = load(), foreign()
    matching = matching_of(pair.tokenizer, other.tokenizer)
    assert matching is not None
    drafters: dict[str, dict[str, Any]] = {OWN: {"draft": pair.draft}}
    drafters[TLI] = {"draft": other.draft, "matching": matching}
    for name, affinity in ({ALIGNED: other.affinity} | affinities).items():
        drafters[name] = drafters[TLI] | {"draft_kernel": affinity}
    return Ways(pair.target, drafters), matching.share


def affinities() -> dict[str, Affinity]:
    """What `otspec affinity` finds, at several temperatures: of one half of the held-out text, and of the profile."""
    counts = PairCounts(2048, window=8)
    for row in held_out(257)[32:]:
        counts.add(row[1:])
    moments, source = Moments(2048), open_source("shipped")
    moments.add(np.array([source.position(i).target_logits for i in range(len(source))]))
    found: dict[str, PairCounts | Moments] = {"counts of pairs": counts, "covariance of logits": moments}
    return {
        f"RDK, {name}, tau = {tau:g}": Estimate.of(one, tau, {}).affinity().nearest(NEAREST)
        for name, one in found.items()
        for tau in TAUS
    }


def texts_of(target: Any, prompts: Sequence[Sequence[int]], new: int) -> torch.Tensor:
    """The prompts, and how the target goes on, never ending, shape (B, length + new)."""
    ids = torch.tensor(prompts)
    generation = run(target, Vanilla(), ids, max_new_tokens=new, seed=0, eos_token_id=None)
    return generation.sequences


def accepted(ways: Ways, texts: torch.Tensor, length: int) -> dict[str, FloatArray]:
    """Acceptance of one draft by drafter, at every `EVERY`-th new token of every text, shape (B, places)."""
    places = range(length, texts.shape[1], EVERY)
    with torch.inference_mode():
        laws = ways.target(texts).logits.double().softmax(dim=-1).numpy()
        found = {}
        for name in ways.drafters:
            sampling = Sampling(LogitsProcessorList(), do_sample=True)
            drafter = ways.strategy(name, paths=1, depth=1).prepare(laws.shape[-1], sampling, torch.Generator()).drafter
            assert drafter is not None
            rows = texts.tolist()
            drafter.start([row[:length] for row in rows])
            at_places = []
            for end in places:
                q = drafter.draft([row[:end] for row in rows], 1).over(laws.shape[-1]).numpy()
                drafter.commit([[] for _ in rows], range(len(rows)))
                at_places.append(acceptance_rate(laws[:, end - 1], q))
            found[name] = np.array(at_places).T
    return found


def decoded(ways: Ways, prompts: Sequence[Sequence[int]], new: int, depth: int, names: Sequence[str]) -> list[Record]:
    """Tokens, target calls, drafted tokens and seconds of every text by every drafter, in turn."""
    each: dict[str, Strategy] = {"vanilla": Vanilla()}
    each |= {name: ways.strategy(name, paths=1, depth=depth) for name in names}
    for strategy in each.values():
        run(ways.target, strategy, torch.tensor([prompts[0]]), max_new_tokens=8, seed=0)
    records = []
    for number, prompt in enumerate(prompts):
        for name in _turned(list(each), number):
            started = time.process_time()
            generation = run(ways.target, each[name], torch.tensor([prompt]), max_new_tokens=new, seed=number)
            seconds, metrics = time.process_time() - started, generation.metrics
            records.append(
                {"drafter": name, "prompt": number, "processor_seconds": seconds, **metrics.record()}
                | {"drafted": sum(metrics.offered), "draft_seconds": metrics.seconds["draft"]}
            )
    return records


def _turned(names: list[str], by: int) -> list[str]:
    """Another first at every prompt."""
    return names[by % len(names) :] + names[: by % len(names)]


def summed_up(records: Sequence[Record]) -> list[Record]:
    """For every drafter block efficiency, speed and time of a draft as ratios, with errors across prompts."""
    by_name: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record["prompt"]):
        by_name.setdefault(record["drafter"], []).append(record)

    def column(name: str, key: str) -> FloatArray:
        return np.array([record[key] for record in by_name[name]], dtype=float)

    def a_token(name: str, key: str, of: str) -> tuple[float, float]:
        return ratio(column(name, key), column(name, of))

    rows = []
    for name in by_name:
        slow = column("vanilla", "processor_seconds") / column("vanilla", "tokens") * column(name, "tokens")
        drafts = column(name, "drafted").sum() > 0
        native = column(OWN, "draft_seconds") / column(OWN, "drafted") * column(name, "drafted")
        row: Record = {"drafter": name}
        for key, found in (
            ("block_efficiency", a_token(name, "tokens", "sequence_steps")),
            ("speed_up", ratio(slow, column(name, "processor_seconds"))),
            ("draft_time", ratio(column(name, "draft_seconds"), native) if drafts else (np.nan, np.nan)),
        ):
            row |= {key: found[0], f"{key}_error": found[1]}
        rows.append(row)
    return rows


def table(acceptance: dict[str, FloatArray], rows: Sequence[Record], share: float, title: str) -> TextTable:
    """Drafters by what they give."""
    told = {row["drafter"]: row for row in rows}
    over = acceptance[TLI].mean(axis=1)

    def mean(of_texts: FloatArray, signed: str = "") -> str:
        return with_error(float(of_texts.mean()), standard_error(of_texts), ".3f", sign=signed)

    def said(name: str, key: str) -> str:
        found = told.get(name)
        return "-" if found is None or np.isnan(found[key]) else with_error(found[key], found[f"{key}_error"])

    keys: dict[str, Callable[[str], str]] = {
        "acceptance": lambda name: mean(acceptance[name].mean(axis=1)) if name in acceptance else "-",
        "over TLI": lambda name: mean(acceptance[name].mean(axis=1) - over, "+") if name in acceptance else "-",
        "tokens a target call": lambda name: said(name, "block_efficiency"),
        "speed": lambda name: said(name, "speed_up"),
        "time of a draft": lambda name: said(name, "draft_time"),
    }
    names = ["vanilla", *acceptance]
    lines = [(name, *(tell(name) for tell in keys.values())) for name in names]
    note = (
        f"The foreign draft model knows {share:.1%} of the target's tokens. Acceptance: the sum of min(p, q), at the "
        "same places for all. Speed: tokens a second of the processor, over vanilla. Time of a draft: of drafting, a "
        f"drafted token, over that of {OWN}. ± standard errors across prompts."
    )
    return TextTable(title, ("drafter", *keys), lines, note, labels=1)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=24, help="how many held-out texts, 32 at most")
    parser.add_argument("--length", type=int, default=64, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=64, help="new tokens of every text")
    parser.add_argument("--depth", type=int, default=3, help="L, of one path")
    parser.add_argument("--out", type=Path, default=Path("report_foreign"), help="folder for the results")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    progress_as_ours()
    all_ways, share = ways(affinities())
    prompts = held_out(given.length)[: min(given.prompts, 32)]
    acceptance = accepted(all_ways, texts_of(all_ways.target, prompts, given.new), given.length)
    records = decoded(all_ways, prompts, given.new, given.depth, (OWN, TLI, ALIGNED))
    rows = summed_up(records)
    title = f"A draft model with another tokenizer: one path of {given.depth}, {len(prompts)} prompts, temperature 1"
    means = [{"drafter": name, "acceptance": found.mean(axis=1).tolist()} for name, found in acceptance.items()]
    finish(given.out, [*records, *means], [table(acceptance, rows, share, title)], [])


if __name__ == "__main__":
    main()
