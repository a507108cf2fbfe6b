"""How drafters and shortlists that learnt from one kind of text do on others.

    python -m benchmarks.out_of_domain --tasks spec_bench.jsonl --tasks humaneval.jsonl --out report/domains
    python -m benchmarks.out_of_domain --drafter steered --tasks spec_bench.jsonl --out report/domains
    python -m benchmarks.out_of_domain --target smollm2 --own texts.safetensors --tasks spec_bench.jsonl --out ...

The first asks the shipped pair and its drafters, which learnt from Python's library, and its shortlists; the second
also what otspec train left in a folder; the third the two drafters for SmolLM2, which learnt from its own texts.
Texts are read, not made: the prompts of each task one after
the other, in windows of `WINDOW` tokens.  Acceptance is exact at every token of them, that of draft d where all before
it are the text's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.losses import DEPTH, accepted
from benchmarks.reporting import Record, finish
from benchmarks.shortlists.drafting import FULL, Drafting, drafted
from benchmarks.shortlists.telling import Summary
from benchmarks.tables import pivot, with_error
from otspec.decode import Frequent, shipped
from otspec.decode.drafters.catalogue import kept_of
from otspec.decode.lessons.lesson import Lessons
from otspec.decode.lessons.texts import read_texts
from otspec.decode.pair.loading import SHIPPED, Models, load_models, with_draft, with_named_draft
from otspec.decode.training import KINDS
from otspec.decode.training.folder import RECORD
from otspec.laws import IntArray
from otspec.reporting.console import progress_bar
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable
from otspec.vocab import frequency_prune

WINDOW = 128
"""Tokens of a text."""
SHARE = 8
"""One in so many tokens is on a shortlist."""
OWN = "what it learnt from"


def windows(asked: argparse.Namespace, models: Models) -> dict[str, IntArray]:
    """Tokens of texts of every kind, each of shape (windows, `WINDOW`); first of the kind that was learnt from."""
    rows = np.array(shipped.held_out(WINDOW)) if asked.own is None else read_texts(asked.own, models.target)
    found = {OWN: rows[-asked.windows :, :WINDOW]}
    for task, texts in _prompts(asked.tasks).items():
        tokens = np.array(models.tokenizer("\n\n".join(texts), add_special_tokens=False).input_ids)
        if count := min(len(tokens) // WINDOW, asked.windows):
            found[task] = tokens[: count * WINDOW].reshape(count, WINDOW)
    return found


def _prompts(files: Sequence[Path]) -> dict[str, list[str]]:
    """What files of JSON lines as Spec-Bench has them ask, by category."""
    found: dict[str, list[str]] = {}
    for file in files:
        for record in map(json.loads, file.read_text().splitlines()):
            found.setdefault(record["category"], []).append("\n\n".join(record["turns"]))
    return found


def acceptance(models: Models, kind: str, texts: IntArray) -> list[list[float]]:
    """Of every text, 1 - TV of each draft in a row, in the mean over its tokens; the training's own way to ask."""
    kept = kept_of([models.draft])
    asked = Lessons(
        models.target, texts, KINDS[kind].layers(models.target), 1, kept=None if kept is None else kept.tokens
    )
    return [accepted(models.draft, kind, asked.lesson([row]), (1,))[0][:DEPTH] for row in range(len(texts))]


def drafters(models: Models, folders: Sequence[Path]) -> Iterator[tuple[str, str, Models]]:
    """By name, the kind of each and the pair with it."""
    for folder in folders:
        kind = json.loads((folder / RECORD).read_text())["kind"]
        yield folder.name, kind, with_named_draft(models, str(folder))
    if models.draft is not None:
        yield "draft model", "distilled", models
        yield "eagle", "eagle", with_draft(models, shipped.eagle(), models.tokenizer)
        return
    for name, kind in (("eagle", "eagle3"), ("parallel", "parallel")):
        draft = shipped.drafter(name, models.target)
        if draft is not None:
            yield name, kind, with_draft(models, draft, models.tokenizer)


