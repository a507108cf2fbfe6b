"""What drafters with shortlists have accepted, and how long a pass of each takes; records that are gone on with."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessorList, PreTrainedModel

from benchmarks.reporting import Record
from benchmarks.shipped_pair.corpus import read_corpus
from benchmarks.shipped_pair.recipe import tokens_of
from otspec.decode import Budget, Frequent, MultiDraft, Router
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.shortlists.selection import DraftHead, Level
from otspec.decode.models.head import without_head
from otspec.decode.models.target import Target
from otspec.decode.shipped import FREQUENCIES, HELD_OUT_ROWS, Pair
from otspec.laws import FloatArray, IntArray
from otspec.reporting.console import progress_bar
from otspec.verification import Tree
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from otspec.vocab import Estimate, PairCounts, affinity_from_counts, frequency_prune

DEPTH = 4
SHARES = (4, 8, 16, 32)
"""Of the tokens, one in so many is on a shortlist, about."""
PROMPTS, SAMPLED, BATCH = (64, 128), 24, 32
"""Lengths of the held-out prompts, tokens that the target samples after each, and texts drafted for at once."""
WINDOW, TAU, NEAREST = 8, 0.1, 16
"""Of RDK: counts of pairs at most so far apart, their temperature, entries of a row."""
FILES = 60
"""Of the text that was trained on, for RDK to count in."""
FULL, RDK, FLOOR, ORACLE = "whole head", "RDK", "no head", "likeliest of p"
RECORDS = "records.jsonl"
FAMILIES = ("FR-Spec", "PA-FR", "DynaSpec, fixed", "DynaSpec, falling", "DynaSpec, as PA-FR")


@dataclass(frozen=True, eq=False)
class NoHead:
    """A draft model of which only what comes before the head is computed; what it drafts is of no use."""

    model: PreTrainedModel
    law: torch.Tensor
    """Shape (V,)."""
    support: int | None = 1
    columns: torch.Tensor | None = None
    """Shape (k,), as of a `DraftHead`; None for all."""
    known_by: object = None

    def logits(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """The same as logits."""
        return self.laws(output, level).log()

    def laws(self, output: torch.Tensor, level: Level) -> torch.Tensor:
        """One law for all."""
        return self.law.expand(*output.shape[:-1], -1)

    @classmethod
    def head(cls, model: PreTrainedModel, sampling: Sampling, vocab: int) -> DraftHead:
        """As of a `Selection`."""
        law = torch.zeros(vocab, dtype=torch.float64)
        law[0] = 1.0
        return cls(without_head(model)[0], law)


@dataclass(frozen=True)
class Drafting:
    """A drafter that is measured."""

    name: str
    share: int
    """1 for the whole head."""
    settings: Mapping[str, Any]


def drafters(order: IntArray, router: Router, texts: Sequence[Sequence[int]]) -> Iterator[Drafting]:
    """All of them; budgets are such that shortlists have about the same size in the mean over `DEPTH` positions.

    Clusters fall as the paper has it, to a sixth and an eighth, and as its tokens do, to a third and a quarter.
    """
    vocab = order.size
    yield Drafting(FULL, 1, {})
    for share in SHARES:
        size, clusters = vocab // share, max(router.count // share, 1)
        yield Drafting("FR-Spec", share, {"draft_tokens": order[:size]})
        yield Drafting("PA-FR", share, {"draft_shortlist": Frequent(order, _as_large(size, 1))})
        yield Drafting("DynaSpec, fixed", share, {"draft_shortlist": router.within(clusters)})
        yield Drafting("DynaSpec, falling", share, {"draft_shortlist": router.within(_as_large(clusters, 2))})
        yield Drafting("DynaSpec, as PA-FR", share, {"draft_shortlist": router.within(_as_large(clusters, 1))})
    pairs = PairCounts(vocab, WINDOW)
    for text in texts:
        pairs.add(np.array(text))
    estimate = Estimate.of(pairs, TAU, {}).nearest(NEAREST)
    rows = np.isin(estimate.tokens, order[: vocab // SHARES[0]])
    counts = affinity_from_counts(estimate.matrix[rows], TAU, tokens=estimate.tokens[rows])
    yield Drafting(RDK, SHARES[0], {"draft_kernel": counts})


def _as_large(size: int, falling: int) -> Budget:
    """The largest falling budget whose mean over `DEPTH` positions is at most this."""
    most = size
    while np.mean([Budget(most + 1, falling).at(level) for level in range(DEPTH)]) <= size:
        most += 1
    return Budget(most, falling)


def contexts(pair: Pair, rows: IntArray, seed: int) -> tuple[list[list[int]], list[int]]:
    """Texts that the target has sampled after the beginnings of rows, and the number of each one's row."""
    torch.manual_seed(seed)
    texts, of = [], []
    for length in PROMPTS:
        prompts = torch.from_numpy(rows[:, :length].astype(np.int64))
        mask = torch.ones_like(prompts)
        grown = pair.target.generate(prompts, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=SAMPLED)
        for number, text in enumerate(grown.tolist()):
            if pair.tokenizer.eos_token_id not in text[length:]:
                texts.append(text)
                of.append(number)
    return texts, of


