"""Acceptance of pruned drafters on synthetic Student t targets: Figures 5 to 7 of [timor2025out], and the full RDK.

    python -m benchmarks.rdk [--vocab 5000] [--seeds 5] [--contexts 64] [--noise 0.5] [--out report/rdk]

A world is a set of contexts with a target law each: softmax of t-distributed logits, on a scale at which the likeliest
quarter of the tokens holds 95.8 % of the mass (Figure 5).  The last context is the test; frequencies and covariances
come from the others.  Draft logits are those of the target plus normal noise.  The paper leaves open the scale, the
drafter, which tokens are pruned, which covariance is meant, and tau.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from benchmarks.reporting import Record, finish
from otspec.laws import FloatArray, IntArray, likeliest
from otspec.reporting.charts import Axis, diagram, line_chart
from otspec.reporting.console import progress_bar
from otspec.reporting.layers import curve, line_at, points
from otspec.reporting.means import means
from otspec.reporting.pictures import picture
from otspec.reporting.style import styles_of
from otspec.reporting.tables import TextTable
from otspec.vocab import affinity_from_factor, frequency_prune, rdk, rdk_linear, tli

TOP_QUARTER = 0.958
"""Mass of the likeliest quarter of the tokens in Figure 5."""
PLATEAU = 0.267
"""Acceptance of RDK in Figure 7."""
PAPER_VOCAB, PAPER_KEPT = 200_000, 500
SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.0025)
"""Parts of the vocabulary that are kept; the last is that of Figure 6."""
FREEDOMS = (3.0, 5.0, 10.0, 30.0, np.inf)
"""Degrees of freedom; the paper fits 5."""
TAUS = (0.03, 0.1, 0.3, 1.0)
"""Temperatures of the covariance of logits."""
WORLDS = {
    "independent": "every context has logits of its own, as in the paper",
    "shared": "half of the variance is the token's own popularity, a quarter 8 topics, a quarter the context's",
}
IN_PICTURE = ("masked only", "TLI", "RDK, eq. (3)", "RDK, probabilities, tau = 1")
"""Schemes whose laws are drawn."""
LEAST = 1e-14
"""The smallest probability that is drawn."""
RANK = Axis("rank of the token in the target", log=10, ticks=tuple(10**power for power in range(6)), form=",")
PRUNINGS = {"frequency": "their mean probability in other contexts", "context": "their draft probability in this one"}


@dataclass(frozen=True)
class World:
    """Contexts to learn from, and one to test."""

    train: FloatArray
    """Logits of the contexts to learn from, shape (C, V)."""
    target: FloatArray
    """The target law in the one to test, shape (V,)."""
    draft: FloatArray
    """The draft law there, shape (V,)."""


def make_world(name: str, vocab: int, contexts: int, noise: float, seed: int) -> World:
    """A world of `WORLDS`, on the scale of Figure 5 in the tested context."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_t(5, (contexts + 1, vocab))
    if name == "shared":
        topics = rng.standard_normal((contexts + 1, 8)) @ rng.standard_normal((8, vocab)) / np.sqrt(8)
        logits = np.sqrt(0.5) * rng.standard_t(5, vocab) + np.sqrt(0.25 * 5 / 3) * topics + 0.5 * logits
    logits *= scale_for(logits[-1], TOP_QUARTER)
    draft_logits = logits[-1] + noise * rng.standard_normal(vocab)
    return World(logits[:-1], softmax(logits[-1]), softmax(draft_logits))


def scale_for(logits: FloatArray, mass: float) -> float:
    """Factor at which the likeliest quarter of the tokens holds that mass."""
    return float(brentq(lambda scale: quarter(softmax(scale * logits)) - mass, 1e-3, 50))


