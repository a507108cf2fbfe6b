"""What shortlists of tokens cost a drafter, and what they save: FR-Spec, PA-FR and DynaSpec on a pair of models.

    OMP_NUM_THREADS=1 python -m benchmarks.shortlists --pair report/pair-16k --router report/pair-16k/router.safetensors
    OMP_NUM_THREADS=1 python -m benchmarks.shortlists --large

The first drafts from contexts that the target has sampled after held-out text, the same for all drafters.  What is
accepted is exact given the drafts: sum min(p, q) at every position, and what block verification accepts.  Times are of
the processor, on one thread, medians of passes in turn: what else the machine does counts as far as it takes caches and
memory.  records.jsonl keeps what has been done; a run that was stopped goes on from there.  The
second times a head of 128 256 random rows and the layer before it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessorList, PreTrainedModel

from benchmarks.comparing import ratio
from benchmarks.path_rules.lengths import accepted
from benchmarks.reporting import Record, finish, show
from benchmarks.shipped_pair.corpus import read_corpus
from benchmarks.shipped_pair.recipe import tokens_of
from otspec.decode import Budget, Frequent, MultiDraft, Router
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.shortlists.router import Network
from otspec.decode.drafters.shortlists.selection import DraftHead, History, Level
from otspec.decode.models.context import Context
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.head import Head, without_head
from otspec.decode.models.target import Target
from otspec.decode.shipped import FOLDER, FREQUENCIES, HELD_OUT_ROWS, ROUTER, Pair, load
from otspec.laws import FloatArray, IntArray
from otspec.paths import Tree
from otspec.reporting.charts import SERIES, Axis, Row, line_chart
from otspec.reporting.console import progress_bar
from otspec.reporting.layers import band, line_at
from otspec.reporting.means import standard_error
from otspec.reporting.pictures import picture
from otspec.reporting.style import looks
from otspec.reporting.tables import TextTable
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
                found = accepted(verifier, Tree.with_laws(tree, p, q, tree.token))
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


def kept_records(folder: Path) -> list[Record]:
    """What has been measured into a folder."""
    path = folder / RECORDS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(pair: Pair, folder: Path, router: Router, asked: argparse.Namespace) -> list[Record]:
    """All records; those of the file are not made again."""
    out, records = asked.out / RECORDS, kept_records(asked.out)
    done = {(one.get("drafter"), one["share"]) for one in records}
    with np.load(folder / FREQUENCIES) as file:
        order = frequency_prune(file["counts"], len(file["counts"]))
    with np.load(folder / HELD_OUT_ROWS) as file:
        rows = file["rows"]
    texts, of = contexts(pair, rows[: asked.rows], seed=0)
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
                keep(drafted(pair, one, texts, of, asked.repeats))
        if (ORACLE, SHARES[0]) not in done:
            keep(oracle(pair, texts, of, order.size))
        timed_already = {(record.get("timed"), record["share"]) for record in records}
        if not timed_already.issuperset((one.name, one.share) for one in each):
            bar.add_task("times", total=None)
            keep(timed(pair, each, texts[0], asked.turns))
    return records


def _length(record: Record, figure: str) -> float:
    """Accepted tokens of a draft, in the mean given the drafts."""
    return float(record["accepted"] if figure == "block" else np.dot(record["rates"], record["reached"]))


class Summary:
    """Means of the records, with standard errors across held-out rows; times relative to the whole head."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._by_row: dict[tuple[str, int], dict[int, list[Record]]] = {}
        self._seconds: dict[tuple[str, int], list[float]] = {}
        for one in records:
            if "timed" in one:
                self._seconds.setdefault((one["timed"], one["share"]), []).append(one["seconds"])
            else:
                rows = self._by_row.setdefault((one["drafter"], one["share"]), {})
                rows.setdefault(one["row"], []).append(one)
        self.keys = sorted((key for key in self._by_row if key[0] != ORACLE), key=lambda key: key[1])

    def mean(self, key: tuple[str, int], figure: str) -> tuple[float, float]:
        """Of a number."""
        sums = [[one[figure] for one in mine] for mine in self._by_row[key].values()]
        return ratio(np.array([sum(mine) for mine in sums]), np.array([len(mine) for mine in sums]))

    def size(self, key: tuple[str, int]) -> float:
        """Mean shortlist over all positions."""
        sizes = [one["sizes"] for mine in self._by_row[key].values() for one in mine]
        return float(np.mean(sizes))

    def rate(self, key: tuple[str, int], position: int) -> tuple[float, float]:
        """Acceptance of a single draft at a position that was reached."""
        rows = self._by_row[key].values()
        accepted = [sum(one["rates"][position] * one["reached"][position] for one in mine) for mine in rows]
        reached = [sum(one["reached"][position] for one in mine) for mine in rows]
        return ratio(np.array(accepted), np.array(reached))

    def efficiency(self, key: tuple[str, int]) -> tuple[float, float]:
        """Tokens per call of the target, by block verification."""
        found, error = self.mean(key, "accepted")
        return 1.0 + found, error

    def gain(self, name: str, over: str, shares: Sequence[int], figure: str = "block") -> tuple[float, float]:
        """How many more tokens per call than another drafter, in the mean of the shares, with the error across rows.

        By block verification, or by a rule for single tokens: of that the mean given the drafts varies less.
        """
        differences = np.mean(
            [self._gains(name, share, figure) - self._gains(over, share, figure) for share in shares], 0
        )
        return float(differences.mean()), standard_error(differences)

    def _gains(self, name: str, share: int, figure: str) -> FloatArray:
        """Mean accepted length of every row."""
        return np.array(
            [np.mean([_length(one, figure) for one in m]) for _, m in sorted(self._by_row[name, share].items())]
        )

    def draft(self, key: tuple[str, int]) -> float:
        """Seconds of a draft of `DEPTH` tokens."""
        return float(np.median(self._seconds[key]))

    def head(self, key: tuple[str, int]) -> float:
        """What of that is not there without a head."""
        return self.draft(key) - self.draft((FLOOR, 1))

    def speed(self, key: tuple[str, int]) -> float:
        """Tokens a second, verification left out."""
        return self.efficiency(key)[0] / (self.draft(key) + self.draft(("target", 1)))


