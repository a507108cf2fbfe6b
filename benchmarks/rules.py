"""How close the published rules come to the optimum, and what the wrong draft law does to them.

    python -m benchmarks.rules [--positions 10] [--data llama3]

The first two tables are exact, over small random problems: every tuple of drafts is counted.  The third compares the
rules on calibrated positions over the whole vocabulary.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measuring import laws_of
from benchmarks.reporting import asking, show
from otspec import IID, DraftScheme, HubPairs, Problem, WithoutReplacement, optimum, solve
from otspec import Table as Tuples
from otspec.certificate import upper_bound
from otspec.data import open_source
from otspec.laws import FloatArray
from otspec.plans import Match, Sequential
from otspec.reporting.tables import TextTable
from otspec.solvers import RRS, RSD

SMALL = 1000
NS = (2, 4, 8)

Kind = Callable[[FloatArray, int], DraftScheme]
IID_DRAFTS: Kind = IID
DISTINCT: Kind = WithoutReplacement


def hub_pairs(q: FloatArray, n: int) -> HubPairs:
    """Pairs, whatever n."""
    return HubPairs(q)


def top_n(q: FloatArray, n: int) -> Tuples:
    """The n likeliest tokens, always."""
    return Tuples(np.argsort(-q, kind="stable")[None, :n], np.ones(1), q.size)


RULES: dict[str, tuple[str, Kind]] = {
    "single, i.i.d.": ("single", IID_DRAFTS),
    "naive, i.i.d.": ("naive", IID_DRAFTS),
    "naive, without replacement": ("naive", DISTINCT),
    "naive, top n": ("naive", top_n),
    "rrs, i.i.d.": ("rrs", IID_DRAFTS),
    "kseq, i.i.d.": ("kseq", IID_DRAFTS),
    "kseq:gamma=n, i.i.d.": ("kseq:gamma={n}", IID_DRAFTS),
    "rsd, without replacement": ("rsd", DISTINCT),
    "spechub, hub pairs (n = 2)": ("spechub", hub_pairs),
}
LARGE = ("single, i.i.d.", "naive, i.i.d.", "rrs, i.i.d.", "kseq, i.i.d.", "rsd, without replacement")


def random_laws(count: int) -> Iterator[tuple[FloatArray, FloatArray, int]]:
    """p, q and n < V: softmax laws over 3 to 5 tokens, q from the logits of p with errors, n = 2 or 3."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        vocab = int(rng.integers(3, 6))
        n = int(rng.integers(2, min(4, vocab)))
        logits = rng.choice([0.7, 1.5, 2.5]) * rng.normal(size=vocab)
        errors = rng.choice([0.4, 1.0, 2.0]) * rng.normal(size=vocab)
        p, q = (np.exp(z - z.max()) for z in (logits, logits + errors))
        yield p / p.sum(), q / q.sum(), n


def figures(count: int) -> dict[str, FloatArray]:
    """By rule, shape (count, 4): acceptance, membership, acceptance over alpha* of i.i.d. drafts and over its own."""
    rows = defaultdict(list)
    for p, q, n in random_laws(count):
        for label, (spelling, kind) in RULES.items():
            problem = Problem(p, kind(q, n))
            plan = solve(problem, spelling.format(n=n)).plan
            assert isinstance(plan, Match | Sequential)
            iid = optimum(Problem(p, IID(q, problem.n))).acceptance
            rows[label].append(
                (plan.acceptance, plan.membership, plan.acceptance / iid, plan.acceptance / optimum(problem).acceptance)
            )
    return {label: np.array(values) for label, values in rows.items()}


def lossless() -> TextTable:
    """The rules on their own drafts."""
    rows: list[tuple[str, ...]] = []
    for label, values in figures(SMALL).items():
        mean, least = values.mean(axis=0), values.min(axis=0)
        ratios = (f"{mean[i]:.3f} ({least[i]:.3f})" for i in (2, 3))
        rows.append((label, f"{mean[0]:.3f}", f"{mean[1]:.3f}", *ratios))
    header = ("rule, drafts", "acceptance", "membership", "/ alpha* of i.i.d.", "/ alpha* of its drafts")
    title = f"On their own drafts: {SMALL} small problems, exact; alpha* ratios as mean (least)"
    return TextTable(title, header, rows, "", labels=1)


def biased() -> TextTable:
    """The rules on drafts of another law."""
    wrong: dict[str, tuple[RRS | RSD, Kind]] = {
        "rsd on i.i.d. drafts": (RSD(allow_biased=True), IID_DRAFTS),
        "rrs on drafts without replacement": (RRS(allow_biased=True), DISTINCT),
        "rrs on the top n, tested with q": (RRS(allow_biased=True), top_n),
        "rsd on the top n, tested with q": (RSD(allow_biased=True), top_n),
    }
    rows: list[tuple[str, ...]] = []
    for label, (rule, kind) in wrong.items():
        plans = [rule.biased_plan(Problem(p, kind(q, n)), q) for p, q, n in random_laws(SMALL)]
        off = np.array([plan.deviation / 2 for plan in plans])
        accepted, best = np.array([(plan.acceptance, plan.bound) for plan in plans]).T
        figures = (accepted.mean(), best.mean())
        above = f"{(accepted > best + 1e-9).mean():.0%}"
        rows.append((label, f"{off.mean():.3f} ({off.max():.3f})", *(f"{figure:.3f}" for figure in figures), above))
    header = ("rule and drafts", "total variation, mean (max)", "acceptance", "alpha*", "above alpha*")
    return TextTable(f"On the wrong drafts: {SMALL} small problems, exact", header, rows, "", labels=1)


def whole_vocabulary(data: str, positions: int) -> TextTable:
    """The rules, and the time of `solve`, where nothing is truncated."""
    source = open_source(data)
    rows: list[tuple[str, ...]] = []
    for n in NS:
        found = defaultdict(list)
        for index in range(positions):
            p, q = laws_of(source.position(index), compact=False)
            best = upper_bound(Problem(p, IID(q, n)))
            for label in LARGE + (("spechub, hub pairs (n = 2)",) if n == 2 else ()):
                spelling, kind = RULES[label]
                problem = Problem(p, kind(q, n))
                if index == 0:
                    solve(problem, spelling)  # compiles
                started = time.perf_counter()
                plan = solve(problem, spelling).plan
                assert plan is not None
                wall_s = time.perf_counter() - started
                found[label].append(
                    (plan.acceptance, plan.acceptance / best, plan.acceptance / plan.bound, wall_s * 1e3)
                )
        for label, values in found.items():
            mean, median = np.mean(values, axis=0), np.median(values, axis=0)
            rows.append((str(n), label, *(f"{value:.3f}" for value in mean[:3]), f"{median[3]:.0f}"))
    header = ("n", "rule, drafts", "acceptance", "/ alpha* of i.i.d.", "/ alpha* of its drafts", "ms")
    title = f"{source.name}, V = {source.vocab}: mean over {positions} positions, median ms of `otspec.solve`"
    return TextTable(title, header, rows, "")


def main() -> None:
    """Print the tables."""
    asked = asking(__doc__, "llama3", 10).parse_args()
    show(lossless(), biased(), whole_vocabulary(asked.data, asked.positions))


if __name__ == "__main__":
    main()