def shortlists() -> list[Drafting]:
    """The whole head, and shortlists of one size: frequent tokens, and what a router chooses; of the shipped pair."""
    order = frequency_prune(shipped.frequencies(), len(shipped.frequencies()))
    router = shipped.shortlist("dynaspec")
    assert not isinstance(router, Frequent)
    few = {"draft_tokens": order[: order.size // SHARE]}
    routed = {"draft_shortlist": router.within(router.count // SHARE)}
    return [Drafting(FULL, 1, {}), Drafting("FR-Spec", SHARE, few), Drafting("DynaSpec", SHARE, routed)]


def measured(models: Models, folders: Sequence[Path], texts: Mapping[str, IntArray]) -> Iterator[Record]:
    """A record for every drafter, kind of text and depth; and for every shortlist and kind of text."""
    with progress_bar() as bar:
        ways = [(*way, kind) for way in drafters(models, folders) for kind in texts]
        for name, how, pair, kind in bar.track(ways, description="drafters"):
            each = acceptance(pair, how, texts[kind])
            for depth, rates in enumerate(zip(*each, strict=True), 1):
                yield {
                    "drafter": name,
                    "text": kind,
                    "depth": depth,
                    "acceptance": float(np.mean(rates)),
                    "error": standard_error(np.array(rates)),
                }
        if models.draft is None:
            return
        own = shipped.load()
        for kind in bar.track(list(texts), description="shortlists"):
            contexts = texts[kind].tolist()
            lists = [one for way in shortlists() for one in drafted(own, way, contexts, range(len(contexts)), 4)]
            summary = Summary(lists)
            for key in summary.keys:
                tokens, error = summary.efficiency(key)
                yield {"shortlist": key[0], "text": kind, "tokens": tokens, "error": error}
            gain, error = summary.gain("DynaSpec", "FR-Spec", [SHARE])
            yield {"shortlist": "DynaSpec over FR-Spec", "text": kind, "tokens": gain, "error": error}


def tables(records: Sequence[Record], count: Mapping[str, int]) -> list[TextTable]:
    """Kinds of text down, drafters across."""

    def texts(record: Record) -> str:
        return f"{record['text']} ({count[record['text']]})"

    drafts = [one for one in records if "drafter" in one]
    lists = [one for one in records if "shortlist" in one]
    note = f"1 - TV, in the mean over the tokens of texts of {WINDOW}, ± standard error across texts (their number)."
    found = [
        pivot(
            "Acceptance of each draft in a row",
            drafts,
            {"text": texts},
            lambda one: f"{one['drafter']}, draft {one['depth']}",
            lambda one: with_error(one["acceptance"], one["error"], ".3f"),
            note,
        )
    ]
    if lists:
        note = (
            f"One path of four, block verification, ± standard error across texts; shortlists of one token in {SHARE}."
        )
        found.append(
            pivot(
                "Tokens a call, by shortlist",
                lists,
                {"text": texts},
                lambda one: str(one["shortlist"]),
                lambda one: with_error(one["tokens"], one["error"], ".3f"),
                note,
            )
        )
    return found


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=SHIPPED, help="shipped, or smollm2")
    parser.add_argument("--dtype", default="float32", help="of the target")
    parser.add_argument("--own", type=Path, help="a file of otspec texts that were not learnt from, of this target")
    parser.add_argument(
        "--tasks", type=Path, action="append", required=True, help="JSON lines, a category and turns each"
    )
    parser.add_argument("--drafter", type=Path, action="append", default=[], help="a folder of otspec train, besides")
    parser.add_argument("--windows", type=int, default=32, help="texts of each kind at most")
    parser.add_argument("--out", type=Path, default=Path("report/domains"), help="folder for the results")
    asked: Any = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    models = load_models(asked.target, SHIPPED if asked.target == SHIPPED else None, "cpu", asked.dtype)
    with torch.inference_mode():
        texts = windows(asked, models)
        records = list(measured(models, asked.drafter, texts))
    finish(asked.out, records, tables(records, {kind: len(rows) for kind, rows in texts.items()}), [])


if __name__ == "__main__":
    main()
