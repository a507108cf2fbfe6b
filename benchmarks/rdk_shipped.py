"""Does RDK accept more than TLI on the pair that comes with the package?  Figures 1 to 4 and 8 to 12 of [timor2025out].

    python -m benchmarks.rdk_shipped [--sequences 64] [--out report/rdk_shipped]
    python -m benchmarks.rdk_shipped --data FILE --text FILE --tokenizer FILE [--kept 8192,1024,128]    # of yours

Of models of yours, the data are positions as `otspec record` writes them, of all tokens; the text is what tokens are
counted in, by the tokenizer of both models.  Otherwise all is from the recorded positions (profile ``shipped``), four
to each held-out sequence, and from the tokens of the sequences.  Acceptance is measured twofold: frequencies, counts
and covariances from every second sequence, laws to test from the others, and the other way round; sequences of one file
can be in both halves.  Every temperature is tried, and the best in hindsight taken, which favours RDK.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from scipy import sparse, stats
from scipy.special import softmax

from benchmarks.rdk import factor_of, quarter
from benchmarks.reporting import Record, finish
from otspec.data import open_source
from otspec.data.recorded import TopPosition
from otspec.decode.shipped import held_out
from otspec.errors import DataError
from otspec.extras import require
from otspec.laws import FloatArray, IntArray
from otspec.reporting.charts import Axis, Group, diagram, line_chart
from otspec.reporting.console import progress_bar
from otspec.reporting.layers import curve, histogram, line_at, points, shaded
from otspec.reporting.means import mean_of, standard_error
from otspec.reporting.pictures import Part, picture, sheet
from otspec.reporting.style import INK, RAMP, styles_of
from otspec.reporting.tables import TextTable
from otspec.vocab import (
    Affinity,
    PairCounts,
    affinity_from_counts,
    affinity_from_factor,
    frequency_prune,
    rdk,
    rdk_linear,
    tli,
)

KEPT = (2048, 1024, 512, 256, 128, 64, 32, 16, 8)
"""Tokens that the drafter keeps by default, of 2048."""
WINDOW = 8
"""How many tokens apart a pair is counted."""
TAUS = {
    "logits": (0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0),
    "probabilities": (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1.0),
    "counts": (0.03, 0.1, 0.2, 0.3, 0.5, 1.0),
}
"""By what M is made of, the temperatures to try."""
LINE = 64
"""Tokens of a line of a text of the user's: every second line is learnt from."""
PART = 0.1
"""What is redistributed where not all is: M is then this part of the matrix, and for the rest the identity."""
BLOCK, BLOCK_TAU = 200, 1.0
"""Tokens of the block of M that is drawn, and its temperature, on covariances of logits."""
FITTED = 8
"""Of so many positions one is fitted with a t law."""


@dataclass(frozen=True)
class Recording:
    """What is known of the pair; position i follows the beginning of sequence ``of[i]``."""

    target: FloatArray
    """Target logits, less their maximum, shape (positions, V)."""
    draft: FloatArray
    """Draft logits likewise, shape (positions, V)."""
    of: IntArray
    """The sequence of each position, shape (positions,)."""
    texts: IntArray
    """Tokens of the held-out sequences, shape (sequences, length)."""

    @property
    def vocab(self) -> int:
        """V."""
        return self.target.shape[1]


def recorded(sequences: int) -> Recording:
    """The first so many held-out sequences, and the positions after parts of them."""
    source, texts = open_source("shipped"), np.array(held_out(1 << 20))
    of = np.arange(len(source)) % len(texts)  # prompts of four lengths, text after text
    chosen = [source.position(int(index)) for index in np.flatnonzero(of < sequences)]
    return Recording(
        np.array([position.target_logits for position in chosen]),
        np.array([position.draft_logits for position in chosen]),
        of[of < sequences],
        texts[:sequences, 1:],  # without the token that begins each
    )