def tables(summary: Summary) -> list[TextTable]:
    """By drafter and size; and what no drafter can have."""
    whole, rows = (FULL, 1), []
    for key in summary.keys:
        name, share = key
        rate = [f"{summary.rate(key, at)[0]:.3f} ± {summary.rate(key, at)[1]:.3f}" for at in range(DEPTH)]
        more = "-" if name in (FULL, "FR-Spec") else _told(summary.gain(name, "FR-Spec", [share]))
        rows.append(
            (
                name if share == 1 else f"{name}, 1/{share}",
                f"{summary.size(key):.0f}",
                *rate,
                "{:.3f} ± {:.3f}".format(*summary.efficiency(key)),
                more,
                f"{summary.head(key) / summary.head(whole):.2f}",
                f"{summary.draft(key) / summary.draft(whole):.2f}",
                f"{summary.speed(key) / summary.speed(whole):.2f}",
            )
        )
    header = (
        *("drafter", "mean shortlist", *(f"position {at + 1}" for at in range(DEPTH))),
        *("tokens a call", "over FR-Spec", "head", "draft pass", "speed"),
    )
    core = summary.draft((FLOOR, 1)) / DEPTH
    note = (
        f"One path of {DEPTH} tokens, temperature 1, ± standard error across held-out rows.  Positions: acceptance of "
        "a single draft where those before it were accepted.  Tokens a call: block verification.  Head (with softmax, "
        "and router or kernel), draft pass and speed (of drafting and the target's pass) are relative to the whole "
        f"head: {1e3 * summary.head(whole) / DEPTH:.2f} of {1e3 * summary.draft(whole) / DEPTH:.2f} ms a pass; without "
        f"a head {1e3 * core:.2f} ms, the target {1e3 * summary.draft(('target', 1)):.2f} ms."
    )
    pairs = [(name, other) for at, name in enumerate(FAMILIES) for other in FAMILIES[:at]]
    gains = [
        (f"{name} over {other}", *(_told(summary.gain(name, other, SHARES, figure)) for figure in ("block", "single")))
        for name, other in pairs
    ]
    together = "Differences in the mean of all shares, by block verification and by a rule for single tokens."
    best = [
        (
            f"1/{share}",
            *("{:.3f} ± {:.3f}".format(*summary.mean((ORACLE, share), figure)) for figure in ("best", "rate")),
        )
        for share in SHARES
    ]
    why = (
        "At the first position, on a shortlist of the target's likeliest tokens: their mass, which the best draft law "
        "accepts [zhang2025dynaspec, Lemma 2], and what the draft model's law accepts when cut to them."
    )
    return [
        TextTable("Shortlists", header, rows, note, labels=1),
        TextTable("Tokens a call", ("drafters", "block", "token by token"), gains, together, labels=1),
        TextTable("What no drafter knows", ("tokens", "best law", "draft model's law"), best, why, labels=1),
    ]