def quarter(p: FloatArray) -> float:
    """Mass of the likeliest quarter of the tokens."""
    return float(np.sort(p)[-p.size // 4 :].sum())


def uniform_acceptance(p: FloatArray) -> float:
    """What a drafter accepts that knows nothing: every token with probability 1/V."""
    return float(np.minimum(p, 1 / p.size).sum())


def factor_of(samples: FloatArray) -> FloatArray:
    """F with F F^T the covariance of the samples."""
    return (samples - samples.mean(axis=0)).T / np.sqrt(len(samples) - 1)


def drafts(world: World, kept: IntArray) -> Iterator[tuple[str, FloatArray]]:
    """The schemes by name, with the draft law of each; that of the masked drafter has lost its pruned mass."""
    p = world.target
    masked = np.zeros_like(p)
    masked[kept] = world.draft[kept]
    q = tli(world.draft, kept)
    yield "masked only", masked
    yield "TLI", q
    yield "RDK, eq. (3)", rdk_linear(p, q)
    probabilities = factor_of(softmax(world.train, axis=1))
    yield "RDK, probabilities, tau = 1", rdk(q, affinity_from_factor(probabilities, tokens=kept))
    logits = factor_of(world.train)
    for tau in TAUS:
        yield f"RDK, logits, tau = {tau:g}", rdk(q, affinity_from_factor(logits, tau, tokens=kept))
    yield "uniform", np.full(p.size, 1 / p.size)


def kept_tokens(world: World, pruning: str, size: int) -> IntArray:
    """Which tokens the drafter keeps."""
    if pruning == "context":
        return likeliest(world.draft, size)
    return frequency_prune(softmax(world.train, axis=1).mean(axis=0), size)


def measure(world: World, pruning: str, size: int) -> Iterator[Record]:
    """A record per scheme: its acceptance, its distance to TLI, and theta / N, the unit of what eq. (3) can change."""
    p = world.target
    kept = kept_tokens(world, pruning, size)
    q = tli(world.draft, kept)
    for scheme, law in drafts(world, kept):
        yield {
            "pruning": pruning,
            "kept": size,
            "vocab": p.size,
            "scheme": scheme,
            "acceptance": float(np.minimum(p, law).sum()),
            "distance_to_tli": float(np.abs(law - q).sum()),
            "theta_over_n": float(p @ q) / p.size,
        }


def curves(vocab: int, contexts: int, noise: float, seeds: int) -> Iterator[Record]:
    """Figure 7, for both worlds and both prunings."""
    with progress_bar() as bar:
        for seed in bar.track(range(seeds), description="acceptance over pruning"):
            for name in WORLDS:
                world = make_world(name, vocab, contexts, noise, seed)
                for pruning in PRUNINGS:
                    for share in SHARES:
                        for record in measure(world, pruning, round(share * vocab)):
                            yield {"figure": 7, "world": name, "seed": seed, "share": share, **record}


def sensitivity(vocab: int, seeds: int) -> Iterator[Record]:
    """What the targets are like at various degrees of freedom, on the scale of Figure 5 and on that of the plateau."""
    for freedom in FREEDOMS:
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            logits = rng.standard_normal(vocab) if np.isinf(freedom) else rng.standard_t(freedom, vocab)
            plateau = brentq(lambda scale, z=logits: uniform_acceptance(softmax(scale * z)) - PLATEAU, 1e-3, 50)
            for rule, scale in (("figure 5", scale_for(logits, TOP_QUARTER)), ("plateau", float(plateau))):
                p = softmax(scale * logits)
                yield {
                    "figure": 5,
                    "freedom": str(freedom),
                    "seed": seed,
                    "rule": rule,
                    "scale": scale,
                    "largest": float(p.max()),
                    "quarter": quarter(p),
                    "top_kept": float(np.sort(p)[-round(SHARES[-1] * vocab) :].sum()),
                    "uniform": uniform_acceptance(p),
                }


def mean(records: Sequence[Record], figure: str, **where: object) -> float:
    """Mean of a figure over the records with these entries."""
    return float(np.mean(values(records, figure, **where)))


def values(records: Sequence[Record], figure: str, **where: object) -> list[float]:
    """A figure of the records with these entries."""
    return [r[figure] for r in records if all(r[name] == value for name, value in where.items())]


def acceptance_table(records: Sequence[Record], world: str, pruning: str) -> TextTable:
    """Schemes down, shares of the vocabulary across."""
    chosen = [r for r in records if (r["world"], r["pruning"]) == (world, pruning)]
    rows: list[tuple[str, ...]] = []
    for scheme in dict.fromkeys(r["scheme"] for r in chosen):
        figures = [mean(chosen, "acceptance", scheme=scheme, share=share) for share in SHARES]
        rows.append((scheme, *(f"{figure:.4f}" for figure in figures)))
    linear = [r for r in chosen if r["scheme"] == "RDK, eq. (3)"]
    farthest = max(r["distance_to_tli"] / r["theta_over_n"] for r in linear)
    note = (
        f"Mean over {len({r['seed'] for r in chosen})} targets on {chosen[0]['vocab']} tokens; {WORLDS[world]}; tokens "
        f"are kept for {PRUNINGS[pruning]}. Eq. (3) is within {farthest:.2f} theta / N of TLI, at most "
        f"{max(r['distance_to_tli'] for r in linear):.0e} in L1."
    )
    header = ("scheme", *(f"{100 * share:g} % kept" for share in SHARES))
    return TextTable(f"Acceptance, {world} contexts, pruned by {pruning}", header, rows, note, labels=1)


def sensitivity_table(records: Sequence[Record], vocab: int) -> TextTable:
    """What a uniform drafter accepts, by degrees of freedom."""
    rows: list[tuple[str, ...]] = []
    for rule in ("figure 5", "plateau"):
        for freedom in map(str, FREEDOMS):
            where = {"freedom": freedom, "rule": rule}
            figures = [mean(records, name, **where) for name in ("scale", "largest", "quarter", "top_kept", "uniform")]
            shown = (f"{figures[0]:.3f}", *(f"{100 * figure:.1f} %" for figure in figures[1:]))
            rows.append((rule, freedom, *shown))
    header = ("scale set by", "freedom", "scale", "likeliest token", "likeliest quarter", "likeliest 0.25 %", "uniform")
    note = (
        f"Means over the targets, on {vocab} tokens. 'figure 5': the likeliest quarter holds 95.8 %; 'plateau': a "
        "uniform drafter accepts 26.7 %."
    )
    return TextTable("What the targets are like, and what a uniform drafter accepts", header, rows, note)


def paper_table(records: Sequence[Record]) -> TextTable:
    """500 of 200 000 tokens."""
    rows: list[tuple[str, ...]] = []
    columns = [(world, pruning) for world in WORLDS for pruning in PRUNINGS]
    for scheme in dict.fromkeys(r["scheme"] for r in records):
        figures = [mean(records, "acceptance", scheme=scheme, world=w, pruning=pruning) for w, pruning in columns]
        rows.append((scheme, *(f"{figure:.4f}" for figure in figures)))
    header = ("scheme", *(f"{world}, by {pruning}" for world, pruning in columns))
    note = f"One target each; RDK with {PAPER_KEPT} rows of M."
    return TextTable(f"Acceptance of {PAPER_KEPT} of {records[0]['vocab']} tokens", header, rows, note, labels=1)


def thinned(count: int, most: int = 600) -> IntArray:
    """Ranks from 1 to a number, so many at most, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, count, most).round().astype(int))


def draw_target(p: FloatArray, path: Path) -> None:
    """Figure 5: the target by rank, and its cumulative mass."""
    ranked, ranks = np.sort(p)[::-1], thinned(p.size)
    chart = diagram(RANK, Axis("probability", log=10, form=".0e"), [curve(ranks, ranked[ranks - 1], "blue")])
    chart += line_at(y=1 / p.size, label="uniform")
    chart += line_at(x=p.size / 4, label=f"25 % of the tokens: {quarter(p):.1%}", align="left")
    picture([chart], columns=1).save(path)


def draw_laws(world: World, pruning: str, path: Path) -> None:
    """Figure 6: every draft law over the target's tokens by rank, beside the target's, a line."""
    kept = kept_tokens(world, pruning, PAPER_KEPT)
    laws = dict(drafts(world, kept))
    order = np.argsort(-world.target)
    ranks = np.union1d(thinned(order.size, 1000), 1 + np.flatnonzero(np.isin(order, kept)))
    upright = Axis("probability", log=10, ends=(LEAST, 1), form=".0e")
    target = np.maximum(world.target[order][ranks - 1], LEAST)
    charts = []
    for scheme, style in styles_of(IN_PICTURE).items():
        shares = laws[scheme][order][ranks - 1]
        seen = shares > LEAST
        dots = points(ranks[seen], shares[seen], style.hue)
        charts.append(diagram(RANK, upright, [dots, curve(ranks, target)], scheme))
    note = f"{PAPER_KEPT} of {order.size} tokens kept. Line: the target; dots: the draft law."
    picture(charts, note=note).save(path)


def draw_curves(records: Sequence[Record], path: Path) -> None:
    """Figure 7: acceptance over the share of tokens that are kept, a chart for each world and pruning."""
    logits = [f"RDK, logits, tau = {tau:g}" for tau in TAUS]
    styles = styles_of(["masked only", "TLI", "RDK, eq. (3)", "RDK, probabilities, tau = 1", *logits, "uniform"])
    charts = [
        line_chart(
            means(
                [r for r in records if (r["world"], r["pruning"]) == (world, pruning)],
                x="share",
                y="acceptance",
                series="scheme",
            ),
            Axis("share of the vocabulary kept", log=10, ticks=(1, 0.1, 0.01), form=".0%", falling=True),
            Axis("acceptance", ends=(0, 1)),
            styles,
            f"{world} contexts, pruned by {pruning}",
        )
        + line_at(y=PLATEAU, label=f"{PLATEAU:.1%}")
        for world in WORLDS
        for pruning in PRUNINGS
    ]
    picture(charts, styles, note="Means over the targets, with one standard error.").save(path)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=5_000, help="tokens, for the curves")
    parser.add_argument("--seeds", type=int, default=5, help="targets")
    parser.add_argument("--contexts", type=int, default=64, help="contexts to learn from")
    parser.add_argument("--noise", type=float, default=0.5, help="deviation of the draft's logits from the target's")
    parser.add_argument("--paper-vocab", type=int, default=PAPER_VOCAB, help="tokens, for one point and its pictures")
    parser.add_argument("--out", type=Path, default=Path("report/rdk"), help="folder for the results")
    request = parser.parse_args()
    request.out.mkdir(parents=True, exist_ok=True)
    paper: list[Record] = []
    for name in WORLDS:
        world = make_world(name, request.paper_vocab, request.contexts, request.noise, 0)
        for pruning in PRUNINGS:
            paper += [{"figure": 6, "world": name, "seed": 0, **r} for r in measure(world, pruning, PAPER_KEPT)]
        if name == "shared":
            draw_target(world.target, request.out / "target.png")
            draw_laws(world, "frequency", request.out / "laws.png")
    about = list(sensitivity(request.paper_vocab, request.seeds))
    over = list(curves(request.vocab, request.contexts, request.noise, request.seeds))
    draw_curves(over, request.out / "acceptance.png")
    tables = [
        sensitivity_table(about, request.paper_vocab),
        paper_table(paper),
        *(acceptance_table(over, world, pruning) for world in WORLDS for pruning in PRUNINGS),
    ]
    finish(request.out, [*about, *paper, *over], tables, ["target.png", "laws.png", "acceptance.png"])


if __name__ == "__main__":
    main()