def recorded_in(data: Path, text: Path, tokenizer: Path) -> Recording:
    """Positions of a file, and the lines of a text, of 64 tokens or more each, as its tokenizer has them.

    Raises
    ------
    DataError
        If the file has no logits of all tokens, or the text is too short.
    """
    source = open_source(str(data))
    positions = [source.position(index) for index in range(len(source))]
    if any(isinstance(one, TopPosition) for one in positions):
        raise DataError(f"{data} keeps the likeliest tokens alone; record without --top-k")
    encoder = require("tokenizers").Tokenizer.from_file(str(tokenizer))
    ids = encoder.encode(text.read_text(encoding="utf-8"), add_special_tokens=False).ids
    rows = len(ids) // LINE
    if rows < 2:
        raise DataError(f"{text} has {len(ids)} tokens; both halves need a line of {LINE}")
    return Recording(
        np.array([position.target_logits for position in positions]),
        np.array([position.draft_logits for position in positions]),
        np.arange(len(positions)),
        np.array(ids[: rows * LINE]).reshape(rows, LINE),
    )


@dataclass(frozen=True)
class Learnt:
    """What is learnt from the sequences of one half: frequencies, counts of pairs, factors of the covariances."""

    frequencies: FloatArray
    """Shape (V,)."""
    counts: Any
    """Of pairs of tokens, a sparse array of shape (V, V)."""
    factors: dict[str, FloatArray]
    """By name, shape (V, rank)."""

    @classmethod
    def of(cls, recording: Recording, half: int) -> Learnt:
        """From the sequences of even or odd number; likely tokens that do not occur count as well, a little."""
        pairs = PairCounts(recording.vocab, WINDOW)
        for text in recording.texts[half::2]:
            pairs.add(text)
        logits = recording.target[recording.of % 2 == half]
        laws = softmax(logits, axis=1)
        # A token that does not occur has no partners, and keeps its mass.
        counts = pairs.matrix() + sparse.diags_array((pairs.occurrences == 0).astype(float))
        return cls(
            pairs.occurrences + laws.mean(axis=0),
            counts.tocsr(),
            {"logits": factor_of(logits), "probabilities": factor_of(laws)},
        )

    def affinity(self, kind: str, tau: float, kept: IntArray) -> Affinity:
        """M, with rows for the tokens that are kept."""
        if kind == "counts":
            return affinity_from_counts(self.counts[kept], tau, tokens=kept)
        return affinity_from_factor(self.factors[kind], tau, tokens=kept)


def acceptances(recording: Recording, sizes: Sequence[int]) -> Iterator[Record]:
    """Acceptance at every position, by tokens kept and scheme; and where it is accepted, on kept or pruned tokens.

    Raises
    ------
    DataError
        If more tokens are to be kept than there are.
    """
    if max(sizes) > recording.vocab:
        raise DataError(f"pruning begins at {max(sizes)} tokens, and there are {recording.vocab}; pass --kept")
    with progress_bar() as bar:
        task = bar.add_task("acceptance over pruning", total=2 * len(sizes))
        for half in (0, 1):
            learnt = Learnt.of(recording, half)
            tested = np.flatnonzero(recording.of % 2 != half)
            p, q = softmax(recording.target[tested], axis=1), softmax(recording.draft[tested], axis=1)
            for size in sizes:
                kept = frequency_prune(learnt.frequencies, size)
                yield from _schemes(learnt, p, q, kept, tested)
                bar.advance(task)