def drafted(pair: Pair, one: Drafting, texts: Sequence[list[int]], of: Sequence[int], repeats: int) -> Iterator[Record]:
    """A record for every draft of `DEPTH` tokens: what is accepted of it, exactly."""
    sampling, vocab = Sampling(LogitsProcessorList(), True), pair.target.config.vocab_size
    generator = torch.Generator().manual_seed(1)
    strategy = MultiDraft(pair.draft, paths=1, depth=DEPTH, solver="block", **one.settings)
    for _ in range(repeats):
        for start in range(0, len(texts), BATCH):
            some = texts[start : start + BATCH]
            drafter, verifier = strategy.prepare(vocab, sampling, generator)
            assert drafter is not None
            drafter.start(some)
            drafts = drafter.draft(some, DEPTH)
            target = Target(pair.target, some).read(some, drafts.trees).softmax(-1, dtype=torch.float64).numpy()
            draft, node, row = drafts.over(vocab).numpy(), 0, 0
            for number, tree in zip(of[start : start + BATCH], drafts.trees, strict=True):
                p, q = target[node : node + tree.size], draft[row : row + tree.inner]
                node, row = node + tree.size, row + tree.inner
                drawn = Tree.with_laws(tree, p, q, tree.token)
                found = float(drawn.depth @ verifier.stop_law(drawn).sum(axis=1))
                yield {
                    "drafter": one.name,
                    "share": one.share,
                    "row": number,
                    "accepted": found,
                    **_figures(tree, p, q),
                }


def _figures(tree: Topology, p: FloatArray, q: FloatArray) -> Record:
    """Of a path: the acceptance of each position and the chance that it is reached, by a rule for one token."""
    places, tokens = np.arange(DEPTH), tree.token[1:]
    reached = np.cumprod(np.minimum(1.0, p[places, tokens] / q[places, tokens]))
    return {
        "rates": np.minimum(p[:DEPTH], q).sum(axis=1).tolist(),
        "reached": [1.0, *reached[:-1].tolist()],
        "sizes": np.count_nonzero(q, axis=1).tolist(),
    }