def _told(figure: tuple[float, float]) -> str:
    return "{:+.3f} ± {:.3f}".format(*figure)


def draw(summary: Summary, path: Path) -> None:
    """Tokens a call over the size of the shortlist, and acceptance by position at the largest budgets."""
    styles = looks((*FAMILIES, FULL, RDK))
    kernel, whole = (RDK, SHARES[0]), (FULL, 1)
    rows = [
        _row(name, summary.size((name, share)), summary.efficiency((name, share)))
        for name in FAMILIES
        for share in SHARES
    ]
    rows.append(_row(RDK, summary.size(("FR-Spec", SHARES[0])), summary.efficiency(kernel)))
    efficiency, error = summary.efficiency(whole)
    sizes = Axis("mean shortlist, tokens", log=2, form=".0f")
    whole_head = band(efficiency - error, efficiency + error) + line_at(y=efficiency, label=FULL, align="left")
    tokens = whole_head + line_chart(rows, sizes, Axis(f"tokens a call, L = {DEPTH}"), styles, "block verification")
    places = [str(place + 1) for place in range(DEPTH)]
    rates = [
        _row(name, places[place], summary.rate(key, place))
        for name, key in ((FULL, whole), *((name, (name, SHARES[0])) for name in FAMILIES))
        for place in range(DEPTH)
    ]
    positions = Axis("position of the draft", places=places, apart=0.6)
    title = f"shortlists of 1/{SHARES[0]} of the tokens"
    single = line_chart(rates, positions, Axis("acceptance of a single draft"), styles, title)
    picture([tokens, single], styles, note="Means, with one standard error across held-out rows.").save(path)


def _row(series: str, x: float | str, figure: tuple[float, float]) -> Row:
    """A mean with one standard error to both sides."""
    mean, error = figure
    return {SERIES: series, "x": x, "y": mean, "low": mean - error, "high": mean + error}


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


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", type=Path, default=FOLDER, help="folder of a pair, laid out as the shipped one")
    parser.add_argument("--router", type=Path, help="by default the one in that folder")
    parser.add_argument("--rows", type=int, default=64, help="held-out rows to draft after")
    parser.add_argument("--repeats", type=int, default=2, help="drafts of each context")
    parser.add_argument("--turns", type=int, default=60, help="passes of each that are timed")
    parser.add_argument("--tell", action="store_true", help="measure nothing, and tell what records.jsonl has")
    parser.add_argument("--large", action="store_true", help="time a head of 128 256 tokens instead")
    parser.add_argument("--width", type=int, default=2048, help="of that")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of that")
    parser.add_argument("--out", type=Path, default=Path("report/shortlists"), help="folder for the results")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with torch.inference_mode():
        if asked.large:
            dtype = getattr(torch, asked.dtype)
            show(large_table(large(asked.width, dtype, min(asked.turns, 20)), asked.width, dtype))
            return
        if asked.tell:
            records = kept_records(asked.out)
        else:
            router = Router.load(asked.router or asked.pair / ROUTER)
            records = measure(load(folder=asked.pair), asked.pair, router, asked)
    summary = Summary(records)
    draw(summary, asked.out / "shortlists.png")
    finish(asked.out, records, tables(summary), ["shortlists.png"])


if __name__ == "__main__":
    main()