def _schemes(learnt: Learnt, p: FloatArray, q: FloatArray, kept: IntArray, tested: IntArray) -> Iterator[Record]:
    cut = tli(q, kept)
    masked = np.zeros_like(q)
    masked[:, kept] = q[:, kept]
    linear = rdk_linear(p, cut)
    schemes = [
        ("masked only", 0.0, masked),
        ("TLI", 0.0, cut),
        ("RDK, eq. (3)", 0.0, linear),
        ("uniform", 0.0, np.full_like(p, 1 / p.shape[1])),
    ]
    # One row for all tokens: what M does that knows no context at all.
    popular = np.broadcast_to(learnt.frequencies / learnt.frequencies.sum(), p.shape)
    schemes += [
        ("RDK, frequencies", 0.0, popular),
        ("RDK, frequencies, a tenth", 0.0, PART * popular + (1 - PART) * cut),
    ]
    for kind, taus in TAUS.items():
        for tau in taus:
            moved = rdk(q, learnt.affinity(kind, tau, kept))
            schemes += [(f"RDK, {kind}", tau, moved), (f"RDK, {kind}, a tenth", tau, PART * moved + (1 - PART) * cut)]
    unit = 2 * (p * cut).sum(axis=1) / p.shape[1]
    for scheme, tau, law in schemes:
        accepted = np.minimum(p, law)
        for row, index in enumerate(tested.tolist()):
            yield {
                "scheme": scheme,
                "tau": tau,
                "kept": kept.size,
                "position": index,
                "acceptance": float(accepted[row].sum()),
                "on_kept": float(accepted[row, kept].sum()),
                "distance_over_bound": float(np.abs(law[row] - cut[row]).sum() / unit[row]),
                "target_on_kept": float(p[row, kept].sum()),
            }


class Curves:
    """Means over the positions, and the best temperature of each scheme."""

    def __init__(self, records: Sequence[Record]) -> None:
        grouped: dict[tuple[str, float, int], dict[int, Record]] = {}
        for record in records:
            grouped.setdefault((record["scheme"], record["tau"], record["kept"]), {})[record["position"]] = record
        self._grouped = grouped
        self.schemes = list(dict.fromkeys(scheme for scheme, _, _ in grouped))
        self.positions = sorted({record["position"] for record in records})
        self.sizes = sorted({kept for _, _, kept in grouped}, reverse=True)

    def values(self, scheme: str, size: int, figure: str = "acceptance", tau: float | None = None) -> FloatArray:
        """A figure at every position, at the best temperature unless another is named."""
        found = self._grouped[scheme, self.best(scheme, size) if tau is None else tau, size]
        return np.array([found[position][figure] for position in self.positions])

    def has_taus(self, scheme: str) -> bool:
        """Whether there are temperatures to choose from."""
        return any(scheme.startswith(f"RDK, {kind}") for kind in TAUS)

    def best(self, scheme: str, size: int) -> float:
        """The temperature that accepts most."""
        taus = [tau for name, tau, kept in self._grouped if (name, kept) == (scheme, size)]
        return max(taus, key=lambda tau: float(self.values(scheme, size, tau=tau).mean()))


def acceptance_table(curves: Curves) -> TextTable:
    """Schemes down, tokens kept across; brackets: the best temperature."""
    rows: list[tuple[str, ...]] = []
    for scheme in curves.schemes:
        cells = []
        for size in curves.sizes:
            tau = f" ({curves.best(scheme, size):g})" if curves.has_taus(scheme) else ""
            cells.append(f"{curves.values(scheme, size).mean():.3f}{tau}")
        rows.append((scheme, *cells))
    farthest = max(curves.values("RDK, eq. (3)", size, "distance_over_bound").max() for size in curves.sizes)
    note = (
        f"Means over {len(curves.positions)} positions; RDK at the temperature (in brackets) that is best in "
        f"hindsight. Eq. (3) is at most {farthest:.2f} times 2 theta / N from TLI in L1."
    )
    return TextTable("Acceptance by tokens kept", ("scheme", *map(str, curves.sizes)), rows, note, labels=1)