def oracle(pair: Pair, texts: Sequence[list[int]], of: Sequence[int], vocab: int) -> Iterator[Record]:
    """The k likeliest tokens of the target, which no drafter knows [zhang2025dynaspec, Lemma 2], at the first position.

    `best` is the mass of these, which the best draft law on them accepts; `rate` what the draft model's own law accepts
    when it is cut to them.
    """
    for start in range(0, len(texts), BATCH):
        tokens = torch.tensor([text[-PROMPTS[0] :] for text in texts[start : start + BATCH]])
        p, q = (
            model(input_ids=tokens, logits_to_keep=1).logits[:, 0].softmax(-1, dtype=torch.float64).numpy()
            for model in (pair.target, pair.draft)
        )
        ranked = np.argsort(-p, axis=1, kind="stable")
        for number, law, draft, rank in zip(of[start : start + BATCH], p, q, ranked, strict=True):
            for share in SHARES:
                kept = rank[: vocab // share]
                own = draft[kept] / draft[kept].sum()
                best, rate = float(law[kept].sum()), float(np.minimum(law[kept], own).sum())
                yield {"drafter": ORACLE, "share": share, "row": number, "best": best, "rate": rate}


def timed(pair: Pair, each: Sequence[Drafting], text: list[int], repeats: int) -> Iterator[Record]:
    """Seconds of a draft pass after one text and of the target's pass over the path, all in turn, in shuffled order."""
    sampling, vocab = Sampling(LogitsProcessorList(), True), pair.target.config.vocab_size
    calls: dict[tuple[str, int], Callable[[], object]] = {}
    for one in (*each, Drafting(FLOOR, 1, {"draft_shortlist": NoHead})):
        strategy = MultiDraft(pair.draft, paths=1, depth=DEPTH, solver="block", **one.settings)
        drafter = strategy.prepare(vocab, sampling, torch.Generator().manual_seed(0)).drafter
        assert isinstance(drafter, ModelDrafter)
        drafter.start([text])

        def draft(drafter: ModelDrafter = drafter) -> None:
            drafter.draft([text], DEPTH)
            drafter.context.commit([[]], [0])  # as if nothing had been read

        calls[one.name, one.share] = draft
    target, tree = Target(pair.target, [text]), Topology.merge(Shape.paths(1, DEPTH), np.arange(DEPTH))

    def verify() -> None:
        target.read([text], [tree])
        target.context.commit([[]], [0])

    calls["target", 1] = verify
    rng, names = np.random.default_rng(0), list(calls)
    for turn in range(repeats + 3):
        for at in rng.permutation(len(names)):
            started = time.thread_time()
            calls[names[at]]()
            if turn >= 3:
                yield {"timed": names[at][0], "share": names[at][1], "seconds": time.thread_time() - started}


def read_records(folder: Path) -> list[Record]:
    """What has been measured into a folder."""
    path = folder / RECORDS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(pair: Pair, folder: Path, router: Router, request: argparse.Namespace) -> list[Record]:
    """All records; those of the file are not made again."""
    out, records = request.out / RECORDS, read_records(request.out)
    done = {(one.get("drafter"), one["share"]) for one in records}
    with np.load(folder / FREQUENCIES) as file:
        order = frequency_prune(file["counts"], len(file["counts"]))
    with np.load(folder / HELD_OUT_ROWS) as file:
        rows = file["rows"]
    texts, of = contexts(pair, rows[: request.rows], seed=0)
    seen = [source.text for source in read_corpus() if not source.held_out][:FILES]
    each = list(drafters(order, router, [tokens_of(pair.tokenizer, text) for text in seen]))
    with out.open("a") as lines, progress_bar() as bar:

        def keep(made: Iterator[Record]) -> None:
            mine = list(made)
            records.extend(mine)
            lines.write("".join(json.dumps(record) + "\n" for record in mine))
            lines.flush()

        for one in bar.track(each, description="acceptance"):
            if (one.name, one.share) not in done:
                keep(drafted(pair, one, texts, of, request.repeats))
        if (ORACLE, SHARES[0]) not in done:
            keep(oracle(pair, texts, of, order.size))
        timed_already = {(record.get("timed"), record["share"]) for record in records}
        if not timed_already.issuperset((one.name, one.share) for one in each):
            bar.add_task("times", total=None)
            keep(timed(pair, each, texts[0], request.turns))
    return records