def reason_table(curves: Curves) -> TextTable:
    """What the full RDK wins on tokens that were pruned, and what it loses on those that were kept."""
    rows: list[tuple[str, ...]] = []
    for size, part in itertools.product(curves.sizes, ("", ", a tenth")):
        names = [f"RDK, {kind}{part}" for kind in TAUS]
        best = names[int(np.argmax([curves.values(name, size).mean() for name in names]))]
        law, on_kept = curves.values(best, size), curves.values(best, size, "on_kept")
        base = curves.values("TLI", size)
        gain = law - base
        outside = 1 - curves.values("TLI", size, "target_on_kept")
        error = standard_error(gain)
        figures = (outside, law - on_kept, base - on_kept)
        cells = (f"{abs(figure.mean()):.3f}" for figure in figures)
        rows.append(
            (str(size), f"{best}, tau = {curves.best(best, size):g}", *cells, f"{gain.mean():+.3f} ± {error:.3f}")
        )
    header = ("kept", "best RDK", "p on pruned tokens", "won there", "lost on kept ones", "RDK less TLI")
    note = "The last column with its standard error over positions; of all matrices and temperatures the best one."
    return TextTable("What redistribution wins and loses", header, rows, note, labels=2)


def fits(recording: Recording) -> list[Record]:
    """t and normal laws fitted to the logits of some positions, and to their probabilities: how straight the Q-Q is."""
    found = []
    for index in range(0, len(recording.target), FITTED):
        for what, values in (("logits", recording.target[index]), ("probabilities", softmax(recording.target[index]))):
            law, freedom = fitted_t(values)
            record: Record = {"what": what, "position": index, "freedom": freedom}
            for name, quantiles in (("t", law.ppf), ("normal", stats.norm.ppf)):
                record[name] = float(np.corrcoef(quantiles(plotting_positions(values.size)), np.sort(values))[0, 1])
            found.append(record)
    return found


def fitted_t(values: FloatArray) -> tuple[Any, float]:
    """The t law of greatest likelihood, and its degrees of freedom."""
    # The optimiser sees values of one scale, and starts with heavy tails and with light ones: it may miss either.
    place, scale = values.mean(), values.std()
    scaled = (values - place) / scale
    middle, width = np.median(scaled), np.subtract(*np.quantile(scaled, (0.75, 0.25)))
    fitted = [stats.t.fit(scaled, start, loc=middle, scale=width) for start in (0.3, 5.0)]
    freedom, loc, spread = min(fitted, key=lambda found: float(stats.t.nnlf(found, scaled)))
    return stats.t(freedom, loc * scale + place, spread * scale), float(freedom)


def plotting_positions(size: int) -> FloatArray:
    """Probabilities at which sorted values stand in a Q-Q plot."""
    return (np.arange(size) + 0.5) / size


def fits_table(records: Sequence[Record]) -> TextTable:
    """Medians of the fits."""
    rows: list[tuple[str, ...]] = []
    for what in ("logits", "probabilities"):
        chosen = [r for r in records if r["what"] == what]
        freedoms = np.quantile([r["freedom"] for r in chosen], (0.25, 0.5, 0.75))
        closer = np.mean([r["t"] > r["normal"] for r in chosen])
        straight = (f"{np.median([r[name] for r in chosen]):.3f}" for name in ("t", "normal"))
        rows.append((what, " / ".join(f"{freedom:.3g}" for freedom in freedoms), *straight, f"{closer:.0%}"))
    header = ("fitted to", "degrees of freedom, quartiles", "Q-Q correlation, t", "normal", "t is closer")
    note = f"Medians over {len(records) // 2} positions; t by maximum likelihood, normal by mean and deviation."
    return TextTable("Figures 3 and 8 to 10: which law fits", header, rows, note, labels=1)


def draw_statistics(recording: Recording, path: Path) -> Record:
    """Figures 1 to 4 and 8; the medians, for the record."""
    occurrences = np.sort(np.bincount(recording.texts.ravel(), minlength=recording.vocab))[::-1]
    share = np.cumsum(occurrences) / occurrences.sum()
    enough = int(np.searchsorted(share, 0.95)) + 1
    shown = statistics_of(recording)
    charts = [_frequencies(occurrences, enough), *_fitted_logits(recording.target[0])]
    charts += [_histogram(title, values) for title, values in shown.items()]
    picture(charts, note="Numbers are those of the paper's figures; dashed: the median over positions.").save(path)
    return {"tokens_for_95_percent": enough, **{title: float(np.median(values)) for title, values in shown.items()}}


def statistics_of(recording: Recording) -> dict[str, FloatArray]:
    """Figures of every position, by the number and title of the paper's figure."""
    top = np.sort(recording.target, axis=1)[:, -2:]
    laws = softmax(recording.target, axis=1)
    return {
        "2: mean logit, less the largest": recording.target.mean(axis=1),
        "2: deviation of the logits": recording.target.std(axis=1),
        "2: smallest logit, less the largest": recording.target.min(axis=1),
        "2: largest logit, less the second": top[:, 1] - top[:, 0],
        "4: mass of the likeliest quarter": np.array([quarter(law) for law in laws]),
        "4: deviation of the probabilities": laws.std(axis=1),
        "4: log10 of the smallest probability": np.log10(laws.min(axis=1)),
        "4: largest probability": laws.max(axis=1),
    }


def _frequencies(occurrences: IntArray, enough: int) -> alt.LayerChart:
    """Shares of the text by rank."""
    seen = occurrences[occurrences > 0]
    line = curve(np.arange(1, seen.size + 1), seen / occurrences.sum(), "blue")
    axes = Axis("rank of the token", log=10, ticks=(1, 10, 100, 1000)), Axis("share of the text", log=10, form=".6~g")
    chart = diagram(*axes, [line], "1: token frequencies")
    return chart + line_at(x=enough, label=f"{enough} of {occurrences.size}: 95 %", align="left")


def _fitted_logits(logits: FloatArray) -> list[alt.LayerChart]:
    """Logits of one position beside a t law and a normal law, and Q-Q plots with both."""
    law, freedom = fitted_t(logits)
    normal = stats.norm(logits.mean(), logits.std())
    heights, edges = np.histogram(logits, bins=60, density=True)
    places = np.linspace(logits.min(), logits.max(), 200)
    axes = Axis("logit, less the largest"), Axis("density", zero=True)
    chart = diagram(*axes, [histogram(heights, edges, "sky")], "3, 8: one position, t law red, normal dashed")
    chart += curve(places, law.pdf(places), "vermillion")
    chart += curve(places, normal.pdf(places), "ink", dash=(4, 3))
    title = f"3: Q-Q with a t law, {freedom:.3g} degrees of freedom"
    return [chart, q_q_plot(logits, law, title), q_q_plot(logits, normal, "8: Q-Q with a normal law")]


def _histogram(title: str, values: FloatArray) -> alt.LayerChart:
    counts, edges = np.histogram(values, bins=30)
    median, room = float(np.median(values)), 1.2 * float(counts.max())
    side = "left" if median - values.min() > values.max() - median else "right"
    axes = Axis(title.partition(": ")[2]), Axis("positions", ends=(0, room))
    chart = diagram(*axes, [histogram(counts, edges)], title, 150)
    return chart + line_at(x=median, label=f"median {median:.4g}", hue=INK, align=side)


def q_q_plot(values: FloatArray, law: Any, title: str, log10: bool = False) -> alt.LayerChart:
    """A Q-Q plot with the line on which a perfect fit lies."""
    theory, found = law.ppf(plotting_positions(values.size)), np.sort(values)
    if log10:
        seen = (theory > 0) & (found > 0)
        theory, found = np.log10(theory[seen]), np.log10(found[seen])
    of = "log10 of the " if log10 else ""
    axes = Axis(f"{of}quantile of the fitted law"), Axis(f"{of}observed one" if log10 else "observed")
    ends = (found[0], found[-1])
    return diagram(*axes, [points(theory, found), curve(ends, ends, "vermillion", width=1)], title)


def draw_acceptance(recording: Recording, curves: Curves, path: Path) -> None:
    """Figures 9 to 12."""
    p = softmax(recording.target[0])
    law, freedom = fitted_t(p)
    fits = [
        q_q_plot(p, stats.norm(p.mean(), p.std()), "9: one position, Q-Q with a normal law", log10=True),
        q_q_plot(p, law, f"10: Q-Q with a t law, {freedom:.2g} degrees of freedom", log10=True),
    ]
    schemes = ["masked only", "TLI", "RDK, eq. (3)", "RDK, logits", "RDK, logits, a tenth"]
    names = {
        scheme: f"{scheme}, best tau" if curves.has_taus(scheme) else scheme
        for scheme in [*schemes, "RDK, probabilities", "RDK, counts", "uniform"]
    }
    styles = {names[scheme]: style for scheme, style in styles_of(names).items()}
    rows = [
        mean_of(curves.values(scheme, size), x=size, series=name)
        for scheme, name in names.items()
        for size in curves.sizes
    ]
    over = Axis("tokens kept", log=2, ticks=curves.sizes, falling=True)
    accepted = line_chart(rows, over, Axis("acceptance", zero=True), styles)
    most = f"{BLOCK} most frequent tokens, covariances of logits, tau = {BLOCK_TAU:g}"
    groups = [
        Group("12: acceptance over pruning", "Means over positions, with one standard error.", [accepted], columns=1),
        Group("9, 10: probabilities", "A perfect fit lies on the red line.", fits),
        Group("11: block of M", f"The {most}.", [_block(recording)], columns=1),
    ]
    sheet([Part("", styles, groups)]).save(path)


def _block(recording: Recording) -> alt.LayerChart:
    """Figure 11: a block of M."""
    tokens = frequency_prune(np.bincount(recording.texts.ravel(), minlength=recording.vocab), BLOCK)
    affinity = affinity_from_factor(factor_of(recording.target), BLOCK_TAU, tokens=tokens)
    entries = np.log10(np.maximum(affinity.rows(0, BLOCK)[:, tokens], 1e-12))
    rows = [
        {"x": to, "x2": to + 1, "y": one, "y2": one + 1, "shade": round(float(entries[one, to]), 2)}
        for one in range(BLOCK)
        for to in range(BLOCK)
    ]
    ends = (0, BLOCK)
    axes = Axis("to token, by frequency", ends=ends), Axis("from token", ends=ends, falling=True, grid=False)
    return diagram(*axes, [shaded(rows, "log10 of M", (-9, 0), RAMP)], height=560)


def sizes_of(text: str) -> list[int]:
    """Numbers of a list with commas."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=64, help="held-out sequences to use, of 64; at least 4")
    parser.add_argument("--out", type=Path, default=Path("report/rdk_shipped"), help="folder for the results")
    own = parser.add_argument_group("models of yours, all three")
    own.add_argument("--data", type=Path, help="positions as `otspec record` writes them, of all tokens")
    own.add_argument("--text", type=Path, help="text that tokens are counted in, UTF-8")
    own.add_argument("--tokenizer", type=Path, help="its tokenizer.json")
    parser.add_argument("--kept", default=KEPT, type=sizes_of, help="tokens that the drafter keeps, a list")
    request = parser.parse_args()
    files = [request.data, request.text, request.tokenizer]
    if any(files) and not all(files):
        parser.error("--data, --text and --tokenizer go together; pass all three, or none for the shipped pair")
    if not 4 <= request.sequences <= 64:
        parser.error(f"--sequences is {request.sequences}; there are 4 to 64")
    request.out.mkdir(parents=True, exist_ok=True)
    recording = recorded_in(*files) if all(files) else recorded(request.sequences)
    statistics = draw_statistics(recording, request.out / "statistics.png")
    fitted = fits(recording)
    records = list(acceptances(recording, request.kept))
    curves = Curves(records)
    draw_acceptance(recording, curves, request.out / "acceptance.png")
    tables = [acceptance_table(curves), reason_table(curves), fits_table(fitted)]
    finish(request.out, [statistics, *fitted, *records], tables, ["statistics.png", "acceptance.png"])


if __name__ == "__main__":
    main()
